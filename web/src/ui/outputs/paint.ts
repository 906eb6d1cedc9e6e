// Draws a screen's lines in blocks that the browser lays out only when they are seen. What did not change stays.

import { Screen, spans, type Line } from "../../ansi/screen";
import { plain, type Color, type Style } from "../../ansi/style";
import { Rope } from "../../log/rope";
import { isShaped, isUnbroken, textNodes } from "../../render/unbroken";

const maxLines = 200; // of a block
const maxSize = 1 << 14; // of a block, in characters, about: what is laid out at once
const nodeSize = 60; // a span or link costs as much as so many characters
const shapedSize = 4; // and so does a character of a line that is not of Latin letters alone
const piece = 1 << 13; // characters that are taken in before the clock is looked at
const links = /\bhttps?:\/\/[^\s<>"'`\u001b]+[^\s<>"'`.,;:!?)\]}\u001b]/g;

// Block is a stretch of rows in an element of its own, which the browser lays out only when it is seen.
interface Block { start: number; rows: number; size: number; readonly element: HTMLElement }

export class TextPainter {
  private screen = new Screen();
  private taken = 0; // pieces of the rope that are on the screen
  private offset = 0; // and of the next one, so many characters
  private before = Rope.empty;
  private blocks: Block[] = [];
  private readonly stale = new Set<Block>();

  constructor(private readonly place: HTMLElement) {}

  // lines is how many there are; one that nothing was written to yet is none.
  get lines(): number {
    return this.end - this.screen.dropped;
  }

  // dropped is how many lines at the start are not shown, because there are too many.
  get dropped(): number {
    return this.screen.dropped;
  }

  // show takes what a rope has more than the last time. Another text starts over; `more` tells whether there is some left.
  show(text: Rope, until: number): boolean {
    if (!text.continues(this.before)) this.restart();
    this.before = text;
    while (this.taken < text.pieces && performance.now() < until) {
      this.take(text.piece(this.taken));
      this.arrange();
    }
    for (const block of this.stale) {
      this.fill(block);
      if (performance.now() > until) break;
    }
    return this.taken < text.pieces || this.stale.size > 0;
  }

  restart(): void {
    this.screen = new Screen();
    this.taken = 0;
    this.offset = 0;
    this.blocks = [];
    this.stale.clear();
    this.place.replaceChildren();
  }

  private get end(): number {
    const { lines, dropped } = this.screen;
    return dropped + lines.length - (lines.at(-1)?.text === "" ? 1 : 0);
  }

  private take(text: string): void {
    this.screen.write(text.slice(this.offset, this.offset + piece));
    this.offset += piece;
    if (this.offset < text.length) return;
    this.taken++;
    this.offset = 0;
  }

  // arrange makes the blocks those of the rows that there are; those whose text is another are stale then.
  private arrange(): void {
    const { kept, rewritten } = this.screen.changes();
    this.keep(this.screen.dropped, Math.min(kept, this.end));
    for (const row of rewritten) {
      const block = this.blocks[this.indexOf(row)];
      if (block && row < block.start + block.rows) this.stale.add(block);
    }
    const last = this.blocks.at(-1);
    let row = last ? last.start + last.rows : this.screen.dropped;
    for (let block = last; row < this.end; row++) {
      const size = weight(this.line(row));
      if (!block || block.rows >= maxLines || block.size + size > maxSize) block = this.add(this.blocks.length, row);
      block.rows++;
      block.size += size;
      this.stale.add(block);
    }
  }

  // keep leaves the rows from `from` up to `to`.
  private keep(from: number, to: number): void {
    let gone = 0;
    for (const block of this.blocks) {
      const end = Math.min(to, block.start + block.rows);
      const start = Math.max(from, block.start);
      if (end <= start) {
        block.element.remove();
        this.stale.delete(block);
        block.rows = 0;
        gone++;
      } else if (end - start < block.rows) {
        [block.start, block.rows] = [start, end - start];
        this.stale.add(block);
      }
    }
    if (gone) this.blocks = this.blocks.filter((block) => block.rows > 0);
  }

  private add(index: number, start: number): Block {
    const element = document.createElement("div");
    element.className = "lines";
    const next = this.blocks[index];
    this.place.insertBefore(element, next?.element ?? null);
    const block = { start, rows: 0, size: 0, element };
    this.blocks.splice(index, 0, block);
    this.blocks[index - 1]?.element.classList.add("full");
    if (next) element.classList.add("full");
    return block;
  }

  private fill(block: Block): void {
    this.stale.delete(block);
    const lines = this.rowsOf(block);
    block.size = lines.reduce((size, line) => size + weight(line), 0);
    if (block.size > 2 * maxSize && block.rows > 1) return this.halve(block);
    block.element.style.setProperty("contain-intrinsic-size", `auto ${20 * lines.reduce((n, line) => n + 1 + Math.floor(line.text.length / 105), 0)}px`);
    draw(block.element, lines);
  }

  // halve splits a block whose rows have grown.
  private halve(block: Block): void {
    const rows = block.rows >> 1;
    const lower = this.add(this.indexOf(block.start) + 1, block.start + rows);
    lower.rows = block.rows - rows;
    block.rows = rows;
    this.stale.add(block).add(lower);
  }

  private line(row: number): Line {
    return this.screen.lines[row - this.screen.dropped] ?? { text: "" };
  }

  private rowsOf(block: Block): Line[] {
    const start = block.start - this.screen.dropped;
    return this.screen.lines.slice(start, start + block.rows);
  }

  // indexOf is the index of the last block that starts at a row or before it.
  private indexOf(row: number): number {
    let [low, high] = [0, this.blocks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.blocks[middle]?.start ?? 0) > row) high = middle;
      else low = middle + 1;
    }
    return low - 1;
  }
}

