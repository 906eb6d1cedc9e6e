import type { RawExecution, TalariaEvent } from "./events.js";

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
  /** The bytes of the picture, if the value is one. */
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
  /** The bytes of all pictures, in order. */
  get pngs(): Uint8Array<ArrayBuffer>[] { return this.results.map((r) => r.png).filter((p) => p !== undefined); }
  /** The bytes of the last picture, if there is one. */
  get png(): Uint8Array<ArrayBuffer> | undefined { return this.pngs.at(-1); }
}

/** @internal An exception as the server sends it. */
export function errorOf(raw?: { ename: string; evalue: string; traceback: string[]; hint?: string }): ExecutionError | undefined {
  return raw && { name: raw.ename, value: raw.evalue, traceback: raw.traceback.join("\n"), hint: raw.hint };
}

/** Builds an execution from its events; each is taken once. */
export class Collector {
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
        e.error = errorOf(event);
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
    e.error ??= errorOf(raw.error);
    e.stdout = this.#out.stdout.join("");
    e.stderr = this.#out.stderr.join("");
    this.done = true;
  }
}
