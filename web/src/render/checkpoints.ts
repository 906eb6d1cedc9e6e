// Checkpoints, and going back to them, in words.

import type { Checkpoint, RollbackPart } from "../proto/types";
import type { Point } from "../log/checkpoints";
import type { LogState } from "../log/state";
import { count, plural } from "./format";

type Named = Pick<Checkpoint, "name" | "undo" | "execution_id" | "execution_count">;

// runOf is the number of the run that a checkpoint was made after; 0: it was made before the first.
const runOf = (point: Named, log: LogState): number => (point.execution_id ? log.runs.get(point.execution_id)?.count ?? point.execution_count : 0);

// placeWords says where among the runs a checkpoint is.
const placeWords = (point: Named, log: LogState): string => (runOf(point, log) ? `after run ${runOf(point, log)}` : "before the first run");

const words = (point: Named, log: LogState): string => (point.undo ? "before going back" : placeWords(point, log));

const sentence = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

// pointTitle is what a checkpoint is called in a list.
export const pointTitle = (point: Named, log: LogState): string => point.name || sentence(words(point, log));

// pointDetails says what a checkpoint has, and where it is if its title does not say so.
export const pointDetails = (point: Named & Pick<Checkpoint, "level">, log: LogState): string =>
  sentence(`${point.name || point.undo ? `${placeWords(point, log)}, ` : ""}${levelWords(point.level)}`);

// pointPhrase is what a sentence calls a checkpoint.
export const pointPhrase = (point: Named, log: LogState): string => (point.name ? `“${point.name}”` : `the state ${words(point, log)}`);

export const levelWords = (level: Checkpoint["level"]): string =>
  ({ live: "variables and files", saved: "saved variables and files", files: "files only" })[level];

// partsOf is what going back can bring back.
export const partsOf = (level: Checkpoint["level"]): readonly RollbackPart[] => (level === "files" ? ["files"] : ["all", "variables", "files"]);

// lossWords names the first few things that are not saved, or that did not come back.
export function lossWords(losses: readonly { name: string; reason: string }[], most = 3): string {
  const few = losses.slice(0, most).map(({ name, reason }) => `${name.slice(0, 100)} (${reason.slice(0, 200)})`);
  return `${few.join(", ")}${losses.length > most ? ` and ${count(losses.length - most)} more` : ""}`;
}

// backWords says that the session went back.
export function backWords(point: Named | undefined, what: RollbackPart, losses: readonly { name: string; reason: string }[], log: LogState): string {
  const parts = what === "all" ? "variables and files are" : what === "files" ? "the files are" : "the variables are";
  const when = !point ? "at a checkpoint" : point.name && !point.undo ? `at ${pointPhrase(point, log)}` : words(point, log);
  return `Went back: ${parts} as they were ${when}.${losses.length ? ` Not restored: ${lossWords(losses)}.` : ""}`;
}

// cellPointWords describes the checkpoints at a cell: the first of them, and how many there are. last is the cell's last run.
export function cellPointWords(point: Point, amount: number, last: string | undefined, log: LogState): string {
  const when = new Date(point.created_at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const what = `Checkpoint${point.name ? ` “${point.name}”` : point.undo ? " before going back" : ""}, ${levelWords(point.level)}, ${when}`;
  const run = point.execution_id === last ? "" : `, ${placeWords(point, log)} (an earlier run)`;
  return `${what}${run}${amount > 1 ? ` (and ${plural(amount - 1, "other", "others")} here)` : ""}`;
}
