// A terminal's WebSocket: bytes both ways. It connects again by itself and goes on where it was.

const firstDelay = 250;
const lastDelay = 10_000;
const mostPending = 4 << 20; // bytes that came and are not drawn yet; past that the socket closes
const fewPending = 256 << 10; // and opens again once so few are left

export type TerminalLink = "connecting" | "up" | "down" | "held" | "ended";

export interface TerminalListener {
  // data shows bytes, and calls drawn once it has.
  data(bytes: Uint8Array, drawn: () => void): void;
  gap(bytes: number): void; // so many were left out
  link(link: TerminalLink): void;
  ended(code?: number): void; // the shell's exit status; none: somebody closed the terminal, or it is gone
  refused(why: string): void; // something that was typed or asked for was not done
}

// TerminalHost is what the socket needs of the browser, so that it can be tested without one. The server keeps only the
// last of what a terminal has shown: `after` is where to go on.
export interface TerminalHost {
  open(after: number | undefined): WebSocket;
  exists(): Promise<boolean>;
  later(work: () => void, ms: number): () => void;
}

export class TerminalSocket {
  private socket: WebSocket | undefined;
  private position: number | undefined; // of the next byte
  private pending = 0;
  private held = false;
  private over = false;
  private size: { rows: number; cols: number } | undefined;
  private delay = firstDelay;
  private cancel: () => void = () => {};
  private attempts = 0; // to connect again: a newer one replaces an older one that still asks

  constructor(private readonly host: TerminalHost, private readonly on: TerminalListener) {}

  start(): void {
    if (this.over) return;
    this.on.link("connecting");
    const socket = this.host.open(this.position);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.delay = firstDelay;
      this.on.link("up");
      this.sendSize();
    };
    socket.onmessage = (message) => {
      if (socket === this.socket) this.take(message.data as ArrayBuffer | string);
    };
    socket.onclose = (close) => {
      if (socket === this.socket) this.closed(close.code, close.reason);
    };
  }

  // type sends keys, and tells whether there is a connection to take them.
  type(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (this.socket?.readyState !== 1) return false;
    this.socket.send(bytes);
    return true;
  }

  resize(rows: number, cols: number): void {
    if (this.size?.rows === rows && this.size.cols === cols) return;
    this.size = { rows, cols };
    this.sendSize();
  }

  // hurry connects at once, when the browser says that it is online again or the page is looked at.
  hurry(): void {
    if (this.over || this.held || !this.socket || this.socket.readyState < 3) return;
    this.cancel();
    this.delay = firstDelay;
    void this.again();
  }

  end(): void {
    this.over = true;
    this.cancel();
    this.socket?.close();
  }

  private sendSize(): void {
    if (this.size && this.socket?.readyState === 1) this.socket.send(JSON.stringify({ type: "resize", ...this.size }));
  }

  private take(data: ArrayBuffer | string): void {
    if (typeof data !== "string") {
      const bytes = new Uint8Array(data);
      this.position = (this.position ?? 0) + bytes.length;
      this.pending += bytes.length;
      this.on.data(bytes, () => this.drawn(bytes.length));
      if (this.pending > mostPending) this.hold();
      return;
    }
    const frame = JSON.parse(data) as { type: string; offset?: number; code?: number; error?: { detail?: string } };
    switch (frame.type) {
      case "offset":
        if (this.position !== undefined && (frame.offset ?? 0) > this.position) this.on.gap((frame.offset ?? 0) - this.position);
        this.position = frame.offset ?? 0;
        return;
      case "exit":
        this.finish(frame.code);
        return;
      case "error":
        this.on.refused(frame.error?.detail ?? "The server refused this.");
    }
  }

  private finish(code?: number): void {
    this.end();
    this.on.link("ended");
    this.on.ended(code);
  }

  // hold lets go of the connection while what came is drawn: a browser has no other way to make a server wait.
  private hold(): void {
    this.held = true;
    const socket = this.socket;
    this.socket = undefined;
    socket?.close();
    this.on.link("held");
  }

  private drawn(bytes: number): void {
    this.pending -= bytes;
    if (!this.held || this.pending > fewPending) return;
    this.held = false;
    this.start();
  }

  private closed(code: number, reason: string): void {
    if (this.over) return;
    if (code === 1000 && reason === "terminal_closed") {
      this.finish();
      return;
    }
    this.on.link("down");
    this.cancel = this.host.later(() => void this.again(), this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, lastDelay);
  }

  // again asks first what a browser does not tell of a failed handshake.
  private async again(): Promise<void> {
    const attempt = ++this.attempts;
    try {
      const exists = await this.host.exists();
      if (this.over || attempt !== this.attempts) return;
      if (!exists) {
        this.finish();
        return;
      }
    } catch {
      // The server is not there; the attempt below fails alike, and is made again later.
    }
    if (attempt === this.attempts) this.start();
  }
}
