import { describe, expect, test } from "vitest";
import { diff } from "../src/render/diff";
import { ago, bytes, clock, duration, until } from "../src/render/format";
import { fileOf, richOf, savable, textOf } from "../src/render/take";
import { takeMath } from "../src/render/mathspans";
import { proseOf } from "../src/render/prose";
import { isLight } from "../src/render/svg";
import { ownFile } from "../src/render/markdown";
import { Tidy } from "../src/render/tidy";
import { withoutDollars } from "../src/render/math";
import { describe as describeImage, view } from "../src/render/mime";
import { decimals, filtered, parseTable, shown, sorted, toCSV } from "../src/render/table";
import { ending, lineIn, parts } from "../src/render/traceback";
import { runWords, whyWords } from "../src/render/words";
import { golden } from "./golden";
import type { Bundle, ErrorFrame } from "../src/proto/types";
import type { Run } from "../src/log/state";
import { Rope } from "../src/log/rope";
import { importedOutputs } from "../src/ipynb/nbformat";
import { toScript } from "../src/ipynb/script";

describe("the richest form", () => {
  test("is taken, and what is not as its type says is passed over", () => {
    expect(view({ "text/plain": "x", "text/html": "<b>x</b>" })).toEqual({ kind: "html", html: "<b>x</b>", scripts: false });
    expect(view({ "text/plain": "x", "application/vnd.dataresource+json": { data: [] } }).kind).toBe("table");
    expect(view({ "text/plain": "x", "application/vnd.dataresource+json": "no", "application/vnd.plotly.v1+json": [] })).toEqual({ kind: "text", text: "x" });
    expect(view({ "image/png": "aGk=\n", "text/plain": "x" })).toMatchObject({ kind: "image", data: "aGk=" });
    expect(view({ "image/png": 7, "text/plain": ["x", "y"] })).toEqual({ kind: "text", text: "xy" });
    expect(view({ "application/vnd.vegalite.v5.1+json": {} })).toMatchObject({ kind: "chart", library: "vega-lite" });
    expect(view({ "application/x-unknown": "?" })).toEqual({ kind: "text", text: "(application/x-unknown)" });
    expect(view({})).toEqual({ kind: "text", text: "" });
  });
  test("tells of scripts", () => {
    for (const html of ["<script>1</script>", "<b onclick=x>", "<a href='javascript:x'>", "<SCRIPT src=x>"]) expect(view({ "text/html": html })).toMatchObject({ scripts: true });
    expect(view({ "text/html": "<table><tr><td>one</td></tr></table>" })).toMatchObject({ scripts: false });
  });
  test("names a figure for who cannot see it", () => {
    expect(describeImage({}, {}, "cell 3")).toBe("Figure, output of cell 3");
    expect(describeImage({ "application/vnd.talaria.chart+json": { axes: [{ title: "Rain" }] } }, {}, "cell 3")).toContain("Rain");
    expect(describeImage({}, { alt: "A cat" }, "cell 3")).toBe("A cat");
  });
});

describe("an image in Markdown", () => {
  const origin = "http://127.0.0.1:8080";
  test("may be a file or an artifact on this server", () => {
    for (const src of ["/v1/artifacts/7d86", "/v1/sessions/chat%3A7/files/a/b.png", `${origin}/v1/artifacts/7d86`]) expect(ownFile(src, origin), src).toBe(true);
  });
  test("is nothing else, however its address is written", () => {
    for (const src of [
      "", "?token=x", "/?token=x", "/v1/../?token=x", "/v1/artifacts/../../?token=x", "/v1/artifacts/..\\..\\?token=x", "/v1/artifacts/%2e%2e/%2E%2e/?token=x",
      "/v1/artifacts/.\t./.\n./?token=x", "/v1/sessions", "/v1/sessions/a/events", "/v1/sessions/a/files/../events", "//a.test/v1/artifacts/7d86",
      "http://a.test/v1/artifacts/7d86", "blob:http://127.0.0.1:8080/v1/artifacts/7d86", "http://[",
    ]) expect(ownFile(src, origin), src).toBe(false);
  });
});

