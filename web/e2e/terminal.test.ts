import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { closeBrowser, faults, picture, Server, Tab } from "./rig";

let server: Server;
const tabs: Tab[] = [];
const open = async (options: Parameters<typeof Tab.open>[1] = {}): Promise<Tab> => {
  const tab = await Tab.open(server, options);
  tabs.push(tab);
  return tab;
};
beforeAll(async () => { server = await Server.start(); });
afterAll(async () => {
  await closeBrowser();
  await server.close();
});
afterEach(async () => {
  const complaints = tabs.flatMap((tab) => tab.complaints);
  for (const tab of tabs.splice(0)) await tab.close();
  expect(complaints.filter((c) => !/ERR_CONNECTION_(REFUSED|RESET)|WebSocket connection to .* failed/.test(c))).toEqual([]);
});

// rows is what the terminal's screen shows.
const rows = (): string => [...document.querySelectorAll(".xterm-rows > div")].map((row) => (row.textContent ?? "").trimEnd()).join("\n").trim();
const screen = (tab: Tab): Promise<string> => tab.page.evaluate(rows);

// shows waits until a line of the screen is as said.
async function shows(tab: Tab, line: RegExp): Promise<void> {
  try {
    await tab.page.waitForFunction(([source, flags]) =>
      [...document.querySelectorAll(".xterm-rows > div")].some((row) => new RegExp(source ?? "", flags).test((row.textContent ?? "").trimEnd())),
    [line.source, line.flags] as const);
  } catch (err) {
    throw new Error(`the screen has no line like ${line}:\n${await screen(tab)}`, { cause: err });
  }
}

async function enter(tab: Tab, line: string): Promise<void> {
  await tab.page.keyboard.type(line);
  await tab.page.keyboard.press("Enter");
}

const ready = (tab: Tab) => tab.page.waitForSelector(".shell-place[data-link=up] .xterm-helper-textarea:focus");

async function openTerminal(tab: Tab): Promise<void> {
  await tab.page.click(".rail >> role=button[name='Terminal']");
  await ready(tab);
}

