// What every browser test has: a server of its own, run from the binary, and a real browser that complains.

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import type { Cell, Execution, Session } from "../src/proto/types";

export const patience = 60_000;

const binary = new URL("../../bin/talaria", import.meta.url).pathname;
const token = "token-of-the-browser-tests";

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

export class Server {
  readonly token = token;
  private readonly stateDir = mkdtempSync(join(tmpdir(), "talaria-web-"));
  private process: ChildProcess | undefined;
  private log = "";

  private constructor(readonly url: string, private readonly port: number, private readonly options: string[]) {}

  static async start(...options: string[]): Promise<Server> {
    const port = await freePort();
    const server = new Server(`http://127.0.0.1:${port}`, port, options);
    await server.launch();
    return server;
  }

  // launch runs the server, on the same state and address each time, until it says that it serves.
  async launch(): Promise<void> {
    const child = spawn(binary, ["serve", "--state-dir", this.stateDir, "--addr", `127.0.0.1:${this.port}`, ...this.options],
      { env: { ...process.env, TALARIA_TOKEN: token }, stdio: ["ignore", "ignore", "pipe"] });
    this.process = child;
    await new Promise<void>((resolve, reject) => {
      child.stderr?.on("data", (data: Buffer) => {
        this.log += data.toString();
        if (this.log.includes("msg=serving")) resolve();
      });
      child.on("exit", () => reject(new Error(`the server ended:\n${this.log}`)));
    });
  }

  // end stops the server alone: its kernels go on.
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const child = this.process;
    this.process = undefined;
    this.log = "";
    if (!child || child.exitCode !== null) return;
    const gone = once(child, "exit");
    child.kill(signal);
    await gone;
  }

  async close(): Promise<void> {
    await this.end("SIGTERM");
    execFileSync(binary, ["host", "stop", "--quick", "--state-dir", this.stateDir]);
    rmSync(this.stateDir, { recursive: true, force: true });
  }

  async call<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const answer = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (answer.status === 204 ? undefined : await answer.json()) as T;
  }

  // session makes one whose document has these cells: code, or text where it begins with "# ".
  async session(name: string, sources: string[] = [], options: object = {}): Promise<string> {
    const { id } = await this.call<Session>("POST", "/v1/sessions", { name, ...options });
    if (sources.length) {
      const cells: Cell[] = sources.map((source, i) => ({ id: `c-${i + 1}`, cell_type: source.startsWith("# ") ? "markdown" : "code", source }));
      await this.call("PUT", `/v1/sessions/${id}/document`, { cells }, { "If-Match": '"0"' });
    }
    return id;
  }

  run(session: string, code: string, id?: string): Promise<Execution & { text: string }> {
    return this.call("POST", `/v1/sessions/${session}/executions`, { code, ...(id ? { id } : {}) });
  }
}

let running: Browser | undefined;

async function browser(): Promise<Browser> {
  running ??= await chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: [
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []), "--disable-quic", "--disable-background-networking", "--disable-component-update",
      "--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ],
  });
  return running;
}

export async function closeBrowser(): Promise<void> {
  await running?.close();
  running = undefined;
}

// Tab is a page, with what went wrong in it.
export class Tab {
  readonly complaints: string[] = [];

  private constructor(readonly page: Page, readonly context: BrowserContext, private readonly server: Server) {
    page.setDefaultTimeout(patience);
    page.on("console", (message) => {
      if (message.type() === "error") this.complaints.push(message.text());
    });
    page.on("pageerror", (error) => this.complaints.push(String(error.stack ?? error)));
  }

  static async open(server: Server, options: Parameters<Browser["newContext"]>[0] & { signedIn?: boolean } = {}): Promise<Tab> {
    const { signedIn = true, ...rest } = options;
    const context = await (await browser()).newContext({ viewport: { width: 1280, height: 900 }, ...rest });
    const tab = new Tab(await context.newPage(), context, server);
    if (signedIn) {
      await tab.page.goto(`${server.url}/?token=${server.token}`);
      await tab.page.waitForSelector("#new-session-name");
    }
    return tab;
  }

  // another is a second tab of the same person.
  async another(): Promise<Tab> {
    return new Tab(await this.context.newPage(), this.context, this.server);
  }

  async show(session: string): Promise<void> {
    await this.page.goto(`${this.server.url}/?session=${encodeURIComponent(session)}`);
    await this.page.waitForSelector("main[aria-busy=false] .cell, main[aria-busy=false] .empty");
  }

  cell(id: string) {
    return this.page.locator(`.cell[data-id="${id}"]`);
  }

  // type puts code into a cell's editor in place of what it has.
  async type(id: string, code: string): Promise<void> {
    await this.cell(id).locator(".cm-content, .unloaded").click();
    await this.cell(id).locator(".cm-content").fill(code);
  }

  ran(id: string, status = "ok"): Promise<unknown> {
    return this.page.waitForSelector(`.cell[data-id="${id}"][data-status="${status}"]`);
  }

  // text is what a cell shows, without what the page says about it.
  async text(id: string): Promise<string> {
    return (await this.cell(id).locator(".outputs").innerText()).replace(/\nShow all [\d,]+ lines$/, "");
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}

// picture keeps what a test saw, for who wants to look at it: in the folder that TALARIA_PICTURES names.
export async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env["TALARIA_PICTURES"];
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`) });
}

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

// faults is what axe finds on a page by the rules of WCAG 2.2 AA.
export async function faults(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const tool = (globalThis as unknown as { axe: { run(options: object): Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe;
    const found = await tool.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], iframes: false });
    return found.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} (${n.failureSummary.slice(0, 240)})`).join(" | ")}`);
  });
}
