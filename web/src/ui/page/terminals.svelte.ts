// The terminals of an open notebook: which there are, and how each of them fares.

import { httpAddress } from "../../render/address";
import { call, Refused, sessionPath } from "../../proto/rest";
import { TerminalSocket, type TerminalHost, type TerminalLink } from "../../proto/terminal";
import { bytes } from "../../render/format";
import { settings } from "./settings.svelte";
import type { Shell } from "./shell";

const longestTitle = 40;

// OpenTerminal is one that the page is attached to.
export class OpenTerminal {
  title = $state("");
  link = $state<TerminalLink>("connecting");
  ended = $state(false);
  code = $state<number>();
  asked = $state(""); // an address that a link in it leads to
  control = $state(false);
  shell = $state.raw<Shell>();
  private readonly socket: TerminalSocket;
  private readonly shown: { bytes: Uint8Array; drawn: () => void }[] = []; // until there is a shell to show it
  private typed: boolean; // by a person

  // isNew: the page opened it just now, so that nothing in it is of the past.
  constructor(host: TerminalHost, readonly id: string, isNew: boolean, private readonly io: { leave(): void; say(text: string, tone?: "bad"): void }) {
    this.typed = isNew;
    this.socket = new TerminalSocket(host, {
      data: (data, drawn) => (this.shell ? this.shell.write(data, drawn) : this.shown.push({ bytes: data, drawn })),
      gap: (left) => this.shell?.note(`${bytes(left)} left out: output arrived faster than it could be shown`),
      link: (link) => (this.link = link),
      ended: (code) => {
        this.ended = true;
        this.code = code;
      },
      refused: (why) => this.io.say(why, "bad"),
    });
    this.socket.start();
  }

  // show draws the terminal in a place. xterm.js is loaded with the first one.
  async show(place: HTMLElement): Promise<void> {
    const { Shell } = await import("./shell");
    this.shell ??= new Shell({
      type: (text) => this.type(text),
      resized: (rows, cols) => this.socket.resize(rows, cols),
      title: (title) => (this.title = cleanTitle(title)),
      link: (address) => (this.asked = httpAddress(address)),
      leave: () => this.io.leave(),
      copied: () => this.io.say("Copied."),
      touched: () => (this.typed = true),
    }, settings.dark, settings.reader, () => this.typed);
    await this.shell.show(place);
    for (const piece of this.shown.splice(0)) this.shell.write(piece.bytes, piece.drawn);
  }

  // press types keys of the row for phones.
  press(keys: string): void {
    this.typed = true;
    this.shell?.term.input(keys);
    this.shell?.focus();
  }

  holdControl(): void {
    if (!this.shell) return;
    this.shell.control = !this.shell.control;
    this.control = this.shell.control;
    this.shell.focus();
  }

  hurry(): void {
    this.socket.hurry();
  }

  dispose(): void {
    this.socket.end();
    this.shell?.dispose();
  }

  private type(text: string): void {
    this.control = this.shell?.control ?? false;
    if (this.ended) return;
    if (!this.socket.type(new TextEncoder().encode(text))) this.io.say("The terminal is not connected; what you typed did not reach it.", "bad");
  }
}

// cleanTitle is what a program calls itself, as far as that fits a tab: no control characters, none that turn text around.
export function cleanTitle(title: string): string {
  const text = title.replaceAll(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu, "").trim();
  return [...text].slice(0, longestTitle).join("");
}

export class Terminals {
  open = $state(false); // the panel
  list = $state.raw<readonly OpenTerminal[]>([]);
  selected = $state("");
  failed = $state("");
  private busy = false;
  private ended = false; // the page shows something else

  constructor(private readonly session: string, private readonly io: { leave(): void; say(text: string, tone?: "bad"): void }) {}

  get current(): OpenTerminal | undefined {
    return this.list.find((t) => t.id === this.selected) ?? this.list.at(-1);
  }

  // toggle opens the panel: with the terminals that there are, or with a new one.
  async toggle(): Promise<void> {
    this.open = !this.open;
    if (!this.open) return;
    await this.trying(async () => {
      const known = new Set(this.list.map((t) => t.id));
      const { items } = await call<{ items: { id: string }[] }>("GET", this.path());
      for (const { id } of items) if (!known.has(id)) this.attach(id, false);
      if (!this.list.length) await this.make();
    });
  }

  // goTo gives the keyboard to the terminal, and opens the panel for that; from inside of it, it hides it.
  async goTo(): Promise<void> {
    if (this.open && this.current?.shell && !document.activeElement?.closest(".terminal-panel")) this.current.shell.focus();
    else await this.toggle();
  }

  add(): Promise<void> {
    return this.trying(() => this.make());
  }

  // again is a new shell in place of one that ended.
  async again(old: OpenTerminal): Promise<void> {
    await this.trying(async () => {
      await this.make();
      await this.forget(old);
    });
  }

  // close ends a terminal's shell.
  async close(old: OpenTerminal): Promise<void> {
    await this.trying(() => this.forget(old));
    if (!this.list.length) this.open = false;
  }

  hurry(): void {
    for (const t of this.list) t.hurry();
  }

  end(): void {
    this.ended = true;
    for (const t of this.list) t.dispose();
    this.list = [];
  }

  private path(id = ""): string {
    return sessionPath(this.session, `/terminals${id && `/${encodeURIComponent(id)}`}`);
  }

  private async make(): Promise<void> {
    const { id } = await call<{ id: string }>("POST", this.path(), {});
    this.attach(id, true);
    this.selected = id;
  }

  private async forget(old: OpenTerminal): Promise<void> {
    this.list = this.list.filter((t) => t !== old);
    old.dispose();
    // 404: it went with its Python, or somebody else closed it.
    await call("DELETE", this.path(old.id)).catch((err: unknown) => {
      if (!(err instanceof Refused && err.status === 404)) throw err;
    });
  }

  private attach(id: string, isNew: boolean): void {
    if (this.ended) return;
    const path = this.path();
    const host: TerminalHost = {
      open: (after) => {
        const url = new URL(`${this.path(id)}/ws`, location.href);
        url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
        if (after !== undefined) url.searchParams.set("after", String(after));
        return new WebSocket(url);
      },
      exists: async () => {
        try {
          return (await call<{ items: { id: string }[] }>("GET", path)).items.some((t) => t.id === id);
        } catch (err) {
          if (err instanceof Refused && err.status === 404) return false; // the session is gone
          throw err;
        }
      },
      later: (work, ms) => {
        const timer = setTimeout(work, ms);
        return () => clearTimeout(timer);
      },
    };
    this.list = [...this.list, new OpenTerminal(host, id, isNew, this.io)];
  }

  private async trying(work: () => Promise<void>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.failed = "";
    try {
      await work();
    } catch (err) {
      this.failed = err instanceof Error ? err.message : String(err);
    } finally {
      this.busy = false;
    }
  }
}
