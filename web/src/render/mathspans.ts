// Formulas in Markdown, cut out before it is parsed.

export interface MathSpan { tex: string; display: boolean }

export const maxFormula = 10_000; // characters; what is longer stays text

// A private-use character cannot be Markdown, so a formula is out of its parser's reach.
const open = "\uE000";
const close = "\uE001";
const displayed = /\\begin\{((?:align|alignat|equation|gather)\*?)\}/y;
export const placeholder = /\uE000(\d+)\uE001/;

// takeMath cuts formulas out: $…$, $$…$$, \(…\), \[…\] and \begin{align}…\end{align} and the like, but none in code. It passes over the text once: that something
// has no end is found out once for each kind.
export function takeMath(source: string): { text: string; math: MathSpan[] } {
  return new Scan(source.replaceAll(/[\uE000\uE001]/g, "")).run();
}

class Scan {
  private readonly math: MathSpan[] = [];
  private out = "";
  private at = 0;
  private from = 0; // what is before it is in out
  private readonly endless = new Set<string>();
  private readonly ticks = new Map<number, number[]>(); // by length: where runs of backticks start

  constructor(private readonly text: string) {
    for (const run of text.matchAll(/`+/g)) {
      const starts = this.ticks.get(run[0].length);
      if (starts) starts.push(run.index);
      else this.ticks.set(run[0].length, [run.index]);
    }
    for (const starts of this.ticks.values()) starts.reverse(); // so that the next one is popped
  }

  run(): { text: string; math: MathSpan[] } {
    const special = /[`~$\\]/g;
    for (;;) {
      special.lastIndex = this.at;
      const found = special.exec(this.text);
      if (!found) break;
      this.at = found.index;
      if (found[0] === "$") this.dollar();
      else if (found[0] === "\\") this.backslash();
      else this.code(found[0]);
    }
    return { text: this.out + this.text.slice(this.from), math: this.math };
  }

  private take(start: number, tex: string, display: boolean, end: number): void {
    if (tex.length > maxFormula) {
      this.at = end;
      return;
    }
    this.math.push({ tex, display });
    this.out += `${this.text.slice(this.from, start)}${open}${this.math.length - 1}${close}`;
    this.from = this.at = end;
  }

  // between takes what is between two delimiters, and tells whether there is a second one.
  private between(start: string, end: string, display: boolean): boolean {
    const inside = this.at + start.length;
    if (this.endless.has(end)) return false;
    const found = this.text.indexOf(end, inside + 1);
    if (found < 0) {
      this.endless.add(end);
      return false;
    }
    this.take(this.at, this.text.slice(inside, found), display, found + end.length);
    return true;
  }

  private dollar(): void {
    if (this.text[this.at + 1] === "$" && this.between("$$", "$$", true)) return;
    const rest = /[$\n]/g;
    rest.lastIndex = this.at + 1;
    const end = rest.exec(this.text);
    const tex = this.text.slice(this.at + 1, end?.index ?? this.at + 1);
    if (end?.[0] === "$" && /^\S/.test(tex) && /[^\s\\]$/.test(tex) && !/\d/.test(this.text[end.index + 1] ?? "")) this.take(this.at, tex, false, end.index + 1);
    else this.at++;
  }

  private backslash(): void {
    const next = this.text[this.at + 1];
    if (next === "[" && this.between("\\[", "\\]", true)) return;
    if (next === "(" && this.between("\\(", "\\)", false)) return;
    if (next === "b" && this.environment()) return;
    this.at += next === "\\" || next === "$" ? 2 : 1;
  }

  // environment takes one that is a formula by itself, with its delimiters, and reports whether there is one.
  private environment(): boolean {
    displayed.lastIndex = this.at;
    const name = displayed.exec(this.text)?.[1];
    const end = `\\end{${name}}`;
    if (!name || this.endless.has(end)) return false;
    const found = this.text.indexOf(end, this.at);
    if (found < 0) this.endless.add(end);
    else this.take(this.at, this.text.slice(this.at, found + end.length), true, found + end.length);
    return found >= 0;
  }

  // code passes over a fence at the start of a line, or over a span.
  private code(mark: string): void {
    let end = this.at;
    while (this.text[end] === mark) end++;
    const length = end - this.at;
    let line = this.at;
    while (this.at - line < 3 && this.text[line - 1] === " ") line--;
    if (length >= 3 && (line === 0 || this.text[line - 1] === "\n")) return this.fence(mark, length);
    if (mark === "`") {
      const starts = this.ticks.get(length) ?? [];
      while (starts.length && (starts.at(-1) ?? 0) < end) starts.pop();
      const closing = starts.at(-1);
      if (closing !== undefined) end = closing + length;
    }
    this.at = end;
  }

  private fence(mark: string, length: number): void {
    const lines = /\n {0,3}([`~]{3,})[ \t]*(?=\n|$)/g;
    lines.lastIndex = this.at;
    for (let found = lines.exec(this.text); found; found = lines.exec(this.text)) {
      if (!found[1]?.startsWith(mark.repeat(length))) continue;
      this.at = found.index + found[0].length;
      return;
    }
    this.at = this.text.length;
  }
}
