import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Download } from "playwright-core";
import { closeBrowser, faults, picture, Server, Tab } from "./rig";

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

async function content(download: Download): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of await download.createReadStream()) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

const clipboard = (type: string) => tab.page.evaluate(async (wanted) => {
  const [item] = await navigator.clipboard.read();
  return item?.types.includes(wanted) ? (await item.getType(wanted)).text() : undefined;
}, type);

describe("an output", () => {
  test("can be copied, wrapped, opened in full and large, and saved", async () => {
    const id = await server.session("Outputs", [
      "print('\\x1b[31mred\\x1b[0m', 'x' * 400)\nfor i in range(80): print('line', i)",
      "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x\\ty', '<i>']})",
      "from IPython.display import HTML\nHTML('<b>bold</b><script>1</script>')",
      "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
      "print('y' * 30_000_000)",
    ], { limits: { output_bytes: 1 << 20 } });
    tab = await Tab.open(server, { permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = tab;
    await tab.show(id);
    await page.click(".topline >> text=Run all");
    await tab.ran("c-5");
    const tool = async (cell: string, name: string) => {
      await tab.cell(cell).locator(".output").first().hover();
      return tab.cell(cell).locator(`.output-tools >> role=button[name='${name}']`).first();
    };
    const use = async (cell: string, name: string) => (await tool(cell, name)).click();

    await use("c-1", "Copy the output");
    await page.waitForSelector("text=Copied.");
    expect((await clipboard("text/plain"))?.slice(0, 7)).toBe("red xxx");
    const text = tab.cell("c-1").locator("pre.text");
    const height = () => text.evaluate((e) => e.clientHeight);
    const wrapped = await height();
    await use("c-1", "Wrap long lines");
    expect(await height()).toBeLessThan(wrapped);
    expect(await tab.cell("c-1").locator(".scroll").evaluate((e) => e.scrollWidth > e.clientWidth)).toBe(true);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    await use("c-1", "Wrap long lines");
    expect(await tab.cell("c-1").locator(".scroll.tall").count()).toBe(1);
    await use("c-1", "Full height");
    expect(await tab.cell("c-1").locator(".scroll.tall").count()).toBe(0);
    const [saved] = await Promise.all([page.waitForEvent("download"), use("c-1", "Save the output")]);
    expect(saved.suggestedFilename()).toBe("output.txt");
    expect((await content(saved)).toString()).toMatch(/^red x+\nline 0\n(.*\n)*line 79\n?$/);

    await use("c-2", "Copy the output");
    await expect.poll(() => clipboard("text/plain"), { timeout: 30_000 }).toBe("index\ta\tb\n0\t1\tx y\n1\t2\t<i>");
    expect(await clipboard("text/html")).toMatch(/<td>&lt;i&gt;<\/td>/);
    await use("c-3", "Copy the output");
    await expect.poll(() => clipboard("text/html"), { timeout: 30_000 }).toContain("bold");
    expect(await clipboard("text/html")).not.toContain("script");

    const [image] = await Promise.all([page.waitForEvent("download"), use("c-4", "Save the output")]);
    expect(image.suggestedFilename()).toBe("figure.png");
    expect((await content(image)).subarray(1, 4).toString()).toBe("PNG");
    await use("c-4", "Copy the output");
    await expect.poll(() => page.evaluate(async () => (await navigator.clipboard.read())[0]?.types), { timeout: 30_000 }).toEqual(["image/png"]);

    await tab.cell("c-5").locator(".output").first().hover();
    const [whole] = await Promise.all([page.waitForEvent("download"), tab.cell("c-5").locator(".output-tools >> role=link[name='Save the whole output']").first().click()]);
    expect((await content(whole)).length).toBe(30_000_001);

    await use("c-1", "Enlarge the output");
    await page.waitForSelector("dialog.large[open] >> text=line 79");
    expect(await faults(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog.large", { state: "detached" });
    await tab.cell("c-1").locator(".margin").click();
    await page.keyboard.press("Control+k");
    await page.fill(".palette-input", "Copy the output");
    await page.keyboard.press("Enter");
    await expect.poll(() => clipboard("text/plain"), { timeout: 30_000 }).toMatch(/^red/);
    await page.waitForSelector(".toast", { state: "detached" }); // which may lie over a cell's tools, as the top line may
    await page.evaluate("scrollTo(0, 0)");
    expect(await faults(page)).toEqual([]);
  });

  test("that is a sound can be played, by any way of showing it", async () => {
    const sound = "import io, wave, base64\nb = io.BytesIO()\nw = wave.open(b, 'wb')\nw.setparams((1, 1, 8000, 0, 'NONE', ''))\nw.writeframes(bytes(8000))\nw.close()\n";
    const id = await server.session("Sound", [
      `${sound}display({'audio/wav': base64.b64encode(b.getvalue()).decode(), 'text/plain': 'a sound'}, raw=True)`,
      "from IPython.display import Audio\nAudio(b.getvalue())",
    ]);
    tab = await Tab.open(server);
    await tab.show(id);
    await tab.page.click(".topline >> text=Run all");
    await tab.ran("c-2");
    const length = (e: HTMLElement) => new Promise<number>((resolve, reject) => {
      const audio = e as HTMLAudioElement;
      if (audio.readyState > 0) return resolve(audio.duration);
      audio.onloadedmetadata = () => resolve(audio.duration);
      audio.onerror = () => reject(new Error("it cannot be played"));
    });
    expect(await tab.cell("c-1").locator("audio").evaluate(length)).toBe(1);
    expect(await tab.page.frameLocator(".cell[data-id=c-2] iframe").locator("audio").evaluate(length)).toBe(1);
  });

  test("that is wide goes beyond the column of text, as far as the page does", async () => {
    const id = await server.session("Wide", [
      "import pandas as pd\npd.DataFrame({f'column {i}': ['some words ' + str(i)] * 3 for i in range(14)})",
      "from IPython.display import HTML\nHTML('<table><tr>' + ''.join(f'<td style=\"min-width:90px\">cell {i}</td>' for i in range(12)) + '</tr></table>')",
      "print('narrow ' * 200)", "HTML('<p>narrow</p>')",
    ]);
    tab = await Tab.open(server, { viewport: { width: 1700, height: 900 } });
    const { page } = tab;
    await tab.show(id);
    await page.click(".topline >> text=Run all");
    await tab.ran("c-4");
    const width = (selector: string) => page.locator(selector).evaluate((e) => e.getBoundingClientRect().width);
    await page.waitForFunction(() => (document.querySelector(".cell[data-id=c-2] iframe")?.clientWidth ?? 0) > 1000);
    expect(await width(".cell[data-id=c-1] .sideways")).toBeGreaterThan(1100);
    expect(await width(".cell[data-id=c-1] .sideways")).toBeLessThanOrEqual(1200);
    expect(await width(".cell[data-id=c-3] pre.text")).toBeLessThanOrEqual(860);
    expect(await width(".cell[data-id=c-4] iframe")).toBeLessThanOrEqual(860);
    const left = (selector: string) => page.locator(selector).first().evaluate((e) => e.getBoundingClientRect().left);
    expect(Math.abs(await left(".cell[data-id=c-1] .source") + 430 - (1700 + 56 + 76) / 2)).toBeLessThan(40); // still in the middle
    await picture(page, "wide");
    await page.setViewportSize({ width: 390, height: 844 });
    await page.waitForSelector(".phone-bar");
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    await picture(page, "wide-phone");
  });
});

describe("an output that changes", () => {
  const frame = (cell: string) => tab.page.frameLocator(`.cell[data-id=${cell}] iframe`);
  const mark = (cell: string) => tab.cell(cell).locator("iframe").evaluate((e: HTMLElement) => { e.dataset["mark"] = "kept"; });
  const marked = (cell: string) => tab.cell(cell).locator("iframe[data-mark=kept]").count();

  test("is drawn anew, in the same frame", async () => {
    const id = await server.session("Updates", ["1", "1", "1"]);
    const vega = (name: string) => `{'application/vnd.vegalite.v5+json': {'data': {'values': [{'a': '${name}', 'b': 1}]}, 'mark': 'bar', 'encoding': {'x': {'field': 'a', 'type': 'nominal'}, 'y': {'field': 'b', 'type': 'quantitative'}}}, 'text/plain': ''}`;
    const plotly = (name: string) => `{'application/vnd.plotly.v1+json': {'data': [{'type': 'bar', 'x': ['${name}'], 'y': [1]}], 'layout': {}}, 'text/plain': ''}`;
    tab = await Tab.open(server);
    await tab.show(id);
    const first = ["{'text/html': '<p>one</p>'}", vega("one"), plotly("one")];
    const second = ["{'text/html': '<p>two</p>'}", vega("two"), plotly("two")];
    for (const [i, value] of first.entries()) await server.run(id, `h${i} = display(${value}, raw=True, display_id=True)`, `c-${i + 1}.r00000001`);
    const cells = ["c-1", "c-2", "c-3"];
    for (const cell of cells) {
      await frame(cell).getByText("one", { exact: true }).first().waitFor();
      await mark(cell);
    }
    await server.run(id, second.map((value, i) => `h${i}.update(${value}, raw=True)`).join("\n"));
    for (const cell of cells) {
      await frame(cell).getByText("two", { exact: true }).first().waitFor();
      expect(await frame(cell).getByText("one", { exact: true }).count()).toBe(0);
      expect(await marked(cell)).toBe(1);
    }
  });

  test("has its scripts off again", async () => {
    const id = await server.session("Consent", ["1"]);
    const html = (n: number) => `{'text/html': '<p>version ${n}</p><script>document.body.append("script of ${n}")</script>'}`;
    tab = await Tab.open(server);
    const { page } = tab;
    await tab.show(id);
    await server.run(id, `h = display(${html(1)}, raw=True, display_id=True)`, "c-1.r00000001");
    for (const n of [2, 2, 3]) { // an output with the same text may be another one
      await page.click("text=Run this output's scripts");
      await frame("c-1").getByText(/script of/).waitFor();
      await server.run(id, `h.update(${html(n)}, raw=True)`);
      await page.waitForSelector("text=They are off.");
      await frame("c-1").getByText(`version ${n}`).waitFor();
      expect(await frame("c-1").getByText(/script of/).count()).toBe(0);
    }
  });

  test("is shown after a damaged image, and its table keeps the order of its columns only", async () => {
    const id = await server.session("Others", ["1", "1"]);
    const image = (data: string) => `{'image/png': '${data}', 'text/plain': ''}`;
    const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    tab = await Tab.open(server);
    const { page } = tab;
    await tab.show(id);
    await server.run(id, `i = display(${image("iVBORw0KGgo=")}, raw=True, display_id=True)`, "c-1.r00000001");
    await page.waitForSelector("text=The image is damaged");
    await server.run(id, `i.update(${image(dot)}, raw=True)`);
    await tab.cell("c-1").locator("img").waitFor();

    await server.run(id, "import pandas as pd\nt = display(pd.DataFrame({'a': [2, 1], 'b': [3, 4], 'c': [6, 5]}), display_id=True)", "c-2.r00000001");
    const rows = () => tab.cell("c-2").locator("tbody").innerText();
    await tab.cell("c-2").locator("th button", { hasText: "c" }).click();
    await expect.poll(rows).toMatch(/5[^]*6/);
    await server.run(id, "t.update(pd.DataFrame({'a': [2, 1], 'b': [3, 4], 'c': [8, 7]}))");
    await expect.poll(rows).toMatch(/7[^]*8/);
    await server.run(id, "t.update(pd.DataFrame({'a': [2, 1]}))");
    await expect.poll(rows).toMatch(/2[^]*1/);
    expect(await page.locator("text=Original order").count()).toBe(0);
  });
});

describe("a question", () => {
  test("is empty after another one in its place was answered", async () => {
    const id = await server.session("Questions", ["from getpass import getpass\nfrom IPython.display import clear_output\np = getpass()\nclear_output()\nn = input('Name: ')\nprint(len(p), n)"]);
    tab = await Tab.open(server);
    const { page } = tab;
    await tab.show(id);
    await page.click(".topline >> text=Run all");
    await page.fill(".question input[type=password]", "a secret");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".question input[type=text]");
    expect(await page.inputValue(".question input")).toBe("");
    await page.fill(".question input", "Ada");
    await page.click(".question >> text=Answer");
    await tab.ran("c-1");
    expect(await tab.text("c-1")).toContain("8 Ada");
  });
});

describe("megabytes of JSON", () => {
  test("are shown in part, in their order, and saved and drawn whole", async () => {
    const id = await server.session("Excerpts", [
      "display({'application/json': [[i] for i in range(200_000)], 'text/plain': 'plain'}, raw=True)\nprint('after it')",
      "display({'application/vnd.vegalite.v5+json': {'data': {'values': [{'a': i % 2} for i in range(40_000)]}, 'mark': 'bar', 'encoding': {'x': {'field': 'a', 'type': 'nominal'}, 'y': {'aggregate': 'count'}}}, 'text/plain': 'plain'}, raw=True)",
    ]);
    tab = await Tab.open(server, { permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = tab;
    await tab.show(id);
    await page.click(".topline >> text=Run all");
    await tab.ran("c-2");
    await page.waitForSelector(".cell[data-id=c-1] >> text=and 199800 more");
    expect(await tab.text("c-1")).toMatch(/first values of this JSON[^]*after it/);
    await tab.cell("c-1").locator(".output").first().hover();
    const tool = (name: string) => tab.cell("c-1").locator(`.output-tools >> role=button[name='${name}']`).first().click();
    const [saved] = await Promise.all([page.waitForEvent("download"), tool("Save the output")]);
    const whole = await content(saved);
    expect((JSON.parse(whole.toString()) as unknown[]).length).toBe(200_000);
    await tool("Copy the output");
    await page.waitForSelector("text=Copied.");
    expect(await clipboard("text/plain")).toBe(whole.toString());
    await page.frameLocator(".cell[data-id=c-2] iframe").locator("svg .mark-rect path").nth(1).waitFor();
    await page.reload();
    await page.waitForSelector(".cell[data-id=c-1] >> text=and 199800 more");
    expect(await tab.text("c-1")).toMatch(/first values of this JSON[^]*after it/);
  });
});

describe("outputs beyond what the page holds", () => {
  test("are dropped from its memory, and shown again when they are asked for", async () => {
    const id = await server.session("Bound");
    // From a cell each, 48 MB of text in displays of four.
    for (const cell of ["a", "b", "c"]) {
      await server.run(id, `for i in range(12): display({'text/html': '<p>${cell} %d</p><!--' % i + 'x' * 4_000_000 + '-->', 'text/plain': 'plain'}, raw=True)`, cell);
    }
    tab = await Tab.open(server);
    await tab.show(id);
    await tab.cell("c").locator("iframe").first().waitFor();
    await tab.cell("a").locator("text=were unloaded to save memory").waitFor();
    expect(await tab.cell("a").locator("iframe").count()).toBe(0);
    expect(await tab.cell("b").locator("text=were unloaded").count()).toBe(0);
    await tab.cell("a").locator("text=Show them").click();
    await tab.cell("a").frameLocator("iframe >> nth=11").locator("text=a 11").waitFor();
    await tab.cell("b").locator("text=were unloaded to save memory").waitFor();
    expect(await tab.cell("c").locator("text=were unloaded").count()).toBe(0);
  });
});
