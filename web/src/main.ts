import { mount } from "svelte";
import App from "./ui/App.svelte";
import "./ui/styles/page.css";

const target = document.getElementById("app");
if (target) mount(App, { target });