describe("tables", () => {
  const table = parseTable({
    schema: { fields: [{ name: "i", type: "integer", index: true }, { name: "c", type: "string", dtype: "object", null_count: 1, title: "City" }] },
    data: [{ i: 0, c: "b" }, { i: 1, c: null }, { i: 2, c: "a10" }, { i: 3, c: "a9" }], total_rows: 9, truncated: true,
  });
  test("are read with their types and true size", () => {
    expect(table).toMatchObject({ total: 9, cut: true, fields: [{ index: true }, { title: "City", nulls: 1, dtype: "object" }] });
    expect(parseTable({ data: "x" })).toBeUndefined();
    expect(parseTable({ data: [{ a: 1 }] })).toMatchObject({ fields: [{ name: "a" }], rows: [[1]], total: 1, cut: false });
    expect(parseTable([])).toBeUndefined();
  });
  test("are sorted as people count, with empty values last", () => {
    const rows = table?.rows ?? [];
    expect(sorted(rows, [{ column: 1, down: false }]).map((r) => r[1])).toEqual(["a9", "a10", "b", null]);
    expect(sorted(rows, [{ column: 1, down: true }]).map((r) => r[1])).toEqual(["b", "a10", "a9", null]);
    expect(sorted(rows, [{ column: 0, down: true }]).map((r) => r[0])).toEqual([3, 2, 1, 0]);
  });
  test("have points below each other", () => {
    const rows = [[1.5, 1], [654, 2], [0.25, null], [null, 3]];
    expect([decimals(rows, 0), decimals(rows, 1), decimals([[1e-9]], 0)]).toEqual([2, 0, -1]);
    expect([shown(654, 2), shown(3, 0), shown(null, 2), shown("x", 2), shown(1e-9, -1)]).toEqual(["654.00", "3", "", "x", "1e-9"]);
  });
  test("go out as CSV", () => {
    expect(toCSV({ fields: [{ name: "a,b", type: "any", index: false }], rows: [["x\"y"], [1.5], [null]], total: 3, cut: false })).toBe('"a,b"\r\n"x""y"\r\n1.5\r\n\r\n');
  });
});

function tidy(html: string): string {
  const t = new Tidy();
  return t.write(html) + t.end();
}

