import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import type { Plugin } from "vite";

interface Lock { packages: Record<string, { version?: string; license?: string; dev?: boolean }> }

const fonts = ["node_modules/@fontsource-variable/jetbrains-mono", "node_modules/@fontsource-variable/source-serif-4"];

// licences writes the licences of all that is in dist into one file, as most of them ask for.
export function licences(dist: string): Plugin {
  return {
    name: "licences",
    closeBundle() {
      const lock = JSON.parse(readFileSync("package-lock.json", "utf8")) as Lock;
      const parts: string[] = ["The notebook page contains parts of these packages."];
      for (const [path, about] of Object.entries(lock.packages)) {
        if (!path || (about.dev && !fonts.includes(path)) || !existsSync(path)) continue;
        const file = readdirSync(path).sort().find((name) => /^(licen[cs]e|copying)/i.test(name));
        const text = file ? readFileSync(`${path}/${file}`, "utf8").replaceAll("\r\n", "\n").trim() : `License: ${about.license ?? "see its package"}`;
        parts.push(`${path.replace(/^.*node_modules\//, "")} ${about.version ?? ""}\n\n${text}`);
      }
      mkdirSync(dist, { recursive: true });
      writeFileSync(`${dist}/licences.txt`, `${parts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`);
    },
  };
}
