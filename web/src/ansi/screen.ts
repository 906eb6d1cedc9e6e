// Printed text as a terminal would show it: colours, \r, \b, cursor moves and erasing, so that progress bars, nested ones
// too, rewrite their lines. It is a page without an end, not a window: moves stay within what was written.

import { cut, restyle, type StyleRun } from "./runs";
import { plain, sgr, type Style } from "./style";

// A line without runs is plain.
export interface Line { text: string; runs?: StyleRun[] }

export interface Span { text: string; style: Style }

// Changes tells what changed since the last time: rows below `kept` are the same rows as then, and of those only
// `rewritten` have other text.
export interface Changes { kept: number; rewritten: ReadonlySet<number> }

const maxLine = 10_000; // columns; a longer line continues in the next
const maxSequence = 256; // characters; a longer control sequence is shown as text
const maxString = 4096; // characters of a title, a link or another string; a longer one is shown as text
const maxRows = 250_000;
const maxSize = 16 << 20; // characters of all lines
const runSize = 16; // a style run counts as so many characters

export class Screen {
  readonly lines: Line[] = [{ text: "" }];
  dropped = 0; // rows that were dropped from the top: lines[0] is row `dropped`
  private row = 0; // an index of lines
  private column = 0;
  private style = plain;
  private rest = ""; // an escape sequence whose end has not come yet
  private size = 0;
  private kept = 0;
  private rewritten = new Set<number>();

  write(chunk: string): void {
    const text = this.rest + chunk;
    this.rest = "";
    let at = 0;
    while (at < text.length) {
      const end = nextControl(text, at);
      if (end > at) this.put(text.slice(at, end));
      if (end >= text.length) return;
      at = this.control(text, end);
    }
  }

  // changes since the last call, in rows that count those that were dropped.
  changes(): Changes {
    const changes = { kept: this.kept, rewritten: this.rewritten };
    this.kept = this.dropped + this.lines.length;
    this.rewritten = new Set();
    return changes;
  }

  // control carries out what begins at a control character, and returns where text goes on.
  private control(text: string, at: number): number {
    switch (text.charCodeAt(at)) {
      case 10: // \n
        this.row++;
        this.column = 0;
        if (this.row === this.lines.length) {
          this.lines.push({ text: "" });
          this.bound();
        }
        return at + 1;
      case 13: // \r
        this.column = 0;
        return at + 1;
      case 8: // \b
        this.column = Math.max(0, this.column - 1);
        return at + 1;
      case 9:
        this.put("\t");
        return at + 1;
      case 27:
        return this.escape(text, at);
    }
    return at + 1; // others show nothing
  }

  private escape(text: string, at: number): number {
    const kind = text[at + 1];
    if (kind === undefined) return this.wait(text, at, maxSequence);
    if (kind === "[") {
      const most = Math.min(text.length, at + maxSequence);
      let end = at + 2;
      while (end < most && text.charCodeAt(end) >= 0x20 && text.charCodeAt(end) <= 0x3f) end++;
      if (end === text.length) return this.wait(text, at, maxSequence);
      if (end === most) return at + 1;
      this.sequence(text.slice(at + 2, end), text[end] ?? "");
      return end + 1;
    }
    if (kind === "]" || kind === "P" || kind === "_" || kind === "^") return this.string(text, at);
    return at + 2;
  }

  // string skips a title, a link or the like, to BEL or ST. Another escape ends it too, as in a terminal, so that no
  // character is looked at for more than one of them.
  private string(text: string, at: number): number {
    const most = Math.min(text.length, at + maxString);
    for (let end = at + 2; end < most; end++) {
      const code = text.charCodeAt(end);
      if (code === 7) return end + 1;
      if (code !== 27) continue;
      if (end + 1 === text.length) return this.wait(text, at, maxString);
      return text[end + 1] === "\\" ? end + 2 : end;
    }
    return most === text.length ? this.wait(text, at, maxString) : at + 1;
  }

  // wait keeps a sequence until its end comes, unless it is too long for one.
  private wait(text: string, at: number, most: number): number {
    if (text.length - at >= most) return at + 1;
    this.rest = text.slice(at);
    return text.length;
  }

