// Client of the Talaria session kernel server, for browsers and Node 20 or newer.
import { Attached, type Decide } from "./attached.js";
import type { TalariaEvent } from "./events.js";
import { Collector, type Execution, type Result } from "./execution.js";
import { Files } from "./files.js";
import { declaration, PendingCalls, type Tool } from "./tools.js";
import { escape, newId, pages, remove, Transport, type TalariaOptions } from "./transport.js";
export type { Approval, Decide, Decision } from "./attached.js";
export type * from "./events.js";
export { TalariaError } from "./errors.js";
export { Execution, Result, type ExecutionError } from "./execution.js";
export { Files, type FileEntry } from "./files.js";
export { ToolError, type Tool, type ToolCall } from "./tools.js";
export type { TalariaOptions } from "./transport.js";

/** A session as the server describes it. */
export interface SessionInfo {
  id: string;
  state: string;
  log_id: string;
  first_seq: number;
  last_seq: number;
  [field: string]: any;
}

/** One of your tokens: for all of your sessions, or for `session` alone with `rights` until `expires_at`. */
export interface TokenInfo {
  id: string;
  session?: string;
  rights?: string[];
  created_at: string;
  expires_at?: string;
  last_used_at?: string;
}

export interface RunOptions {
  /** The execution's id, a fresh one by default. An id that ran before returns that execution. */
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
  /** Tools that this cell alone may call, over plain HTTP; `Session.tool` has those of the session. */
  tools?: Tool[];
}

/** A server. */
export class Talaria {
  #http: Transport;
  constructor(options: TalariaOptions) { this.#http = new Transport(options); }

  /**
   * Gets the session with this id, or creates it. `options` are the fields of `PUT /v1/sessions/{id}`. `clientId` names
   * this program as a provider of tools, so that it keeps its idempotent calls when it is started again within 30 s; one
   * program at a time uses it. Without it, calls survive lost connections only.
   */
  async session(
    id: string = newId(), options: Record<string, unknown> = {}, { clientId }: { clientId?: string } = {},
  ): Promise<Session> {
    return new Session(this.#http, await this.#http.json("PUT", `/v1/sessions/${escape(id)}`, options), clientId);
  }

  /** Lists sessions, newest first; `query` filters them as `GET /v1/sessions` does. */
  sessions(query: Record<string, string> = {}): Promise<SessionInfo[]> {
    return pages(this.#http, "/v1/sessions", query);
  }

  /** Lists your tokens that have not expired, those for one session included, without the tokens themselves. */
  tokens(): Promise<TokenInfo[]> { return pages(this.#http, "/v1/tokens", {}); }

  /**
   * Revokes one of your tokens by its id, with its logins, sockets and streams. It rejects with `not_found` if the id is
   * not one of yours.
   */
  async revokeToken(id: string): Promise<void> {
    await this.#http.send({ method: "DELETE", path: `/v1/tokens/${escape(id)}` });
  }
}

/** A session: live Python, a workspace and a log. `info` is the session as the server last described it. */
export class Session {
  readonly id: string;
  readonly files: Files;
  #http: Transport;
  #base: string;
  #attached: Attached;

  constructor(http: Transport, public info: SessionInfo, clientId?: string) {
    this.#http = http;
    this.id = info.id;
    this.#base = `/v1/sessions/${escape(info.id)}`;
    this.files = new Files(http, this.#base + "/files");
    this.#attached = new Attached(http, this.#base, clientId);
  }

  /**
   * Runs a cell and resolves once it has finished; a cell that raised has `error` set. A lost connection is
   * opened again; the cell runs once.
   */
  async run(code: string, options: RunOptions = {}): Promise<Execution> {
    const { id = newId(), signal, onInput } = options;
    signal?.throwIfAborted();
    const request = {
      id, code, allow_stdin: !!onInput, timeout_s: options.timeout, silent: options.silent,
      stop_on_error: options.stopOnError, tools: options.tools?.map(declaration),
    };
    const body = JSON.stringify(request);
    const base = this.#base + "/executions";
    const collector = new Collector(id);
    const failed = new AbortController(); // when an answer to input() fails
    const ends = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
    const events = this.#http.events((after) => after
      ? { method: "GET", path: `${base}/${escape(id)}`, query: { after: String(after) } }
      : { method: "POST", path: base, body, headers: { "Content-Type": "application/json" } }, 0, ends);
    const calls = new PendingCalls(this.#http, base, request, options.tools ?? []);
    try {
      for await (const event of events) {
        calls.take(event);
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
    } finally {
      calls.end();
    }
    return collector.execution;
  }

  /**
   * Lets the session's cells call a function of this program: `from hermes_tools import NAME`. It resolves once the
   * server has the tool, and rejects with `tool_rejected` where it does not take it. A lost connection is opened
   * again; only a call of an `idempotent` tool goes on meanwhile, and none is carried out or answered twice. Node ends
   * only after `close`.
   */
  tool<Arguments = any>(tool: Tool<Arguments>): Promise<void> { return this.#attached.add(tool); }

  /** Withdraws a tool that `tool` provided. It may be gone already. */
  removeTool(name: string): Promise<void> { return this.#attached.remove(name); }

  /**
   * Has a function decide what the session asks approval for: `once`, `session` or `deny`, or undefined to leave the
   * answer to somebody else. One that throws denies.
   */
  onApproval(decide: Decide): Promise<void> { return this.#attached.onApproval(decide); }

  /** Resolves after `close` or the session's end. Rejects with why the connection for tools was lost for good. */
  serve(): Promise<void> { return this.#attached.wait(); }

  /** Withdraws the tools and the callback for approvals. The session itself stays. */
  close(): Promise<void> { return this.#attached.close(); }

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

  /** Starts a fresh interpreter. Variables are lost; files and packages stay by default. */
  async reset(options: { keepFiles?: boolean; keepPackages?: boolean } = {}): Promise<void> {
    const { keepFiles = true, keepPackages = true } = options;
    this.info = await this.#http.json("POST", this.#base + "/reset",
      { keep_files: keepFiles, keep_packages: keepPackages });
  }

  /** Deletes the session with its files and log. It is not an error if it is gone already. */
  async delete(): Promise<void> {
    await remove(this.#http, this.#base, "session_not_found");
    await this.close();
  }

  /** Downloads the bytes of one of `Execution.artifacts`, as they were then. */
  async artifact(artifact: { url?: string }): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await new Response(await this.#http.download(artifact.url!)).arrayBuffer());
  }
}
