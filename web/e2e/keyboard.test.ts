import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { closeBrowser, picture, Server, Tab } from "./rig";

let server: Server;
let tab: Tab;
beforeAll(async () => { server = await Server.start(); });
afterAll(async () => {
  await closeBrowser();
  await server.close();
});
afterEach(async () => {
  const complaints = tab.complaints.splice(0);
  await tab.close();
  expect(complaints).toEqual([]);
});

describe("with the keyboard alone", () => {
  test("a journey from signing in to a reset", async () => {
    tab = await Tab.open(server, { signedIn: false });
    const { page } = tab;
    const press = async (...keys: string[]) => { for (const key of keys) await page.keyboard.press(key); };
    await page.goto(server.url);
    await page.waitForSelector("#token:focus");
    await page.keyboard.type(server.token);
    await press("Enter");
    await page.waitForSelector("#new-session-name");
    await page.locator("#new-session-name").focus();
    await page.keyboard.type("Keys");
    await press("Enter");
    await page.waitForSelector(".cell.editing .cm-focused");
    await press("Escape"); // out of the editor, and into it again
    await page.waitForSelector(".cell.selected:focus");
    await press("Enter");
    await page.waitForSelector(".cell.editing .cm-focused");
    await page.keyboard.type("x = 20\nprint(x + 1)");
    await press("Shift+Enter");
    await tab.ran("c-first");
    expect(await tab.text("c-first")).toBe("21");
    await page.waitForSelector(".cell.editing:not([data-id=c-first]) .cm-focused"); // a new cell, ready to type
    await page.keyboard.type("x * 2");
    await press("Control+Enter");
    await page.waitForSelector(".cell.selected:focus[data-status=ok]"); // and out of the editor
    const second = await page.locator(".cell.selected").getAttribute("data-id") ?? "";
    expect(await tab.text(second)).toBe("40");

    const ids = () => page.locator(".cell").evaluateAll((cells) => cells.map((c) => (c as HTMLElement).dataset["id"]));
    await press("k");
    await page.waitForSelector(".cell[data-id=c-first].selected:focus");
    await press("a");
    expect((await ids()).length).toBe(3);
    expect((await ids())[1]).toBe("c-first");
    await press("d", "d");
    expect(await ids()).toEqual(["c-first", second]);
    await press("z");
    expect((await ids()).length).toBe(3);
    await press("Shift+z");
    await press("j", "Alt+Shift+ArrowUp");
    await page.waitForFunction((id) => document.querySelector<HTMLElement>(".cell")?.dataset["id"] === id, second);
    await press("Alt+Shift+ArrowDown");
    await press("c", "v");
    expect((await ids()).length).toBe(3);
    await press("m");
    await page.waitForSelector(".cell.markdown.selected");
    await press("y");
    await page.waitForSelector(".cell.code.selected");
    await press("d", "d");

    await press("b", "Enter");
    await page.waitForSelector(".cell.editing .cm-focused");
    await page.keyboard.type("import time\nfor _ in range(1000): time.sleep(1)");
    await press("Control+Enter");
    await page.waitForSelector(".cell.selected.running");
    await press("i", "i");
    await page.waitForSelector(".cell.selected[data-status=interrupted]");

    await press("g", "f");
    await page.waitForSelector(".drawer:focus");
    await press("Escape");
    await page.waitForSelector(".drawer", { state: "detached" });
    await press("?");
    await page.waitForSelector("dialog >> text=Keyboard shortcuts");
    await press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await press("Control+k");
    await page.waitForSelector(".palette-input:focus");
    await page.keyboard.type("line num");
    await press("Enter");
    await page.waitForSelector(".cm-lineNumbers");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.waitForSelector(".cell.selected:focus");
    await press("0", "0");
    await page.waitForSelector("dialog >> text=Restart Python?");
    await press("Shift+Tab"); // past the checkbox, whichever way round
    await press("Tab", "Tab", "Enter");
    await page.waitForSelector("text=Python restarted. Variables");
  });

  test("Escape, then Tab leaves the editor: there is no trap", async () => {
    const id = await server.session("Trap", ["a", "b"]);
    tab = await Tab.open(server);
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-1").locator(".cm-content").click();
    await page.keyboard.press("Escape");
    const seen = new Set<string>();
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press("Tab");
      seen.add(await page.evaluate(() => document.activeElement?.outerHTML ?? ""));
    }
    expect(seen.size).toBeGreaterThan(8);
    expect([...seen].filter((html) => html.includes("cm-content"))).toEqual([]);
  });
});

