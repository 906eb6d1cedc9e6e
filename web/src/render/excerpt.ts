// Excerpts of large JSON. To build megabytes of objects, or to clone them from a worker, holds the page as long as it takes.
// So the worker parses them, and the page gets what it can show, with the whole of each value as a Blob beside it.

import { settled } from "../ansi/screen";
import type { Bundle, Cut, Json } from "../proto/types";
import { tableType } from "./mime";
import { parseTable } from "./table";

const maxWhole = 32 << 10; // characters of a value that is passed on whole
const maxDepth = 500; // levels of an excerpt
const maxEntries = 200; // of a list or an object: as many as the page shows
const maxValues = { tree: 20_000, other: 1000 }; // values of an excerpt

export type Work = "message" | "notebook" | "settle";
export interface Task { work: Work; text: string | Blob }
export type Answer = { ok: true; result: unknown } | { ok: false; why: string };

type Obj = { [key: string]: Json };
interface Display { data?: Json; metadata?: Json; cut?: Cut }

const isObject = (value: unknown): value is Obj => typeof value === "object" && value !== null && !Array.isArray(value);

export async function attempt({ work, text }: Task): Promise<Answer> {
  try {
    return { ok: true, result: perform(work, typeof text === "string" ? text : await text.text()) };
  } catch (err) {
    return { ok: false, why: String(err) };
  }
}

function perform(work: Work, text: string): unknown {
  if (work === "settle") return settled(text);
  const message = JSON.parse(text) as Json;
  if (!isObject(message)) return message;
  if (work === "message") {
    if (message["type"] === "tool_call") message["arguments"] = treeExcerpt(message["arguments"] ?? null, new Map(), maxValues.other);
    excerpt(message as Display, text);
    return message;
  }
  for (const cell of Array.isArray(message["cells"]) ? message["cells"] : []) {
    if (!isObject(cell) || !Array.isArray(cell["outputs"])) continue;
    const made = isObject(cell["metadata"] ?? null) && (cell["metadata"] as Obj)["talaria"];
    if (made) cell["outputs"] = []; // what an execution made is in the log
    for (const output of cell["outputs"]) if (isObject(output)) excerpt(output as Display, text);
  }
  return message;
}

// excerpt replaces the large JSON values of a display in a message. Strings stay: to clone them costs next to nothing.
function excerpt(display: Display, message: string): void {
  const whole = new Map<string, Blob>();
  const sizes = new Map<object, number>();
  const cut = (value: Json, key: string, take: (value: Json) => Json): Json => {
    if (typeof value !== "object" || value === null) return value;
    const text = textOf(value);
    if (text !== undefined && text.length <= maxWhole) return value;
    whole.set(key, new Blob([text ?? message], { type: "application/json" }));
    return take(value);
  };
  if (isObject(display.data)) {
    const data: Bundle = display.data;
    for (const [mime, value] of Object.entries(data)) {
      data[mime] = cut(joined(mime, value), mime, (v) => (mime === tableType && tableExcerpt(v))
        || treeExcerpt(v, sizes, mime === "application/json" ? maxValues.tree : maxValues.other));
    }
  }
  if (display.metadata !== undefined) display.metadata = cut(display.metadata, "metadata", (v) => treeExcerpt(v, sizes, maxValues.other));
  if (whole.size) display.cut = { whole, sizes };
}

// textOf is undefined for a value too deep for the browser to write: the whole message stands in for it.
function textOf(value: Json): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

// joined is a text that a notebook file has as a list of lines.
function joined(mime: string, value: Json): Json {
  return Array.isArray(value) && !mime.endsWith("json") && value.every((line) => typeof line === "string") ? value.join("") : value;
}

// tableExcerpt is a table with the columns and rows that the page can show.
function tableExcerpt(value: Json): Json | undefined {
  const table = parseTable(value);
  if (!table) return undefined;
  const fields = table.fields.map(({ name, title = null, type, dtype = null, nulls = null, index }) => ({ name, title, type, dtype, null_count: nulls, index }));
  return { schema: { fields }, data: table.rows, total_rows: table.total, table_id: table.id ?? null, truncated: table.cut };
}

// treeExcerpt is the outer values of a tree, and the first of each list and object. sizes gets the true size of those cut.
export function treeExcerpt(value: Json, sizes: Map<object, number>, room: number): Json {
  const waiting: { from: Json[] | Obj; to: Json[] | Obj; depth: number }[] = [];
  const copy = (from: Json, depth: number): Json => {
    if (typeof from !== "object" || from === null) return from;
    const to = Array.isArray(from) ? [] : {};
    waiting.push({ from, to, depth });
    return to;
  };
  const root = copy(value, 0);
  for (const { from, to, depth } of waiting) { // grows meanwhile
    const keys = Array.isArray(from) ? undefined : Object.keys(from);
    const size = keys?.length ?? (from as Json[]).length;
    const taken = depth < maxDepth ? Math.min(size, maxEntries, room) : 0;
    room -= taken;
    for (let i = 0; i < taken; i++) {
      const key = keys ? keys[i] as string : i;
      // A plain assignment would take __proto__ for the prototype.
      Object.defineProperty(to, key, { value: copy((from as Obj)[key] ?? null, depth + 1), enumerable: true, configurable: true, writable: true });
    }
    if (taken < size) sizes.set(to, size);
  }
  return root;
}
