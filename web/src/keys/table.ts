// Every action of the notebook page, once: the palette, the sheet of keys and the key handling are all made from this.

export type Mode = "command" | "edit" | "any";

export interface Action {
  id: ActionID;
  title: string;
  group: "Run" | "Cells" | "Move" | "Notebook" | "Look";
  keys?: readonly Binding[];
  needs?: "write"; // not on a read-only page
}

// Keys are "Mod-Shift-Enter" and the like, or a sequence: "d d". Mod is Ctrl, and ⌘ on a Mac.
export interface Binding { keys: string; mode: Mode }

interface Row extends Omit<Action, "id"> { id: string }

const command = (keys: string): Binding => ({ keys, mode: "command" });
const edit = (keys: string): Binding => ({ keys, mode: "edit" });
const any = (keys: string): Binding => ({ keys, mode: "any" });

const table = [
  { id: "run-next", title: "Run the cell and go to the next", group: "Run", keys: [any("Shift-Enter")], needs: "write" },
  { id: "run-stay", title: "Run the cell and stay", group: "Run", keys: [any("Mod-Enter")], needs: "write" },
  { id: "run-insert", title: "Run the cell and insert one below", group: "Run", keys: [any("Alt-Enter")], needs: "write" },
  { id: "run-all", title: "Run all cells", group: "Run", keys: [command("Mod-Shift-Enter")], needs: "write" },
  { id: "run-above", title: "Run all cells above", group: "Run", needs: "write" },
  { id: "run-below", title: "Run this cell and all below", group: "Run", needs: "write" },
  { id: "interrupt", title: "Stop what runs", group: "Run", keys: [command("i i")], needs: "write" },
  { id: "reset", title: "Reset: start Python anew…", group: "Run", keys: [command("0 0")], needs: "write" },
  { id: "reset-run-all", title: "Reset and run all…", group: "Run", needs: "write" },

  { id: "insert-above", title: "Insert a code cell above", group: "Cells", keys: [command("a")], needs: "write" },
  { id: "insert-below", title: "Insert a code cell below", group: "Cells", keys: [command("b")], needs: "write" },
  { id: "insert-text", title: "Insert a text cell below", group: "Cells", needs: "write" },
  { id: "delete", title: "Delete the cell", group: "Cells", keys: [command("d d")], needs: "write" },
  { id: "cut", title: "Cut the cell", group: "Cells", keys: [command("x")], needs: "write" },
  { id: "copy", title: "Copy the cell", group: "Cells", keys: [command("c")] },
  { id: "paste", title: "Paste the cell below", group: "Cells", keys: [command("v")], needs: "write" },
  { id: "undo", title: "Undo the last change to cells", group: "Cells", keys: [command("z"), command("Mod-z")], needs: "write" },
  { id: "redo", title: "Redo it", group: "Cells", keys: [command("Shift-z"), command("Mod-Shift-z")], needs: "write" },
  { id: "to-text", title: "Make it a text cell", group: "Cells", keys: [command("m")], needs: "write" },
  { id: "to-code", title: "Make it a code cell", group: "Cells", keys: [command("y")], needs: "write" },
  { id: "to-raw", title: "Make it a raw cell", group: "Cells", keys: [command("r")], needs: "write" },
  { id: "heading-1", title: "Make it a heading", group: "Cells", keys: [command("1")], needs: "write" },
  { id: "heading-2", title: "Make it a smaller heading", group: "Cells", keys: [command("2")], needs: "write" },
  { id: "heading-3", title: "Make it a still smaller heading", group: "Cells", keys: [command("3")], needs: "write" },
  { id: "split", title: "Split the cell at the cursor", group: "Cells", keys: [edit("Mod-Shift-Minus")], needs: "write" },
  { id: "merge", title: "Merge with the cell below", group: "Cells", keys: [command("Shift-m")], needs: "write" },
  { id: "move-up", title: "Move the cell up", group: "Cells", keys: [any("Alt-Shift-ArrowUp"), command("Shift-k")], needs: "write" },
  { id: "move-down", title: "Move the cell down", group: "Cells", keys: [any("Alt-Shift-ArrowDown"), command("Shift-j")], needs: "write" },

  { id: "edit", title: "Edit the cell", group: "Move", keys: [command("Enter")] },
  { id: "leave", title: "Leave the editor", group: "Move", keys: [edit("Escape")] },
  { id: "down", title: "Select the next cell", group: "Move", keys: [command("j"), command("ArrowDown")] },
  { id: "up", title: "Select the cell before", group: "Move", keys: [command("k"), command("ArrowUp")] },
  { id: "first", title: "Select the first cell", group: "Move", keys: [command("g g"), command("Mod-Home")] },
  { id: "last", title: "Select the last cell", group: "Move", keys: [command("Shift-g"), command("Mod-End")] },
  { id: "running", title: "Go to the cell that runs", group: "Move", keys: [command("g r")] },

  { id: "palette", title: "All commands", group: "Notebook", keys: [any("Mod-k")] },
  { id: "keys", title: "Keys", group: "Notebook", keys: [command("?"), command("h")] },
  { id: "save", title: "Save now", group: "Notebook", keys: [any("Mod-s")], needs: "write" },
  { id: "rename", title: "Rename the session", group: "Notebook", needs: "write" },
  { id: "keep", title: "Keep Python alive for another while", group: "Notebook", needs: "write" },
  { id: "share", title: "Share a read-only link…", group: "Notebook", needs: "write" },
  { id: "export-ipynb", title: "Export as a notebook file (.ipynb)", group: "Notebook" },
  { id: "export-py", title: "Export as a script (.py)", group: "Notebook" },
  { id: "export-html", title: "Export as a page (.html)", group: "Notebook" },
  { id: "import", title: "Import a notebook file…", group: "Notebook", needs: "write" },
  { id: "print", title: "Print, or save as PDF", group: "Notebook" },
  { id: "sessions", title: "Sessions", group: "Notebook", keys: [command("g s")] },

  { id: "files", title: "Files", group: "Look", keys: [command("g f")] },
  { id: "variables", title: "Variables", group: "Look", keys: [command("g v")] },
  { id: "timeline", title: "Timeline of runs", group: "Look", keys: [command("g t")] },
  { id: "terminal", title: "Terminal", group: "Look", keys: [command("g c")], needs: "write" },
  { id: "terminal-reader", title: "Terminal for a screen reader, on or off", group: "Look", needs: "write" },
  { id: "outline", title: "About this session", group: "Look", keys: [command("g i")] },
  { id: "toggle-output", title: "Fold or unfold the output", group: "Look", keys: [command("o")] },
  { id: "copy-output", title: "Copy the output of the cell", group: "Look" },
  { id: "toggle-numbers", title: "Line numbers", group: "Look", keys: [command("Shift-l")] },
  { id: "toggle-density", title: "Comfortable or compact", group: "Look" },
  { id: "toggle-theme", title: "Light or dark", group: "Look" },
  { id: "theme-system", title: "Light or dark as the system is", group: "Look" },
] as const satisfies readonly Row[];

export type ActionID = (typeof table)[number]["id"];

export const actions: readonly Action[] = table;
