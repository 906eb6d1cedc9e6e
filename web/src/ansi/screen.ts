// Printed text as a terminal would show it: colours, \r, \b, cursor moves and erasing, so that progress bars, nested ones
// too, rewrite their lines. It is a page without an end, not a window: moves stay within what was written.

import { plain, sgr, type Style } from "./style";

// A line's styles are beside its text, one for each UTF-16 unit; none where all are plain.
export interface Line { text: string; styles?: Style[] }

export interface Span { text: string; style: Style }

const maxLine = 1 << 20; // a longer line goes on in the next
const maxEscape = 256; // what is longer is no escape sequence, and is dropped

export class Screen {
  readonly lines: Line[] = [{ text: "" }];
  private row = 0;
  private column = 0;
  private style = plain;
  private rest = ""; // an escape sequence whose end has not come yet
  private dirty = 0; // the first line that changed since it was last asked

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

  // changed is the first line that changed since the last call; lines.length if none did.
  changed(): number {
    const first = this.dirty;
    this.dirty = this.lines.length;
    return first;
  }

  // control carries out what begins at a control character, and returns where text goes on.
  private control(text: string, at: number): number {
    switch (text.charCodeAt(at)) {
      case 10: // \n
        this.row++;
        this.column = 0;
        if (this.row === this.lines.length) {
          this.lines.push({ text: "" });
          this.mark(this.row);
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
    if (kind === undefined) return this.wait(text, at);
    if (kind === "[") {
      let end = at + 2;
      while (end < text.length && text.charCodeAt(end) >= 0x20 && text.charCodeAt(end) <= 0x3f) end++;
      if (end >= text.length) return this.wait(text, at);
      this.sequence(text.slice(at + 2, end), text[end] ?? "");
      return end + 1;
    }
    if (kind === "]" || kind === "P" || kind === "_" || kind === "^") { // a string, such as a title or a link: to BEL or ST
      for (let end = at + 2; end < text.length; end++) {
        if (text.charCodeAt(end) === 7) return end + 1;
        if (text[end] === "\u001b" && text[end + 1] === "\\") return end + 2;
      }
      return this.wait(text, at);
    }
    return at + 2;
  }

  private wait(text: string, at: number): number {
    if (text.length - at > maxEscape) return at + 1;
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
      case "C": this.column = Math.min(maxLine, this.column + n); return;
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
    const line = this.lines[this.row];
    if (!line) return;
    this.mark(this.row);
    const gap = this.column - line.text.length;
    if (gap > 0) {
      line.text += " ".repeat(gap);
      line.styles?.push(...Array<Style>(gap).fill(plain));
    }
    const appends = this.column === line.text.length;
    if (line.styles || this.style !== plain) {
      line.styles ??= Array<Style>(line.text.length).fill(plain);
      for (let i = 0; i < text.length; i++) line.styles[this.column + i] = this.style;
    }
    line.text = appends ? line.text + text : line.text.slice(0, this.column) + text + line.text.slice(this.column + text.length);
    this.column += text.length;
  }

  private eraseLine(what: number): void {
    const line = this.lines[this.row];
    if (!line) return;
    this.mark(this.row);
    if (what === 0) {
      line.text = line.text.slice(0, this.column);
      if (line.styles) line.styles.length = line.text.length;
    } else if (what === 1) {
      const end = Math.min(this.column + 1, line.text.length);
      line.text = " ".repeat(end) + line.text.slice(end);
      line.styles?.fill(plain, 0, end);
    } else {
      line.text = "";
      delete line.styles;
    }
  }

  private eraseBelow(what: number): void {
    if (what === 0) {
      this.eraseLine(0);
      this.lines.length = this.row + 1;
      this.mark(this.row);
    } else if (what >= 2) {
      this.lines.length = 1;
      this.lines[0] = { text: "" };
      this.row = 0;
      this.column = 0;
      this.mark(0);
    }
  }

  private mark(row: number): void {
    if (row < this.dirty) this.dirty = row;
  }
}

function nextControl(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 32 || code === 127) return i;
  }
  return text.length;
}

// spans are the runs of one style in a line.
export function spans(line: Line): Span[] {
  if (!line.styles) return line.text ? [{ text: line.text, style: plain }] : [];
  const out: Span[] = [];
  let start = 0;
  for (let i = 1; i <= line.text.length; i++) {
    if (i < line.text.length && line.styles[i] === line.styles[start]) continue;
    out.push({ text: line.text.slice(start, i), style: line.styles[start] ?? plain });
    start = i;
  }
  return line.text ? out : [];
}

// settled is text as it stands in the end, without any sequences.
export function settled(text: string): string {
  const screen = new Screen();
  screen.write(text);
  return screen.lines.map((line) => line.text).join("\n");
}
