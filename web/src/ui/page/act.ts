// What each action of keys/table does.

import { toScript } from "../../ipynb/script";
import type { ActionID } from "../../keys/table";
import { newCell } from "../../log/cells";
import { sessionPath } from "../../proto/rest";
import { textToTake } from "../outputs/take";
import { checkpoint, offerGoBack } from "./back";
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
  const id = nb.selection.id;
  const cell = nb.cell(id);
  if (!cell) return;
  editors.get(id)?.quiet();
  const ran = cell.cell_type === "code" ? nb.run(id) : undefined;
  if (then === "insert") {
    const added = nb.add("below", id);
    nb.selection.select(added, "edit");
  } else if (then === "next") {
    if (nb.selection.step(1)) {
      const next = nb.cell(nb.selection.id);
      if (next && !next.source && next.cell_type === "code") nb.selection.mode = "edit";
    } else nb.selection.select(nb.add("below", id), "edit");
  } else nb.selection.mode = "command";
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
  "reset": (nb) => (nb.panels.dialog = "reset"),
  "checkpoint": (nb) => checkpoint(nb),
  "go-back": (nb) => offerGoBack(nb, nb.points.get(nb.selection.id)?.[0]?.id),
  "reset-run-all": (nb) => (nb.panels.dialog = "reset-run-all"),

  "insert-above": (nb) => nb.add("above", nb.selection.id),
  "insert-below": (nb) => nb.add("below", nb.selection.id),
  "insert-text": (nb) => nb.selection.select(nb.add("below", nb.selection.id, newCell("markdown")), "edit"),
  "delete": (nb) => nb.delete(nb.selection.id),
  "cut": (nb) => { nb.copy(nb.selection.id); nb.delete(nb.selection.id); },
  "copy": (nb) => { nb.copy(nb.selection.id); nb.say("Cell copied. V pastes it below."); },
  "paste": (nb) => nb.paste(nb.selection.id),
  "undo": (nb) => nb.undo(),
  "redo": (nb) => nb.undo(true),
  "to-text": (nb) => nb.setKind(nb.selection.id, "markdown"),
  "to-code": (nb) => nb.setKind(nb.selection.id, "code"),
  "to-raw": (nb) => nb.setKind(nb.selection.id, "raw"),
  "heading-1": (nb) => nb.heading(nb.selection.id, 1),
  "heading-2": (nb) => nb.heading(nb.selection.id, 2),
  "heading-3": (nb) => nb.heading(nb.selection.id, 3),
  "split": (nb) => nb.split(nb.selection.id, editors.get(nb.selection.id)?.cursor() ?? 0),
  "merge": (nb) => nb.merge(nb.selection.id),
  "move-up": (nb) => nb.move(nb.selection.id, -1),
  "move-down": (nb) => nb.move(nb.selection.id, 1),

  "clear-output": (nb) => nb.clearOutputs([nb.selection.id]),
  "clear-outputs": (nb) => nb.clearOutputs(nb.view.cells.map((cell) => cell.id)),
  "install": (nb) => nb.selection.select(nb.add("below", nb.selection.id, newCell("code", "%pip install ")), "edit"),

  "edit": (nb) => nb.selection.select(nb.selection.id, "edit"),
  "leave": (nb) => nb.selection.select(nb.selection.id),
  "down": (nb) => nb.selection.step(1),
  "up": (nb) => nb.selection.step(-1),
  "first": (nb) => nb.selection.select(nb.view.cells[0]?.id ?? ""),
  "last": (nb) => nb.selection.select(nb.view.cells.at(-1)?.id ?? ""),
  "find": (nb) => editors.get(nb.selection.id)?.find(),
  "approval": (nb) => {
    const question = document.querySelector<HTMLElement>(".approval");
    if (question) question.focus();
    else nb.say("Nothing needs approval.");
  },
  "running": (nb) => { if (nb.runningID) nb.selection.select(nb.cellOfRun(nb.runningID)); },

  "palette": (nb) => (nb.panels.dialog = "palette"),
  "keys": (nb) => (nb.panels.dialog = "keys"),
  "save": (nb) => nb.save(),
  "rename": (nb) => (nb.panels.dialog = "rename"),
  "keep": (nb) => nb.keep(),
  "share": (nb) => (nb.panels.dialog = "share"),
  "export-ipynb": exportFile,
  "export-py": (nb) => save(fileName(nb, "py"), "text/x-python", toScript(nb.title, nb.view.cells)),
  "export-html": async (nb) => saveBlob(fileName(nb, "html"), await (await import("./export")).toPage(nb)),
  "import": async (nb) => {
    const file = await pick(".ipynb,application/x-ipynb+json,application/json");
    if (file) await nb.import(await file.text());
  },
  "print": () => print(),
  "sessions": () => go(""),

  "files": (nb) => nb.panels.toggle("files"),
  "variables": (nb) => nb.panels.toggle("variables"),
  "timeline": (nb) => nb.panels.toggle("timeline"),
  "checkpoints": (nb) => nb.panels.toggle("checkpoints"),
  "calls": (nb) => nb.panels.toggle("calls"),
  "terminal": (nb) => nb.terminals.goTo(),
  "terminal-reader": () => settings.set({ reader: !settings.reader }),
  "outline": (nb) => nb.panels.toggle("about"),
  "toggle-output": (nb) => nb.selection.toggleOutput(nb.selection.id),
  "copy-output": copyOutputs,
  "toggle-numbers": () => settings.set({ numbers: !settings.numbers }),
  "toggle-density": () => settings.set({ compact: !settings.compact }),
  "toggle-theme": () => settings.set({ theme: settings.dark ? "light" : "dark" }),
  "theme-system": () => settings.set({ theme: "system" }),
};

async function copyOutputs(nb: Notebook): Promise<void> {
  const text = (await Promise.all((await nb.outputs(nb.selection.id)).map(textToTake))).join("\n");
  if (!text) return nb.say("This cell has no output.");
  await navigator.clipboard.writeText(text).then(() => nb.say("Copied."), () => nb.say("The browser did not allow copying."));
}

// act does what an action means, and says so where that fails.
export async function act(nb: Notebook, id: ActionID): Promise<void> {
  await nb.attempt(async () => doings[id](nb));
}
