// Tool calls on the page: in the cell as they happen, and in the audit.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Execution } from "../src/proto/types";
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

type Pending = Execution & { text: string; pending_tool_calls?: { call_id: string; tool: string; arguments: unknown }[] };

// Cell is a cell that runs with a tool of the test's own; what it calls is answered one by one.
class Cell {
  private constructor(private readonly session: string, public execution: Pending) {}

  static async run(session: string, id: string, code: string): Promise<Cell> {
    const tools = [{ name: "lookup", description: "A price.", parameters: { type: "object" } }];
    return new Cell(session, await server.call<Pending>("POST", `/v1/sessions/${session}/executions`, { id, code, tools }));
  }

  async answer(outcome: { result: unknown } | { error: { code: string; message: string } }): Promise<void> {
    const [call] = this.execution.pending_tool_calls ?? [];
    if (!call) throw new Error(`no call waits: ${JSON.stringify(this.execution)}`);
    this.execution = await server.call<Pending>("POST", `/v1/sessions/${this.session}/executions/${this.execution.id}/tool_results`,
      { results: [{ call_id: call.call_id, ...outcome }] });
  }
}

describe("tool calls", () => {
  test("are in their cell while they run, and how they ended", async () => {
    const id = await server.session("Tools");
    tab = await Tab.open(server);
    await tab.show(id);
    const cell = await Cell.run(id, "prices", `
import hermes_tools
from hermes_tools import lookup
print(lookup(city="oslo", limit=5))
try:
    lookup(city="atlantis", deep={"a": [1, 2]})
except hermes_tools.ToolError as err:
    print(err.code)
`);
    const calls = tab.cell("prices").locator(".call");
    await tab.page.waitForSelector(".call.running");
    expect(await calls.locator("code").innerText()).toBe('lookup(city="oslo", limit=5)');
    expect(await calls.locator(".outcome").innerText()).toMatch(/^running 00:0\d$/);
    expect(await tab.page.getByRole("region", { name: "Tool calls, 1" }).count()).toBe(1);

    await cell.answer({ result: 12 });
    await tab.page.waitForSelector(".call.ok");
    expect(await calls.first().locator(".outcome").innerText()).toMatch(/^ok, /);
    await tab.page.waitForSelector(".call.running");
    await picture(tab.page, "tool-calls-running");
    await cell.answer({ error: { code: "not_found", message: "There is no such city." } });
    await tab.ran("prices");
    expect(await tab.text("prices")).toBe("12\nnot_found");

    // It opens with the keyboard, to its arguments and its error.
    const failed = tab.cell("prices").locator(".call.error");
    await failed.locator("summary").focus();
    await tab.page.keyboard.press("Enter");
    await failed.locator(".why").waitFor();
    expect(await failed.locator(".why").innerText()).toBe("not_found: There is no such city.");
    expect(await failed.locator(".details").innerText()).toContain("atlantis");
    expect(await tab.page.getByRole("region", { name: "Tool calls, 2, 1 failed" }).count()).toBe(1);
    expect(await faults(tab.page)).toEqual([]);
    await picture(tab.page, "tool-calls");

    await tab.page.reload();
    await tab.ran("prices");
    expect(await calls.count()).toBe(2);
  });

  test("are few in a cell that makes many, and all on request", async () => {
    const id = await server.session("Many", [], { limits: { tool_calls: 1000 } });
    await server.run(id, `from hermes_tools import write_file\nfor i in range(150): write_file(path=f"{i}.txt", content="x" * 900_000 if i == 149 else "x")`, "many");
    tab = await Tab.open(server);
    await tab.show(id);
    await tab.ran("many");
    const calls = tab.cell("many").locator(".call");
    expect(await calls.count()).toBe(5);
    expect(await calls.last().locator("code").innerText()).toContain('path="149.txt"');
    await tab.page.click("text=Show the latest 100 of 150 tool calls");
    expect(await calls.count()).toBe(100);
    await calls.last().locator("summary").click();
    expect((await calls.last().locator(".details").innerText()).length).toBeLessThan(5000);
  });

  test("that nobody answered say so", async () => {
    const id = await server.session("Interrupted");
    tab = await Tab.open(server);
    await tab.show(id);
    await Cell.run(id, "waits", "from hermes_tools import lookup\nlookup()");
    await tab.page.waitForSelector(".call.running");
    await server.call("POST", `/v1/sessions/${id}/interrupt`, {});
    await tab.ran("waits", "interrupted");
    await tab.page.waitForSelector(".call.error, .call.lost");
    expect(await tab.page.locator(".call.running").count()).toBe(0);
  });
});

describe("the audit of tool calls", () => {
  test("lists them, newest first, as they happen, and leads to their cells", async () => {
    const id = await server.session("Audit", ["1 + 1"]);
    tab = await Tab.open(server);
    await tab.show(id);
    await tab.page.keyboard.press("g");
    await tab.page.keyboard.press("o");
    const drawer = tab.page.getByRole("complementary", { name: "Tool calls" });
    await drawer.getByText("No cell has called a tool yet.").waitFor();
    const cell = await Cell.run(id, "one", "from hermes_tools import lookup\nlookup(city='oslo')\nlookup(city='lund')");
    await drawer.locator(".call.running").waitFor();
    await cell.answer({ result: 1 });
    await drawer.locator(".call.ok").waitFor();
    await cell.answer({ error: { code: "broken", message: "It broke." } });
    await drawer.locator(".call.error").waitFor();
    expect(await drawer.locator(".call code").allInnerTexts()).toEqual(['lookup(city="lund")', 'lookup(city="oslo")']);
    await drawer.locator(".call.error summary").click();
    await drawer.getByText("It broke.").waitFor();
    expect(await faults(tab.page)).toEqual([]);
    await picture(tab.page, "tool-audit");
    await drawer.getByRole("button", { name: "Cell 2" }).first().click();
    await tab.page.waitForSelector(".cell[data-id=one].selected");

    // A page of the list at a time.
    await server.run(id, "from hermes_tools import write_file\nfor i in range(50): write_file(path='a', content=str(i))");
    await drawer.getByText('content="49"').waitFor();
    expect(await drawer.locator(".call").count()).toBe(50);
    await drawer.getByText("Earlier calls").click();
    await drawer.getByText('lookup(city="oslo")').waitFor();
    expect(await drawer.locator(".call").count()).toBe(52);
  });
});
