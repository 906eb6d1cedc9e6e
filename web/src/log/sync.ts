// Keeps the page's document and the server's one the same: saves what changes after a moment of rest, and merges what
// others saved meanwhile.

import { noDocument } from "./cells";
import { mergeDocuments, sameDocument } from "./merge";
import type { Document } from "../proto/types";

export interface DocumentIO {
  get(): Promise<Document>;
  put(doc: Document): Promise<Document>; // refused with code "revision_conflict" where another revision is there
  logEnd(): number; // the log's last seq; Infinity while it is not known
  later(work: () => void, ms: number): () => void;
}

export interface DocumentListener {
  document(doc: Document): void; // mine changed by somebody else's change
  saved(state: "saved" | "saving" | "unsaved", why?: string, final?: boolean): void; // final: it is not tried again by itself
  conflicts(count: number): void;
}

// Kept is what is not saved, and what it was made from.
export interface Kept { base: Document; mine: Document; unanswered?: Document }

// baseFor is what it is to be merged with the server's document by: where that is a save whose answer was lost, nobody else changed it.
export const baseFor = ({ base, unanswered }: Kept, theirs: Document): Document =>
  unanswered && sameDocument(unanswered, theirs) ? unanswered : base;

// isFinal tells a refusal that the same document gets again, such as of one that is too large.
const isFinal = (err: unknown): boolean => {
  const { status = 0 } = err as { status?: number };
  return status >= 400 && status < 500 && ![408, 409, 425, 429].includes(status);
};

const rest = 700; // ms without typing before a save
const retry = 3000;

export class DocumentSync {
  base: Document = noDocument; // as the server has it
  mine: Document = noDocument;
  private saving: Promise<void> | undefined;
  private unanswered: Document | undefined; // sent to be saved; whether it was is not known
  private told = 0; // the newest revision that the log told of
  private cancel: () => void = () => {};
  private ended = false;

  constructor(private readonly io: DocumentIO, private readonly on: DocumentListener) {}

  async load(): Promise<Document> {
    this.base = await this.io.get();
    this.mine = this.base;
    this.unanswered = undefined;
    return this.mine;
  }

  get dirty(): boolean {
    return !sameDocument(this.base, this.mine);
  }

  edit(doc: Document): void {
    this.mine = doc;
    if (!this.dirty && !this.unanswered) {
      this.on.saved("saved");
      return;
    }
    this.on.saved("unsaved");
    this.schedule(rest);
  }

  // kept is all that a later page needs to go on from here.
  get kept(): Kept {
    return { base: this.base, mine: this.mine, unanswered: this.unanswered };
  }

  // remote says that there is a revision; it comes in unless it is known.
  remote(revision: number): void {
    this.told = Math.max(this.told, revision);
    if (this.told > this.base.revision && !this.saving) void this.save();
  }

  // save brings both sides together now. Only one such exchange is under way at a time.
  save(): Promise<void> {
    this.cancel();
    if (!this.ended) this.saving ??= this.exchange().finally(() => (this.saving = undefined));
    return this.saving ?? Promise.resolve();
  }

  // end stops all but an exchange that is under way.
  end(): void {
    this.ended = true;
    this.cancel();
  }

  private async exchange(): Promise<void> {
    try {
      while (this.dirty || this.unanswered || this.told > this.base.revision) {
        if (this.unanswered || this.told > this.base.revision) await this.pull();
        if (!this.dirty) break;
        // A log that lost its end may end before what an edit of before knew.
        const sent = { ...this.mine, revision: this.base.revision, through: Math.min(this.mine.through, this.io.logEnd()) };
        this.unanswered = sent;
        this.on.saved("saving");
        try {
          const { revision } = await this.io.put(sent);
          this.base = { ...sent, revision };
          this.mine = { ...this.mine, revision };
          this.unanswered = undefined;
        } catch (err) {
          if ((err as { code?: string }).code !== "revision_conflict") throw err;
          await this.pull();
        }
      }
      this.on.saved("saved");
    } catch (err) {
      const final = isFinal(err);
      if (final) this.unanswered = undefined;
      this.on.saved("unsaved", err instanceof Error ? err.message : String(err), final);
      if (!final) this.schedule(retry);
    }
  }

  private async pull(): Promise<void> {
    const theirs = await this.io.get();
    if (theirs.revision === this.base.revision) {
      this.unanswered = undefined;
      this.told = Math.min(this.told, theirs.revision);
      return;
    }
    const { doc, conflicts } = mergeDocuments(baseFor(this.kept, theirs), this.mine, theirs);
    this.base = theirs;
    this.mine = doc;
    this.unanswered = undefined;
    this.told = Math.max(this.told, theirs.revision);
    this.on.document(doc);
    if (conflicts) this.on.conflicts(conflicts);
  }

  private schedule(ms: number): void {
    this.cancel();
    if (!this.ended) this.cancel = this.io.later(() => void this.save(), ms);
  }
}
