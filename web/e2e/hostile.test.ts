// Outputs that are made to hold the tab or to fill its memory. No task of the page's thread takes more than 50 ms, or three times as
// long as the longest one of a page without outputs, which is about 48 ms on a slow machine: on the clock or in processor time,
// whichever is less, since a busy machine stretches the one and this one counts the other in coarse steps.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Browser, CDPSession } from "playwright-core";
import { closeBrowser, Server, Tab } from "./rig";

let most = 50; // ms of one task, in the best of three attempts
const attempts = 3;
const growth = 160 << 20; // bytes of JavaScript heap that one output may take, after a collection
const excerpt = 24 << 20; // for megabytes of JSON, of which the page has an excerpt only
const excerpts = new Set(["wide JSON", "JSON of megabytes", "a large table", "a chart of many points"]);

const bundle = (mime: string, value: string) => `display({${JSON.stringify(mime)}: ${value}, "text/plain": "plain"}, raw=True)`;
const html = (value: string) => bundle("text/html", value);
const markdown = (value: string) => bundle("text/markdown", value);

const hostile: Record<string, string> = {
  "an OSC sequence without an end": `print("\\x1b]" * 500_000, end="")`,
  "styles far to the right": `print(("\\x1b[31m" + "\\x1b[9999C" * 104 + "x\\n") * 400, end="")`,
  "colours of each character": `print("".join(f"\\x1b[38;2;{i % 256};{i // 256 % 256};{i // 65536}mx" for i in range(400_000)))`,
  "empty lines": `print("\\n" * 6_000_000, end="")`,
  "one long line": `print("x" * 7_000_000)`,
  "one long line of an output": `display({"text/plain": "x" * 7_000_000}, raw=True)`,
  "a long line of joined letters": `print("\\u0628\\u064b\\u064c\\u200d" * 800_000)`,
  "a traceback of joined letters": `raise ValueError("\\u0628\\u064b\\u064c\\u200d" * 25_000)`,
  "joined letters in Markdown": markdown(`"\\u0628\\u064b\\u064c\\u200d" * 20_000`),
  "joined letters in JSON": bundle("application/json", `["\\u0628\\u064b\\u064c\\u200d" * 500 for i in range(100)]`),
  "the first line written again and again": `print("".join(f"{i}\\n" for i in range(20_000)) + "".join(f"\\x1b[9999A\\x1b[9999A\\x1b[9999A{i}\\x1b[9999B\\x1b[9999B\\x1b[9999B" for i in range(60_000)))`,
  "links": `print("http://a.b " * 500_000)`,
  "tags in Markdown": markdown(`"<div " + "<a " * 80_000`),
  "handlers in Markdown": markdown(`"<a" + " onx=1" * 40_000`),
  "formulas without an end": markdown(`"\\\\\\\\[ " * 60_000`),
  "brackets in Markdown": markdown(`"[" * 200_000`),
  "emphasis in Markdown": markdown(`"*a **a " * 30_000`),
  "quotes in Markdown": markdown(`">" * 5_000 + "a"`),
  "lists in Markdown": markdown(`"\\n".join("  " * i + "- a" for i in range(400))`),
  "formatting that is never closed": markdown(`"".join(f"<b id={i}>" for i in range(8_000)) + "<p>x" * 20_000`),
  "elements in Markdown": markdown(`"`+ "`a` " + `" * 60_000`),
  "many formulas": markdown(`"$x^2$ " * 30_000`),
  "Markdown of megabytes": markdown(`"word *word* " * 600_000`),
  "a formula of macros": bundle("text/latex", `r"$\\def\\a{" + "x" * 100_000 + "}" + r"\\a" * 400 + "$"`),
  "a long formula": bundle("text/latex", `"$" + "x^{2}+" * 30_000 + "$"`),
  "a deep formula": bundle("text/latex", `"$" + "\\\\\\\\frac{1}{" * 3_000 + "x" + "}" * 3_000 + "$"`),
  "wide JSON": bundle("application/json", `{str(i): {str(j): {str(k): k for k in range(60)} for j in range(60)} for i in range(60)}`),
  "JSON of megabytes": bundle("application/json", `[[i] for i in range(1_500_000)]`),
  "a large table": bundle("application/vnd.dataresource+json", `{"schema": {"fields": [{"name": str(i), "type": "number"} for i in range(400)]}, "data": [[j + i / 7 for i in range(400)] for j in range(1_500)]}`),
  "a table of long texts": bundle("application/vnd.dataresource+json", `{"schema": {"fields": [{"name": "a", "type": "string"}]}, "data": [["x" * 300_000] for j in range(25)]}`),
  "many tables": `for i in range(100): display({"application/vnd.dataresource+json": {"schema": {"fields": [{"name": str(i), "type": "number"} for i in range(200)]}, "data": [list(range(200)) for j in range(25)]}}, raw=True)`,
  "a hundred frames": `for i in range(100): display({"text/html": "<b>" + str(i)}, raw=True)`,
  "ten thousand displays": `for i in range(10_000): display({"text/plain": str(i)}, raw=True, display_id=str(i))`,
  "ten thousand updates": `h = display({"text/plain": "a"}, raw=True, display_id="h")\nfor i in range(3_000): display({"text/plain": str(i)}, raw=True)\nfor i in range(10_000): h.update({"text/plain": str(i)}, raw=True)`,
  "thousands of tool calls": `from hermes_tools import read_file\nfor i in range(3_000):\n    try: read_file(path=str(i) * 200)\n    except Exception: pass`,
  "tool calls of large arguments": `from hermes_tools import write_file\nfor i in range(40): write_file(path=str(i), content="\u0628\u064b\u064c\u200d" * 100_000)`,
  "a loop of clearing": `from IPython.display import clear_output\nfor i in range(20_000): clear_output(wait=i % 2 == 0); print(i)`,
  "a deep traceback": `class E(Exception): pass\ndef f(n): return f(n - 1) if n else g()\ndef g(): raise E("x" * 5_000_000)\nf(900)`,
  "a long question": `input("x" * 2_000_000)`,
  "an SVG of uses": bundle("image/svg+xml", `'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90"><g id="a0"><rect width="9" height="9"/></g>' + "".join(f'<g id="a{i}">' + f'<use href="#a{i-1}"/>' * 10 + "</g>" for i in range(1, 7)) + "</svg>"`),
  "an SVG of megabytes": bundle("image/svg+xml", `'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="900">' + "".join(f'<circle cx="{i % 900}" cy="{i // 900}" r="3"/>' for i in range(150_000)) + "</svg>"`),
  "an image of a billion pixels": `import zlib, struct, base64\ndef chunk(t, d): return struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))\nn = 30_000\nc = zlib.compressobj(9)\nrow = bytes(1 + n // 8)\nd = b"".join(c.compress(row) for _ in range(n)) + c.flush()\np = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 1, 0, 0, 0, 0)) + chunk(b"IDAT", d) + chunk(b"IEND", b"")\ndisplay({"image/png": base64.b64encode(p).decode()}, raw=True)`,
  "HTML of many elements": html(`"<b>x</b>" * 300_000`),
  "formatting in HTML that is never closed": html(`"".join(f"<b id={i}>" for i in range(2_000)) + "<p>x" * 3_000`),
  "a chart of many points": bundle("application/vnd.vegalite.v5+json", `{"data": {"values": [{"a": i, "b": i * i % 97} for i in range(100_000)]}, "mark": "point", "encoding": {"x": {"field": "a", "type": "quantitative"}, "y": {"field": "b", "type": "quantitative"}}}`),
  "a chart that computes without end": bundle("application/vnd.vega.v5+json", `{"width": 9, "height": 9, "data": [{"name": "a", "transform": [{"type": "sequence", "start": 0, "stop": 1e8}]}], "marks": []}`),
};

