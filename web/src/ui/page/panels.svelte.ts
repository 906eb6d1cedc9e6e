// What is open beside and above the cells.

import type { Output } from "../../log/state";

export type Drawer = "" | "files" | "variables" | "timeline" | "checkpoints" | "calls" | "about";
export type Dialog = "" | "palette" | "export" | "keys" | "reset" | "reset-run-all" | "share" | "rename" | "go-back";

export class Panels {
  drawer = $state<Drawer>("");
  dialog = $state<Dialog>("");
  checkpoint = $state(""); // which one the dialog about going back is about
  large = $state.raw<{ output: Output; where: string; source: string }>(); // the output that fills the page

  // toggle opens a drawer, or closes it.
  toggle(drawer: Drawer): void {
    this.drawer = this.drawer === drawer ? "" : drawer;
  }
}
