import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { brotliCompressSync, constants } from "node:zlib";
import type { Plugin } from "vite";

const least = 1024; // bytes: less gains nothing

// brotli puts a compressed copy beside each text in dist, so that the server has nothing to compress. index.html is
// another one for each visit.
export function brotli(dist: string): Plugin {
  return {
    name: "brotli",
    enforce: "post", // what other plugins write comes first
    closeBundle() {
      for (const name of readdirSync(dist, { recursive: true, encoding: "utf8" }).sort()) {
        const path = `${dist}/${name}`;
        if (name.endsWith(".br")) rmSync(path);
        if (!/\.(js|css|svg|txt|html)$/.test(name) || name === "index.html" || statSync(path).size < least) continue;
        const data = readFileSync(path);
        const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT } = constants;
        writeFileSync(`${path}.br`, brotliCompressSync(data, { params: { [BROTLI_PARAM_QUALITY]: 11, [BROTLI_PARAM_SIZE_HINT]: data.length } }));
      }
    },
  };
}
