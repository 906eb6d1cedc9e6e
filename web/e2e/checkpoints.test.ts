// Checkpoints on the page: made, marked at their cells, compared with now, gone back to, and that undone.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Checkpoint } from "../src/proto/types";
import { closeBrowser, faults, picture, Server, Tab } from "./rig";

let server: Server;
let tab: Tab;
beforeAll(async () => { server = await Server.start("--checkpoints", "manual"); });
afterAll(async () => {
  await closeBrowser();
  await server.close();
});
afterEach(async () => {
  const complaints = tab.complaints.splice(0);
  await tab.close();
  expect(complaints).toEqual([]);
});

const sources = [
  "rows = [1, 2]\nopen('note.txt', 'w').write('first')\nrows",
  "rows.append(3)\nmore = 1\nopen('note.txt', 'w').write('second')\nopen('new.txt', 'w').write('')\nrows",
  "print(rows, 'more' in globals(), open('note.txt').read())",
];

async function run(cell: string): Promise<void> {
  await tab.cell(cell).locator("button.number").click();
  await tab.ran(cell);
}

const again = async (cell: string, shows: string): Promise<void> => {
  await tab.cell(cell).locator("button.number").click();
  await tab.cell(cell).locator(".outputs", { hasText: shows }).waitFor();
};

const drawer = () => tab.page.getByRole("complementary", { name: "Checkpoints" });
const dialog = () => tab.page.getByRole("dialog", { name: "Go back" });
const notice = () => tab.page.locator(".toast");
const undone = () => tab.page.locator(".cell.undone").evaluateAll((cells) => cells.map((cell) => (cell as HTMLElement).dataset["id"]));
const checkpoints = async (id: string) => (await server.call<{ items: Checkpoint[] }>("GET", `/v1/sessions/${id}/checkpoints`)).items;

// live tells whether this machine can keep variables; without that, checkpoints have files only.
async function live(name: string): Promise<boolean> {
  const id = await server.session(name);
  await server.run(id, "1");
  const made = await server.call<Checkpoint>("POST", `/v1/sessions/${id}/checkpoints`, {});
  if (made.level !== "live") console.log(`skipped: ${made.reason}`);
  return made.level === "live";
}

