// The notebook's cells: pure operations, each giving a new list. Lists and cells are never changed in place.

import type { Cell, Document } from "../proto/types";
import type { LogState, Run } from "./state";

export const noDocument: Document = { revision: 0, title: "", through: 0, imported: false, cells: [] };

const letters = "0123456789abcdefghijklmnopqrstuvwxyz";

export function randomID(length: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) => letters[byte % 36]).join("");
}

export const newCell = (cell_type: Cell["cell_type"] = "code", source = ""): Cell => ({ id: `c-${randomID(10)}`, cell_type, source });

// A run of a cell has an id that names the cell, so that the log alone tells which run belongs where.
export const runID = (cellID: string): string => `${cellID}.r${randomID(8)}`;
export const cellOf = (run: string): string => run.replace(/\.r[0-9a-z]{8}$/, "");

export const indexOf = (cells: readonly Cell[], id: string): number => cells.findIndex((cell) => cell.id === id);

export function insert(cells: readonly Cell[], at: number, ...added: Cell[]): Cell[] {
  return [...cells.slice(0, at), ...added, ...cells.slice(at)];
}

export const remove = (cells: readonly Cell[], ids: readonly string[]): Cell[] => cells.filter((cell) => !ids.includes(cell.id));

export function change(cells: readonly Cell[], id: string, part: Partial<Omit<Cell, "id">>): Cell[] {
  return cells.map((cell) => (cell.id === id ? { ...cell, ...part } : cell));
}

// move puts a cell `by` places further down, or up.
export function move(cells: readonly Cell[], id: string, by: number): Cell[] {
  const from = indexOf(cells, id);
  const cell = cells[from];
  if (!cell) return [...cells];
  const rest = cells.filter((c) => c.id !== id);
  return insert(rest, Math.max(0, Math.min(rest.length, from + by)), cell);
}

// renamed gives cells new ids: the runs, and so the outputs, of the old ones are no longer theirs.
export function renamed(cells: readonly Cell[], ids: readonly string[]): { cells: Cell[]; to: ReadonlyMap<string, string> } {
  const to = new Map(ids.map((id) => [id, newCell().id]));
  return { cells: cells.map((cell) => ({ ...cell, id: to.get(cell.id) ?? cell.id })), to };
}

// split cuts a cell in two at a place in its source. The upper part keeps the id, and so the outputs.
export function split(cells: readonly Cell[], id: string, at: number): { cells: Cell[]; added: string } | undefined {
  const index = indexOf(cells, id);
  const cell = cells[index];
  if (!cell) return undefined;
  const lower = newCell(cell.cell_type, cell.source.slice(at).replace(/^\n/, ""));
  const upper = { ...cell, source: cell.source.slice(0, at).replace(/\n$/, "") };
  return { cells: [...cells.slice(0, index), upper, lower, ...cells.slice(index + 1)], added: lower.id };
}

// merge joins a cell with the one below it.
export function merge(cells: readonly Cell[], id: string): Cell[] | undefined {
  const index = indexOf(cells, id);
  const [cell, below] = [cells[index], cells[index + 1]];
  if (!cell || !below) return undefined;
  const source = [cell.source, below.source].filter((text) => text !== "").join("\n");
  return [...cells.slice(0, index), { ...cell, source }, ...cells.slice(index + 2)];
}

// withRuns adds a cell for each run that the document does not know: others ran them, over the API or in a chat.
export function withRuns(doc: Document, log: LogState): Document {
  const known = new Set(doc.cells.map((cell) => cell.id));
  const added: { run: Run; id: string }[] = [];
  for (const [id, ids] of log.cells) {
    if (known.has(id)) continue;
    const run = ids.map((each) => log.runs.get(each)).find((r) => r && r.queuedSeq > doc.through && !r.silent && r.status !== "queued");
    if (run) added.push({ run, id });
  }
  if (!added.length) return doc;
  added.sort((a, b) => a.run.queuedSeq - b.run.queuedSeq);
  return { ...doc, cells: [...doc.cells, ...added.map(({ run, id }): Cell => ({ id, cell_type: "code", source: run.code }))] };
}

// throughOf is the seq up to which a document has the runs of the log. One that another client queued is not in it until it starts;
// a page's own run has a cell, or was taken out with it.
export function throughOf(doc: Document, log: LogState): number {
  const waiting = log.open.map((id) => log.runs.get(id)).filter((run) => run?.status === "queued" && cellOf(run.id) === run.id);
  return Math.max(doc.through, Math.min(log.seq, ...waiting.map((run) => (run?.queuedSeq ?? 0) - 1)));
}

export const lastRun = (log: LogState, cell: string): Run | undefined => log.runs.get(log.cells.get(cell)?.at(-1) ?? "");
