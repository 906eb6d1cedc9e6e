// Undo of what is done to cells (not of typing, which the editor undoes itself).

import type { Cell } from "../proto/types";

const depth = 100;

// same pairs ids of one cell where the step renamed it.
export interface Step { cells: readonly Cell[]; said: string; same: ReadonlyMap<string, string> }

export class Undo {
  private past: Step[] = [];
  private future: Step[] = [];

  did(before: readonly Cell[], said: string, same: Step["same"] = new Map()): void {
    this.past = [...this.past.slice(1 - depth), { cells: before, said, same }];
    this.future = [];
  }

  undo(now: readonly Cell[]): Step | undefined {
    return this.step(now, "past", "future");
  }

  redo(now: readonly Cell[]): Step | undefined {
    return this.step(now, "future", "past");
  }

  private step(now: readonly Cell[], from: "past" | "future", to: "past" | "future"): Step | undefined {
    const step = this[from].pop();
    if (step) this[to].push({ ...step, cells: now });
    return step;
  }
}

// restored is an earlier list with the text that the cells have now: undoing a deletion must not undo typing.
export function restored({ cells, same }: Step, now: readonly Cell[]): Cell[] {
  const current = new Map(now.map((cell) => [cell.id, cell]));
  return cells.map((cell) => ({ ...(current.get(cell.id) ?? current.get(same.get(cell.id) ?? "") ?? cell), id: cell.id }));
}
