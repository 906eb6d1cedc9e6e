import { copyFileSync, mkdirSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";
import { brotli } from "./brotli.ts";
import { licences } from "./licences.ts";

const dist = process.env["TALARIA_DIST"] ?? "dist";

// The frames run classic scripts: a module would need CORS in an opaque origin.
function plotly(): Plugin {
  return {
    name: "copy-plotly",
    closeBundle() {
      mkdirSync(`${dist}/sandbox`, { recursive: true });
      copyFileSync("node_modules/plotly.js-cartesian-dist-min/plotly-cartesian.min.js", `${dist}/sandbox/plotly.js`);
      for (const shell of ["static", "live", "data"]) copyFileSync(`sandbox/${shell}.html`, `${dist}/sandbox/${shell}.html`);
    },
  };
}

export default defineConfig({
  plugins: [plotly(), licences(dist), brotli(dist)],
  publicDir: false,
  build: {
    outDir: `${dist}/sandbox`,
    emptyOutDir: false,
    target: "es2022",
    lib: { entry: "sandbox/vega.ts", formats: ["iife"], name: "talariaVega", fileName: () => "vega.js" },
  },
});
