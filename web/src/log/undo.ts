// Undo of what is done to cells (not of typing, which the editor undoes itself).

import type { Cell } from "../proto/types";
import { noDocument } from "./cells";
import { mergeDocuments } from "./merge";

const depth = 100;

// A step leads from the list after it back to cells. same pairs ids of one cell where the step renamed it.
export interface Step { cells: readonly Cell[]; after: readonly Cell[]; said: string; same: ReadonlyMap<string, string> }

export class Undo {
  private past: Step[] = [];
  private future: Step[] = [];

  did(before: readonly Cell[], after: readonly Cell[], said: string, same: Step["same"] = new Map()): void {
    this.past = [...this.past.slice(1 - depth), { cells: before, after, said, same }];
    this.future = [];
  }

  undo(now: readonly Cell[]): Step | undefined {
    return this.step(now, "past", "future");
  }

  redo(now: readonly Cell[]): Step | undefined {
    return this.step(now, "future", "past");
  }

  // forget drops all steps: the cells that they are about are no longer there.
  forget(): void {
    this.past = [];
    this.future = [];
  }

  private step(now: readonly Cell[], from: "past" | "future", to: "past" | "future"): Step | undefined {
    const step = this[from].pop();
    if (step) this[to].push({ ...step, cells: now, after: restored(step, now) });
    return step;
  }
}

// restored takes a step back in the cells as they are now. What others did meanwhile stays, and so does what was typed, except in
// cells that the step had added.
export function restored({ cells, after, same }: Step, now: readonly Cell[]): Cell[] {
  const known = new Set(cells.map((cell) => cell.id));
  const named = (cell: Cell): Cell => ({ ...cell, id: known.has(cell.id) ? cell.id : same.get(cell.id) ?? cell.id });
  const present = now.map(named);
  const current = new Map(present.map((cell) => [cell.id, cell]));
  const base = after.map(named).map((cell) => (known.has(cell.id) ? cell : current.get(cell.id) ?? cell));
  const list = (some: readonly Cell[]) => ({ ...noDocument, cells: [...some] });
  return mergeDocuments(list(base), list(cells), list(present)).doc.cells;
}
