import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { closeBrowser, faults, patience, Server, Tab } from "./rig";

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

describe("a journey with the mouse", () => {
  test("from signing in to a figure, a table, a question, a stop and a reset", async () => {
    tab = await Tab.open(server, { signedIn: false });
    const { page } = tab;
    await page.goto(server.url);
    await page.fill("#token", server.token);
    await page.click("text=Sign in");
    await page.fill("#new-session-name", "Ärger & <b>Co</b>");
    await page.click("role=button[name='New session']");
    await page.waitForSelector(".cell .cm-content");
    expect(await page.innerText(".topline .name")).toBe("Ärger & <b>Co</b>");
    expect(await page.evaluate("document.cookie")).toBe("");

    await tab.type("c-first", "print('one')\nprint('two <i>2</i>')\nx = 41");
    await page.click(".topline >> text=Run all");
    await tab.ran("c-first");
    expect(await tab.text("c-first")).toBe("one\ntwo <i>2</i>");
    expect(await page.innerText(".cell[data-id=c-first] .count")).toBe("1");

    const add = async (code: string): Promise<string> => {
      await page.click(".inserter.end >> text=code");
      const id = await page.locator(".cell.selected").getAttribute("data-id") ?? "";
      await page.locator(".cell.selected .cm-content").fill(code);
      await tab.cell(id).locator("button.number").click();
      return id;
    };
    const failing = await add("def f():\n    return 1/0\nf()");
    await tab.ran(failing, "error");
    expect(await tab.text(failing)).toContain("ZeroDivisionError: division by zero");
    await tab.cell(failing).locator(".line-link").last().click();
    await page.waitForSelector(`.cell[data-id="${failing}"].editing .cm-error-line`);

    const figure = await add("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()");
    const image = tab.cell(figure).locator("img");
    await image.waitFor();
    expect(await image.getAttribute("alt")).toContain("cell 3");
    await image.click();
    await page.waitForSelector("dialog.viewer[open]");
    await page.keyboard.press("+");
    await page.waitForSelector("text=125 %");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog.viewer", { state: "detached" });

    const asks = await add("name = input('Who? ')\nprint('Hi', name)");
    const field = tab.cell(asks).locator(".question input");
    await field.waitFor();
    expect(await page.title()).toContain("input needed");
    expect(await page.innerText(".kernel-state")).toContain("Waiting for your input");
    await field.fill("Ada");
    await page.click("text=Answer");
    await tab.ran(asks);
    expect(await tab.text(asks)).toContain("Hi Ada");

    const long = await add("import time\nprint('waiting')\ntime.sleep(600)");
    await page.waitForSelector(`.cell[data-id="${long}"].running .outputs`);
    await page.waitForSelector(".kernel-state.running");
    await page.click(".topline >> text=Stop");
    await tab.ran(long, "interrupted");
    await tab.cell(long).locator("text=Stopped on request. Variables are kept.").waitFor();
    const still = await add("x + 1, name");
    await tab.ran(still);
    expect(await tab.text(still)).toBe("(42, 'Ada')");

    await page.click("text=Restart…");
    await page.waitForSelector("dialog >> text=Restart Python?");
    await page.click("dialog >> role=button[name='Restart']");
    await page.waitForSelector("text=Python restarted. Variables");
    const gone = await add("x");
    await tab.ran(gone, "error");
    expect(await tab.text(gone)).toContain("NameError");

    const outputs = () => page.locator(".cell .outputs").allInnerTexts();
    const before = await outputs();
    await page.reload();
    await tab.ran(gone, "error");
    await expect.poll(outputs, { timeout: 30_000 }).toEqual(before); // they are drawn one after the other
  });

  test("renaming, files and the timeline", async () => {
    const id = await server.session("Files", ["a = 1", "open('out.txt', 'w').write('made')"]);
    tab = await Tab.open(server);
    const { page } = tab;
    await tab.show(id);
    await page.click(".topline .name button");
    await page.fill("#session-name", "Other name");
    await page.click("dialog >> text=Rename >> nth=-1");
    await page.waitForSelector(".topline .name >> text=Other name");

    await page.click(".rail >> role=button[name='Files']");
    await page.setInputFiles(".drawer input[type=file]", { name: "in put.csv", mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2\n") });
    await page.waitForSelector(".files >> text=in put.csv");
    await tab.cell("c-2").locator("button.number").click();
    await page.waitForSelector(".files >> text=out.txt");
    await page.waitForSelector(".cell[data-id=c-2] .made >> text=out.txt");

    const drop = await page.evaluateHandle(() => {
      const data = new DataTransfer();
      data.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" }));
      return data;
    });
    await page.dispatchEvent("body", "dragenter", { dataTransfer: drop });
    await page.waitForSelector("text=Drop into /workspace");
    await page.dispatchEvent("body", "drop", { dataTransfer: drop });
    await page.waitForSelector(".files >> text=dropped.txt");

    const row = page.locator(".files li", { hasText: "dropped.txt" });
    await row.hover();
    await row.locator("role=button[name='Rename dropped.txt']").click();
    await page.fill(".files #new-name", "renamed.txt");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".files >> text=renamed.txt");
    const renamed = page.locator(".files li", { hasText: "renamed.txt" });
    const [download] = await Promise.all([page.waitForEvent("download"), renamed.locator("a").click()]);
    expect(download.suggestedFilename()).toBe("renamed.txt");
    await renamed.hover();
    await renamed.locator("role=button[name='Delete renamed.txt']").click();
    await page.click(".files >> role=button[name='Delete']");
    await renamed.waitFor({ state: "detached" });

    await tab.cell("c-1").locator("button.number").click();
    await tab.ran("c-1");
    await tab.type("c-1", "a = 2\nb = 3");
    await page.click(".rail >> role=button[name='Timeline']");
    await page.click(".timeline .entry >> text=a = 1");
    await page.waitForSelector(".diff .added >> text=b = 3");
    await page.click("text=Restore this code");
    await page.waitForFunction(() => document.querySelector(".cell[data-id=c-1] .cm-content")?.textContent === "a = 1");
    expect((await server.call<{ items: unknown[] }>("GET", `/v1/sessions/${id}/files`)).items).toHaveLength(2);
  });

  test("the live kernel completes, explains and lists", async () => {
    const id = await server.session("Live", ["rain_in_lund = [1, 2, 3]", "", "sum(range(5 * 10**7))"]);
    tab = await Tab.open(server);
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await tab.ran("c-1");
    await tab.cell("c-2").locator(".cm-content").click();
    await page.keyboard.type("rain_in");
    // On a busy machine the kernel may answer too late, and typing may take so long that there is a list before the first Tab, which accepts it then.
    const shows = (what: string) => page.waitForSelector(what, { timeout: 5_000 }).then(() => true, () => false);
    await expect.poll(async () => {
      await page.keyboard.press("Tab");
      const text = await tab.cell("c-2").locator(".cm-content").textContent();
      if (text === "rain_in") await shows(".cm-tooltip-autocomplete >> text=rain_in_lund");
      return text;
    }, { timeout: patience }).toBe("rain_in_lund");
    await expect.poll(async () => {
      await page.keyboard.press("Shift+Tab");
      return shows(".inspection >> text=list");
    }, { timeout: patience }).toBe(true);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".inspection", { state: "detached" });
    await page.waitForSelector(".cell[data-id=c-2].editing"); // the first Escape closes, the second leaves
    await page.click(".rail >> role=button[name='Variables']");
    await page.click(".variable >> text=rain_in_lund");
    await page.waitForSelector(".variables .about >> text=list");
    await page.click(".variable >> text=rain_in_lund");
    await page.locator(".variables .about").waitFor({ state: "detached" });
    await tab.cell("c-3").locator("button.number").click();
    await page.waitForSelector(".kernel-state.running");
    await page.click(".variable >> text=rain_in_lund"); // while no other thread of Python runs
    await page.waitForSelector(".variables .about >> text=list");
    await tab.ran("c-3");
  });

  test("Markdown, formulas and data", async () => {
    const bundle = (data: object) => `class R:\n    def _repr_mimebundle_(self, **k): return ${JSON.stringify(data).replaceAll("null", "None").replaceAll("true", "True").replaceAll("false", "False")}\nR()`;
    const rows = Array.from({ length: 60 }, (_, i) => ({ index: i, city: i % 7 ? `c${i}` : null, n: (i * 37) % 60 }));
    const id = await server.session("Rich", [
      "# Title\n\n$e^{i\\pi}$ and <img src=x onerror='window.pwned=1'> <script>window.pwned=1</script> [bad](javascript:window.pwned=1)",
      bundle({ "application/vnd.dataresource+json": { schema: { fields: [{ name: "index", type: "integer" }, { name: "city", type: "string" }, { name: "n", type: "integer" }], primaryKey: ["index"] }, data: rows, total_rows: 1204331 }, "text/plain": "x" }),
      bundle({ "application/vnd.vegalite.v5+json": { mark: "bar", data: { values: [{ a: "x", b: 3 }, { a: "y", b: 5 }] }, encoding: { x: { field: "a", type: "nominal" }, y: { field: "b", type: "quantitative" } } }, "text/plain": "x" }),
      bundle({ "application/vnd.plotly.v1+json": { data: [{ type: "bar", x: ["a", "b"], y: [2, 3] }], layout: { title: { text: "A title" } } }, "text/plain": "x" }),
      bundle({ "image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9' onload='top.pwned=1'><script>top.pwned=1</script></svg>", "text/plain": "x" }),
      bundle({ "text/latex": "$\\displaystyle \\frac{a}{b}$", "text/plain": "x" }),
      bundle({ "application/json": { list: [1, { deep: true }] }, "text/plain": "x" }),
    ]);
    tab = await Tab.open(server);
    const { page } = tab;
    await tab.show(id);
    await page.click(".topline >> text=Run all");
    await tab.ran("c-7");
    await page.waitForSelector(".cell[data-id=c-1] .katex");
    expect(await page.innerText(".cell[data-id=c-1] h1")).toBe("Title");
    expect(await page.locator("[onerror], main script, a[href^=javascript]").count()).toBe(0);

    const table = tab.cell("c-2");
    await table.locator("text=1–25 of 1,204,331").waitFor();
    await table.locator("thead button", { hasText: "n" }).last().click();
    expect(await table.locator("tbody tr").first().innerText()).toMatch(/\b0$/);
    await table.locator("thead button", { hasText: "n" }).last().click();
    expect(await table.locator("tbody tr").first().innerText()).toMatch(/59$/);
    await table.locator("thead button", { hasText: "city" }).click();
    expect(await table.locator("tbody tr").first().innerText()).toContain("c1");
    await table.locator("text=Next").click();
    await table.locator("text=26–50").waitFor();

    await page.frameLocator(".cell[data-id=c-3] iframe").locator("svg .mark-rect path").first().waitFor();
    await page.frameLocator(".cell[data-id=c-4] iframe").locator("text=A title").waitFor();
    const svg = tab.cell("c-5").locator("img");
    await svg.waitFor();
    expect(await svg.evaluate((img: HTMLImageElement) => img.decode().then(() => img.naturalWidth))).toBe(9);
    await page.waitForSelector(".cell[data-id=c-6] .katex");
    await page.waitForSelector(".cell[data-id=c-7] .json >> text=deep");
    expect(await page.evaluate("window.pwned")).toBeUndefined();
    expect(await faults(page)).toEqual([]);
  });
});

