// What each action of keys/table does.

import { toScript } from "../../ipynb/script";
import type { ActionID } from "../../keys/table";
import { newCell } from "../../log/cells";
import { sessionPath } from "../../proto/rest";
import { textToTake } from "../outputs/take";
import { editors } from "./editors";
import { go } from "./navigate.svelte";
import type { Notebook } from "./notebook.svelte";
import { save, saveBlob } from "./save";
import { settings } from "./settings.svelte";

const fileName = (nb: Notebook, ending: string) => `${nb.title.replaceAll(/[/\\:*?"<>|\n]/g, "-").slice(0, 80) || "notebook"}.${ending}`;

// pick opens the browser's file dialog.
export function pick(accept: string): Promise<File | undefined> {
  return new Promise((resolve) => {
    const input = document.createElement("input");
    input.type = "file";
    input.accept = accept;
    input.onchange = () => resolve(input.files?.[0]);
    input.oncancel = () => resolve(undefined);
    input.click();
  });
}

// exportFile downloads the server's notebook file: it has what was imported and what the log holds.
async function exportFile(nb: Notebook): Promise<void> {
  await nb.save();
  const link = document.createElement("a");
  link.href = sessionPath(nb.id, "/notebook");
  link.download = "";
  link.click();
}

async function runHere(nb: Notebook, then: "next" | "stay" | "insert"): Promise<void> {
  const id = nb.selected;
  const cell = nb.cell(id);
  if (!cell) return;
  editors.get(id)?.quiet();
  const ran = cell.cell_type === "code" ? nb.run(id) : undefined;
  if (then === "insert") {
    const added = nb.add("below", id);
    nb.select(added, "edit");
  } else if (then === "next") {
    if (nb.step(1)) {
      const next = nb.cell(nb.selected);
      if (next && !next.source && next.cell_type === "code") nb.mode = "edit";
    } else nb.select(nb.add("below", id), "edit");
  } else nb.mode = "command";
  await ran;
}

type Doing = (nb: Notebook) => unknown;

const doings: Record<ActionID, Doing> = {
  "run-next": (nb) => runHere(nb, "next"),
  "run-stay": (nb) => runHere(nb, "stay"),
  "run-insert": (nb) => runHere(nb, "insert"),
  "run-all": (nb) => nb.runAll(),
  "run-above": (nb) => nb.runMany((i, here) => i < here),
  "run-below": (nb) => nb.runMany((i, here) => i >= here),
  "interrupt": (nb) => nb.interrupt(),
  "reset": (nb) => (nb.dialog = "reset"),
  "reset-run-all": (nb) => (nb.dialog = "reset-run-all"),

  "insert-above": (nb) => nb.add("above", nb.selected),
  "insert-below": (nb) => nb.add("below", nb.selected),
  "insert-text": (nb) => nb.select(nb.add("below", nb.selected, newCell("markdown")), "edit"),
  "delete": (nb) => nb.delete(nb.selected),
  "cut": (nb) => { nb.copy(nb.selected); nb.delete(nb.selected); },
  "copy": (nb) => { nb.copy(nb.selected); nb.say("Cell copied. V pastes it below."); },
  "paste": (nb) => nb.paste(nb.selected),
  "undo": (nb) => nb.undo(),
  "redo": (nb) => nb.undo(true),
  "to-text": (nb) => nb.setKind(nb.selected, "markdown"),
  "to-code": (nb) => nb.setKind(nb.selected, "code"),
  "to-raw": (nb) => nb.setKind(nb.selected, "raw"),
  "heading-1": (nb) => nb.heading(nb.selected, 1),
  "heading-2": (nb) => nb.heading(nb.selected, 2),
  "heading-3": (nb) => nb.heading(nb.selected, 3),
  "split": (nb) => nb.split(nb.selected, editors.get(nb.selected)?.cursor() ?? 0),
  "merge": (nb) => nb.merge(nb.selected),
  "move-up": (nb) => nb.move(nb.selected, -1),
  "move-down": (nb) => nb.move(nb.selected, 1),

  "clear-output": (nb) => nb.clearOutputs([nb.selected]),
  "clear-outputs": (nb) => nb.clearOutputs(nb.view.cells.map((cell) => cell.id)),
  "install": (nb) => nb.select(nb.add("below", nb.selected, newCell("code", "%pip install ")), "edit"),

  "edit": (nb) => nb.select(nb.selected, "edit"),
  "leave": (nb) => nb.select(nb.selected),
  "down": (nb) => nb.step(1),
  "up": (nb) => nb.step(-1),
  "first": (nb) => nb.select(nb.view.cells[0]?.id ?? ""),
  "last": (nb) => nb.select(nb.view.cells.at(-1)?.id ?? ""),
  "find": (nb) => editors.get(nb.selected)?.find(),
  "running": (nb) => { if (nb.runningID) nb.select(nb.cellOfRun(nb.runningID)); },

  "palette": (nb) => (nb.dialog = "palette"),
  "keys": (nb) => (nb.dialog = "keys"),
  "save": (nb) => nb.save(),
  "rename": (nb) => (nb.dialog = "rename"),
  "keep": (nb) => nb.keep(),
  "share": (nb) => (nb.dialog = "share"),
  "export-ipynb": exportFile,
  "export-py": (nb) => save(fileName(nb, "py"), "text/x-python", toScript(nb.title, nb.view.cells)),
  "export-html": async (nb) => saveBlob(fileName(nb, "html"), await (await import("./export")).toPage(nb)),
  "import": async (nb) => {
    const file = await pick(".ipynb,application/x-ipynb+json,application/json");
    if (file) await nb.import(await file.text());
  },
  "print": () => print(),
  "sessions": () => go(""),

  "files": (nb) => toggle(nb, "files"),
  "variables": (nb) => toggle(nb, "variables"),
  "timeline": (nb) => toggle(nb, "timeline"),
  "terminal": (nb) => nb.terminals.goTo(),
  "terminal-reader": () => settings.set({ reader: !settings.reader }),
  "outline": (nb) => toggle(nb, "about"),
  "toggle-output": (nb) => nb.toggleOutput(nb.selected),
  "copy-output": copyOutputs,
  "toggle-numbers": () => settings.set({ numbers: !settings.numbers }),
  "toggle-density": () => settings.set({ compact: !settings.compact }),
  "toggle-theme": () => settings.set({ theme: settings.dark ? "light" : "dark" }),
  "theme-system": () => settings.set({ theme: "system" }),
};

async function copyOutputs(nb: Notebook): Promise<void> {
  const text = (await Promise.all((await nb.outputs(nb.selected)).map(textToTake))).join("\n");
  if (!text) return nb.say("This cell has no output.");
  await navigator.clipboard.writeText(text).then(() => nb.say("Copied."), () => nb.say("The browser did not allow copying."));
}

function toggle(nb: Notebook, drawer: Notebook["drawer"]): void {
  nb.drawer = nb.drawer === drawer ? "" : drawer;
}

// act does what an action means, and says so where that fails.
export async function act(nb: Notebook, id: ActionID): Promise<void> {
  await nb.attempt(async () => doings[id](nb));
}
