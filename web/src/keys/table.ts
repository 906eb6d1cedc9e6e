// Every action of the notebook page, once: the palette, the sheet of keys and the key handling are all made from this.

export type Mode = "command" | "edit" | "any";

export interface Action {
  id: ActionID;
  title: string;
  group: "Run" | "Cells" | "Move" | "Notebook" | "View";
  keys?: readonly Binding[];
  also?: string; // other words that people search for
  needs?: "write"; // not on a read-only page
}

// Keys are "Mod-Shift-Enter" and the like, or a sequence: "d d". Mod is Ctrl, and ⌘ on a Mac.
export interface Binding { keys: string; mode: Mode }

interface Row extends Omit<Action, "id"> { id: string }

const command = (keys: string): Binding => ({ keys, mode: "command" });
const edit = (keys: string): Binding => ({ keys, mode: "edit" });
const any = (keys: string): Binding => ({ keys, mode: "any" });

const table = [
  { id: "run-next", title: "Run the cell and go to the next", group: "Run", keys: [any("Shift-Enter")], needs: "write", also: "execute" },
  { id: "run-stay", title: "Run the cell and stay", group: "Run", keys: [any("Mod-Enter")], needs: "write", also: "execute" },
  { id: "run-insert", title: "Run the cell and insert one below", group: "Run", keys: [any("Alt-Enter")], needs: "write", also: "execute" },
  { id: "run-all", title: "Run all cells", group: "Run", keys: [command("Mod-Shift-Enter")], needs: "write", also: "execute" },
  { id: "run-above", title: "Run all cells above", group: "Run", needs: "write", also: "execute" },
  { id: "run-below", title: "Run this cell and all below", group: "Run", needs: "write", also: "execute" },
  { id: "interrupt", title: "Interrupt the running cell", group: "Run", keys: [command("i i")], needs: "write", also: "stop cancel kill abort" },
  { id: "reset", title: "Restart Python…", group: "Run", keys: [command("0 0")], needs: "write", also: "reset kernel clear variables" },
  { id: "checkpoint", title: "Make a checkpoint", group: "Run", needs: "write", also: "save snapshot state" },
  { id: "go-back", title: "Go back to the checkpoint after the cell…", group: "Run", needs: "write", also: "rollback undo restore time" },
  { id: "reset-run-all", title: "Restart Python and run all cells…", group: "Run", needs: "write", also: "reset kernel" },

  { id: "insert-above", title: "Insert a code cell above", group: "Cells", keys: [command("a")], needs: "write", also: "new add" },
  { id: "insert-below", title: "Insert a code cell below", group: "Cells", keys: [command("b")], needs: "write", also: "new add" },
  { id: "insert-text", title: "Insert a text cell below", group: "Cells", needs: "write", also: "new add markdown" },
  { id: "delete", title: "Delete the cell", group: "Cells", keys: [command("d d")], needs: "write", also: "remove" },
  { id: "cut", title: "Cut the cell", group: "Cells", keys: [command("x")], needs: "write" },
  { id: "copy", title: "Copy the cell", group: "Cells", keys: [command("c")] },
  { id: "paste", title: "Paste the cell below", group: "Cells", keys: [command("v")], needs: "write" },
  { id: "undo", title: "Undo the last change to cells", group: "Cells", keys: [command("z"), command("Mod-z")], needs: "write" },
  { id: "redo", title: "Redo the last change to cells", group: "Cells", keys: [command("Shift-z"), command("Mod-Shift-z")], needs: "write" },
  { id: "to-text", title: "Turn it into a text cell", group: "Cells", keys: [command("m")], needs: "write", also: "make markdown convert" },
  { id: "to-code", title: "Turn it into a code cell", group: "Cells", keys: [command("y")], needs: "write", also: "make python convert" },
  { id: "to-raw", title: "Turn it into a raw cell", group: "Cells", keys: [command("r")], needs: "write", also: "make convert" },
  { id: "heading-1", title: "Heading 1", group: "Cells", keys: [command("1")], needs: "write", also: "make title" },
  { id: "heading-2", title: "Heading 2", group: "Cells", keys: [command("2")], needs: "write", also: "make subtitle" },
  { id: "heading-3", title: "Heading 3", group: "Cells", keys: [command("3")], needs: "write", also: "make" },
  { id: "split", title: "Split the cell at the cursor", group: "Cells", keys: [edit("Mod-Shift-Minus")], needs: "write" },
  { id: "merge", title: "Merge with the cell below", group: "Cells", keys: [command("Shift-m")], needs: "write" },
  { id: "move-up", title: "Move the cell up", group: "Cells", keys: [any("Alt-Shift-ArrowUp"), command("Shift-k")], needs: "write" },
  { id: "move-down", title: "Move the cell down", group: "Cells", keys: [any("Alt-Shift-ArrowDown"), command("Shift-j")], needs: "write" },
  { id: "clear-output", title: "Clear the output of the cell", group: "Cells", needs: "write", also: "remove delete" },
  { id: "clear-outputs", title: "Clear all outputs", group: "Cells", needs: "write", also: "remove delete" },
  { id: "install", title: "Insert a cell that installs packages", group: "Cells", needs: "write", also: "pip package library" },

  { id: "edit", title: "Edit the cell", group: "Move", keys: [command("Enter")] },
  { id: "leave", title: "Leave the editor", group: "Move", keys: [edit("Escape")] },
  { id: "down", title: "Select the next cell", group: "Move", keys: [command("j"), command("ArrowDown")] },
  { id: "up", title: "Select the previous cell", group: "Move", keys: [command("k"), command("ArrowUp")] },
  { id: "first", title: "Select the first cell", group: "Move", keys: [command("g g"), command("Mod-Home")] },
  { id: "last", title: "Select the last cell", group: "Move", keys: [command("Shift-g"), command("Mod-End")] },
  { id: "running", title: "Go to the running cell", group: "Move", keys: [command("g r")] },
  { id: "approval", title: "Go to the approval request", group: "Move", keys: [command("g a")], needs: "write", also: "allow deny answer" },
  { id: "find", title: "Find in the cell", group: "Move", keys: [edit("Mod-f")], also: "search replace" },

  { id: "palette", title: "All commands", group: "Notebook", keys: [any("Mod-k")] },
  { id: "keys", title: "Keyboard shortcuts", group: "Notebook", keys: [command("?"), command("h")], also: "keys help" },
  { id: "save", title: "Save now", group: "Notebook", keys: [any("Mod-s")], needs: "write" },
  { id: "rename", title: "Rename the session…", group: "Notebook", needs: "write", also: "title name" },
  { id: "keep", title: "Keep Python alive longer", group: "Notebook", needs: "write", also: "extend idle time" },
  { id: "share", title: "Share a read-only link…", group: "Notebook", needs: "write", also: "publish" },
  { id: "export-ipynb", title: "Export as a notebook file (.ipynb)", group: "Notebook", also: "download save jupyter" },
  { id: "export-py", title: "Export as a script (.py)", group: "Notebook", also: "download save python" },
  { id: "export-html", title: "Export as a web page (.html)", group: "Notebook", also: "download save" },
  { id: "import", title: "Import a notebook file…", group: "Notebook", needs: "write", also: "open upload jupyter ipynb" },
  { id: "print", title: "Print, or save as PDF", group: "Notebook", also: "export download" },
  { id: "sessions", title: "All sessions", group: "Notebook", keys: [command("g s")], also: "home list new back" },

  { id: "files", title: "Files", group: "View", keys: [command("g f")], also: "upload download folder workspace" },
  { id: "variables", title: "Variables", group: "View", keys: [command("g v")] },
  { id: "timeline", title: "Timeline of runs", group: "View", keys: [command("g t")], also: "history" },
  { id: "checkpoints", title: "Checkpoints", group: "View", keys: [command("g k")], needs: "write", also: "rollback undo history snapshots" },
  { id: "calls", title: "Tool calls", group: "View", keys: [command("g o")], needs: "write", also: "audit approvals" },
  { id: "terminal", title: "Terminal", group: "View", keys: [command("g c")], needs: "write", also: "shell console bash" },
  { id: "terminal-reader", title: "Screen reader mode of the terminal, on or off", group: "View", needs: "write", also: "accessibility" },
  { id: "outline", title: "About this session", group: "View", keys: [command("g i")], also: "info limits isolation" },
  { id: "toggle-output", title: "Fold or unfold the output", group: "View", keys: [command("o")], also: "collapse expand hide show" },
  { id: "copy-output", title: "Copy the output of the cell", group: "View", also: "clipboard" },
  { id: "toggle-numbers", title: "Line numbers, on or off", group: "View", keys: [command("Shift-l")] },
  { id: "toggle-density", title: "Comfortable or compact spacing", group: "View", also: "density" },
  { id: "toggle-theme", title: "Light or dark", group: "View", also: "theme colours colors mode" },
  { id: "theme-system", title: "Light or dark, like the system", group: "View", also: "theme colours colors mode" },
] as const satisfies readonly Row[];

export type ActionID = (typeof table)[number]["id"];

export const actions: readonly Action[] = table;