describe("tables", () => {
  test("sort and page over all rows that Python has, also while a cell runs, and say when they are gone", async () => {
    const id = await server.session("Tables", [
      "import pandas as pd\nn = 120_000\ndf = pd.DataFrame({'n': range(n), 'city': [f'c{i * 7919 % n:06}' for i in range(n)], 'o': [[i] for i in range(n)]})\ndf",
      "print('begun')\nwhile True: pass", "df.drop(columns='o', inplace=True)",
    ]);
    tab = await Tab.open(server);
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await tab.ran("c-1");
    const table = tab.cell("c-1");
    const first = () => table.locator("tbody tr").first().innerText();
    const says = (text: string) => table.locator(`.foot >> text=${text}`).waitFor();
    await says("1–25 of 120,000");
    await table.locator("role=button[name='Last']").click();
    await says("119,976–120,000 of 120,000");
    expect(await first()).toMatch(/^119975\s+119975/);
    expect(await table.locator("role=button[name='Next']").isDisabled()).toBe(true);
    await tab.cell("c-2").locator("button.number").click();
    await tab.cell("c-2").locator(".outputs >> text=begun").waitFor();
    await table.locator("thead button", { hasText: "city" }).click();
    await table.locator("tbody tr >> nth=0 >> text=c000000").waitFor();
    await says("1–25 of 120,000");
    await table.locator("thead button", { hasText: "city" }).click();
    await table.locator("tbody tr >> nth=0 >> text=c119999").waitFor();
    await table.locator("role=button[name='Next']").click();
    await table.locator("tbody tr >> nth=0 >> text=c119974").waitFor();
    await says("26–50 of 120,000");
    await page.click(".topline >> text=Stop");
    await tab.ran("c-2", "interrupted");
    await table.locator("input[type=search]").fill("C00777");
    await says("1–10 of 10 with “C00777”");
    expect(await first()).toContain("c007779"); // sorted as before
    await table.locator("input[type=search]").fill("no such thing");
    await says("no rows with");
    await table.locator("input[type=search]").fill("");
    await says("1–25 of 120,000");

    await table.locator("thead button", { hasText: /^o/ }).click();
    await table.locator("text=sort it in a cell").waitFor();
    await says("1–25 of 120,000"); // in their own order again
    expect(await faults(page)).toEqual([]);
    await table.locator("role=button[name='CSV']").click();
    await page.waitForSelector("text=has at most 100,000");
    await tab.type("c-1", "small = df.head(1500).iloc[::-1]\nsmall");
    await tab.cell("c-1").locator("button.number").click();
    await says("1–25 of 1,500");
    const [download] = await Promise.all([page.waitForEvent("download"), table.locator("role=button[name='CSV']").click()]);
    let text = "";
    for await (const chunk of await download.createReadStream()) text += String(chunk);
    const lines = text.trim().split("\r\n");
    expect(lines.length).toBe(1501);
    expect([lines[1], lines[1500]].map((line) => line?.split(",")[0])).toEqual(["1499", "0"]);

    await tab.type("c-3", "small.drop(columns='o', inplace=True)");
    await tab.cell("c-3").locator("button.number").click();
    await tab.ran("c-3");
    await table.locator("role=button[name='Last']").click();
    await table.locator("text=This table's data is gone: its object was dropped or changed").waitFor();
    await says("1,000 here");
  });
});

