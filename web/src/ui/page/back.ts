// Making checkpoints and going back to them, with the notices about both.

import { makeCheckpoint, rollBack } from "../../proto/rest";
import type { Event, RollbackPart } from "../../proto/types";
import { backWords, levelWords, lossWords, partsOf } from "../../render/checkpoints";
import type { Notebook } from "./notebook.svelte";

// checkpoint makes one, and tells whether it worked.
export const checkpoint = (nb: Notebook, name = ""): Promise<boolean> => nb.attempt(async () => {
  const made = await makeCheckpoint(nb.id, name);
  nb.say(`Checkpoint made: ${levelWords(made.level)}${made.reason ? `, because ${made.reason}` : ""}.`);
});

// goBack leaves it to the event to say that it worked.
export const goBack = (nb: Notebook, to: string, what: RollbackPart, keepEdits = false): Promise<boolean> =>
  nb.attempt(() => rollBack(nb.id, to, what, keepEdits));

// offerGoBack asks what to bring back from the checkpoint after a cell.
export function offerGoBack(nb: Notebook, id: string | undefined): void {
  if (!id) return nb.say("There is no checkpoint right after this cell.");
  nb.panels.checkpoint = id;
  nb.panels.dialog = "go-back";
}

// wentBack says that the session went back, here or elsewhere, and offers to take that back as far as it can be.
export function wentBack(nb: Notebook, event: Event & { type: "rolled_back" }): void {
  const find = (id: string) => nb.log.points.find((point) => point.id === id);
  const text = backWords(find(event.checkpoint_id), event.what, event.not_restored, nb.log);
  const parts = partsOf(find(event.undo)?.level ?? "files");
  const what = parts.includes(event.what) ? event.what : event.what === "all" ? "files" : undefined;
  if (nb.readOnly || !what) return nb.say(text);
  const label = what === event.what ? "Undo" : "Undo for files";
  nb.say(text, "quiet", { label, stays: true, run: () => void goBack(nb, event.undo, what) });
}

// woke says what did not come back when the kernel woke, unless going back, which woke it, has just said it.
export function woke(nb: Notebook, event: Event & { type: "kernel_woken" }, said: (Event & { type: "rolled_back" }) | undefined): void {
  const known = new Set(said?.not_restored.map(({ name }) => name));
  const lost = event.not_restored.filter(({ name }) => !known.has(name));
  if (lost.length) nb.say(`Python is awake again. Not restored: ${lossWords(lost)}.`, "bad");
}