  private sequence(parameters: string, kind: string): void {
    if (/[^0-9;:]/.test(parameters)) return;
    const params = parameters.split(/[;:]/).map((p) => Math.min(Number(p || "0"), 9999));
    const n = Math.max(1, params[0] ?? 1);
    switch (kind) {
      case "m": this.style = sgr(this.style, params); return;
      case "A": this.row = Math.max(0, this.row - n); return;
      case "B": this.row = Math.min(this.lines.length - 1, this.row + n); return;
      case "C": this.column = Math.min(maxLine - 1, this.column + n); return;
      case "D": this.column = Math.max(0, this.column - n); return;
      case "E": this.row = Math.min(this.lines.length - 1, this.row + n); this.column = 0; return;
      case "F": this.row = Math.max(0, this.row - n); this.column = 0; return;
      case "G": this.column = n - 1; return;
      case "K": this.eraseLine(params[0] ?? 0); return;
      case "J": this.eraseBelow(params[0] ?? 0); return;
    }
  }

  private put(text: string): void {
    let rest = text;
    while (rest) {
      const room = maxLine - this.column;
      if (room <= 0) {
        this.control("\n", 0);
        continue;
      }
      this.overwrite(rest.slice(0, room));
      rest = rest.slice(room);
    }
  }

  private overwrite(text: string): void {
    const end = this.column + text.length;
    this.change((line) => {
      line.runs = restyle(line.runs, line.text.length, this.column, end, this.style);
      const before = line.text.length < this.column ? line.text.padEnd(this.column) : line.text.slice(0, this.column);
      line.text = before + text + line.text.slice(end);
    });
    this.column = end;
    this.bound();
  }

  private eraseLine(what: number): void {
    this.change((line) => {
      if (what === 0) {
        line.text = line.text.slice(0, this.column);
        line.runs = cut(line.runs, line.text.length);
      } else if (what === 1) {
        const end = Math.min(this.column + 1, line.text.length);
        line.runs = restyle(line.runs, line.text.length, 0, end, plain);
        line.text = " ".repeat(end) + line.text.slice(end);
      } else {
        line.text = "";
        line.runs = undefined;
      }
    });
  }

  private eraseBelow(what: number): void {
    if (what === 0) {
      this.eraseLine(0);
      this.shorten(this.row + 1);
    } else if (what >= 2) {
      this.shorten(0);
      this.lines.push({ text: "" });
      this.row = 0;
      this.column = 0;
    }
  }

  // change does something to the line of the cursor, and notes what that means.
  private change(work: (line: Line) => void): void {
    const line = this.lines[this.row];
    if (!line) return;
    this.size -= sizeOf(line);
    work(line);
    this.size += sizeOf(line);
    const row = this.dropped + this.row;
    if (row < this.kept) this.rewritten.add(row);
  }

  private shorten(length: number): void {
    for (let i = length; i < this.lines.length; i++) this.size -= sizeOf(this.lines[i]);
    this.lines.length = length;
    this.kept = Math.min(this.kept, this.dropped + length);
  }

  // bound drops rows from the top when there is too much. It drops a quarter, so that it is done seldom.
  private bound(): void {
    if (this.lines.length <= maxRows && this.size <= maxSize) return;
    let gone = 0;
    while (gone < this.lines.length - 1 && (this.lines.length - gone > maxRows * 0.75 || this.size > maxSize * 0.75)) this.size -= sizeOf(this.lines[gone++]);
    this.lines.splice(0, gone);
    this.dropped += gone;
    this.row = Math.max(0, this.row - gone);
  }
}

const sizeOf = (line: Line | undefined): number => (line ? line.text.length + runSize * (line.runs?.length ?? 0) : 0);

function nextControl(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 32 || code === 127) return i;
  }
  return text.length;
}

// spans are the runs of one style in a line.
export function spans(line: Line): Span[] {
  if (!line.runs) return line.text ? [{ text: line.text, style: plain }] : [];
  let start = 0;
  return line.runs.map(({ end, style }) => {
    const text = line.text.slice(start, end);
    start = end;
    return { text, style };
  });
}

// settled is text as it stands in the end, without any sequences.
export function settled(text: string): string {
  const screen = new Screen();
  screen.write(text);
  const lines = screen.lines.map((line) => line.text).join("\n");
  return screen.dropped ? `[${screen.dropped} earlier lines are left out here]\n${lines}` : lines;
}
