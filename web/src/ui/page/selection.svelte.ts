// What the keyboard acts on: the selected cell, whether it is being edited, and what was copied.

import { indexOf } from "../../log/cells";
import type { Cell } from "../../proto/types";
import { editors } from "./editors";

export class Selection {
  id = $state(""); // of the selected cell
  mode = $state<"command" | "edit">("command");
  clip = $state.raw<readonly Cell[]>([]);
  folded = $state.raw<ReadonlySet<string>>(new Set()); // cells whose output is folded
  private caret = 0; // where it is to be when the editor of the selected cell opens

  // cells are those of the notebook now, in their order.
  constructor(private readonly cells: () => readonly Cell[]) {}

  // select selects a cell. caret is where the caret is to be, if its editor is not open yet.
  select(id: string, mode: "command" | "edit" = "command", caret = 0): void {
    this.id = id;
    this.mode = mode;
    this.caret = caret;
  }

  // caretIn returns where the caret is to be in the editor of a cell, which opens now.
  caretIn(id: string): number {
    return id === this.id ? this.caret : 0;
  }

  // step selects the cell that many places further, and tells whether there is one.
  step(by: number): boolean {
    const cells = this.cells();
    const next = cells[indexOf(cells, this.id) + by];
    if (!next) return false;
    this.select(next.id);
    return true;
  }

  // toCells leaves edit mode and gives the keyboard back to the selected cell.
  toCells(): void {
    this.select(this.id);
    this.focus();
  }

  // focus gives the keyboard back to the selected cell; in edit mode, to its editor.
  focus(): void {
    const editor = this.mode === "edit" ? editors.get(this.id) : undefined;
    if (editor) editor.focus();
    else document.querySelector<HTMLElement>(".cell.selected")?.focus({ preventScroll: true });
  }

  toggleOutput(id: string): void {
    const folded = new Set(this.folded);
    if (!folded.delete(id)) folded.add(id);
    this.folded = folded;
  }
}
