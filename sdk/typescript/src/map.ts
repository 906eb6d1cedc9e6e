import { errorOf, Result, type ExecutionError } from "./execution.js";

/** A cell that sees `item` and `index`, or the name of a function in the session, which is called with the item. */
export type MapCode = string | { function: string };

export interface MapOptions {
  /** The execution's id, a fresh one by default. The same map with the same id returns its items again. */
  id?: string;
  /** How many copies run at a time; by default as many as the session has CPUs. */
  concurrency?: number;
  /** In seconds, for each item. */
  timeout?: number;
  /** `stop`: the first item that fails cancels the others. */
  onError?: "continue" | "stop";
  /** Gets each item as it ends. */
  onItem?: (item: MapItem) => void;
  /** Aborting it interrupts the map and rejects with its reason. */
  signal?: AbortSignal;
}

/** The outcome of one input. */
export interface MapItem {
  index: number;
  status: "ok" | "error" | "timeout" | "died" | "cancelled" | "unlogged";
  reason?: string;
  /** The value as JSON; if `valueType` is `repr`, its repr in Python. */
  value?: any;
  valueType?: "repr";
  /** What it printed, with its traceback. */
  text: string;
  error?: ExecutionError;
  /** What it displayed. */
  results: Result[];
  /** The files in its folder, for `Session.artifact`. */
  artifacts: Record<string, any>[];
  durationMs: number;
}

/** A map that has ended, with its items in the order of the inputs. A map whose items failed has the status `ok`. */
export class MapResult {
  constructor(
    /** The id of the execution. */
    readonly id: string,
    readonly status: string,
    readonly reason: string | undefined,
    readonly error: ExecutionError | undefined,
    readonly items: MapItem[],
  ) {}
  /** Whether every item ran to its end without an exception. */
  get ok(): boolean { return this.status === "ok" && this.items.every((item) => item.status === "ok"); }
  /** The values of all items, undefined for those that failed. */
  get values(): any[] { return this.items.map((item) => item.value); }
}

/** @internal Builds the result of a map from the lines of its stream. */
export class MapCollector {
  /** Once the map has ended. */
  result?: MapResult;
  #items = new Map<number, MapItem>();

  /** Whether a line is new: a reopened stream begins with the items that have ended. */
  fresh(line: any): boolean { return !this.#items.has(line.index); }

  /** Adds a line, and returns the item in it. The last line is the summary. */
  take(line: any): MapItem | undefined {
    if (line.type === "summary") {
      const items = [...this.#items.values()].sort((a, b) => a.index - b.index);
      this.result = new MapResult(line.execution_id, line.status, line.reason, errorOf(line.error), items);
      return;
    }
    const { index, status, reason, value, text, artifacts } = line;
    const results = line.outputs.filter((o: any) => o.data).map((o: any) => new Result(o.data, o.metadata ?? {}));
    const item: MapItem = {
      index, status, reason, value, valueType: line.value_type, text, error: errorOf(line.error), results, artifacts,
      durationMs: line.duration_ms,
    };
    this.#items.set(index, item);
    return item;
  }
}
