// Client for the Talaria session kernel server, for browsers and Node 20.19 or newer.
import { Attached, type Decide } from "./attached.js";
import type { Checkpoint, CheckpointDiff, CheckpointLevel, NotRestored, NotSaved, Rollback, RollbackPart } from "./checkpoints.js";
import { TalariaError } from "./errors.js";
import type { TalariaEvent } from "./events.js";
import { Collector, Execution, type Result } from "./execution.js";
import { Files } from "./files.js";
import { MapCollector, type MapCode, type MapOptions, type MapResult } from "./map.js";
import { declaration, PendingCalls, type Tool } from "./tools.js";
import { escape, newId, pages, remove, Transport, type TalariaOptions } from "./transport.js";
export type { Approval, Decide, Decision } from "./attached.js";
export type { Checkpoint, CheckpointDiff, CheckpointLevel, NotRestored, NotSaved, Rollback, RollbackPart } from "./checkpoints.js";
export type * from "./events.js";
export { TalariaError } from "./errors.js";
export { Execution, Result, type ExecutionError } from "./execution.js";
export { Files, type FileEntry } from "./files.js";
export { MapResult, type MapCode, type MapItem, type MapOptions } from "./map.js";
export { ToolError, type Tool, type ToolCall } from "./tools.js";
export type { TalariaOptions } from "./transport.js";

const ABANDON = 3_000; // a call that was aborted ends so soon, though its cell may not be interrupted yet

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
  rights?: Right[];
  created_at: string;
  expires_at?: string;
  last_used_at?: string;
}

/** What a session token may do: read (which every token may), run cells, change files, or use terminals. */
export type Right = "read" | "run" | "write" | "terminal";

/** A token for one session. */
export interface SessionToken {
  id: string;
  token: string;
  rights: Right[];
  created_at: string;
  expires_at: string;
}

export interface SessionOptions {
  /**
   * Names this program as a provider of tools, so that it keeps its idempotent calls when it is restarted within 30 s;
   * only one program may use it at a time. Without it, calls survive only lost connections.
   */
  clientId?: string;
  /** A session that exists with other settings: `keep` takes it as it is, `apply` changes it; by default `session_conflict`. */
  ifExists?: "keep" | "apply";
}

export interface RunOptions {
  /** The execution's id, a fresh one by default. The id of an earlier execution returns that execution. */
  id?: string;
  /** In seconds; 0 means none. */
  timeout?: number;
  silent?: boolean;
  stopOnError?: boolean;
  /** Makes a checkpoint right before the cell runs. */
  checkpoint?: boolean;
  /** Aborting it interrupts the cell and rejects with its reason. */
  signal?: AbortSignal;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  onDisplay?: (result: Result) => void;
  onEvent?: (event: TalariaEvent) => void;
  /** Answers `input()`, which raises without it. */
  onInput?: (prompt: string, password: boolean) => string | Promise<string>;
  /** Tools that only this cell may call, over plain HTTP; see `Session.tool` for those of the session. */
  tools?: Tool[];
}

/** A server. */
export class Talaria {
  #http: Transport;
  constructor(options: TalariaOptions) { this.#http = new Transport(options); }

  /**
   * Gets the session with this id, or creates it. `settings` are the fields of `PUT /v1/sessions/{id}`. With a token for
   * one session, pass the id of that session and no settings.
   */
  async session(
    id: string = newId(), settings: Record<string, unknown> = {}, { clientId, ifExists }: SessionOptions = {},
  ): Promise<Session> {
    const path = `/v1/sessions/${escape(id)}`;
    const query = ifExists && { if_exists: ifExists };
    const info = await this.#http.json("PUT", path, settings, { query }).catch((e) => {
      if (e.code !== "forbidden" || Object.keys(settings).length) throw e;
      return this.#http.json("GET", path); // a token for this session alone may not create it, and needs not
    });
    return new Session(this.#http, info, clientId);
  }