describe("a terminal in the page", () => {
  test("is not connected to once the page shows something else", async () => {
    const id = await server.session("Left");
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    const sockets: string[] = [];
    page.on("websocket", (socket) => sockets.push(socket.url()));
    let go = () => {};
    const held = new Promise<void>((resolve) => (go = resolve));
    await page.route("**/terminals", async (route) => {
      await held;
      await route.continue();
    });
    const asked = page.waitForRequest("**/terminals");
    await page.click(".rail >> role=button[name='Terminal']");
    await asked;
    await page.click(".rail .mark");
    await page.waitForSelector("#new-session-name");
    const made = page.waitForResponse((answer) => answer.url().endsWith("/terminals") && answer.request().method() === "POST");
    go();
    await (await made).finished();
    await page.evaluate(() => fetch("/healthz").then((answer) => answer.text())); // a socket would have been opened by then
    expect(sockets).toEqual([]);
  });

  test("is a shell in the sandbox, also while a cell runs; keys go to it until one leaves it", async () => {
    const id = await server.session("Shell", ["open('there.txt', 'w').write('x')\nimport time\ntime.sleep(600)"]);
    const tab = await open();
    const { page } = tab;
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await page.waitForSelector(".cell[data-id=c-1].running");
    await openTerminal(tab);
    await enter(tab, "echo $((6*7)); ls");
    await shows(tab, /^42$/);
    await shows(tab, /^there\.txt$/);
    await enter(tab, "stty size");
    await shows(tab, /^\d\d \d\d\d$/);
    const size = await page.evaluate(() => {
      const line = [...document.querySelectorAll(".xterm-rows > div")].map((r) => (r.textContent ?? "").trim()).find((t) => /^\d\d \d\d\d$/.test(t));
      return [Number(line?.split(" ")[0]), document.querySelectorAll(".xterm-rows > div").length];
    });
    expect(size[0]).toBe(size[1]);

    // Tab completes, Escape and the page's own keys are the shell's, and Ctrl+Shift+L leaves.
    await page.keyboard.type("cat th");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.keyboard.press("Enter");
    await shows(tab, /\$ cat there\.txt$/);
    expect(await page.locator("dialog").count()).toBe(0);
    await page.keyboard.press("Control+Shift+L");
    await page.waitForSelector(".cell[data-id=c-1].selected:focus");
    await page.keyboard.press("g");
    await page.keyboard.press("c");
    await page.waitForSelector(".xterm-helper-textarea:focus");

    // The panel's height is the keyboard's too, and the shell is told of it.
    const before = await page.locator(".xterm-rows > div").count();
    await page.locator(".terminal-panel .handle").focus();
    for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowUp");
    await page.waitForFunction((n) => document.querySelectorAll(".xterm-rows > div").length > n + 3, before);
    await page.click(".shell");
    await enter(tab, "clear; stty size");
    await shows(tab, new RegExp(`^${await page.locator(".xterm-rows > div").count()} \\d+$`));

    // Another one beside it; a title of its own; the first is as it was.
    await enter(tab, "printf '\\033]2;build \\342\\200\\256log\\007'");
    await page.waitForSelector(".terminal-panel [role=tab] >> text=build log"); // without what turns text around
    expect(await page.title()).not.toContain("build");
    await page.click("role=button[name='New terminal']");
    await ready(tab);
    await shows(tab, /\$$/);
    await enter(tab, "echo second");
    await shows(tab, /^second$/);
    expect(await screen(tab)).not.toContain("stty");
    await page.click(".terminal-panel [role=tab] >> text=build log");
    await shows(tab, /printf/);

    await enter(tab, "exit 3");
    await page.waitForSelector("text=The shell ended with status 3.");
    await page.click("role=button[name='Start again']");
    await ready(tab);
    await enter(tab, "echo again");
    await shows(tab, /^again$/);
    expect(await page.locator(".terminal-panel [role=tab]").count()).toBe(2);

    await page.click("role=button[name='Hide the terminal']");
    await page.waitForSelector(".terminal-panel", { state: "detached" });
    await openTerminal(tab);
    await shows(tab, /^again$/);
    await page.click("role=button[name='End this shell']");
    await page.waitForFunction(() => document.querySelectorAll(".terminal-panel [role=tab]").length < 2);
    await page.click("role=button[name='End this shell']");
    await page.waitForSelector(".terminal-panel", { state: "detached" });
    expect((await server.call<{ items: unknown[] }>("GET", `/v1/sessions/${id}/terminals`)).items).toEqual([]);
    expect(await page.locator(".cell[data-id=c-1].running").count()).toBe(1);
  });

  test("survives reloads and a server that is killed, and answers no question twice", async () => {
    const id = await server.session("Lasting", ["1"]);
    const tab = await open();
    await tab.show(id);
    await openTerminal(tab);
    // The answer may come before read turns the echo off.
    await enter(tab, "stty -echo; printf '\\033[6n'; read -r -d R -t 60 a; stty echo; echo asked ${#a}");
    await shows(tab, /^asked [5-9]$/);
    await enter(tab, "for i in $(seq 60); do echo line $i; sleep 0.05; done; echo all");
    await shows(tab, /^line 10$/);
    await server.end("SIGKILL");
    await tab.page.waitForSelector("text=the shell keeps running");
    await server.launch();
    await shows(tab, /^all$/);
    await tab.page.reload();
    await tab.page.waitForSelector(".cell");
    await openTerminal(tab);
    await shows(tab, /^all$/);
    await enter(tab, "echo clean");
    await shows(tab, /\$ echo clean$/); // the question that was shown again was not answered again
    const text = (await screen(tab)).split("\n");
    const shown = text.filter((line) => /^line \d+$/.test(line)).map((line) => Number(line.slice(5)));
    expect(shown.length).toBeGreaterThan(2);
    expect(shown).toEqual(shown.map((_, i) => 60 - shown.length + 1 + i)); // each once
    await server.call("POST", `/v1/sessions/${id}/reset`, {});
    await tab.page.waitForSelector("text=Python exited, and its terminals with it.");
  });

  test("is not for who has a read-only link", async () => {
    const id = await server.session("Shared", ["1"]);
    const { url } = await server.call<{ url: string }>("POST", `/v1/sessions/${id}/shares`, {});
    const guest = await open({ signedIn: false });
    await guest.page.goto(server.url + url);
    await guest.page.waitForSelector("main[aria-busy=false] .cell");
    expect(await guest.page.locator(".rail >> role=button[name='Terminal']").count()).toBe(0);
    await guest.page.keyboard.press("g");
    await guest.page.keyboard.press("c");
    await guest.page.keyboard.press("Control+k");
    await guest.page.fill(".palette-input", "Terminal");
    await guest.page.waitForSelector("text=No matching commands.");
    expect(await guest.page.locator(".terminal-panel").count()).toBe(0);
  });
});

