import { readdirSync, readFileSync } from "node:fs";
import { brotliDecompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";

const root = new URL("..", import.meta.url).pathname;
const read = (path: string) => readFileSync(`${root}${path}`, "utf8");

const files = (folder: string): string[] =>
  readdirSync(`${root}${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile()).map((entry) => `${entry.parentPath}/${entry.name}`.slice(root.length));

describe("the sources", () => {
  test("put no data into the page as HTML", () => {
    const sources = files("src").filter((f) => /\.(svelte|ts)$/.test(f));
    expect(sources.length).toBeGreaterThan(40);
    for (const file of sources) expect(read(file), file).not.toMatch(/\{@html|\.innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/);
  });
  test("keep protocol, log, ANSI, notebook files, keys and rendering free of the framework", () => {
    for (const folder of ["proto", "log", "ansi", "ipynb", "keys", "render"]) {
      for (const file of files(`src/${folder}`)) expect(read(file), file).not.toMatch(/from "(svelte|.*\/ui\/|.*\.svelte)/);
    }
  });
});

describe("colours", () => {
  const css = read("src/ui/styles/tokens.css");
  const block = (start: string) => css.slice(css.indexOf(start), css.indexOf("}", css.indexOf(start)));
  const tokens = (text: string) => Object.fromEntries([...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map((m) => [m[1], m[2] ?? ""]));
  const light = tokens(block(":root {"));
  const dark = { ...light, ...tokens(block(':root[data-theme="dark"] {')) };

  function luminance(hex: string): number {
    const [r = 0, g = 0, b = 0] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  const contrast = (a: string, b: string) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return ((x ?? 0) + 0.05) / ((y ?? 0) + 0.05);
  };

  test.each([["light", light], ["dark", dark]])("of text have contrast on both grounds, %s", (_name, theme) => {
    const names = Object.keys(theme).filter((n) => /^(ink|muted|accent|running|bad|tok-|ansi-)/.test(n) && n !== "accent-ink");
    expect(names.length).toBeGreaterThan(20);
    for (const name of names) {
      for (const ground of ["paper", "raised"]) {
        expect(contrast(theme[name] ?? "", theme[ground] ?? ""), `${name} on ${ground}`).toBeGreaterThanOrEqual(4.5);
      }
    }
  });
});

test("each compressed file of dist is its neighbour", () => {
  const compressed = files("dist").filter((f) => f.endsWith(".br"));
  expect(compressed.length).toBeGreaterThan(10);
  for (const file of compressed) {
    const plain = readFileSync(`${root}${file.slice(0, -3)}`);
    expect(brotliDecompressSync(readFileSync(`${root}${file}`)).equals(plain), file).toBe(true);
  }
});