describe("what axe finds", () => {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`nothing, ${colorScheme}, desktop and phone`, async () => {
      const id = await server.session("Axe", ["# Text\n\nSome *words* and $x$.", "print('\\x1b[31mred\\x1b[0m \\x1b[93myellow\\x1b[0m plain')", "1/0", "input('Who? ')"]);
      tab = await Tab.open(server, { colorScheme });
      const { page } = tab;
      expect(await faults(page)).toEqual([]);
      await tab.show(id);
      for (const cell of ["c-2", "c-3", "c-4"]) await tab.cell(cell).locator("button.number").click();
      await page.waitForSelector(".question input");
      expect(await faults(page)).toEqual([]);
      for (const drawer of ["Files", "Variables", "Timeline", "About this session"]) {
        await page.click(`.rail >> role=button[name='${drawer}']`);
        await page.waitForSelector(`.drawer`);
        expect(await faults(page), drawer).toEqual([]);
      }
      await page.click(".drawer >> role=button[name='Close']");
      for (const name of ["All commands", "Share a read-only link"]) {
        await page.click(`.topline >> role=button[name='${name}']`);
        await page.waitForSelector("dialog[open]");
        expect(await faults(page), name).toEqual([]);
        await page.keyboard.press("Escape");
        await page.waitForSelector("dialog", { state: "detached" });
      }
      await page.setViewportSize({ width: 390, height: 844 });
      await page.waitForSelector(".phone-bar");
      expect(await faults(page), "phone").toEqual([]);
      await page.fill(".question input", "x");
      await page.keyboard.press("Enter");
      await tab.ran("c-4");
    });
  }
});
