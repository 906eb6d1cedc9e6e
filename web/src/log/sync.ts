// Keeps the page's document and the server's one the same: saves what changes after a moment of rest, and merges what
// others saved meanwhile.

import { noDocument } from "./cells";
import { mergeDocuments, sameDocument } from "./merge";
import type { Document } from "../proto/types";

export interface DocumentIO {
  get(): Promise<Document>;
  put(doc: Document): Promise<Document>; // refused with code "revision_conflict" where another revision is there
  later(work: () => void, ms: number): () => void;
}

export interface DocumentListener {
  document(doc: Document): void; // mine changed by somebody else's change
  saved(state: "saved" | "saving" | "unsaved", why?: string): void;
  conflicts(count: number): void;
}

const rest = 700; // ms without typing before a save
const retry = 3000;

export class DocumentSync {
  base: Document = noDocument; // as the server has it
  mine: Document = noDocument;
  private busy = false;
  private told = 0; // the newest revision that the log told of
  private cancel: () => void = () => {};
  private ended = false;

  constructor(private readonly io: DocumentIO, private readonly on: DocumentListener) {}

  async load(): Promise<Document> {
    this.base = await this.io.get();
    this.mine = this.base;
    return this.mine;
  }

  get dirty(): boolean {
    return !sameDocument(this.base, this.mine);
  }

  edit(doc: Document): void {
    this.mine = doc;
    if (!this.dirty) return;
    this.on.saved("unsaved");
    this.schedule(rest);
  }

  // remote says that there is a revision; it comes in unless it is known.
  remote(revision: number): void {
    this.told = Math.max(this.told, revision);
    if (this.told > this.base.revision && !this.busy) void this.save();
  }

  // save brings both sides together now. Only one such exchange is under way at a time.
  async save(): Promise<void> {
    this.cancel();
    if (this.busy || this.ended) return;
    this.busy = true;
    try {
      while (!this.ended && (this.dirty || this.told > this.base.revision)) {
        if (this.told > this.base.revision) await this.pull();
        if (!this.dirty) break;
        this.on.saved("saving");
        const sent = this.mine;
        try {
          const { revision } = await this.io.put({ ...sent, revision: this.base.revision });
          this.base = { ...sent, revision };
          this.mine = { ...this.mine, revision };
        } catch (err) {
          if ((err as { code?: string }).code !== "revision_conflict") throw err;
          await this.pull();
        }
      }
      this.on.saved("saved");
    } catch (err) {
      this.on.saved("unsaved", err instanceof Error ? err.message : String(err));
      this.schedule(retry);
    } finally {
      this.busy = false;
    }
  }

  end(): void {
    this.ended = true;
    this.cancel();
  }

  private async pull(): Promise<void> {
    const theirs = await this.io.get();
    if (this.ended || theirs.revision === this.base.revision) {
      this.told = Math.min(this.told, theirs.revision);
      return;
    }
    const { doc, conflicts } = mergeDocuments(this.base, this.mine, theirs);
    this.base = theirs;
    this.mine = doc;
    this.told = Math.max(this.told, theirs.revision);
    this.on.document(doc);
    if (conflicts) this.on.conflicts(conflicts);
  }

  private schedule(ms: number): void {
    this.cancel();
    if (!this.ended) this.cancel = this.io.later(() => void this.save(), ms);
  }
}
