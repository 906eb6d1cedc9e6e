// What going back to a checkpoint changes, for the dialog that asks.

import type { Change, CheckpointDiff, RollbackPart } from "../proto/types";
import { count, plural } from "./format";

export const partWords: Record<RollbackPart, string> = { all: "Variables and files", variables: "Variables only", files: "Files only" };

// effects say what going back does with what has changed since.
export const effects: Record<Change, { sign: string; word: string; tone: string }> = {
  created: { sign: "−", word: "will be removed", tone: "removed" },
  modified: { sign: "~", word: "will be changed back", tone: "changed" },
  deleted: { sign: "+", word: "will be restored", tone: "added" },
};

export function amountWords(changes: readonly unknown[], one: string, truncated: boolean | undefined): string {
  if (!changes.length) return `No ${one} has changed`;
  return truncated ? `${count(changes.length)} ${one}s or more` : plural(changes.length, one);
}

// changesOf is the sections of a comparison that matter to a choice, each with its name.
export function changesOf(diff: CheckpointDiff, what: RollbackPart): { one: string; list: { name: string; change: Change }[] }[] {
  const variables = { one: "variable", list: diff.variables };
  const files = { one: "file", list: diff.files.map(({ path, change }) => ({ name: path, change })) };
  return what === "all" ? [variables, files] : [what === "files" ? files : variables];
}