  /** Lists sessions, newest first; `query` filters them as `GET /v1/sessions` does. */
  sessions(query: Record<string, string> = {}): Promise<SessionInfo[]> {
    return pages(this.#http, "/v1/sessions", query);
  }

  /** Lists your tokens that have not expired, including session tokens, without the tokens themselves. */
  tokens(): Promise<TokenInfo[]> { return pages(this.#http, "/v1/tokens", {}); }

  /**
   * Revokes one of your tokens by its id, and ends its logins, sockets and streams. It rejects with `not_found` if the
   * id is not one of yours.
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
   * Runs a cell and resolves once it has finished; a cell that raised has `error` set. A lost connection is reopened;
   * the cell runs only once.
   */
  async run(code: string, options: RunOptions = {}): Promise<Execution> {
    const { id = newId(), signal, onInput } = options;
    signal?.throwIfAborted();
    const request = {
      id, code, allow_stdin: !!onInput, timeout_s: options.timeout, silent: options.silent,
      stop_on_error: options.stopOnError, checkpoint: options.checkpoint, tools: options.tools?.map(declaration),
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
      if (ends.aborted) await this.#abandon(id); // without an answer, the cell would wait for good
      throw e;
    } finally {
      calls.end();
    }
    return collector.execution;
  }

  /**
   * Runs a cell, or a function of the session, for each of the inputs, in copies of the interpreter. It resolves with all
   * items in the order of the inputs once the map has ended. A lost connection is reopened; nothing runs twice.
   */
  async map(code: MapCode, inputs: unknown[], options: MapOptions = {}): Promise<MapResult> {
    const { id = newId(), signal } = options;
    const body = {
      id, inputs, ...(typeof code === "string" ? { code } : { function: code.function }),
      concurrency: options.concurrency, timeout_s: options.timeout, on_error: options.onError,
    };
    const collector = new MapCollector();
    try {
      for await (const line of this.#http.lines(this.#base + "/map", body, (l) => collector.fresh(l), signal)) {
        const item = collector.take(line);
        if (item) options.onItem?.(item);
        if (collector.result) break;
      }
    } catch (e) {
      if (signal?.aborted) await this.#abandon(id);
      throw e;
    }
    return collector.result!;
  }

  /**
   * Makes a checkpoint of the variables and files as they are now, while no cell runs or waits. Checkpoints without a
   * name make room for newer ones. `level` is `live` for variables in memory, exactly as they are; `saved` for variables on disk,
   * which survive the kernel and can be forked; or `files`. By default it is the first of these that is possible.
   */
  checkpoint(name?: string, { level }: { level?: CheckpointLevel } = {}): Promise<Checkpoint> {
    return this.#http.json("POST", this.#base + "/checkpoints", { name, level });
  }

  /** Lists the session's checkpoints, newest first. */
  checkpoints(): Promise<Checkpoint[]> { return pages(this.#http, this.#base + "/checkpoints", {}); }

  /** Resolves with what changed between a checkpoint and another one, or since a checkpoint. */
  diff(checkpoint: Checkpoint | string, to?: Checkpoint | string): Promise<CheckpointDiff> {
    const [id, other] = [checkpoint, to].map((point) => typeof point === "object" ? point.id : point);
    const query = other === undefined ? "" : `?to=${escape(other)}`;
    return this.#http.json("GET", `${this.#base}/checkpoints/${escape(id!)}/diff${query}`);
  }

  /** Deletes a checkpoint, given as an object or by its id. It is not an error if it no longer exists. */
  deleteCheckpoint(checkpoint: Checkpoint | string): Promise<void> {
    const id = typeof checkpoint === "string" ? checkpoint : checkpoint.id;
    return remove(this.#http, `${this.#base}/checkpoints/${escape(id)}`, "checkpoint_not_found");
  }

  /**
   * Takes the session back to a checkpoint, given as an object or by its id, or to the state right after an execution.
   * `keepUserEdits` leaves alone the files that no cell has changed since. If the checkpoint does not have what is
   * requested, it rejects with `checkpoint_gone` and changes nothing.
   */
  rollback(
    to: Checkpoint | Execution | string, { what, keepUserEdits }: { what?: RollbackPart; keepUserEdits?: boolean } = {},
  ): Promise<Rollback> {
    const point = to instanceof Execution ? { execution_id: to.id } : { checkpoint_id: typeof to === "string" ? to : to.id };
    return this.#http.json("POST", this.#base + "/rollback", { ...point, what, keep_user_edits: keepUserEdits });
  }

  /**
   * Creates up to 64 sessions with the variables, files, packages and settings that this one has now; this one
   * continues undisturbed. It rejects with `kernel_busy` while a cell runs or waits. `name` is their display name.
   * `info.not_restored` of a fork names what could not be copied. If only some forks can be created, for example
   * because of a limit, it resolves with those; if none can, it rejects. With a checkpoint, variables and files come
   * from the checkpoint.
   */
  async fork(count = 1, name?: string, { checkpoint }: { checkpoint?: Checkpoint | string } = {}): Promise<Session[]> {
    const point = typeof checkpoint === "string" ? checkpoint : checkpoint?.id;
    const { items } = await this.#http.json("POST", this.#base + "/fork", { count, name, checkpoint_id: point });
    const made = items.flatMap((item: any) => item.id ? [new Session(this.#http, item)] : []);
    const [problem] = items;
    if (made.length === 0) throw new TalariaError(problem.code, problem.detail, problem.status);
    return made;
  }

  /**
   * Creates a token for this session only, for a program that must not have yours, such as a page. By default, `rights`
   * is only `read`, and `expires`, in seconds, is an hour. `id` in the result is for `revokeToken`.
   */
  token({ rights, expires }: { rights?: Right[]; expires?: number } = {}): Promise<SessionToken> {
    return this.#http.json("POST", this.#base + "/tokens", { rights, expires_s: expires });
  }

  /**
   * Saves the variables to disk and ends the interpreter; the next cell, or `wake`, restores them. It resolves with what
   * could not be saved, and rejects with `kernel_busy` while a cell runs or waits.
   */
  async hibernate(): Promise<NotSaved[]> {
    const { not_saved, ...info } = await this.#http.json("POST", this.#base + "/hibernate", undefined, { repeatable: true });
    this.info = info;
    return not_saved;
  }

  /** Starts an interpreter with the saved variables, if none is running. It resolves with what could not be restored. */
  async wake(): Promise<NotRestored[]> {
    const { not_restored, ...info } = await this.#http.json("POST", this.#base + "/wake");
    this.info = info;
    return not_restored;
  }

  /**
   * Lets the session's cells call a function of this program: `from hermes_tools import NAME`. It resolves once the
   * server has the tool, and rejects with `tool_rejected` if the server rejects it. A lost connection is reopened; only
   * a call of an `idempotent` tool continues meanwhile, and no call is executed or answered twice. Node exits only
   * after `close`.
   */
  tool<Arguments = any>(tool: Tool<Arguments>): Promise<void> { return this.#attached.add(tool); }

  /** Withdraws a tool that `tool` provided. It is not an error if it is no longer provided. */
  removeTool(name: string): Promise<void> { return this.#attached.remove(name); }

  /**
   * Lets a function decide what the session asks approval for: `once`, `session` or `deny`, or undefined to leave the
   * answer to somebody else. If it throws, the answer is `deny`.
   */
  onApproval(decide: Decide): Promise<void> { return this.#attached.onApproval(decide); }

  /** Resolves after `close` or the session's end. Rejects with the reason if the connection for tools is lost for good. */
  serve(): Promise<void> { return this.#attached.wait(); }

  /** Withdraws the tools and the callback for approvals. The session itself stays. */
  close(): Promise<void> { return this.#attached.close(); }

  /** Interrupts an execution that the caller leaves. While the server is away, it is tried on, but not waited for. */
  async #abandon(id: string): Promise<void> {
    let timer;
    const late = new Promise((resolve) => { timer = setTimeout(resolve, ABANDON); });
    await Promise.race([this.interrupt(id).catch(() => {}), late]);
    clearTimeout(timer);
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
   * Yields the events of the session's log after a position, then live unless `follow` is false. Each event arrives
   * once and in order, even if the connection is lost. If the log was replaced, it rejects with `log_changed`.
   */
  events(options: { after?: number; follow?: boolean; logId?: string; signal?: AbortSignal } = {}) {
    const { after = 0, follow = true, logId = this.info.log_id, signal } = options;
    return this.#http.events((position) => ({
      method: "GET", path: this.#base + "/events",
      query: { after: String(position), log_id: logId, ...(follow ? {} : { follow: "false" }) },
    }), after, signal, follow);
  }

  /** Fetches the current state of the session from the server. */
  async refresh(): Promise<SessionInfo> {
    return this.info = await this.#http.json("GET", this.#base);
  }

  /** Interrupts one execution; without an id, interrupts the running one and cancels those that wait. */
  async interrupt(executionId?: string): Promise<void> {
    await this.#http.json("POST", this.#base + "/interrupt", { execution_id: executionId },
      { repeatable: executionId !== undefined });
  }

  /** Answers the question that a cell is asking. */
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

  /** Deletes the session with its files and log. It is not an error if it no longer exists. */
  async delete(): Promise<void> {
    await remove(this.#http, this.#base, "session_not_found");
    await this.close();
  }

  /** Downloads the bytes of one of `Execution.artifacts`, as the cell left them. */
  async artifact(artifact: { url?: string }): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await new Response(await this.#http.download(artifact.url!)).arrayBuffer());
  }
}
