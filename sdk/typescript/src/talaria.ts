// Client of the Talaria session kernel server, for browsers and Node 20 or newer.
import type { RawExecution, TalariaEvent } from "./events.js";
export type * from "./events.js";

const HINTS: Record<string, string> = {
  unreachable: "check the URL, and that `talaria serve` is running there; a page of another origin must be in `origins`",
  unauthorized: "pass a valid token: `talaria token show` prints the first owner's",
  session_not_found: "the session was deleted, or belongs to another owner; session(id) creates it again",
  session_conflict: "the session exists with different settings; leave them out to take it as it is, or delete it",
  execution_conflict: "this id was used with other code; use a new id for each cell",
  events_expired: "read the events again from the session's first_seq - 1",
  log_changed: "the log was replaced; read the events again from after=0",
  queue_full: "wait until some of the session's cells have finished",
  disk_limit: "delete files, or raise limits.disk_bytes",
};

/** A request that failed. A cell that raises is not one: see `Execution.error`. */
export class TalariaError extends Error {
  readonly hint: string;
  /** `code` is a stable word to branch on, `unreachable` when no server answers; `status` is 0 without an answer. */
  constructor(readonly code: string, message: string, readonly status = 0, options?: ErrorOptions) {
    super(message, options);
    this.name = "TalariaError";
    this.hint = HINTS[code] ?? "";
  }
}

export interface TalariaOptions {
  url: string;
  token: string;
  /** How many milliseconds a call keeps trying to reach a server that it has reached before; 60,000 by default. */
  outage?: number;
}

/** A session as the server describes it. */
export interface SessionInfo {
  id: string;
  state: string;
  log_id: string;
  first_seq: number;
  last_seq: number;
  [field: string]: any;
}

export interface FileEntry {
  name: string;
  path: string;
  kind: "file" | "directory" | "symlink" | "other";
  size: number;
  modified_at: string;
  media_type?: string;
}

/** A value that a cell displayed, in every form that it has. */
export class Result {
  constructor(
    public data: Record<string, any>,
    public metadata: Record<string, any>,
    readonly displayId?: string,
    /** Whether it is the value of the cell's last expression. */
    readonly isMain = false,
  ) {}
  get text(): string { return String(this.data["text/plain"] ?? ""); }
  /** Not sanitized. */
  get html(): string | undefined { return this.data["text/html"]; }
  /** The bytes of the picture, if it is one. */
  get png(): Uint8Array<ArrayBuffer> | undefined {
    const encoded = this.data["image/png"];
    return encoded === undefined ? undefined : Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0));
  }
}

export interface ExecutionError {
  name: string;
  value: string;
  traceback: string;
  hint?: string;
}

/** A cell that has finished. */
export class Execution {
  status = "queued";
  reason?: string;
  /** What became of the variables: `kept` or `lost`. */
  state = "kept";
  /** What a language model should read. */
  text = "";
  stdout = "";
  stderr = "";
  results: Result[] = [];
  error?: ExecutionError;
  artifacts: Record<string, any>[] = [];
  /** The execution as the server sent it. */
  raw?: Omit<RawExecution, "outputs">;

  constructor(readonly id: string) {}
  /** Whether the cell ran to its end without an exception. */
  get ok(): boolean { return this.status === "ok"; }
  /** The bytes of all pictures, in their order. */
  get pngs(): Uint8Array<ArrayBuffer>[] { return this.results.map((r) => r.png).filter((p) => p !== undefined); }
  /** The bytes of the last picture, if there is one. */
  get png(): Uint8Array<ArrayBuffer> | undefined { return this.pngs.at(-1); }
}

export interface RunOptions {
  /** The execution's id, a fresh one by default. An id that ran before gives that execution again. */
  id?: string;
  /** In seconds; 0 is none. */
  timeout?: number;
  silent?: boolean;
  stopOnError?: boolean;
  /** Aborting it interrupts the cell and rejects with its reason. */
  signal?: AbortSignal;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  onDisplay?: (result: Result) => void;
  onEvent?: (event: TalariaEvent) => void;
  /** Answers `input()`, which raises without it. */
  onInput?: (prompt: string, password: boolean) => string | Promise<string>;
}

