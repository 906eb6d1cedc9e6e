// What could not be saved yet stays in this browser, so that a closed tab loses nothing while the server is away.

import { randomID } from "../../log/cells";
import { mergeDocuments, type Merged } from "../../log/merge";
import { baseFor, type Kept } from "../../log/sync";
import type { Document, Session } from "../../proto/types";

const prefix = "talaria.draft.";
const rest = 300; // ms; a document may be large, and each key changes it
const longest = 30 * 24 * 3600_000; // ms that a draft of which nobody asks is kept

// Draft is what one page has not saved of one session.
export class Draft {
  private readonly place: string;
  private readonly key: string;
  private next: Kept | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  // Another owner's session, and one that is made again, may have the same id; the time of its creation differs.
  constructor({ id, created_at }: Pick<Session, "id" | "created_at">, private readonly storage: Storage = localStorage) {
    this.place = `${prefix}${id}@${created_at}#`;
    this.key = this.place + randomID(8);
  }

  // take merges what other pages left into the server's document. They are gone then: this page keeps what it takes.
  take(theirs: Document): Merged {
    const merged: Merged = { doc: theirs, conflicts: 0 };
    for (const key of this.keys()) {
      const text = this.storage.getItem(key) ?? "";
      if (key.startsWith(this.place)) {
        try {
          const kept = JSON.parse(text) as Kept;
          const { doc, conflicts } = mergeDocuments(baseFor(kept, theirs), kept.mine, merged.doc);
          merged.doc = doc;
          merged.conflicts += conflicts;
        } catch { /* not a draft */ }
        this.storage.removeItem(key);
      } else if (Number(/^\{"at":(\d+)/.exec(text)?.[1]) < Date.now() - longest) this.storage.removeItem(key);
    }
    return merged;
  }

  keep(kept: Kept): void {
    this.next = kept;
    this.timer ??= setTimeout(() => this.flush(), rest);
  }

  // flush writes now what is kept, and tells whether all of it is.
  flush(): boolean {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (!this.next) return true;
    try {
      this.storage.setItem(this.key, JSON.stringify({ at: Date.now(), ...this.next }));
      this.next = undefined;
      return true;
    } catch { // It does not fit. The page warns before it is closed; an older draft would bring back what has changed since.
      this.storage.removeItem(this.key);
      return false;
    }
  }

  drop(): void {
    clearTimeout(this.timer);
    this.timer = this.next = undefined;
    this.storage.removeItem(this.key);
  }

  // forget drops what any page left of this session.
  forget(): void {
    this.drop();
    for (const key of this.keys()) if (key.startsWith(this.place)) this.storage.removeItem(key);
  }

  private keys(): string[] {
    return Array.from({ length: this.storage.length }, (_, i) => this.storage.key(i) ?? "").filter((key) => key.startsWith(prefix));
  }
}