let server: Server;
let quiet: number;
beforeAll(async () => { server = await Server.start(); });
afterAll(async () => {
  await closeBrowser();
  await server.close();
});

// Held is how long the longest task of the page's own thread took, in ms.
interface Held { longest: number }

interface Traced { name: string; ph: string; pid: number; tid: number; dur?: number; tdur?: number; args: { name?: string; data?: { url?: string } } }

// held reads a trace of the browser.
function held(trace: Buffer): Held {
  const events = (JSON.parse(trace.toString()) as { traceEvents: Traced[] }).traceEvents;
  const thread = (e: Traced) => `${e.pid}/${e.tid}`;
  const mains = new Set(events.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map(thread));
  const page = events.find((e) => mains.has(thread(e)) && e.args.data?.url?.endsWith("/assets/app.js"));
  if (!page) throw new Error("the trace does not show the page");
  const tasks = events.filter((e) => e.ph === "X" && e.name === "ThreadControllerImpl::RunTask" && thread(e) === thread(page));
  if (!tasks.some((t) => t.tdur)) throw new Error("the trace has no processor times");
  return { longest: Math.round(Math.max(...tasks.map((t) => Math.min(t.dur ?? 0, t.tdur ?? 0))) / 1000) };
}

// rest waits until what came is drawn: a while in which every frame was on time and changed nothing.
const rest = () => new Promise<void>((resolve) => {
  let since = performance.now();
  let last = since;
  new MutationObserver(() => (since = performance.now())).observe(document.querySelector("main") as Node, { childList: true, subtree: true });
  const frame = (now: number) => {
    if (now - last > 150 || document.querySelector(".prose[aria-busy=true]")) since = now;
    last = now;
    if (now - since > 700) resolve();
    else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
});

async function heap(cdp: CDPSession): Promise<number> {
  await cdp.send("HeapProfiler.collectGarbage");
  return (await cdp.send("Runtime.getHeapUsage")).usedSize;
}

async function measure(session: string, check?: (tab: Tab) => Promise<void>): Promise<Held & { heap: number; drawn: number }> {
  const tab = await Tab.open(server);
  const browser = tab.context.browser() as Browser;
  try {
    const cdp = await tab.context.newCDPSession(tab.page);
    await browser.startTracing(tab.page, { categories: ["-*", "toplevel", "devtools.timeline", "__metadata"] });
    const start = Date.now();
    await tab.show(session);
    await tab.page.evaluate(rest);
    const drawn = Date.now() - start;
    const trace = await browser.stopTracing();
    await check?.(tab);
    return { ...held(trace), heap: await heap(cdp), drawn };
  } finally {
    await tab.close();
  }
}

const report = (name: string, found: Held & { heap: number; drawn: number }) =>
  console.log(`${name}: longest ${found.longest} ms, drawn in ${found.drawn} ms, heap +${((found.heap - quiet) / 1e6).toFixed(1)} MB`);

// best is the attempt whose longest task was shortest: what the page itself does is in each of them.
async function best(name: string, session: string, bound: number, check?: (tab: Tab) => Promise<void>): ReturnType<typeof measure> {
  let found = await measure(session, check);
  for (let i = 1; i < attempts && found.longest > bound; i++) {
    const again = await measure(session, check);
    if (again.longest < found.longest) found = again;
  }
  report(name, found);
  return found;
}

describe("the page is not held by", () => {
  beforeAll(async () => {
    const id = await server.session("Quiet", ["1 + 1"]);
    await server.run(id, "1 + 1");
    await measure(id);
    const found = await measure(id);
    quiet = found.heap;
    most = Math.max(most, 3 * found.longest);
    report("a quiet page", found);
  });
  test.each(Object.entries(hostile))("%s", async (name, code) => {
    const id = await server.session("Hostile", [], { limits: { output_bytes: 8 << 20, tool_calls: 10_000 } });
    if (name === "a long question") await server.call("POST", `/v1/sessions/${id}/executions?wait_s=0`, { code, allow_stdin: true });
    else await server.run(id, code);
    const found = await best(name, id, most);
    expect(found.longest).toBeLessThanOrEqual(most);
    expect(found.heap - quiet).toBeLessThan(excerpts.has(name) ? excerpt : growth);
    await server.call("DELETE", `/v1/sessions/${id}`);
  });
  test("a notebook of 2,500 cells", async () => {
    const id = await server.session("Long", Array.from({ length: 2500 }, (_, i) => (i % 10 ? `print(${i})` : `# Part ${i / 10}`)));
    const found = await best("a long notebook", id, most, async (tab) => expect(await tab.page.locator(".cell").count()).toBe(2500));
    expect(found.longest).toBeLessThanOrEqual(most);
  });
});
