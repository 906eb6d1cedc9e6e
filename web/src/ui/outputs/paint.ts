// Draws a screen's lines in blocks that the browser lays out only when they are seen. What did not change stays.

import { Screen, spans, type Line } from "../../ansi/screen";
import { plain, type Color, type Style } from "../../ansi/style";
import { Rope } from "../../log/rope";

const blockLines = 200;
const links = /\bhttps?:\/\/[^\s<>"'`\u001b]+[^\s<>"'`.,;:!?)\]}\u001b]/g;

export class TextPainter {
  private screen = new Screen();
  private taken = 0; // pieces of the rope that are on the screen
  private before = Rope.empty;
  private readonly blocks: HTMLElement[] = [];

  constructor(private readonly place: HTMLElement) {}

  // lines is how many there are; one that nothing was written to yet is none.
  get lines(): number {
    const { lines } = this.screen;
    return lines.length - (lines.at(-1)?.text === "" ? 1 : 0);
  }

  // show takes what a rope has more than the last time. Another text begins anew; `more` tells whether there is some left.
  show(text: Rope, until: number): boolean {
    if (!text.continues(this.before)) this.restart();
    this.before = text;
    while (this.taken < text.pieces) {
      this.screen.write(text.piece(this.taken++));
      if (performance.now() > until) break;
    }
    this.draw(this.screen.changed());
    return this.taken < text.pieces;
  }

  restart(): void {
    this.screen = new Screen();
    this.taken = 0;
    this.blocks.length = 0;
    this.place.replaceChildren();
  }

  private draw(first: number): void {
    const { lines } = this.screen;
    const end = this.lines;
    const count = Math.ceil(end / blockLines);
    while (this.blocks.length > count) this.blocks.pop()?.remove();
    for (let i = Math.floor(first / blockLines); i < count; i++) {
      let block = this.blocks[i];
      if (!block) {
        block = document.createElement("div");
        block.className = "lines";
        this.blocks.push(block);
        this.place.append(block);
      }
      const part = lines.slice(i * blockLines, Math.min(end, (i + 1) * blockLines));
      fill(block, part, i === count - 1);
    }
  }
}

// fill writes lines into an element: as one text where they are all plain.
function fill(block: HTMLElement, lines: readonly Line[], last: boolean): void {
  const full = lines.length === blockLines && !last;
  block.classList.toggle("full", full);
  if (lines.every((line) => !line.styles && !line.text.includes("://"))) {
    block.textContent = lines.map((line) => line.text).join("\n");
    return;
  }
  const parts: Node[] = [];
  for (const [i, line] of lines.entries()) {
    if (i) parts.push(document.createTextNode("\n"));
    for (const span of spans(line)) parts.push(...linked(span.text).map((node) => styled(node, span.style)));
  }
  block.replaceChildren(...parts);
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
    if (found.index > at) nodes.push(document.createTextNode(text.slice(at, found.index)));
    const link = document.createElement("a");
    link.href = found[0];
    link.textContent = found[0];
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    nodes.push(link);
    at = found.index + found[0].length;
  }
  if (at < text.length) nodes.push(document.createTextNode(text.slice(at)));
  return nodes;
}
