import { TalariaError } from "./errors.js";
import type { TalariaEvent } from "./events.js";

export interface TalariaOptions {
  url: string;
  token: string;
  /** How many milliseconds a call keeps trying to reach a server that it has reached before; 60,000 by default. */
  outage?: number;
  /** The class that tools and approvals connect with; by default the platform's own (in Node since version 22). */
  WebSocket?: new (url: string, protocols: string[]) => any;
}

const SILENCE = 60_000; // a stream without a byte for so long is broken: the server sends a comment every 15 s
const SUBPROTOCOL = "talaria.v1";
const FIRST_PAUSE = 20, LONGEST_PAUSE = 3_000;
const PASSING_CODES = ["not_ready", "shutting_down", "too_many_requests"];

export interface Call {
  method: string;
  path: string;
  query?: Record<string, string>;
  body?: BodyInit;
  headers?: Record<string, string>;
  /** Whether it may be sent again if the connection is lost; by default, whether the method is idempotent. */
  repeatable?: boolean;
  signal?: AbortSignal;
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => { clearTimeout(timer); reject(signal!.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", end); resolve(); }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** Spaces the attempts to reconnect, and gives up after an outage without a successful one. */
export class Backoff {
  #since = 0;
  #pause = 0;
  constructor(readonly outage: number) {}
  reset() { this.#since = this.#pause = 0; }
  /** Resolves to whether to try again. */
  async wait(signal?: AbortSignal): Promise<boolean> {
    this.#since ||= Date.now();
    if (Date.now() - this.#since >= this.outage) return false;
    this.#pause = Math.min(Math.max(2 * this.#pause, FIRST_PAUSE), LONGEST_PAUSE);
    await pause(this.#pause, signal);
    return true;
  }
}

/** Makes requests. */
export class Transport {
  readonly url: string;
  readonly outage: number;
  #token: string;
  #WebSocket?: new (url: string, protocols: string[]) => WebSocket;
  #reached = false; // a server that never answered is reported at once

  constructor(options: TalariaOptions) {
    if (options?.url == null) {
      throw new TypeError("url is missing: pass new Talaria({ url, token }) the output of `talaria url` and `talaria token show`");
    }
    this.url = options.url.replace(/\/+$/, "");
    this.outage = options.outage ?? 60_000;
    this.#token = options.token;
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
  }

  /** Begins to open a WebSocket. */
  socket(path: string): WebSocket {
    if (!this.#WebSocket) {
      throw new TalariaError("no_websocket", "this Node has no WebSocket: use Node 22 or newer, start Node 20 with " +
        "--experimental-websocket, or pass WebSocket, for example from the package ws");
    }
    // Browsers cannot send headers with a WebSocket, so the token is in the URL.
    const url = `${new URL(this.url, globalThis.location?.href).href.replace(/^http/, "ws").replace(/\/$/, "")}${path}`;
    return new this.#WebSocket(`${url}?token=${encodeURIComponent(this.#token)}`, [SUBPROTOCOL]);
  }

  unreachable(cause: any): TalariaError {
    const why = cause?.cause?.message || cause?.cause?.code || cause?.message || String(cause);
    return new TalariaError("unreachable", `cannot reach ${this.url}: ${why}`, 0, { cause });
  }

  async json(method: string, path: string, body?: unknown, extra: Partial<Call> = {}): Promise<any> {
    const call: Call = { method, path, ...extra, headers: { Accept: "application/json" } };
    if (body !== undefined) {
      call.body = JSON.stringify(body);
      call.headers!["Content-Type"] = "application/json";
    }
    const text = await (await this.send(call)).text();
    return text ? JSON.parse(text) : undefined;
  }

  async send(call: Call): Promise<Response> {
    const repeatable = call.repeatable ?? ["GET", "PUT", "DELETE"].includes(call.method);
    const backoff = new Backoff(this.outage);
    for (;;) {
      let response: Response;
      try {
        response = await this.#fetch(call);
      } catch (e: any) {
        call.signal?.throwIfAborted();
        if (this.#reached && (repeatable || e?.cause?.code === "ECONNREFUSED") && await backoff.wait(call.signal)) continue;
        throw this.unreachable(e);
      }
      this.#reached = true;
      if (response.ok) return response;
      const error = await problem(response);
      const passing = PASSING_CODES.includes(error.code) || !error.code && [502, 503, 504].includes(error.status);
      if (!passing || call.body instanceof ReadableStream || !await backoff.wait(call.signal)) throw error;
    }
  }

  #fetch(call: Call): Promise<Response> {
    const query = call.query ? "?" + new URLSearchParams(call.query) : "";
    const init: RequestInit & { duplex?: "half" } = {
      method: call.method, body: call.body, signal: call.signal, cache: "no-store", credentials: "omit",
      headers: { Authorization: `Bearer ${this.#token}`, ...call.headers },
    };
    if (call.body instanceof ReadableStream) init.duplex = "half";
    return fetch(this.url + call.path + query, init);
  }

  /** Downloads a file. If the connection is lost, the stream continues with the rest. */
  async download(path: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
    let { reader, tag, left } = await this.#part(path);
    let done = 0;
    const backoff = new Backoff(this.outage);
    return new ReadableStream({
      pull: async (stream) => {
        for (;;) {
          let cause: unknown = new Error("the connection was cut");
          try {
            const piece = await reader.read();
            if (piece.value) {
              backoff.reset();
              done += piece.value.length;
              left -= piece.value.length;
              return stream.enqueue(piece.value);
            }
            if (left <= 0) return stream.close();
          } catch (e) {
            cause = e;
          }
          if (!tag || !await backoff.wait()) throw this.unreachable(cause);
          ({ reader, tag, left } = await this.#part(path, done, tag));
        }
      },
      cancel: (reason) => reader.cancel(reason),
    }, { highWaterMark: 0 });
  }

  /** Requests a file from an offset on, if it still has that tag. `left` is the number of bytes, 0 if unknown. */
  async #part(path: string, from = 0, tag = "") {
    const headers: Record<string, string> = from ? { Range: `bytes=${from}-`, "If-Range": tag } : {};
    const response = await this.send({ method: "GET", path, headers });
    if (from && response.status !== 206) {
      await response.body?.cancel();
      throw new TalariaError("file_changed", "the file was changed during its download; download it again");
    }
    return {
      reader: (response.body as ReadableStream<Uint8Array<ArrayBuffer>>).getReader(),
      tag: response.headers.get("ETag") ?? "",
      left: Number(response.headers.get("Content-Length") ?? 0),
    };
  }

  /** Yields events, each once and in order, over one connection after the other. */
  events(request: (after: number) => Call, after: number, signal?: AbortSignal, follow = true) {
    const call = () => {
      const asked = request(after);
      return { ...asked, headers: { Accept: "text/event-stream", ...asked.headers } };
    };
    const fresh = (event: TalariaEvent) => event.seq > after && (after = event.seq, true);
    return this.#resumed<TalariaEvent>(call, parse, fresh, signal, { follow });
  }

  /**
   * Sends JSON and yields the lines of the answer, over one connection after the other. The same request again gives the
   * lines from the first on: those that are not `fresh` are left out.
   */
  lines(path: string, body: unknown, fresh: (line: any) => boolean, signal?: AbortSignal) {
    const headers = { Accept: "application/x-ndjson", "Content-Type": "application/json" };
    const call = { method: "POST", path, body: JSON.stringify(body), headers };
    return this.#resumed<any>(() => call, parseLines, fresh, signal, { silent: true });
  }

  /** Yields what is fresh. A `silent` stream sends nothing while nothing happens: a proxy may cut it any number of times. */
  async *#resumed<T>(
    request: () => Call, read: (response: Response, connection: AbortController) => AsyncIterable<T>,
    fresh: (part: T) => boolean, signal?: AbortSignal, { follow = true, silent = false } = {},
  ): AsyncGenerator<T, void, void> {
    const backoff = new Backoff(this.outage);
    for (;;) {
      let cause: unknown = new Error("the server ended the stream");
      let opened = Infinity;
      const connection = new AbortController();
      const abort = () => connection.abort(signal!.reason);
      signal?.throwIfAborted();
      signal?.addEventListener("abort", abort, { once: true });
      try {
        const response = await this.send({ ...request(), repeatable: true, signal: connection.signal });
        opened = Date.now();
        for await (const part of read(response, connection)) {
          if (!fresh(part)) continue;
          backoff.reset();
          yield part;
        }
        if (!follow) return;
      } catch (e) {
        signal?.throwIfAborted();
        if (!(e instanceof Broken)) throw e;
        cause = e.cause;
      } finally {
        signal?.removeEventListener("abort", abort);
        connection.abort();
      }
      if (silent && Date.now() - opened > LONGEST_PAUSE) backoff.reset();
      if (!await backoff.wait(signal)) throw this.unreachable(cause);
    }
  }
}

/** The connection of a stream was lost. */
class Broken extends Error {}

/** Yields the lines of an answer. `silent` is called when no byte has arrived for longer than expected. */
async function* linesOf(response: Response, silent?: () => void): AsyncGenerator<string, void, void> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = []; // of a line that has not ended
  for (;;) {
    const silence = silent && setTimeout(silent, SILENCE);
    let piece: ReadableStreamReadResult<Uint8Array>;
    try {
      piece = await reader.read();
    } catch (e) {
      throw new Broken("the stream was cut", { cause: e });
    } finally {
      clearTimeout(silence);
    }
    if (piece.done) return;
    const lines = decoder.decode(piece.value, { stream: true }).split("\n");
    parts.push(lines[0]);
    for (const next of lines.slice(1)) {
      yield parts.join("");
      parts = [next];
    }
  }
}

async function* parse(response: Response, connection: AbortController): AsyncGenerator<TalariaEvent, void, void> {
  for await (const line of linesOf(response, () => connection.abort(new Error("the stream is silent")))) {
    if (line.startsWith("data:")) yield JSON.parse(line.slice(5));
  }
}

/** NDJSON has no comments that a server could send while nothing happens. */
async function* parseLines(response: Response): AsyncGenerator<any, void, void> {
  for await (const line of linesOf(response)) yield JSON.parse(line);
}

async function problem(response: Response): Promise<TalariaError> {
  const document = await response.json().catch(() => undefined);
  if (document?.code) return new TalariaError(document.code, document.detail, response.status);
  return new TalariaError("", `the server answered ${response.status} ${response.statusText}`, response.status);
}

/** Escapes a segment of a path. */
export const escape = (segment: string) => encodeURIComponent(segment);

/** A UUID; `crypto.randomUUID` is missing on pages without HTTPS. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

export async function remove(http: Transport, path: string, gone: string): Promise<void> {
  await http.send({ method: "DELETE", path }).catch((e) => { if (e.code !== gone) throw e; });
}

export async function pages(http: Transport, path: string, query: Record<string, string>): Promise<any[]> {
  const items: any[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await http.json("GET", path, undefined, { query: cursor ? { ...query, cursor } : query });
    items.push(...page.items);
    if (!(cursor = page.next_cursor)) return items;
  }
}