describe("what a hostile program writes", () => {
  test("reaches neither the clipboard nor an address, and a flood of it leaves the page usable", async () => {
    const id = await server.session("Hostile", ["1"]);
    const tab = await open({ permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = tab;
    await tab.show(id);
    await openTerminal(tab);
    await page.evaluate(() => navigator.clipboard.writeText("mine"));
    await enter(tab, "printf '\\033]52;c;ZXZpbA==\\007\\033]52;c;?\\007\\033[21t\\033]0;\\007'; echo after 52");
    await shows(tab, /^after 52$/);
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("mine");
    expect(await screen(tab)).not.toContain("bWluZQ"); // nor was it read

    await enter(tab, "clear; printf '\\033]8;;javascript:alert(1)\\007bad\\033]8;;\\007\\n\\033]8;;https://elsewhere.example/x?y\\007good\\033]8;;\\007\\n'");
    await shows(tab, /^good$/);
    const link = async (text: string) => {
      const box = await page.locator(".xterm-rows > div", { hasText: new RegExp(`^${text}\\s*$`) }).boundingBox();
      await page.mouse.move((box?.x ?? 0) + 4, (box?.y ?? 0) + 8);
      await page.mouse.move((box?.x ?? 0) + 10, (box?.y ?? 0) + 9);
      await page.mouse.down();
      await page.mouse.up();
    };
    await link("bad");
    await link("good");
    await page.waitForSelector(".terminal-panel .bar >> text=elsewhere.example");
    expect(await page.locator(".terminal-panel .bar a").getAttribute("href")).toBe("https://elsewhere.example/x?y");
    expect(tab.context.pages().length).toBe(1);
    await page.click("text=Not now");

    // Copy and paste: what is pasted cannot end its brackets, and runs only when it is entered.
    await page.evaluate(() => navigator.clipboard.writeText("echo one\u001b[201~\necho two"));
    await page.click("role=button[name='Paste into the terminal']");
    await shows(tab, /echo two$/);
    expect(await screen(tab)).not.toMatch(/^one$/m);
    await page.keyboard.press("Control+c");
    const good = await page.locator(".xterm-rows > div", { hasText: /^good\s*$/ }).boundingBox();
    await page.mouse.dblclick((good?.x ?? 0) + 10, (good?.y ?? 0) + 8);
    await page.keyboard.press("Control+Shift+C");
    await page.waitForSelector("text=Copied.");
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("good");

    await page.keyboard.press("Control+c");
    await enter(tab, "clear; head -c 40000000 /dev/urandom | base64 | tr -d '\\n'; clear; echo; echo the end");
    const frames = await page.evaluate(() => new Promise<number[]>((resolve) => {
      const times: number[] = [];
      let last = performance.now();
      const step = (now: number) => {
        times.push(now - last);
        last = now;
        if (times.length < 120) requestAnimationFrame(step);
        else resolve(times.sort((a, b) => a - b));
      };
      requestAnimationFrame(step);
    }));
    await shows(tab, /^the end$/);
    console.log(`terminal flood of 54 MB: median frame ${frames[60]?.toFixed(0)} ms, p95 ${frames[114]?.toFixed(0)} ms`);
    expect(frames[60]).toBeLessThan(100);
    await enter(tab, "reset");
    await page.keyboard.press("Control+Shift+L");
    await page.waitForSelector(".cell.selected:focus");
  });
});

describe("on a phone, and for axe", () => {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`keys that it lacks are there, nothing is found, ${colorScheme}`, async () => {
      const id = await server.session("Phone", ["1"]);
      const tab = await open({ colorScheme });
      const { page } = tab;
      await tab.show(id);
      await openTerminal(tab);
      await enter(tab, "printf '\\033[31mred \\033[40;37mwhite on black\\033[47;30m black on white\\033[0m\\n'");
      await shows(tab, /^red white on black/);
      expect(await faults(page)).toEqual([]);
      await page.click("role=button[name='Announce output to screen readers']");
      await page.waitForSelector(".xterm-accessibility-tree", { state: "attached" });
      expect(await faults(page)).toEqual([]);
      await page.click("role=button[name='Announce output to screen readers']");
      await picture(page, `terminal-${colorScheme}`);
      await page.setViewportSize({ width: 390, height: 844 });
      await page.waitForSelector(".shell-keys button");
      expect(await faults(page)).toEqual([]);
      const { width } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth }));
      expect(width).toBe(390);
      await page.click(".shell");
      await enter(tab, "sleep 600");
      await shows(tab, /sleep 600$/);
      await page.click(".shell-keys >> role=button[name='Ctrl']");
      await page.keyboard.type("c");
      await shows(tab, /^\^C$/);
      await page.click(".shell-keys >> role=button[name='Up']");
      await shows(tab, /\$ sleep 600$/);
      await picture(page, `terminal-phone-${colorScheme}`);
      await page.click("role=button[name='Hide the terminal']");
      await page.waitForSelector(".terminal-panel", { state: "detached" });
    });
  }
});
