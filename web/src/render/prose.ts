// Markdown and formulas to HTML, in a worker: it may take long, and it is not safe yet.

import { Marked } from "marked";
import { maxFormula, takeMath, type MathSpan } from "./mathspans";
import { Tidy } from "./tidy";
import { isShaped } from "./unbroken";

// Prose is HTML in pieces that a page can take in one by one. math is by the number in a placeholder.
export interface Prose { pieces: string[]; math: Formula[] }
// html is undefined where a formula could not be set.
export interface Formula extends MathSpan { html?: string }

// A form has no place in a text: the box of a task is a sign.
const marked = new Marked({ renderer: { checkbox: ({ checked }) => (checked ? "☑ " : "☐ ") } });

export type SetFormula = (tex: string, display: boolean) => string;

const enough = { tags: 300, length: 20_000 }; // of a piece
const most = { tags: 4000, length: 100_000, spread: 500_000, all: 20_000 }; // what one piece, and all of them together, may have
const shapedSize = 2; // characters that a shaped one costs
const maxFormulas = 2000;
const maxFormulaHTML = 100_000;
const maxMathHTML = 4_000_000; // of all formulas of a text
const mathTime = 1000; // ms: formulas after that stay as they were written

// proseOf is undefined where the text would make more than a page can draw in a moment.
export function proseOf(source: string, set: SetFormula): Prose | undefined {
  const { text, math } = takeMath(source);
  if (math.length > maxFormulas) return undefined;
  const pieces = piecesOf(text);
  return pieces && { pieces, math: formulas(math, set) };
}

export const hasMath = (source: string): boolean => /[$\\]/.test(source);

export function formulas(math: readonly MathSpan[], set: SetFormula): Formula[] {
  const until = performance.now() + mathTime;
  let room = maxMathHTML;
  return math.map((span) => {
    if (span.tex.length > maxFormula || performance.now() > until) return span;
    try {
      const html = set(span.tex, span.display);
      if (html.length > Math.min(room, maxFormulaHTML)) return span;
      room -= html.length;
      return { ...span, html };
    } catch {
      return span;
    }
  });
}

function piecesOf(text: string): string[] | undefined {
  const tidy = new Tidy();
  const pieces: string[] = [];
  let piece = "";
  let before = { tags: 0, spread: 0 };
  for (const token of marked.lexer(text)) {
    piece += tidy.write(marked.parser([token]));
    if (piece.length * (isShaped(piece) ? shapedSize : 1) > most.length || tidy.tags - before.tags > most.tags || tidy.spread - before.spread > most.spread || tidy.tags > most.all) return undefined;
    if (tidy.depth || piece.length < enough.length && tidy.tags - before.tags < enough.tags) continue;
    pieces.push(piece);
    piece = "";
    before = { tags: tidy.tags, spread: tidy.spread };
  }
  piece += tidy.end();
  return piece ? [...pieces, piece] : pieces;
}
