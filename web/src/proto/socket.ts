// A session's WebSocket that connects again by itself and goes on where the log was left.

import { Refused } from "./rest";
import type { Event, Message, Problem, Reply, Session, UsageFrame } from "./types";

const firstDelay = 250;
const lastDelay = 10_000;
export const large = 256 << 10; // characters of text that the page does not work through itself

const mostSent = 16 << 20; // bytes of a frame that the server takes

export type Link = "connecting" | "up" | "down";

export interface Listener {
  hello(session: Session, view: boolean): void; // view: what follows up to its last_seq is not the whole log
  event(event: Event): void;
  usage(frame: UsageFrame): void;
  link(link: Link): void;
  changed(): void; // the log is another one: forget what came from it
  gone(deleted: boolean): void; // the session was deleted; or it is not there, or not for the present owner
  refused(status: number): void; // 401: the token is not valid (any more)
}

// Host is what the socket needs of the browser, so that it can be tested without one.
export interface Host {
  open(after: number, logID: string | undefined, view: boolean): WebSocket; // after 0 is the log's beginning
  probe(): Promise<{ status: number; logID?: string; firstSeq?: number }>;
  parse(message: Blob): Promise<Message>; // off the page's thread
  later(work: () => void, ms: number): () => void;
}

interface Asked { text: string; again: boolean; resolve(result: unknown): void; reject(error: Error): void }

export class SessionSocket {
  private socket: WebSocket | undefined;
  private logID: string | undefined;
  private delay = firstDelay;
  private view = false; // the present connection begins with it
  private viewEnd = 0; // last seq of the view
  private serial = 0;
  private ended = false;
  private cancel: () => void = () => {};
  private attempts = 0; // to connect again: a newer one replaces an older one that still asks
  private gapAfter = -1; // seq after which events were missing
  private readonly waiting = new Map<string, Asked>();
  private parts: { left: number; blobs: Blob[] } | undefined; // of the large message that is being received
  private behind: Promise<void> | undefined; // a large message is being parsed: those that follow wait for it

  // position is the last seq that the page has; 0 begins at the log's start.
  constructor(private readonly host: Host, private readonly position: () => number, private readonly on: Listener) {}

  start(): void {
    if (this.ended) return;
    this.on.link("connecting");
    const position = this.position();
    this.view = position === 0 || position < this.viewEnd;
    const socket = this.host.open(position, this.logID, this.view);
    this.socket = socket;
    this.parts = undefined;
    socket.onmessage = (message) => {
      if (socket === this.socket) this.receive(socket, message.data as string | Blob);
    };
    socket.onclose = (close) => {
      if (socket === this.socket) this.closed(close.code, close.reason);
    };
  }

  // hurry connects at once, when the browser says that it is online again or the page is looked at.
  hurry(): void {
    if (this.ended || this.socket && this.socket.readyState < 3) return; // one that closes says so when it has
    this.cancel();
    this.delay = firstDelay;
    void this.again();
  }

  end(): void {
    this.ended = true;
    this.cancel();
    this.socket?.close();
    this.rejectAll(() => true);
  }

  // ask sends a frame and resolves with its reply. A frame that may come twice survives a lost connection: the server
  // knows it by its id.
  ask<T = unknown>(fields: object, options: { id?: string; again?: boolean } = {}): Promise<T> {
    const { id = `f${++this.serial}`, again = false } = options;
    return new Promise<T>((resolve, reject) => {
      const up = this.socket?.readyState === 1;
      if (!up && (!again || this.ended)) {
        reject(new Refused(0, "unreachable", "There is no connection to the server; try again in a moment."));
        return;
      }
      const text = JSON.stringify({ id, ...fields });
      if (text.length > mostSent / 3 && new Blob([text]).size > mostSent) {
        reject(tooLarge());
        return;
      }
      this.waiting.set(id, { text, again, resolve: resolve as (result: unknown) => void, reject });
      if (up) this.socket?.send(text);
    });
  }

  // receive takes messages in their order. What still waits when the connection is lost comes again with the next one.
  // A large one comes in parts, since the browser would otherwise put it together on the page's thread.
  private receive(socket: WebSocket, data: string | Blob): void {
    if (typeof data === "string") {
      const frame = JSON.parse(data) as Message;
      if (frame.type === "parts") this.parts = { left: frame.bytes, blobs: [] };
      else if (this.behind) this.queue(socket, frame);
      else this.take(frame);
      return;
    }
    if (!this.parts) return;
    this.parts.blobs.push(data);
    this.parts.left -= data.size;
    if (this.parts.left > 0) return;
    this.queue(socket, this.host.parse(new Blob(this.parts.blobs)));
    this.parts = undefined;
  }

