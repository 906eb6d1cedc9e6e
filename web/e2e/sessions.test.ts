// The list of sessions when there are many.

import { afterAll, beforeAll, expect, test } from "vitest";
import { closeBrowser, picture, Server, Tab } from "./rig";

let server: Server;
beforeAll(async () => { server = await Server.start(); });
afterAll(async () => {
  await closeBrowser();
  await server.close();
});

test("sessions come by pages and are found by name", async () => {
  for (let i = 1; i <= 53; i++) await server.session(`Notebook ${i}`);
  const tab = await Tab.open(server);
  const { page } = tab;
  const sizes: number[] = [];
  page.on("response", async (answer) => {
    if (new URL(answer.url()).pathname === "/v1/sessions") sizes.push(((await answer.json()) as { items: unknown[] }).items.length);
  });
  const names = () => page.locator("table.sessions tbody th a").allInnerTexts();
  const first = (name: string) => page.waitForSelector(`tbody tr:first-child a >> text="${name}"`);
  await page.reload();
  await first("Notebook 53");
  expect((await names()).length).toBe(50);
  await page.click("role=button[name=Older]");
  await first("Notebook 3");
  expect(await names()).toEqual(["Notebook 3", "Notebook 2", "Notebook 1"]);
  expect(await page.isDisabled("role=button[name=Older]")).toBe(true);
  await picture(page, "sessions-page");
  await page.fill("#find-session", "notebook 17");
  await first("Notebook 17");
  expect(await names()).toEqual(["Notebook 17"]);
  await picture(page, "sessions-found");
  await page.fill("#find-session", "none of them");
  await page.waitForSelector("text=No session matches this name.");
  await page.fill("#find-session", "");
  await first("Notebook 53");
  await page.click("role=button[name=Older]");
  await first("Notebook 3");
  await page.click("role=button[name=Newer]");
  await first("Notebook 53");
  expect(Math.max(...sizes)).toBeLessThanOrEqual(50);
  expect(tab.complaints).toEqual([]);
  await tab.close();
});

test("times follow the server where the browser's clock is wrong", async () => {
  await server.session("Just now");
  const tab = await Tab.open(server);
  const { page } = tab;
  await tab.context.addInitScript(() => {
    const right = Date.now;
    Date.now = () => right() + 7 * 3_600_000;
  });
  await page.reload();
  const row = page.locator("tbody tr", { has: page.locator('a >> text="Just now"') });
  await row.locator("td.time").first().filter({ hasText: /^(just now|\d+ s ago)$/ }).waitFor();
  await tab.close();
});

test("signing out ends the login", async () => {
  const tab = await Tab.open(server);
  const { page } = tab;
  const status = () => page.evaluate(async () => (await fetch("/v1/sessions")).status);
  expect(await status()).toBe(200);
  const cookies = await tab.context.cookies();
  await page.click("role=button[name='Sign out']");
  await page.waitForSelector("#token");
  await tab.context.addCookies(cookies); // somebody has kept them
  expect(await status()).toBe(401);
  await tab.close();
});
