// Text that only grows. Appending gives a new rope and leaves the old one as it was, without copying: like slices of one
// array, ropes share their pieces as long as each is appended to once.

export class Rope {
  private constructor(private readonly shared: string[], readonly pieces: number, readonly length: number) {}

  static readonly empty = new Rope([], 0, 0);

  static of(text: string): Rope {
    return text ? new Rope([text], 1, text.length) : new Rope([], 0, 0);
  }

  append(text: string): Rope {
    if (!text) return this;
    const shared = this.shared.length === this.pieces && this !== Rope.empty ? this.shared : this.shared.slice(0, this.pieces);
    shared.push(text);
    return new Rope(shared, this.pieces + 1, this.length + text.length);
  }

  // continues tells whether this text begins with all of another's pieces.
  continues(before: Rope): boolean {
    if (this.pieces < before.pieces) return false;
    if (this.shared === before.shared) return true;
    for (let i = 0; i < before.pieces; i++) if (this.shared[i] !== before.shared[i]) return false;
    return true;
  }

  piece(index: number): string {
    return index < this.pieces ? (this.shared[index] ?? "") : "";
  }

  toString(): string {
    return this.shared.length === this.pieces ? this.shared.join("") : this.shared.slice(0, this.pieces).join("");
  }
}
