import { readdirSync, readFileSync } from "node:fs";
import type { Event } from "../src/proto/types";

const folder = new URL("../../api/testdata/", import.meta.url);

// golden is one of the messages that the server's and the runner's tests read too.
export const golden = <T>(name: string): T => JSON.parse(readFileSync(new URL(`${name}.json`, folder), "utf8")) as T;

export const goldenEvents = (): Event[] =>
  readdirSync(folder).filter((name) => name.startsWith("event_")).map((name) => golden<Event>(name.replace(/\.json$/, "")));