  private queue(socket: WebSocket, frame: Message | Promise<Message>): void {
    const before = this.behind;
    const turn = (async () => {
      await before?.catch(() => {});
      const message = await frame;
      if (this.socket === socket && socket.readyState === 1) this.take(message);
    })().finally(() => {
      if (this.behind === turn) this.behind = undefined;
    });
    this.behind = turn;
  }

  private take(frame: Message): void {
    if ("seq" in frame) {
      if (this.misses(frame.seq)) this.reconnect();
      else this.on.event(frame);
      return;
    }
    switch (frame.type) {
      case "hello":
        this.delay = firstDelay;
        this.logID = frame.session.log_id;
        if (this.view) this.viewEnd = frame.session.last_seq;
        this.on.hello(frame.session, this.view);
        this.on.link("up");
        for (const asked of this.waiting.values()) this.socket?.send(asked.text); // only those that may come twice
        return;
      case "reply":
        this.answer(frame);
        return;
      case "usage":
        this.on.usage(frame);
    }
  }

  // misses tells whether events before this one did not come, and are worth asking for: they are when that is new.
  private misses(seq: number): boolean {
    const position = this.position();
    if (seq <= Math.max(position, this.viewEnd) + 1 || this.gapAfter === position) return false;
    this.gapAfter = position;
    return true;
  }

  // reconnect gives up a connection that cannot be relied on.
  private reconnect(): void {
    const socket = this.socket;
    this.socket = undefined;
    socket?.close();
    this.closed(1006, "");
  }

  private answer(reply: Reply): void {
    const asked = this.waiting.get(reply.id ?? "");
    if (!asked) return;
    this.waiting.delete(reply.id ?? "");
    if (reply.ok) {
      asked.resolve(reply.result);
      return;
    }
    const problem: Partial<Problem> = reply.error ?? {};
    asked.reject(new Refused(problem.status ?? 500, problem.code ?? "", problem.detail ?? "The server refused this."));
  }

  private rejectAll(which: (asked: Asked) => boolean, why = new Refused(0, "unreachable", "The connection was lost; try again in a moment.")): void {
    for (const [id, asked] of this.waiting) {
      if (!which(asked)) continue;
      this.waiting.delete(id);
      asked.reject(why);
    }
  }

  private closed(code: number, reason: string): void {
    if (this.ended) return;
    this.behind = undefined;
    this.on.link("down");
    if (code === 1009) this.rejectAll(() => true, tooLarge()); // sent again, it would end the next connection too
    else this.rejectAll((asked) => !asked.again);
    if (code === 1000 && reason === "session_deleted") {
      this.end();
      this.on.gone(true);
      return;
    }
    this.cancel = this.host.later(() => void this.again(), this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, lastDelay);
  }

  // again asks first what a browser does not tell of a failed handshake.
  private async again(): Promise<void> {
    const attempt = ++this.attempts;
    try {
      const { status, logID, firstSeq = 0 } = await this.host.probe();
      if (this.ended || attempt !== this.attempts) return;
      if (status === 401) {
        this.end();
        this.on.refused(status);
        return;
      }
      if (status === 404) {
        this.end();
        this.on.gone(false);
        return;
      }
      const cut = this.position() > 0 && this.position() < firstSeq - 1; // what came next is not in the log any more
      if (cut || logID && this.logID && logID !== this.logID) {
        this.logID = undefined;
        this.on.changed();
      }
    } catch {
      // The server is not there; the attempt below fails alike, and is made again later.
    }
    if (attempt === this.attempts) this.start();
  }
}

const tooLarge = () =>
  new Refused(413, "payload_too_large", "This is more than the 16 MiB that the server takes at once; move large data into a file of the session.");

// browserHost is the real one.
export function browserHost(id: string, parse: Host["parse"]): Host {
  const path = `/v1/sessions/${encodeURIComponent(id)}`;
  return {
    parse,
    open(after, logID, view) {
      const url = new URL(`${path}/ws`, location.href);
      url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
      if (after) url.searchParams.set("after", String(after));
      if (view) url.searchParams.set("view", "1");
      if (logID) url.searchParams.set("log_id", logID);
      url.searchParams.set("usage", "1");
      url.searchParams.set("parts", "1");
      return new WebSocket(url, "talaria.v1");
    },
    async probe() {
      const answer = await fetch(path);
      if (!answer.ok) return { status: answer.status };
      const session = (await answer.json()) as Session;
      return { status: answer.status, logID: session.log_id, firstSeq: session.first_seq };
    },
    later(work, ms) {
      const timer = setTimeout(work, ms);
      return () => clearTimeout(timer);
    },
  };
}
