import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Document } from "../src/proto/types";
import { closeBrowser, patience, Server, Tab } from "./rig";

let server: Server;
const tabs: Tab[] = [];
const open = async (...args: Parameters<typeof Tab.open> extends [Server, ...infer R] ? R : never): Promise<Tab> => {
  const tab = await Tab.open(server, ...args);
  tabs.push(tab);
  return tab;
};
beforeAll(async () => { server = await Server.start("--interrupt-grace", "10s"); });
afterAll(async () => {
  await closeBrowser();
  await server.close();
});
afterEach(async () => {
  const complaints = tabs.flatMap((tab) => tab.complaints);
  for (const tab of tabs.splice(0)) await tab.close();
  // A server that is away, or a tab that is offline, is what some of these tests are about; the browser itself tells of each try.
  expect(complaints.filter((c) => !/ERR_CONNECTION_(REFUSED|RESET)|ERR_INTERNET_DISCONNECTED|WebSocket connection to .* failed/.test(c))).toEqual([]);
});

const counting = "import time\nfor i in range(60):\n    print('line', i, flush=True)\n    time.sleep(0.05)";
const counted = Array.from({ length: 60 }, (_, i) => `line ${i}`).join("\n");

describe("nothing is lost", () => {
  test("by a reload while a cell runs, nor in a second tab", async () => {
    const id = await server.session("Reload", [counting]);
    const tab = await open();
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await tab.page.waitForSelector("text=line 50");
    const box = tab.cell("c-1").locator(".scroll.tall"); // long output follows its end while the cell runs
    await tab.page.waitForFunction((e) => e && e.scrollHeight > e.clientHeight && e.scrollHeight - e.scrollTop - e.clientHeight < 60, await box.elementHandle());
    const other = await tab.another();
    tabs.push(other);
    await other.show(id);
    await tab.page.reload();
    await Promise.all([tab.ran("c-1"), other.ran("c-1")]);
    await expect.poll(() => tab.text("c-1"), { timeout: patience }).toBe(counted); // outputs are drawn one after the other
    await expect.poll(() => other.text("c-1"), { timeout: patience }).toBe(counted); // outputs are drawn one after the other
  });

  test("by a server that is killed and started again while a cell runs", async () => {
    const id = await server.session("Killed", [counting, "x = 1"]);
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await page.waitForSelector("text=line 5");
    await server.end("SIGKILL");
    await page.waitForSelector("text=Reconnecting, nothing is lost");
    await tab.type("c-2", "x = 2 # typed while the server was away");
    await server.launch();
    await page.waitForSelector("text=/Reconnected/");
    await tab.ran("c-1");
    await expect.poll(() => tab.text("c-1"), { timeout: patience }).toBe(counted); // outputs are drawn one after the other
    await page.keyboard.press("Shift+Enter");
    await tab.ran("c-2");
    const doc = await server.call<Document>("GET", `/v1/sessions/${id}/document`);
    expect(doc.cells[1]?.source).toBe("x = 2 # typed while the server was away");
  });

  test("of what was typed before a tab closed while the server was away", async () => {
    const id = await server.session("Draft", ["a = 1"]);
    const tab = await open();
    await tab.show(id);
    await server.end("SIGKILL");
    await tab.page.waitForSelector("text=Reconnecting, nothing is lost");
    await tab.type("c-1", "a = 'typed in vain?'");
    const other = await tab.another();
    tabs.push(other);
    await tab.page.waitForFunction(() => Object.values(localStorage).some((v) => String(v).includes("typed in vain?")));
    await tab.page.close();
    await server.launch();
    await other.show(id);
    await other.page.waitForFunction(() => document.querySelector(".cell[data-id=c-1]")?.textContent?.includes("typed in vain?"));
    await other.page.waitForFunction(() => !Object.keys(localStorage).some((k) => k.startsWith("talaria.draft.")));
    expect((await server.call<Document>("GET", `/v1/sessions/${id}/document`)).cells[0]?.source).toBe("a = 'typed in vain?'");
  });

  test("of a cell that is run while the server is away, when the page shows the list of sessions before it is back", async () => {
    const id = await server.session("Left", ["print('ran')"]);
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await server.end("SIGKILL");
    await page.waitForSelector("text=Reconnecting, nothing is lost");
    await tab.cell("c-1").locator("button.number").click();
    await tab.cell("c-1").locator("text=Runs when the server is back.").waitFor();
    await page.click(".rail .mark");
    await page.waitForSelector(".cell", { state: "detached" });
    await server.launch();
    await expect.poll(async () => (await server.call<{ items: unknown[] }>("GET", `/v1/sessions/${id}/executions`)).items.length, { timeout: patience }).toBe(1);
  });

  test("of what two tabs write into one notebook", async () => {
    const id = await server.session("Two", ["a = 1", "b = 2", "c = 3"]);
    const one = await open();
    await one.show(id);
    const two = await one.another();
    tabs.push(two);
    await two.show(id);
    await one.type("c-1", "a = 'one'");
    await two.page.waitForFunction(() => document.querySelector(".cell[data-id=c-1]")?.textContent?.includes("'one'"));
    await two.type("c-3", "c = 'two'");
    await one.page.waitForFunction(() => document.querySelector(".cell[data-id=c-3]")?.textContent?.includes("'two'"));

    // Both change one cell before either hears of the other.
    await one.context.setOffline(true);
    await one.type("c-2", "b = 'by one'");
    await two.type("c-2", "b = 'by two'");
    await one.context.setOffline(false);
    const both = () => {
      const text = [...document.querySelectorAll(".cell")].map((cell) => cell.textContent).join("\n");
      return text.includes("'by one'") && text.includes("'by two'");
    };
    await one.page.waitForFunction(both);
    await two.page.waitForFunction(both);
    await two.page.click(".cell[data-id=c-1] .tools >> role=button[name='Delete cell 1']", { force: true });
    await one.cell("c-1").waitFor({ state: "detached" });
    await two.page.keyboard.press("z");
    await one.cell("c-1").waitFor();
  });

  test("when a chat runs cells beside the page, and a phone looks on", async () => {
    const id = await server.session("Chat", ["a = 1"]);
    const tab = await open();
    await tab.show(id);
    const phone = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    await phone.show(id);
    await server.run(id, "print('from a chat')", "chat-1");
    await tab.ran("chat-1");
    await phone.ran("chat-1");
    expect(await phone.text("chat-1")).toBe("from a chat");
  });
});

