// What could not be saved yet stays in this browser, so that a closed tab loses nothing while the server is away.

import type { Merged } from "../../log/merge";
import { mergeKept, type Kept } from "../../log/sync";
import type { Document } from "../../proto/types";

const key = (session: string): string => `talaria.draft.${session}`;

export function keepDraft(session: string, kept: Kept): void {
  try {
    localStorage.setItem(key(session), JSON.stringify(kept));
  } catch { /* it does not fit; the page warns before it is closed */ }
}

export function dropDraft(session: string): void {
  localStorage.removeItem(key(session));
}

// withDraft is a document with what was left unsaved here.
export function withDraft(session: string, doc: Document): Merged {
  try {
    const kept = JSON.parse(localStorage.getItem(key(session)) ?? "null") as Kept | null;
    if (kept) return mergeKept(kept, doc);
  } catch { /* not a draft */ }
  return { doc, conflicts: 0 };
}