describe("Markdown", () => {
  test("leaves formulas to KaTeX, but not those in code, nor prices", () => {
    expect(takeMath("a $x^2$ b $$y$$ \\(z\\) \\[w\\]").math).toEqual([
      { tex: "x^2", display: false }, { tex: "y", display: true }, { tex: "z", display: false }, { tex: "w", display: true }]);
    for (const none of ["`$x$`", "```\n$x$\n```", "costs $5 and $6", "\\$x\\$", "~~~\n$$x$$\n~~~", "``a ` $x$``"]) expect(takeMath(none)).toEqual({ text: none, math: [] });
    expect(takeMath("$a$\n```\nopen fence $b$").math).toHaveLength(1);
    expect(takeMath("`` ` $a$ `` $b$\n  ~~~ x\n$c$\n ~~~~\n$d$ $e\\$f$ \\[ $g$ $$").math.map((m) => m.tex)).toEqual(["b", "d", "g"]);
  });
  test("has no handlers in tags, and text stays text", () => {
    expect(tidy(`<img src=x onerror="a()" onload='b'><b onclick=c>t onclick=d</b>`)).toBe('<img src="x"><b>t onclick=d</b>');
    expect(tidy("<code>&lt;img onerror=x&gt;</code>")).toBe("<code>&lt;img onerror=x&gt;</code>");
    expect(tidy("<img/onerror=x/onload=y>")).not.toMatch(/on(error|load)/);
  });
  test("has tags that are closed in order", () => {
    expect(tidy("<p>a<p>b<ul><li>c<li>d</ul>e</p></b>")).toBe("<p>a</p><p>b<ul><li>c</li><li>d</li></ul>e</p>");
    expect(tidy("<b><i>x</b>y</i>")).toBe("<b><i>x</i></b>y");
    expect(tidy("a < b <c and <b title='<i>'>z")).toBe("a &lt; b &lt;c and <b title='<i>'>z</b>");
    expect(tidy("1<!-- <b> -->2<script>3</script>4<style>5")).toBe("1245");
    expect(tidy("<b>".repeat(500) + "x").match(/<b>/g)).toHaveLength(60);
  });
  test("comes in pieces, which end where all tags are closed", () => {
    const prose = proseOf("<details>\n\n" + "a\n\n".repeat(400) + "</details>\n\n" + "$x$ `b`\n\n".repeat(400), () => "");
    expect(prose?.pieces.map((p) => [p.startsWith("<details>"), p.includes("</details>")])).toEqual([[true, true], [false, false], [false, false], [false, false]]);
    expect(prose?.math).toHaveLength(400);
    expect(proseOf("`a` ".repeat(9000), () => "")).toBeUndefined();
    expect(proseOf("word ".repeat(40_000), () => "")).toBeUndefined();
    expect(proseOf("\u0628\u064b".repeat(20_000), () => "")?.pieces.length).toBe(1);
    expect(proseOf("\u0628\u064b".repeat(30_000), () => "")).toBeUndefined(); // it takes longer to lay out
    expect(proseOf("<b>".repeat(50) + "x".repeat(20_000), () => "")).toBeUndefined();
    expect(proseOf("$x$ ".repeat(3000), () => "")).toBeUndefined();
    expect(proseOf("$x$ $y$", (tex) => tex.repeat(90_000))?.math.map((m) => m.html?.length)).toEqual([90_000, 90_000]);
    expect(proseOf("$x$", () => "h".repeat(300_000))?.math).toEqual([{ tex: "x", display: false }]);
  });
  test("takes formulas out of their delimiters", () => {
    expect(withoutDollars("$\\displaystyle \\frac{a}{b}$")).toEqual({ tex: "\\frac{a}{b}", display: true });
    expect(withoutDollars("$$x$$")).toEqual({ tex: "x", display: true });
    expect(withoutDollars("$x$")).toEqual({ tex: "x", display: false });
  });
});

describe("Markdown beside its own", () => {
  test("has LaTeX environments without dollars, and boxes of tasks", () => {
    expect(takeMath("a\n\\begin{align}\nx &= 1\\\\\ny &= 2\n\\end{align}\nb").math).toEqual([{ tex: "\\begin{align}\nx &= 1\\\\\ny &= 2\n\\end{align}", display: true }]);
    for (const none of ["`\\begin{align}x\\end{align}`", "\\begin{align} x", "\\begin{verse}x\\end{verse}", "\\begin{align}x\\end{align*}"]) expect(takeMath(none)).toEqual({ text: none, math: [] });
    expect(takeMath("$\\begin{align}x\\end{align}$").math).toHaveLength(1);
    const tasks = proseOf("- [ ] todo\n- [x] done", () => "")?.pieces.join("");
    expect(tasks).toMatch(/☐ todo[^]*☑ done/);
    expect(tasks).not.toContain("<input");
  });
});

