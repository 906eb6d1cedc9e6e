// A page that opens a session of many runs gets what it shows, and older runs when it is asked for them.

import { afterAll, beforeAll, expect, test } from "vitest";
import type { Session } from "../src/proto/types";
import { closeBrowser, picture, Server, Tab } from "./rig";

let server: Server;
beforeAll(async () => { server = await Server.start(); });
afterAll(async () => {
  await closeBrowser();
  await server.close();
});

// opened is a tab on a session, with the bytes that its sockets have brought.
async function opened(session: string): Promise<{ tab: Tab; bytes(): number }> {
  const tab = await Tab.open(server);
  let bytes = 0;
  tab.page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => (bytes += payload.length)));
  await tab.show(session);
  return { tab, bytes: () => bytes };
}

test("the page gets the last run of each cell, and the others when they are asked for", async () => {
  const id = await server.session("Runs", ["# Text", "1"]);
  for (let i = 0; i < 20; i++) await server.run(id, `print("run ${i} " + "x" * 300_000)\nfrom pathlib import Path`, `c-2.raaaaaa${String(i).padStart(2, "0")}`);
  await server.run(id, "print('by another')", "other");
  const { tab, bytes } = await opened(id);
  const { page } = tab;
  await tab.ran("c-2");
  expect(await tab.cell("c-2").locator(".outputs").textContent()).toContain("run 19 xxx");
  expect(await tab.text("other")).toBe("by another");
  expect(bytes()).toBeLessThan(1_000_000);
  await page.click("role=button[name=Timeline]");
  await page.locator(".timeline .entry").nth(5).click();
  await page.waitForSelector(".timeline >> text=These outputs are not loaded.");
  await picture(page, "view-timeline");
  await page.click("role=button[name='Load them']");
  await page.click("role=button[name='Output of this run']");
  await page.waitForSelector(".timeline .past >> text=run 15 xxx");
  expect(bytes()).toBeLessThan(1_000_000);
  await page.locator(".cell[data-id=c-2]").click({ position: { x: 5, y: 5 } });
  expect(tab.complaints).toEqual([]);
  await tab.close();
});

test("a session whose log has lost its beginning is shown", async () => {
  const id = await server.session("Old", ["1"], { limits: { log_bytes: 1 << 20 } });
  for (let i = 0; i < 8; i++) await server.run(id, `print("run ${i} " + "x" * 300_000)`, `c-1.raaaaaaa${i}`);
  expect((await server.call<Session>("GET", `/v1/sessions/${id}`)).first_seq).toBeGreaterThan(1);
  const { tab } = await opened(id);
  await tab.ran("c-1");
  expect(await tab.cell("c-1").locator(".outputs").textContent()).toContain("run 7 xxx");
  await tab.close();
});
