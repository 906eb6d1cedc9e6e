// What could not be saved yet stays in this browser, so that a closed tab loses nothing while the server is away.

import { mergeDocuments } from "../../log/merge";
import type { Document } from "../../proto/types";

interface Draft { base: Document; mine: Document }

const key = (session: string): string => `talaria.draft.${session}`;

export function keepDraft(session: string, base: Document, mine: Document): void {
  try {
    localStorage.setItem(key(session), JSON.stringify({ base, mine } satisfies Draft));
  } catch { /* it does not fit; the page warns before it is closed */ }
}

export function dropDraft(session: string): void {
  localStorage.removeItem(key(session));
}

// withDraft is a document with what was left unsaved here.
export function withDraft(session: string, doc: Document): Document {
  try {
    const kept = JSON.parse(localStorage.getItem(key(session)) ?? "null") as Draft | null;
    return kept ? mergeDocuments(kept.base, kept.mine, doc).doc : doc;
  } catch {
    return doc;
  }
}