describe("tracebacks", () => {
  const lines = [
    "Traceback (most recent call last):", "  File \"<cell 3>\", line 4, in <module>", "    f()",
    "  File \"/usr/lib/python3/dist-packages/pandas/core/frame.py\", line 10, in apply", "    op()",
    "  File \"/usr/lib/python3/dist-packages/pandas/core/apply.py\", line 11, in run", "    x", "  File \"<cell 2>\", line 2, in f", "    1/0", "    ~^~",
    "ZeroDivisionError: division by zero"];
  test("fold frames of libraries and keep the user's open", () => {
    const found = parts(lines);
    expect(found.map((p) => [p.kind, p.mine, p.frames.length, p.library])).toEqual([
      ["text", true, 0, "Python"], ["frames", true, 1, "Python"], ["frames", false, 2, "pandas"], ["frames", true, 1, "Python"], ["text", true, 0, "Python"]]);
    expect(found.flatMap((p) => (p.kind === "text" ? p.text : p.frames.map((f) => f.text))).join("\n")).toBe(lines.join("\n"));
  });
  test("name the library of Cython's sources, which have no path", () => {
    const frame = (file: string) => ({ file, line: 1, function: "f", user: false, traceback_start: 0, traceback_end: 1 }) as ErrorFrame;
    expect(parts(["x"], [frame("pandas/_libs/index.pyx")])[0]?.library).toBe("pandas");
    expect(parts(["x"], [frame("sklearn/tree/_tree.pxi")])[0]?.library).toBe("sklearn");
  });
  test("know the line of their own cell", () => {
    expect(lineIn({ traceback: lines }, "r", 3)).toBe(4);
    expect(lineIn({ traceback: lines }, "r", 2)).toBe(2);
    expect(lineIn({ traceback: lines }, "r", 9)).toBeUndefined();
    expect(lineIn({ traceback: ["\u001b[0;31mE\u001b[0m", "Cell \u001b[0;32mIn[7], line 2\u001b[0m", "----> 2 x"] }, "r", 7)).toBe(2);
    const told = golden<{ traceback: string[]; frames: ErrorFrame[] }>("event_error_frames");
    expect(lineIn(told, "cell-1", 99)).toBe(1);
    expect(lineIn(told, "cell-2", 1)).toBeUndefined();
  });
  test("of any kind are shown whole, whatever is said of their frames", () => {
    const event = golden<{ traceback: string[]; frames: ErrorFrame[] }>("event_error_frames");
    const frame = event.frames[0] as ErrorFrame;
    for (const frames of [event.frames, [], [{ ...frame, traceback_start: 3, traceback_end: 1 }], [{ ...frame, traceback_end: 99 }], [frame, frame]]) {
      const shown = parts(event.traceback, frames).flatMap((p) => (p.kind === "text" ? [p.text] : p.frames.map((f) => f.text))).filter(Boolean).join("\n");
      expect(shown).toBe(event.traceback.join("\n"));
    }
  });
});

test("a traceback is shown from its end, as far as there is room", () => {
  const all = parts(Array.from({ length: 5000 }, (_, i) => `  File "<cell 1>", line ${i}, in f`));
  const { shown, cut } = ending(all, 20_000);
  const frames = shown.flatMap((p) => p.frames);
  expect([cut, frames.at(-1)?.line]).toEqual([true, 4999]);
  expect(frames.length).toBeLessThan(60);
  expect(ending(all.slice(0, 0), 10)).toEqual({ shown: [], cut: false });
  expect(ending(parts(["x".repeat(100)]), 10)).toMatchObject({ shown: [{ text: `…${"x".repeat(10)}` }], cut: true });
});

describe("an SVG", () => {
  const svg = (inside: string) => `<svg xmlns="http://www.w3.org/2000/svg">${inside}</svg>`;
  test("is an image of the page where it is light", () => {
    expect(isLight(svg('<defs><path id="m" d="M0 0"/></defs><use xlink:href="#m"/><g id="a"><use href="#m" x="3"/></g>'))).toBe(true);
  });
  test.each([["nested uses", '<g id="a"><rect/></g><g id="b"><use href="#a"/><use href="#a"/></g>'], ["a pattern", '<pattern id="a"/>'], ["an entity", "<!ENTITY a 'b'>"],
    ["a use of another file", '<use href="/x#a"/>'], ["a long path used often", `<path id="m" d="${"M0 0".repeat(4000)}"/>${'<use href="#m"/>'.repeat(900)}`], ["size", "<circle/>".repeat(9000)]])("is none for %s", (_name, inside) => {
    expect(isLight(svg(inside))).toBe(false);
  });
});

