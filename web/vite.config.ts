import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

// KaTeX's style sheet names three formats of each font; browsers that run this page take the first.
function woff2Only(): Plugin {
  return {
    name: "woff2-only",
    enforce: "pre",
    transform(code, id) {
      if (!id.endsWith("katex.min.css")) return null;
      return code.replace(/,url\([^)]*\.(?:woff|ttf)\) format\("(?:woff|truetype)"\)/g, "");
    },
  };
}

// What every cell of code needs; Markdown brings the languages that may stand in it, and comes with the first text.
const core = new RegExp(
  "node_modules/(@codemirror/(state|view|commands|language|autocomplete|search|lang-python)|@lezer/(common|highlight|lr|python)" +
    "|@marijn|style-mod|w3c-keyname|crelt)/",
);

// Names without a hash keep the history of dist small; the server sends an ETag for each file.
export default defineConfig({
  base: "/static/",
  publicDir: "public",
  plugins: [woff2Only(), svelte()],
  worker: { format: "es", rolldownOptions: { output: { entryFileNames: "assets/[name].js", chunkFileNames: "assets/[name]-in-worker.js" } } },
  build: {
    outDir: process.env["TALARIA_DIST"] ?? "dist", // make test builds it elsewhere, to compare
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 800,
    rolldownOptions: {
      input: { app: "index.html", login: "login.html" },
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
        codeSplitting: {
          groups: [
            { name: "codemirror", test: core, priority: 3 },
            { name: "xterm", test: /node_modules[\\/]@xterm/, priority: 2 },
            { name: "katex", test: /node_modules[\\/]katex/, priority: 2 },
            { name: "prose", test: /node_modules[\\/](marked|dompurify)/, priority: 2 },
            { name: "codemirror-markdown", test: /node_modules[\\/](@codemirror|@lezer)/, priority: 1 },
          ],
        },
      },
    },
  },
});
