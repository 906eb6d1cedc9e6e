// Questions that need approval: in sight, answered with the mouse and with the keyboard, here and elsewhere.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { ApprovalRecord, Page } from "../src/proto/types";
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

const question = (of: Tab = tab) => of.page.getByRole("region", { name: "Approvals" }).getByRole("group", { name: /^(Run this cell|Allow this tool call)\?/ });
const press = (name: string) => question().getByRole("button", { name, exact: true }).click();

// open shows a session that asks for each cell.
async function open(name: string, sources: string[]): Promise<string> {
  const id = await server.session(name, sources, { approvals: "all" });
  tab = await Tab.open(server);
  await tab.show(id);
  return id;
}

const run = (cell: string) => tab.cell(cell).locator("button.number").click();
const outcome = (cell: string) => tab.cell(cell).locator(".body > .asked .outcome").innerText();

describe("a cell that needs approval", () => {
  test("is asked for in words, with its code and the time that is left, and runs when it is allowed once", async () => {
    const id = await open("Once", ["print('one')\n# the second line", "print('two')"]);
    await run("c-1");
    await question().waitFor();
    expect(await question().locator("pre").innerText()).toContain("# the second line");
    expect(await question().getByRole("timer").innerText()).toMatch(/^0[45]:\d\d$/);
    expect((await question().getByRole("heading").innerText()).trim()).toBe("Run this cell?");
    await tab.page.waitForFunction(() => document.activeElement?.matches(".approval"));
    expect(await tab.page.locator(".hidden[aria-live=polite]").innerText()).toMatch(/^Run this cell\?\s*$/);
    expect(await tab.page.title()).toBe("✋ Once: approval needed");
    expect(await tab.cell("c-1").getAttribute("aria-label")).toContain("Waiting for approval.");
    expect(await faults(tab.page)).toEqual([]);
    await picture(tab.page, "approval");
    await press("Allow once");
    await tab.ran("c-1");
    expect(await tab.text("c-1")).toBe("one");
    expect(await outcome("c-1")).toMatch(/^allowed once/);
    expect(await question().count()).toBe(0);
    expect(await tab.page.title()).toBe("Once");

    // Once is once; and the audit has it.
    await run("c-2");
    await question().waitFor();
    await tab.page.getByRole("button", { name: "Tool calls" }).click();
    const drawer = tab.page.getByRole("complementary", { name: "Tool calls" });
    await drawer.getByText("allowed once").waitFor();
    await press("Deny");
    await drawer.getByText("denied by").waitFor();
    const { items } = await server.call<Page<ApprovalRecord>>("GET", `/v1/sessions/${id}/approvals`);
    expect(items.map(({ decision }) => decision)).toEqual(["deny", "once"]);
    await picture(tab.page, "approval-audit");
  });

  test("is answered with the keyboard alone, and the keyboard goes back to the cells", async () => {
    await open("Keyboard", ["print('no')"]);
    const { page } = tab;
    const focused = () => page.waitForFunction(() => document.activeElement?.matches(".approval"));
    await page.keyboard.press("Control+Enter");
    await focused(); // nobody is typing
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.activeElement?.matches(".cell"));
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    await focused();
    for (let i = 0; i < 4; i++) await page.keyboard.press("Tab"); // the code, then the buttons
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Deny");
    await page.keyboard.press("Enter");
    await tab.ran("c-1", "cancelled");
    expect(await tab.cell("c-1").locator(".state").innerText()).toBe("Never started: it was not approved.");
    expect(await outcome("c-1")).toMatch(/^denied/);
    await page.waitForFunction(() => document.activeElement?.matches(".cell"));
  });

  test("does not take the caret from somebody who types", async () => {
    const id = await open("Typing", ["1"]);
    const { page } = tab;
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement?.closest(".cm-editor"));
    const ran = server.run(id, "print('other')", "other");
    await question().waitFor();
    await page.keyboard.type("23");
    expect(await tab.cell("c-1").locator(".cm-content").innerText()).toBe("231");
    await press("Deny");
    expect((await ran).status).toBe("cancelled");
  });

  test("is not asked for again in a session for which it was allowed", async () => {
    await open("Session", ["print('one')", "print('two')"]);
    await run("c-1");
    await press("Allow for this session");
    await tab.ran("c-1");
    await run("c-2");
    await tab.ran("c-2");
    expect(await tab.page.locator(".approval").count()).toBe(0);
  });
});

describe("a question that ends elsewhere", () => {
  test("is answered by another client, and says by whom and why", async () => {
    const id = await open("Elsewhere", ["print('one')"]);
    const reader = await Tab.open(server, { signedIn: false });
    const { url } = await server.call<{ url: string }>("POST", `/v1/sessions/${id}/shares`, {});
    await reader.page.goto(new URL(url, server.url).href);
    await run("c-1");
    await question().waitFor();
    await question(reader).waitFor();
    expect(await question(reader).getByRole("button", { name: /Allow|Deny/ }).count()).toBe(0);
    const { items } = await server.call<Page<ApprovalRecord>>("GET", `/v1/sessions/${id}/approvals?state=pending`);
    await server.call("POST", `/v1/sessions/${id}/approvals/${items[0]?.approval_id}`, { decision: "deny", reason: "not on a Friday" });
    await tab.page.locator(".toast", { hasText: /^The cell was denied by .*not on a Friday/ }).waitFor();
    expect(await question().count()).toBe(0);
    await tab.page.waitForFunction(() => document.activeElement?.matches(".cell"));
    await question(reader).waitFor({ state: "detached" });
    expect(reader.complaints).toEqual([]);
    await reader.close();
  });

  test("is withdrawn when the cell is interrupted", async () => {
    const id = await open("Withdrawn", ["print('one')"]);
    await run("c-1");
    await question().waitFor();
    await server.call("POST", `/v1/sessions/${id}/interrupt`, {});
    await question().waitFor({ state: "detached" });
    await tab.page.locator(".toast", { hasText: "The approval request was withdrawn." }).waitFor();
  });

  test("shows that nobody was there to answer", async () => {
    const id = await server.session("Alone", [], { approvals: "all" });
    await server.run(id, "print('one')", "alone");
    tab = await Tab.open(server);
    await tab.show(id);
    await tab.ran("alone", "cancelled");
    expect(await outcome("alone")).toBe("denied: no client that can decide is attached");
    expect(await question().count()).toBe(0);
  });
});

test("a tool that requires approval asks in the middle of its cell, and a phone has room for the question", async () => {
  const id = await server.session("Tool");
  tab = await Tab.open(server, { viewport: { width: 360, height: 740 }, hasTouch: true });
  await tab.show(id);
  const running = server.call("POST", `/v1/sessions/${id}/executions`, {
    id: "mail", code: "import hermes_tools\ntry:\n    hermes_tools.send_mail(to='ann', text='x ' * 2000)\nexcept hermes_tools.ApprovalDenied as err:\n    print('denied')",
    tools: [{ name: "send_mail", requires_approval: true }],
  });
  await question().waitFor();
  await picture(tab.page, "approval-phone");
  expect(await tab.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  for (const name of ["Allow once", "Allow for this session", "Deny"]) {
    const box = await question().getByRole("button", { name, exact: true }).boundingBox();
    expect(box && box.x >= 0 && box.x + box.width <= 360 && box.y + box.height <= 740, name).toBe(true);
  }
  expect(await faults(tab.page)).toEqual([]);
  await press("Deny");
  await running;
  await tab.ran("mail");
  expect(await tab.text("mail")).toBe("denied");
});