const SILENCE = 60_000; // a stream without a byte for so long is broken: the server sends a comment every 15 s
const FIRST_PAUSE = 20, LONGEST_PAUSE = 3_000;
const PASSING_CODES = ["not_ready", "shutting_down", "too_many_requests"];

interface Call {
  method: string;
  path: string;
  query?: Record<string, string>;
  body?: BodyInit;
  headers?: Record<string, string>;
  /** Whether it may be sent again when the connection was lost; by default, whether the method is idempotent. */
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

/** Spaces the attempts to reconnect, and gives up after an outage without one that was of use. */
class Backoff {
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

class Transport {
  readonly url: string;
  readonly outage: number;
  #token: string;
  #reached = false; // a server that never answered is reported at once

  constructor(options: TalariaOptions) {
    this.url = options.url.replace(/\/+$/, "");
    this.outage = options.outage ?? 60_000;
    this.#token = options.token;
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

  /** Yields events, each once and in order, over one connection after the other. */
  async *events(
    request: (after: number) => Call, after: number, signal?: AbortSignal, follow = true,
  ): AsyncGenerator<TalariaEvent, void, void> {
    const backoff = new Backoff(this.outage);
    for (;;) {
      let cause: unknown = new Error("the server ended the stream");
      const connection = new AbortController();
      const abort = () => connection.abort(signal!.reason);
      signal?.throwIfAborted();
      signal?.addEventListener("abort", abort, { once: true });
      try {
        const call = request(after);
        const response = await this.send({
          ...call, repeatable: true, signal: connection.signal,
          headers: { Accept: "text/event-stream", ...call.headers },
        });
        for await (const event of parse(response, connection)) {
          if (event.seq <= after) continue;
          after = event.seq;
          backoff.reset();
          yield event;
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
      if (!await backoff.wait(signal)) throw this.unreachable(cause);
    }
  }
}

/** The connection of a stream was lost. */
class Broken extends Error {}

async function* parse(response: Response, connection: AbortController): AsyncGenerator<TalariaEvent, void, void> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = []; // of a line that has not ended
  for (;;) {
    const silence = setTimeout(() => connection.abort(new Error("the stream is silent")), SILENCE);
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
      const line = parts.join("");
      parts = [next];
      if (line.startsWith("data:")) yield JSON.parse(line.slice(5));
    }
  }
}

async function problem(response: Response): Promise<TalariaError> {
  const document = await response.json().catch(() => undefined);
  if (document?.code) return new TalariaError(document.code, document.detail, response.status);
  return new TalariaError("", `the server answered ${response.status} ${response.statusText}`, response.status);
}

const escape = (segment: string) => encodeURIComponent(segment);

/** A server. */
export class Talaria {
  #http: Transport;
  constructor(options: TalariaOptions) { this.#http = new Transport(options); }

  /** Gets the session with this id, or creates it. `options` are the fields of `PUT /v1/sessions/{id}`. */
  async session(id: string = newId(), options: Record<string, unknown> = {}): Promise<Session> {
    return new Session(this.#http, await this.#http.json("PUT", `/v1/sessions/${escape(id)}`, options));
  }

  /** Lists sessions, newest first; `query` filters them as `GET /v1/sessions` does. */
  sessions(query: Record<string, string> = {}): Promise<SessionInfo[]> {
    return pages(this.#http, "/v1/sessions", query);
  }
}

/** A session: live Python, a workspace and a log. `info` is the session as the server last described it. */
export class Session {
  readonly id: string;
  readonly files: Files;
  #http: Transport;
  #base: string;

  constructor(http: Transport, public info: SessionInfo) {
    this.#http = http;
    this.id = info.id;
    this.#base = `/v1/sessions/${escape(info.id)}`;
    this.files = new Files(http, this.#base + "/files");
  }

  /**
   * Runs a cell and resolves once it has finished; a cell that raised has `error` set. A lost connection is taken up
   * again; the cell runs once.
   */
  async run(code: string, options: RunOptions = {}): Promise<Execution> {
    const { id = newId(), signal, onInput } = options;
    signal?.throwIfAborted();
    const body = JSON.stringify({
      id, code, allow_stdin: !!onInput, timeout_s: options.timeout, silent: options.silent,
      stop_on_error: options.stopOnError,
    });
    const base = this.#base + "/executions";
    const collector = new Collector(id);
    const failed = new AbortController(); // when an answer to input() fails
    const ends = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
    const events = this.#http.events((after) => after
      ? { method: "GET", path: `${base}/${escape(id)}`, query: { after: String(after) } }
      : { method: "POST", path: base, body, headers: { "Content-Type": "application/json" } }, 0, ends);
    try {
      for await (const event of events) {
        const shown = collector.take(event);
        options.onEvent?.(event);
        if (event.type === "stream") (event.name === "stdout" ? options.onStdout : options.onStderr)?.(event.text);
        if (shown) options.onDisplay?.(shown);
        if (event.type === "input_request" && onInput) {
          this.#answer(event, onInput).catch((e) => failed.abort(e));
        }
        if (collector.done) break;
      }
    } catch (e) {
      if (signal?.aborted) await this.interrupt(id);
      throw e;
    }
    return collector.execution;
  }

  async #answer(
    event: { request_id: string; prompt: string; password: boolean }, onInput: NonNullable<RunOptions["onInput"]>,
  ): Promise<void> {
    const value = await onInput(event.prompt, event.password);
    await this.input(value, event.request_id).catch((e) => {
      if (e.code !== "no_input_pending") throw e; // somebody else answered, or the cell was interrupted
    });
  }

  /**
   * Yields the events of the session's log after a position, then live unless `follow` is false. Each comes once and
   * in order, through lost connections too. A log that was replaced is `log_changed`.
   */
  events(options: { after?: number; follow?: boolean; logId?: string; signal?: AbortSignal } = {}) {
    const { after = 0, follow = true, logId = this.info.log_id, signal } = options;
    return this.#http.events((position) => ({
      method: "GET", path: this.#base + "/events",
      query: { after: String(position), log_id: logId, ...(follow ? {} : { follow: "false" }) },
    }), after, signal, follow);
  }