describe("on a phone", () => {
  test("reading, running, answering and stopping work, and nothing scrolls sideways", async () => {
    const id = await server.session("Phone", ["# Words on a small page", "name = input('Who? ')\nprint('Hi', name, 'x' * 300)", "import time\ntime.sleep(600)"]);
    tab = await Tab.open(server, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-2").locator(".cm-content").tap();
    await page.waitForSelector(".key-strip");
    await page.tap(".key-strip >> text=Run");
    await page.locator(".question input").fill("Ada");
    await page.tap("text=Answer");
    await tab.ran("c-2");
    expect(await tab.text("c-2")).toContain("Hi Ada");
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    await tab.cell("c-3").locator("button.number").tap();
    await page.waitForSelector(".cell[data-id=c-3].running");
    await page.tap(".phone-bar >> text=Stop");
    await tab.ran("c-3", "interrupted");
    await page.tap(".phone-bar >> text=Files");
    await page.waitForSelector(".drawer >> text=No files here yet");
    await page.tap(".phone-bar >> text=More");
    await page.waitForSelector(".palette-input");
  });

  test("the keys replace the bar while typing, one Run is in sight, and a selection moves nothing", async () => {
    const id = await server.session("Still", ["import pandas as pd\npd.DataFrame({'n': range(100), 'name': ['a'] * 100})", "print('two')", "print('three')"]);
    tab = await Tab.open(server, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    const { page } = tab;
    await tab.show(id);
    for (const cell of ["c-1", "c-2", "c-3"]) {
      await tab.cell(cell).locator("button.number").tap();
      await tab.ran(cell);
    }
    const runs = page.locator(".phone-tools button:visible", { hasText: /^Run$/ });
    const top = (cell: string) => tab.cell(cell).evaluate((e) => Math.round(e.getBoundingClientRect().top + (document.scrollingElement?.scrollTop ?? 0)));
    const before = [await top("c-2"), await top("c-3")];
    await tab.cell("c-2").locator(".output").tap();
    await page.waitForSelector(".cell[data-id=c-2].selected");
    expect([await top("c-2"), await top("c-3")]).toEqual(before);
    expect(await runs.count()).toBe(1);
    expect(await page.locator(".phone-bar").isVisible()).toBe(true);

    await tab.cell("c-2").locator(".cm-content").tap();
    await page.waitForSelector(".key-strip");
    expect(await runs.count()).toBe(1);
    expect(await page.locator(".phone-bar").count()).toBe(0);
    await page.tap(".key-strip >> text=Done");
    await page.waitForSelector(".phone-bar");
    expect(await page.locator(".key-strip").count()).toBe(0);

    // All buttons of a table are in sight, large enough for a finger, and none is on top of another.
    const table = tab.cell("c-1").locator(".output", { has: page.locator(".table") });
    await table.locator("role=button[name='Last']").tap();
    await table.getByText("76–100 of 100").waitFor();
    const boxes = await table.locator(".foot :is(button, input), .output-tools > *").evaluateAll((all) =>
      all.map((e) => e.getBoundingClientRect()).map(({ left, right, top, bottom }) => ({ left, right, top, bottom })));
    expect(boxes.length).toBeGreaterThan(7);
    for (const [i, a] of boxes.entries()) {
      expect(a.left).toBeGreaterThanOrEqual(0);
      expect(a.right).toBeLessThanOrEqual(390);
      expect(Math.min(a.right - a.left, a.bottom - a.top)).toBeGreaterThanOrEqual(32);
      for (const b of boxes.slice(i + 1)) expect(a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1, JSON.stringify([a, b])).toBe(false);
    }
    await picture(page, "table-phone");
  });
});

describe("at 200 % zoom", () => {
  for (const width of [640, 720, 800]) {
    test(`the name and the state are whole at ${width} px`, async () => {
      const id = await server.session("titanic survival", ["1"]);
      tab = await Tab.open(server, { viewport: { width, height: 450 } });
      const { page } = tab;
      await tab.show(id);
      await tab.cell("c-1").locator("button.number").click();
      await tab.ran("c-1");
      for (const part of [".topline .name button", ".kernel-state .word"]) {
        expect(await page.locator(part).evaluate((e) => e.scrollWidth <= e.clientWidth), part).toBe(true);
      }
      await picture(page, `zoom-${width}`);
    });
  }
});

describe("the clock of a running cell", () => {
  // The page's clock is the test's: no machine is too slow for it.
  test("shows the seconds since its start", async () => {
    const id = await server.session("Clock", ["input()"]);
    tab = await Tab.open(server);
    const { page } = tab;
    await page.clock.install();
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await page.waitForSelector(".question input");
    const [run] = (await server.call<{ items: { started_at: string }[] }>("GET", `/v1/sessions/${id}/executions`)).items;
    const started = Date.parse(run?.started_at ?? "");
    for (const seconds of [61, 63]) {
      await page.clock.pauseAt(started + seconds * 1000 - 800);
      await page.clock.runFor(1000); // to 0.2 s past the second
      await tab.cell("c-1").locator(".note.run", { hasText: `01:0${seconds - 60}` }).waitFor();
    }
    await page.clock.resume();
    await page.locator(".question input").fill("x");
    await page.keyboard.press("Enter");
    await tab.ran("c-1");
  });

  test("follows the server where the browser's clock is wrong", async () => {
    const id = await server.session("Wrong clock", ["input()"]);
    tab = await Tab.open(server);
    await tab.context.addInitScript(() => {
      const right = Date.now;
      Date.now = () => right() + 3_600_000;
    });
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await tab.page.waitForSelector(".question input");
    await tab.cell("c-1").locator(".note.run", { hasText: /^0\d:\d\d$/ }).waitFor();
    await tab.page.locator(".question input").fill("x");
    await tab.page.keyboard.press("Enter");
    await tab.ran("c-1");
  });
});

describe("speed", () => {
  const shown: string[] = [];
  afterAll(() => console.log(shown.join("\n")));

  test("the first editor, 300 cells, and 100,000 lines", async () => {
    const empty = await server.session("First", ["1"]);
    const many = await server.session("Many", Array.from({ length: 300 }, (_, i) => `value_${i} = ${i}\nprint(value_${i})`));
    await Promise.all(Array.from({ length: 300 }, (_, i) => server.run(many, `print(${i})`, `c-${i + 1}.r00000000`)));
    const lines = await server.session("Lines", ["for i in range(100_000):\n    print('line', i, 'x' * 30)"]);
    tab = await Tab.open(server);
    const { page } = tab;

    const first = Date.now();
    await page.goto(`${server.url}/?session=${empty}`);
    await page.waitForSelector(".cm-content");
    shown.push(`first editor: ${Date.now() - first} ms (aim: 1000)`);

    const opening = Date.now();
    await page.goto(`${server.url}/?session=${many}`);
    await page.waitForSelector(".cell[data-id=c-1] .cm-content");
    await page.waitForSelector(".cell[data-id=c-300] .outputs", { state: "attached" });
    shown.push(`300 cells: ${Date.now() - opening} ms (aim: 1500)`);

    await tab.show(lines);
    await page.evaluate(() => {
      const frames: number[] = [];
      Object.assign(globalThis, { frames });
      let last = performance.now();
      const tick = (now: number) => {
        frames.push(now - last);
        last = now;
        requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    });
    const start = Date.now();
    await tab.cell("c-1").locator("button.number").click();
    await page.waitForFunction(() => document.querySelector(".stream > button")?.textContent === "Show all 100,000 lines");
    const took = Date.now() - start;
    const frames = (await page.evaluate("frames") as number[]).slice(2).sort((a, b) => a - b);
    const p95 = frames[Math.floor(frames.length * 0.95)] ?? 0;
    shown.push(`100,000 lines: ${took} ms, frames p50 ${Math.round(frames[Math.floor(frames.length / 2)] ?? 0)} ms, p95 ${Math.round(p95)} ms (aim: 50), worst ${Math.round(frames.at(-1) ?? 0)} ms`);
    await page.click(".stream > button");
    await page.waitForFunction(() => document.querySelector(".stream > button")?.textContent === "Less");
    // Machines differ; ten times the aim is broken on any.
    expect(p95).toBeLessThan(500);
  });
});