describe("words", () => {
  test("of numbers", () => {
    expect([0, 999, 1000, 4096, 536870912, 1073741824, 2147483648].map(bytes)).toEqual(["0 B", "999 B", "1 KB", "4 KB", "512 MB", "1 GB", "2 GB"]);
    expect([0.2, 12, 3450, 61_000, 3_700_000].map(duration)).toEqual(["<1 ms", "12 ms", "3.45 s", "1 min 1 s", "1 h 2 min"]);
    expect([clock(14_000), clock(3_723_000), until(89_000), until(1_440_000), ago(1000)]).toEqual(["00:14", "1:02:03", "89 s", "24 min", "just now"]);
  });
  test("of every end are sentences", () => {
    const run = { outputs: [], files: [], lost: false, count: 1, durationMs: 5 } as unknown as Run;
    for (const status of ["queued", "running", "ok", "error", "timeout", "interrupted", "cancelled", "died"] as const) {
      const told = runWords({ ...run, status, reason: "memory_limit" }, "", 0);
      expect(told.sentence).toMatch(/^[A-Z].*\.$/);
      expect(told.sentence).not.toMatch(/undefined|_|null/);
    }
    expect(runWords({ ...run, status: "died", lost: true, reason: "signal:SIGSEGV" }, "", 0).sentence).toContain("SIGSEGV");
    for (const reason of ["memory_limit", "exit:7", "host_crash", "start_failed", "something_new", undefined]) expect(whyWords(reason)).not.toMatch(/undefined|_/);
  });
});

test("a diff is both texts", () => {
  const lines = diff("a\nb\nc\nd", "a\nx\nc\nd\ne");
  expect(lines.map((l) => l.kind[0] + l.text)).toEqual(["sa", "rb", "ax", "sc", "sd", "ae"]);
});

describe("notebook files", () => {
  test("give outputs to cells that did not run here", () => {
    const found = importedOutputs({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [
      { id: "a", cell_type: "code", source: "", outputs: [{ output_type: "stream", name: "stdout", text: ["x", "y"] }], execution_count: 4 },
      { id: "b", cell_type: "code", source: "", metadata: { talaria: { execution_id: "b" } }, outputs: [{ output_type: "stream", name: "stdout", text: "z" }] },
      { id: "c", cell_type: "code", source: "", outputs: ["junk", { output_type: "odd" }] }] });
    expect([...found.keys()]).toEqual(["a"]);
    expect(String((found.get("a")?.outputs[0] as { text: Rope }).text)).toBe("xy");
  });
  test("and scripts have every cell", () => {
    const cells = [{ id: "a", cell_type: "markdown", source: "# T\n\nx" }, { id: "b", cell_type: "code", source: "1\n" }] as const;
    expect(toScript("N", cells)).toBe("# N\n\n# %% [markdown]\n# # T\n#\n# x\n\n# %%\n1\n");
  });
});

describe("what is taken along of an output", () => {
  const data = (bundle: Bundle) => ({ kind: "data" as const, data: bundle, metadata: {} });
  test("is text as it was in the end, rows with tabs, and files by their kind", async () => {
    expect(await textOf({ kind: "stream", name: "stdout", text: Rope.of("50 %\r\u001b[32m100 %\u001b[0m") })).toBe("100 %");
    const table = data({ "application/vnd.dataresource+json": { schema: { fields: [{ name: "a", type: "string" }] }, data: [{ a: "x\ty\n<b>" }] }, "text/plain": "t" });
    expect(await textOf(table)).toBe("a\nx y <b>");
    expect(richOf(table)).toContain("<td>x\ty\n&lt;b&gt;</td>");
    expect([await fileOf(table), savable(table)]).toEqual([undefined, false]);
    expect(savable({ kind: "stream", name: "stdout", text: Rope.of("x") })).toBe(true);
    expect(await fileOf(data({ "image/png": "AAAA", "text/plain": "f" }))).toEqual({ name: "figure.png", type: "image/png", base64: "AAAA" });
    expect((await fileOf(data({ "image/svg+xml": "<svg/>", "text/plain": "f" })))?.name).toBe("figure.svg");
    expect((await fileOf(data({ "application/json": { a: 1 }, "text/plain": "f" })))?.text).toBe('{\n  "a": 1\n}');
    expect(await textOf({ kind: "error", ename: "E", evalue: "v", traceback: [] })).toBe("E: v");
  });
});

test("rows are filtered by what they show", () => {
  expect(filtered([["Lund", 1.5], [null, 20], ["x", true]], "un")).toEqual([["Lund", 1.5]]);
  expect(filtered([["Lund", 1.5], [null, 20]], "1.5").length).toBe(1);
  expect(filtered([[1], [2]], "").length).toBe(2);
});