describe("a checkpoint", () => {
  test("is made, marked at its cell, gone back to, and that is undone; a reload changes nothing", async ({ skip }) => {
    if (!await live("Can it")) skip();
    const id = await server.session("Back", sources);
    tab = await Tab.open(server);
    await tab.show(id);
    const { page } = tab;
    await run("c-1");

    await page.getByRole("button", { name: "Checkpoints" }).click();
    await drawer().getByText("No checkpoints yet.").waitFor();
    await drawer().getByLabel("Name of the checkpoint (optional)").fill("two rows");
    await drawer().getByRole("button", { name: "Checkpoint", exact: true }).click();
    await drawer().locator("li", { hasText: "two rows" }).waitFor();
    expect(await drawer().locator("li .level").innerText()).toMatch(/^After run 1, variables and files, [\d.]+ MB$/);
    const mark = tab.cell("c-1").locator("button.point.live");
    expect(await mark.getAttribute("title")).toMatch(/^Checkpoint “two rows”, variables and files, /);
    expect(await tab.page.locator(".point").count()).toBe(1);

    await run("c-2");
    await run("c-3");
    expect(await tab.text("c-3")).toBe("[1, 2, 3] True second");
    await tab.cell("c-1").getByRole("button", { name: "Go back to here, after cell 1" }).click();
    await dialog().getByRole("heading", { name: "Go back to “two rows”?" }).waitFor();
    const changes = (of: string) => dialog().getByRole("region", { name: of, exact: true });
    await changes("variables").waitFor();
    expect((await changes("variables").innerText()).split("\n").filter((line) => line !== "−" && line !== "~")).toEqual(["2 variables", "more", "will be removed", "rows", "will be changed back"]);
    expect((await changes("files").innerText()).split("\n").filter((line) => line !== "−" && line !== "~")).toEqual(["2 files", "new.txt", "will be removed", "note.txt", "will be changed back"]);
    expect(await dialog().getByText("2 runs after it will be marked as undone").count()).toBe(1);
    expect(await faults(page)).toEqual([]);
    await picture(page, "checkpoint-dialog");
    await dialog().getByRole("radio", { name: "Files only" }).check();
    expect(await changes("variables").count()).toBe(0);
    await dialog().getByRole("radio", { name: "Variables and files" }).check();
    await dialog().getByRole("button", { name: "Go back" }).click();

    await notice().getByText("Went back: variables and files are as they were at “two rows”.").waitFor();
    await dialog().waitFor({ state: "detached" });
    expect(await undone()).toEqual(["c-2", "c-3"]);
    expect(await tab.cell("c-2").locator(".margin").innerText()).toContain("undone");
    expect(await tab.cell("c-2").getAttribute("aria-label")).toContain("undone");
    expect(await faults(page)).toEqual([]);
    await picture(page, "checkpoint-undone");
    await page.reload();
    await tab.page.waitForSelector("main[aria-busy=false] .cell");
    expect(await undone()).toEqual(["c-2", "c-3"]);
    await again("c-3", "[1, 2] False first");
    expect(await undone()).toEqual(["c-2"]);

    // The notice is gone with the reload: the undo point is in the drawer.
    await page.getByRole("button", { name: "Checkpoints" }).click();
    await drawer().getByRole("button", { name: "Go back… to the state before going back" }).click();
    await dialog().getByRole("heading", { name: "Undo going back?" }).waitFor();
    await dialog().getByRole("button", { name: "Go back" }).click();
    await notice().getByText("Went back: variables and files are as they were before going back.").waitFor();
    expect(await undone()).toEqual(["c-3"]);
    await notice().getByRole("button", { name: "Undo" }).click();
    await page.waitForSelector(".cell.undone[data-id=c-2]");
    expect(await undone()).toEqual(["c-2"]);
    await notice().getByRole("button", { name: "Undo" }).click();
    await page.waitForSelector(".cell.undone[data-id=c-3]");
    await again("c-3", "[1, 2, 3] True second");
    expect(await notice().count()).toBe(0); // it went when the cell was run
    expect(await undone()).toEqual([]);
  });

  test("follows each run of a session that asks for that", async ({ skip }) => {
    if (!await live("Can it")) skip();
    const id = await server.session("Auto", sources, { checkpoints: { mode: "auto" } });
    tab = await Tab.open(server);
    await tab.show(id);
    for (const cell of ["c-1", "c-2"]) {
      await run(cell);
      await tab.cell(cell).locator("button.point.live").waitFor();
    }
    await run("c-3");
    expect(await faults(tab.page)).toEqual([]);
    await picture(tab.page, "checkpoint-auto");
    await tab.cell("c-1").getByRole("button", { name: "Go back to here, after cell 1" }).click();
    await dialog().getByRole("heading", { name: "Go back to the state after run 1?" }).waitFor();
    await dialog().getByRole("button", { name: "Go back" }).click();
    await notice().getByText("Went back: variables and files are as they were after run 1.").waitFor();
    expect(await undone()).toEqual(["c-2", "c-3"]);
    await again("c-3", "[1, 2] False first");
  });

  test("of files alone brings back nothing else, and says why; it is deleted when that is meant", async () => {
    const id = await server.session("Files", sources);
    await server.run(id, sources[0] ?? "", "c-1.r00000000");
    await server.call("POST", `/v1/sessions/${id}/checkpoints`, { level: "files", name: "files" });
    tab = await Tab.open(server, { colorScheme: "dark" });
    await tab.show(id);
    const { page } = tab;
    await run("c-2");
    await page.locator(".cell[data-id=c-1] button.point.files").click();
    await dialog().getByText("Only the files can be restored: only files were asked for.").waitFor();
    expect(await dialog().getByRole("radio").count()).toBe(0);
    await dialog().getByRole("region", { name: "files", exact: true }).waitFor();
    expect(await dialog().getByRole("region", { name: "variables", exact: true }).count()).toBe(0);
    expect(await faults(page)).toEqual([]);
    await picture(page, "checkpoint-files-dark");
    await dialog().getByRole("button", { name: "Go back" }).click();
    await notice().getByText("Went back: the files are as they were at “files”.").waitFor();
    expect(await undone()).toEqual([]);
    await again("c-3", "[1, 2, 3] True first");

    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("k");
    await page.waitForFunction(() => document.activeElement?.matches(".drawer"));
    await drawer().locator("li", { hasText: "files" }).first().waitFor();
    expect(await faults(page)).toEqual([]);
    await picture(page, "checkpoint-drawer-dark");
    await drawer().getByRole("button", { name: "Delete “files”" }).click();
    await drawer().getByText("Delete “files”?").waitFor();
    await drawer().getByRole("button", { name: "Delete", exact: true }).click();
    await drawer().getByRole("button", { name: "Delete “files”" }).waitFor({ state: "detached" });
    expect((await checkpoints(id)).map(({ undo }) => undo)).toEqual([true]);
  });

  test("whose variables are on disk outlives the kernel; what did not come back is said; files that people changed can stay", async () => {
    const id = await server.session("Disk", sources);
    await server.run(id, `${sources[0]}\nlazy = (i for i in rows)`, "c-1.r00000000");
    await server.call("POST", `/v1/sessions/${id}/checkpoints`, { level: "saved", name: "disk" });
    await server.run(id, "open('made by a cell', 'w').write('')");
    await server.call("POST", `/v1/sessions/${id}/reset`, {});
    await server.call("PUT", `/v1/sessions/${id}/files/note.txt`, "mine");
    tab = await Tab.open(server);
    await tab.show(id);
    const { page } = tab;
    await tab.cell("c-1").locator("button.point.saved").click();
    await dialog().getByText(/^Made .* Has saved variables and files, /).waitFor();
    await dialog().getByText("Python restarts and loads the saved variables.").waitFor();
    await dialog().getByLabel("Keep files that only people or tools have changed").check();
    expect(await faults(page)).toEqual([]);
    await picture(page, "checkpoint-saved");
    await dialog().getByRole("button", { name: "Go back" }).click();
    await notice().getByText(/^Went back: variables and files are as they were at “disk”. Not restored: lazy \(/).waitFor();
    await again("c-3", "[1, 2] False \"mine\"");
    await page.getByRole("button", { name: "Checkpoints" }).click();
    await drawer().getByText("After run 1, saved variables and files").waitFor();

    // Asleep, it says what is missing when it wakes.
    await server.run(id, "later = (i for i in rows)");
    await server.call("POST", `/v1/sessions/${id}/hibernate`, {});
    await again("c-3", "[1, 2] False \"mine\"");
    await notice().getByText(/^Python is awake again. Not restored: later \(generator: /).waitFor();
  });

  test("waits while a cell runs", async () => {
    const id = await server.session("Busy", ["input('go on? ')"]);
    await server.call("POST", `/v1/sessions/${id}/checkpoints`, { name: "start" });
    tab = await Tab.open(server);
    await tab.show(id);
    await tab.page.getByRole("button", { name: "Checkpoints" }).click();
    await drawer().getByRole("button", { name: "Go back… to “start”" }).waitFor();
    await tab.cell("c-1").locator("button.number").click();
    await tab.page.waitForSelector(".cell[data-id=c-1] .question input");
    expect(await drawer().getByRole("button", { name: "Checkpoint", exact: true }).isDisabled()).toBe(true);
    await drawer().getByRole("button", { name: "Go back… to “start”" }).click();
    await dialog().getByText("Cells are running. You can go back when they have ended.").waitFor();
    expect(await dialog().getByRole("button", { name: "Go back" }).isDisabled()).toBe(true);
    await server.call("POST", `/v1/sessions/${id}/interrupt`, {});
    await dialog().getByText("You can undo this.").waitFor();
    expect(await dialog().getByRole("button", { name: "Go back" }).isEnabled()).toBe(true);
  });
});

test("who may only read sees marks and what is undone, and can do nothing", async ({ skip }) => {
  if (!await live("Can it")) skip();
  const id = await server.session("Shared", sources);
  await server.run(id, sources[0] ?? "", "c-1.r00000000");
  const point = await server.call<Checkpoint>("POST", `/v1/sessions/${id}/checkpoints`, { name: "two rows" });
  await server.run(id, sources[1] ?? "", "c-2.r00000000");
  const { url } = await server.call<{ url: string }>("POST", `/v1/sessions/${id}/shares`, {});
  tab = await Tab.open(server, { signedIn: false });
  const { page } = tab;
  await page.goto(new URL(url, server.url).href);
  await page.waitForSelector(".cell[data-id=c-1] span.point.live");
  await server.call("POST", `/v1/sessions/${id}/rollback`, { checkpoint_id: point.id });
  await notice().getByText("Went back: variables and files are as they were at “two rows”.").waitFor();
  expect(await undone()).toEqual(["c-2"]);
  expect(await notice().getByRole("button").count()).toBe(0);
  expect(await page.getByRole("button", { name: /checkpoint|go back/i }).count()).toBe(0);
  expect(await faults(page)).toEqual([]);
});