  /** Asks the server for the session as it is now. */
  async refresh(): Promise<SessionInfo> {
    return this.info = await this.#http.json("GET", this.#base);
  }

  /** Interrupts one execution; without an id, the running one, and cancels those that wait. */
  async interrupt(executionId?: string): Promise<void> {
    await this.#http.json("POST", this.#base + "/interrupt", { execution_id: executionId },
      { repeatable: executionId !== undefined });
  }

  /** Answers the question that a cell waits on. */
  async input(value: string, requestId?: string): Promise<void> {
    await this.#http.json("POST", this.#base + "/input", { value, request_id: requestId },
      { repeatable: requestId !== undefined });
  }

  /** Starts a fresh interpreter. Variables are lost; files and packages stay unless told otherwise. */
  async reset(options: { keepFiles?: boolean; keepPackages?: boolean } = {}): Promise<void> {
    const { keepFiles = true, keepPackages = true } = options;
    this.info = await this.#http.json("POST", this.#base + "/reset",
      { keep_files: keepFiles, keep_packages: keepPackages });
  }

  /** Deletes the session with its files and log. It is not an error if it is gone already. */
  delete(): Promise<void> { return remove(this.#http, this.#base, "session_not_found"); }

  /** Downloads the bytes of one of `Execution.artifacts`, as they were then. */
  async artifact(artifact: { url?: string }): Promise<Uint8Array<ArrayBuffer>> {
    const response = await this.#http.send({ method: "GET", path: artifact.url! });
    return new Uint8Array(await response.arrayBuffer());
  }
}

/** The files of a session. Paths are relative to its workspace. */
export class Files {
  #http: Transport;
  constructor(http: Transport, private readonly base: string) { this.#http = http; }

  #path(name: string): string { return this.base + "/" + name.split("/").map(escape).join("/"); }

  /** Lists one folder by name. */
  list(folder = ""): Promise<FileEntry[]> { return pages(this.#http, this.base, folder ? { path: folder } : {}); }

  /** Downloads a file. */
  async read(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await (await this.#http.send({ method: "GET", path: this.#path(name) })).arrayBuffer());
  }

  /** Downloads a file piece by piece. */
  async stream(name: string): Promise<ReadableStream<Uint8Array>> {
    return (await this.#http.send({ method: "GET", path: this.#path(name) })).body!;
  }

  /** Uploads a file in one step, with its folders. A stream works in Node and in Chromium over HTTP/2. */
  async write(name: string, data: string | Uint8Array<ArrayBuffer> | Blob | ReadableStream): Promise<FileEntry> {
    const response = await this.#http.send({
      method: "PUT", path: this.#path(name), body: data, repeatable: !(data instanceof ReadableStream),
      headers: { "Content-Type": "application/octet-stream" },
    });
    return response.json();
  }

  /** Deletes a file, a link itself, or a folder with everything in it. It may be gone already. */
  delete(name: string): Promise<void> { return remove(this.#http, this.#path(name), "file_not_found"); }
}

/** Builds an execution from its events; each is taken once. */
class Collector {
  readonly execution: Execution;
  done = false;
  #clear = false;
  #out: Record<string, string[]> = { stdout: [], stderr: [] };
  constructor(id: string) { this.execution = new Execution(id); }

  /** Adds an event, and returns the result that it displayed or changed. */
  take(event: TalariaEvent): Result | undefined {
    const e = this.execution;
    switch (event.type) {
      case "stream":
        this.#out[event.name]?.push(event.text);
        return;
      case "clear_output":
        this.#clear = event.wait;
        if (!event.wait) e.results = [];
        return;
      case "display_data":
      case "execute_result": {
        if (this.#clear) e.results = [];
        this.#clear = false;
        const main = event.type === "execute_result";
        const shown = new Result(event.data, event.metadata, main ? undefined : event.display_id, main);
        e.results.push(shown);
        return shown;
      }
      case "update_display_data": {
        const changed = e.results.filter((r) => r.displayId !== undefined && r.displayId === event.display_id);
        for (const r of changed) Object.assign(r, { data: event.data, metadata: event.metadata });
        return changed.at(-1);
      }
      case "error":
        e.error = { name: event.ename, value: event.evalue, traceback: event.traceback.join("\n"), hint: event.hint };
        return;
      case "execution_finished":
        this.#finish(event.execution);
    }
    return;
  }

  #finish(raw: any): void {
    const e = this.execution;
    Object.assign(e, { raw, status: raw.status, reason: raw.reason, state: raw.state, text: raw.text });
    e.artifacts = raw.artifacts ?? [];
    if (raw.error && !e.error) {
      const { ename, evalue, traceback, hint } = raw.error;
      e.error = { name: ename, value: evalue, traceback: traceback.join("\n"), hint };
    }
    e.stdout = this.#out.stdout.join("");
    e.stderr = this.#out.stderr.join("");
    this.done = true;
  }
}

/** A UUID; `crypto.randomUUID` is missing on pages without HTTPS. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

async function remove(http: Transport, path: string, gone: string): Promise<void> {
  await http.send({ method: "DELETE", path }).catch((e) => { if (e.code !== gone) throw e; });
}

async function pages(http: Transport, path: string, query: Record<string, string>): Promise<any[]> {
  const items: any[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await http.json("GET", path, undefined, { query: cursor ? { ...query, cursor } : query });
    items.push(...page.items);
    if (!(cursor = page.next_cursor)) return items;
  }
}