describe("honest states", () => {
  test("a limit, a death, a timeout and a queue say what happened", async () => {
    const id = await server.session("States", [
      "x = 1\nb = bytearray(10**9)", "import os\nos._exit(7)", "import time\ntime.sleep(60)", "1/0", "2",
    ], { limits: { memory_bytes: 256 << 20, execution_timeout_s: 2 } });
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await tab.ran("c-1", "error");
    expect(await tab.text("c-1")).toMatch(/memory limit \(256 MB/);
    await tab.cell("c-2").locator("button.number").click();
    await tab.ran("c-2", "died");
    await tab.cell("c-2").locator("text=Python exited: it ended itself or crashed (code 7). Variables are lost; files are kept.").waitFor();
    await tab.cell("c-3").locator("button.number").click();
    await tab.ran("c-3", "timeout");
    await tab.cell("c-3").locator("text=Timed out. Variables are kept.").waitFor();
    await tab.cell("c-1").and(page.locator(".stale")).waitFor();

    await tab.type("c-3", "input('Go on? ')");
    await tab.cell("c-3").locator("button.number").click();
    await page.waitForSelector(".question input");
    for (const cell of ["c-4", "c-5"]) await tab.cell(cell).locator("button.number").click();
    await tab.cell("c-5").locator("text=Waiting for 2 cells.").waitFor();
    await page.click(".topline >> text=Stop");
    await tab.ran("c-5", "cancelled");
    await tab.cell("c-5").locator("text=Never started: the queue was stopped.").waitFor();
    await page.click(".rail >> role=button[name='About this session']");
    await page.waitForSelector(".drawer >> text=none: Python cannot reach anything");
  });

  test("from starting to gone, the top line says in words what Python does", async () => {
    const id = await server.session("Words", ["import time\nprint('on')\ntime.sleep(600)", "input('Who? ')", "x = [1, 2, 3]\ny = 2"], { isolation: "strict", idle_timeout_s: 600 });
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await page.evaluate(() => {
      const said: string[] = [];
      Object.assign(globalThis, { said });
      const word = document.querySelector(".kernel-state .word");
      if (word) new MutationObserver(() => said.push(word.textContent ?? "")).observe(word, { characterData: true, subtree: true, childList: true });
    });
    // It imports all that it has, and takes its time. A page that is starved meanwhile may see no more than its end, so there are more tries.
    let starting = false;
    for (let tries = 0; tries < 5 && !starting; tries++) {
      await page.evaluate("said.length = 0");
      await page.click("text=Restart…");
      await page.click("dialog >> role=button[name='Restart']");
      await page.waitForSelector("text=Python restarted. Variables");
      await page.waitForFunction("said.includes('Starting Python') || said.at(-1) === 'Idle'");
      await page.waitForSelector(".kernel-state >> text=/^Idle$/");
      starting = await page.evaluate("said.includes('Starting Python')");
    }
    expect(starting).toBe(true);
    await tab.cell("c-3").locator("button.number").click();
    await tab.ran("c-3");
    await tab.cell("c-1").locator("button.number").click();
    await page.waitForSelector(".kernel-state.running >> text=/^Running cell 2, (?!00:00)\\d\\d:\\d\\d$/"); // it ticks
    await tab.cell("c-1").locator(".note.run >> text=/^(?!00:00)\\d\\d:\\d\\d$/").waitFor();
    await tab.cell("c-2").locator("button.number").click();
    await page.waitForSelector(".kernel-state >> text=/, 1 queued$/");

    // What a reset would lose, before it happens.
    await page.click("text=Restart…");
    await page.waitForSelector("dialog >> text=/This discards 2 variables, [\\d.]+ MB of memory and 2 running or waiting cells\\./");
    await page.click("dialog >> text=Keep the files");
    await page.waitForSelector("dialog >> text=and all files in the workspace.");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await server.call("POST", `/v1/sessions/${id}/interrupt`, { execution_id: await page.evaluate(async (session) => {
      const answer = await fetch(`/v1/sessions/${session}/executions?limit=2`);
      return ((await answer.json()) as { items: { id: string; status: string }[] }).items.find((e) => e.status === "running")?.id;
    }, id) });
    await page.waitForSelector(".kernel-state.waiting >> text=Waiting for your input");
    await page.fill(".question input", "Ada");
    await page.keyboard.press("Enter");
    await tab.ran("c-2");
  });

  test("a kernel that memory ended says which limit, how much, and what is left", async () => {
    const id = await server.session("Memory", ["import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"],
      { limits: { memory_bytes: 256 << 20 } });
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await tab.ran("c-1", "died");
    await tab.cell("c-1").locator("text=/Python exited: it used all of its memory \\(256 MB; 2\\d\\d MB used\\)\\. Variables are lost; files are kept\\./").waitFor();
    await page.waitForSelector(".kernel-state.bad >> text=Python exited: it used all of its memory; the next cell restarts it");
    await page.click(".rail >> role=button[name='Timeline']");
    await page.waitForSelector(".kernel-note.died >> text=/the memory limit \\(256 MB/");
  });

  test("a kernel that was reaped says so, and the next cell starts another", async () => {
    const id = await server.session("Reaped", ["x = 1"], { idle_timeout_s: 2, on_idle: "drop" });
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await page.waitForSelector(".kernel-state >> text=Python stopped after being idle; files are kept, and the next cell restarts it");
    await tab.cell("c-1").locator("button.number").click();
    await page.waitForSelector("text=Python restarted. Variables are gone");
  });

  test("what isolates a session and what it may reach is said, and so is what was refused", async () => {
    const tries = "import socket\nfor place in [('192.0.2.1', 80)]:\n    try: socket.create_connection(place, 5)\n    except OSError as e: print(type(e).__name__)";
    const tab = await open();
    const { page } = tab;
    const about = async () => {
      await page.click(".meters .network");
      return page.locator(".drawer");
    };
    await tab.show(await server.session("None", [tries]));
    expect(await page.innerText(".meters .network")).toBe("no network");
    await (await about()).locator("text=none: Python cannot reach anything, not even this machine").waitFor();
    await page.waitForSelector(".drawer >> text=/a sandbox with its own file system|rules on files and system calls/");
    await page.locator(".drawer li").nth(3).waitFor(); // layers
    await tab.show(await server.session("List", [tries], { network: { mode: "allow", allow: ["example.com:443", "*.example.org"] } }));
    expect(await page.innerText(".meters .network")).toBe("network: 2 hosts");
    await (await about()).locator("li >> text=*.example.org").waitFor();
    await tab.cell("c-1").locator("button.number").click();
    await tab.cell("c-1").locator("text=connection to 192.0.2.1:80 refused: not in this session's network.allow").waitFor();
    await tab.show(await server.session("Full", ["1"], { network: { mode: "full" } }));
    expect(await page.innerText(".meters .network")).toBe("full network");
    await (await about()).locator("text=full: the public internet, no private networks").waitFor();
  });

  test("an idle kernel says when it ends, and can be kept", async () => {
    const id = await server.session("Idle", ["1"], { idle_timeout_s: 60 });
    const tab = await open();
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await tab.ran("c-1");
    const left = async (seconds: string) => {
      const words = await tab.page.waitForSelector(`text=/Idle: Python goes to sleep in ${seconds} s; variables and files stay/`);
      return Number(/\d+/.exec(await words.innerText())?.[0]);
    };
    const before = await left("([1-4]?\\d|5[0-7])"); // so that it can grow
    await tab.page.click(".topline >> text=Keep");
    await expect.poll(() => left("\\d+"), { timeout: patience }).toBeGreaterThan(before);
  });

  test("a session that is deleted elsewhere says so", async () => {
    const id = await server.session("Gone", ["1"]);
    const tab = await open();
    await tab.show(id);
    await server.call("DELETE", `/v1/sessions/${id}`);
    await tab.page.waitForSelector("text=This session no longer exists");
  });
});

describe("saving", () => {
  test("that fails says why, in the top line and when it is asked for, until it works again", async () => {
    const id = await server.session("Refused", ["a = 1"]);
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    const document = `**/v1/sessions/${id}/document`;
    await page.route(document, (route) => route.request().method() !== "PUT" ? route.fallback()
      : route.fulfill({ status: 413, contentType: "application/problem+json", body: JSON.stringify({ status: 413, code: "payload_too_large", detail: "the body is over 16 MiB" }) }));
    await tab.type("c-1", "a = 2");
    await page.waitForSelector(".topline >> text=Not saved: the body is over 16 MiB");
    await page.keyboard.press("Control+s");
    await page.waitForSelector(".toast.bad >> text=Not saved: the body is over 16 MiB");
    await page.unroute(document);
    await page.click("role=button[name='Save again']"); // a refusal is not tried again by itself
    await page.waitForSelector(".not-saved", { state: "detached" });
    expect((await server.call<Document>("GET", `/v1/sessions/${id}/document`)).cells[0]?.source).toBe("a = 2");
    tab.complaints.splice(0); // of the 413
  });
});

describe("signing in again", () => {
  test("brings back what was not saved, and nobody is asked about it", async () => {
    const id = await server.session("Signed out", ["a = 1"]);
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await server.end("SIGKILL");
    await page.waitForSelector("text=Reconnecting, nothing is lost");
    await tab.type("c-1", "a = 'typed before'");
    await tab.context.clearCookies();
    const asked: string[] = [];
    page.on("dialog", (dialog) => {
      asked.push(dialog.type());
      void dialog.dismiss();
    });
    await server.launch();
    await page.waitForSelector("input[name=token]");
    expect(asked).toEqual([]);
    await page.goto(`${server.url}/?token=${server.token}`);
    await page.waitForSelector("#new-session-name");
    await tab.show(id);
    await expect.poll(async () => (await server.call<Document>("GET", `/v1/sessions/${id}/document`)).cells[0]?.source, { timeout: patience }).toBe("a = 'typed before'");
    tab.complaints.splice(0); // of the 401
  });
});

describe("a shared link", () => {
  test("shows all and changes nothing, until it is revoked", async () => {
    const id = await server.session("Shared", ["# Words", "print('seen')"]);
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await page.click("role=button[name='Share a read-only link']");
    await page.click("text=Create a link");
    const url = await page.inputValue("#share-url");
    const guest = await open({ signedIn: false });
    await guest.page.goto(url);
    await guest.page.waitForSelector("main[aria-busy=false] .cell");
    expect(await guest.page.locator(".run-buttons, .tools, .inserter, .phone-bar").count()).toBe(0);
    await page.keyboard.press("Escape");
    await tab.cell("c-2").locator("button.number").click();
    await guest.ran("c-2");
    expect(await guest.text("c-2")).toBe("seen");
    await guest.cell("c-2").locator(".cm-content").click();
    await guest.page.keyboard.type("changed");
    await guest.page.keyboard.press("Shift+Enter");
    expect(await guest.cell("c-2").locator(".cm-content").innerText()).toBe("print('seen')");
    const status = await guest.page.evaluate((session) => fetch(`/v1/sessions/${session}/interrupt`, { method: "POST" }).then((r) => r.status), id);
    expect(status).toBe(403);
    guest.complaints.splice(0); // of the 403

    await page.click("role=button[name='Share a read-only link']");
    await page.click("dialog >> role=button[name='Revoke']");
    await guest.page.waitForSelector("text=This session no longer exists");
    guest.complaints.splice(0); // of the 401
  });
});

describe("notebook files", () => {
  test("that are imported elsewhere come with their outputs", async () => {
    const id = await server.session("Elsewhere", ["1"]);
    const tab = await open();
    await tab.show(id);
    await server.call("POST", `/v1/sessions/${id}/notebook`, {
      nbformat: 4, nbformat_minor: 5, metadata: {},
      cells: [{ id: "k", cell_type: "code", metadata: {}, execution_count: 5, source: "6 * 7", outputs: [{ output_type: "execute_result", execution_count: 5, data: { "text/plain": "42 of old" }, metadata: {} }] }],
    });
    await tab.cell("k").locator("text=42 of old").waitFor();
  });

  test("go in and out", async () => {
    const id = await server.session("Exchange", ["1"]);
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    const file = {
      nbformat: 4, nbformat_minor: 5, metadata: {},
      cells: [
        { id: "t", cell_type: "markdown", metadata: {}, source: ["# Imported\n", "text"] },
        { id: "k", cell_type: "code", metadata: {}, execution_count: 5, source: "6 * 7", outputs: [{ output_type: "execute_result", execution_count: 5, data: { "text/plain": "42 of old" }, metadata: {} }] },
      ],
    };
    const command = async (words: string) => {
      await page.keyboard.press("Control+k");
      await page.fill(".palette-input", words);
      await page.keyboard.press("Enter");
      await page.waitForSelector("dialog", { state: "detached" });
    };
    const exported = async (words: string, ending: string) => {
      const download = page.waitForEvent("download");
      await command(`Export ${words}`);
      const saved = await download;
      expect(saved.suggestedFilename()).toBe(`Exchange.${ending}`);
      const parts: Buffer[] = [];
      for await (const part of await saved.createReadStream()) parts.push(part as Buffer);
      return Buffer.concat(parts).toString();
    };
    const chooser = page.waitForEvent("filechooser");
    await command("Import a notebook");
    await (await chooser).setFiles({ name: "x.ipynb", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(file)) });
    await page.waitForSelector("h1 >> text=Imported");
    expect(await tab.text("k")).toBe("42 of old");
    await page.reload();
    await tab.cell("k").locator("text=42 of old").waitFor();
    expect(await exported("(.ipynb)", "ipynb")).toContain("42 of old");
    await tab.cell("k").locator("button.number").click();
    await tab.ran("k");
    expect(await tab.text("k")).toBe("42");

    await tab.type("k", `display({"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg' width='90' height='90'><!--" + "ä" * 300_000 + "--></svg>", "text/plain": "plain"}, raw=True)\n6 * 7`);
    await tab.cell("k").locator("button.number").click();
    await tab.cell("k").locator("iframe").waitFor();
    const svg = /src="data:image\/svg\+xml;base64,([^"]+)"/.exec(await exported("page (.html)", "html"))?.[1] ?? "";
    expect(Buffer.from(svg, "base64").toString()).toContain(`${"ä".repeat(300_000)}--></svg>`);

    // A file that cannot be read any more.
    await page.evaluate(() => { File.prototype.text = () => Promise.reject(new Error("The file has changed.")); });
    const again = page.waitForEvent("filechooser");
    await command("Import a notebook");
    await (await again).setFiles({ name: "x.ipynb", mimeType: "application/json", buffer: Buffer.from("{}") });
    await page.waitForSelector(".toast.bad >> text=The file has changed.");

    for (const [words, ending, contains] of [["script", "py", "# %% [markdown]"], ["page (.html)", "html", "<h1>Imported</h1>"], ["(.ipynb)", "ipynb", "6 * 7\""]] as const) {
      expect(await exported(words, ending)).toContain(contains);
    }
  });
});
