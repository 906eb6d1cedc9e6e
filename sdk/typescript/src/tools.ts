import { TalariaError } from "./errors.js";
import type { TalariaEvent } from "./events.js";
import type { Transport } from "./transport.js";

const MAX_RESULT = 16 << 20; // bytes of JSON
const ENVELOPE = 4 << 10; // what a frame has around a result

/** A function of this program that cells call: `from hermes_tools import NAME`. */
export interface Tool<Arguments = any> {
  name: string;
  /** Tells the cell's author what the tool does; it becomes the docstring of the function there. */
  description?: string;
  /** The JSON Schema of the arguments, an object. Without it, any arguments are accepted, by name. */
  parameters?: Record<string, unknown>;
  /**
   * Carries a call out. What it returns is converted to JSON; what it throws becomes a `ToolError` in the cell, with the code of
   * a `ToolError` of this library. Any number of calls may run at once.
   */
  run(args: Arguments, call: ToolCall): unknown;
  /** How many seconds one call may take; 300 by default. */
  timeoutS?: number;
  /** Whether a call may be carried out twice without harm. Such calls survive a lost connection. */
  idempotent?: boolean;
  /** Whether it changes nothing. */
  readOnly?: boolean;
  /** Whether a person is asked before each call. */
  requiresApproval?: boolean;
}

/** A call of a tool. */
export interface ToolCall {
  /** Stays the same when an idempotent call is made again after a reconnect. */
  readonly id: string;
  readonly tool: string;
  /** The id of the cell's execution. */
  readonly executionId: string;
  /** When the server gives up on the call, by its clock. Missing for a tool that was passed to `run`. */
  readonly deadline?: Date;
  /** Is aborted when the call is cancelled; its reason is a TalariaError, code `call_cancelled`. */
  readonly signal: AbortSignal;
  /** Reports the progress of the call to the cell. It does nothing for a tool that was passed to `run`. */
  progress(message: string): void;
}

/** Throw this in a tool to give the cell an error: `hermes_tools.ToolError` with this `code` and `message`. */
export class ToolError extends Error {
  constructor(message: string, readonly code = "", options?: ErrorOptions) {
    super(message, options);
    this.name = "ToolError";
  }
}

/** @internal The fields of a frame tool_result. */
export interface Answer {
  call_id: string;
  result?: unknown;
  error?: { code?: string; message: string };
}

/** @internal A call under way. */
export class RunningCall implements ToolCall {
  readonly #over = new AbortController();
  readonly signal = this.#over.signal;
  constructor(
    readonly id: string, readonly tool: string, readonly executionId: string, readonly deadline?: Date,
    private readonly onProgress?: (message: string) => void,
  ) {}

  progress(message: string): void { if (!this.signal.aborted) this.onProgress?.(message); }

  /** Tells the function that the call was cancelled: `interrupted`, `timeout`, `deleted` or `disconnected`. */
  cancel(reason: string): void {
    this.#over.abort(new TalariaError("call_cancelled", `the call was cancelled: ${reason}`));
  }
}

/** @internal The tool as registered with the server. */
export function declaration(tool: Tool): Record<string, unknown> {
  return {
    name: tool.name, description: tool.description, parameters: tool.parameters, timeout_s: tool.timeoutS,
    idempotent: tool.idempotent, read_only: tool.readOnly, requires_approval: tool.requiresApproval,
  };
}

/** @internal Carries a call out. It does not reject. */
export async function answer(tool: Tool, call: RunningCall, args: any): Promise<Answer> {
  try {
    const text = JSON.stringify(await tool.run(args, call) ?? null);
    if (text === undefined) throw new TypeError("the result is not JSON");
    const size = new TextEncoder().encode(text).length;
    if (size > MAX_RESULT - ENVELOPE) {
      throw new ToolError(`the result has ${size} bytes of JSON, but only ${MAX_RESULT - ENVELOPE} are allowed; ` +
        "write it to a file of the session and return the path", "result_too_large");
    }
    return { call_id: call.id, result: JSON.parse(text) };
  } catch (e: any) {
    if (e instanceof ToolError) return { call_id: call.id, error: { code: e.code || undefined, message: e.message } };
    return { call_id: call.id, error: { message: e instanceof Error ? `${e.name}: ${e.message}` : String(e) } };
  }
}

/**
 * @internal Carries out the calls of one execution's own tools, over plain HTTP. A call is noticed at once if no other
 * one is running here, otherwise when one of those has been answered.
 */
export class PendingCalls {
  #calls = new Map<string, RunningCall>(); // all that were seen
  #over = new AbortController();
  #tools: Map<string, Tool>;
  constructor(private readonly http: Transport, private readonly base: string, private readonly body: object, tools: Tool[]) {
    this.#tools = new Map(tools.map((t) => [t.name, t]));
    if (tools.length) void this.#look();
  }

  /** Notes what an event of the execution says about its calls. */
  take(event: TalariaEvent): void {
    if (event.type === "tool_result") this.#calls.get(event.call_id)?.cancel("interrupted"); // or it has returned
  }

  /** Ends the requests, and cancels what runs. */
  end(): void {
    this.#over.abort();
    for (const call of this.#calls.values()) call.cancel("interrupted");
  }

  /** Repeats the request until its answer has calls, or the execution is over. */
  async #look(): Promise<void> {
    try {
      // The same request again runs nothing, and waits for calls like the first one.
      while (this.#handle(await this.#post("", this.body)));
    } catch { /* the stream of events fails alike, and says so */ }
  }

  #post(path: string, body: unknown): Promise<any> {
    return this.http.json("POST", this.base + path, body, { repeatable: true, signal: this.#over.signal });
  }

  /** Carries out the calls that are new. Returns whether nobody else looks for further ones. */
  #handle(execution: any): boolean {
    const pending: { call_id: string; tool: string; arguments: unknown }[] = execution.pending_tool_calls ?? [];
    for (const p of pending) {
      if (this.#calls.has(p.call_id)) continue;
      const call = new RunningCall(p.call_id, p.tool, execution.id);
      this.#calls.set(call.id, call);
      void this.#carryOut(call, p.arguments);
    }
    return !pending.length && ["queued", "running"].includes(execution.status);
  }

  async #carryOut(call: RunningCall, args: unknown): Promise<void> {
    const result = await answer(this.#tools.get(call.tool)!, call, args);
    try {
      const path = `/${encodeURIComponent(call.executionId)}/tool_results`;
      if (this.#handle(await this.#post(path, { results: [result] }))) await this.#look();
    } catch (e: any) {
      if (e?.code === "no_call_pending") await this.#look(); // it was interrupted, or an answer was repeated
    }
  }
}