// weight is what a line costs to draw, in characters.
function weight(line: Line): number {
  let nodes = line.runs?.length ?? 0;
  for (let at = line.text.indexOf("://"); at >= 0; at = line.text.indexOf("://", at + 3)) nodes++;
  const shaped = isShaped(line.text) ? shapedSize : 1;
  return 1 + shaped * line.text.length + nodeSize * nodes;
}

// draw writes lines into an element: as one text where they are all plain.
function draw(element: HTMLElement, lines: readonly Line[]): void {
  if (lines.every((line) => !line.runs && !line.text.includes("://") && !isUnbroken(line.text))) {
    element.textContent = lines.map((line) => line.text).join("\n");
    return;
  }
  const parts: Node[] = [];
  for (const [i, line] of lines.entries()) {
    if (i) parts.push(document.createTextNode("\n"));
    for (const span of spans(line)) parts.push(...linked(span.text).map((node) => styled(node, span.style)));
  }
  element.replaceChildren(...parts);
}

function styled(node: Node, style: Style): Node {
  if (style === plain) return node;
  const element = document.createElement("span");
  const classes = [];
  if (style.bold) classes.push("b");
  if (style.dim) classes.push("dim");
  if (style.italic) classes.push("i");
  if (style.underline) classes.push("u");
  if (style.strike) classes.push("s");
  const [fg, bg] = style.inverse ? [style.bg ?? "ground", style.fg ?? "ink"] : [style.fg, style.bg];
  color(element, classes, "fg", fg);
  color(element, classes, "bg", bg);
  element.className = classes.join(" ");
  element.append(node);
  return element;
}

function color(element: HTMLElement, classes: string[], kind: "fg" | "bg", value: Color | undefined): void {
  if (value === undefined) return;
  if (typeof value === "string" && value.startsWith("#")) element.style.setProperty(kind === "fg" ? "color" : "background-color", value);
  else classes.push(`${kind}-${value}`);
}

function linked(text: string): Node[] {
  const nodes: Node[] = [];
  let at = 0;
  for (const found of text.matchAll(links)) {
    if (found.index > at) nodes.push(...textNodes(text.slice(at, found.index)));
    const link = document.createElement("a");
    link.href = found[0];
    link.textContent = found[0];
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    nodes.push(link);
    at = found.index + found[0].length;
  }
  if (at < text.length) nodes.push(...textNodes(text.slice(at)));
  return nodes;
}
