// Prose in an element, piece by piece.

import { formulaElement, withoutDollars } from "../../render/math";
import { maxFormula } from "../../render/mathspans";
import type { Formula, Prose } from "../../render/prose";
import { maxText, Typesetter } from "../../render/typesetter";
import { bytes } from "../../render/format";
import { later } from "../page/turns";

const typesetter = new Typesetter(() => new Worker(new URL("../../render/worker.ts", import.meta.url), { type: "module", name: "prose" }));

export const proseOf = (kind: "markdown" | "latex", text: string): Promise<Prose | undefined> => {
  if (kind === "markdown") return typesetter.prose(kind, text);
  const { tex, display } = withoutDollars(text);
  if (tex.length > maxFormula) return Promise.resolve(undefined);
  return typesetter.prose(kind, tex, display);
};

export function tooLong(kind: "markdown" | "latex", text: string): string {
  const [name, most] = kind === "markdown" ? ["Markdown", maxText] : ["formula", maxFormula];
  return `This ${name} is shown as text: ${text.length > most ? `it is longer than ${bytes(most)}` : "it takes too long to render"}.`;
}

// drawProse draws into a place a text, and says when that is done: with why it is to be shown as text, if it
// is. What it returns stops it.
export function drawProse(place: HTMLElement, kind: "markdown" | "latex", text: string, done: (why: string) => void): () => void {
  let stop = () => {};
  let stopped = false;
  void work();
  return () => {
    stopped = true;
    stop();
  };

  async function work() {
    const [prose, { elements }] = await Promise.all([proseOf(kind, text), import("../../render/markdown")] as const);
    if (prose?.math.length) await import("katex/dist/katex.min.css");
    if (stopped) return;
    place.replaceChildren();
    if (!prose) return done(tooLong(kind, text));
    const formulas = new Map<HTMLElement, Formula>(); // places of formulas that are still to be drawn
    const hold = (formula: Formula) => {
      const at = document.createElement("span");
      formulas.set(at, formula);
      return at;
    };
    const steps = kind === "latex" ? prose.math.map((formula) => () => [hold(formula)]) : prose.pieces.map((html) => () => [elements(html, prose.math, hold)]);
    const step = () => {
      const [next] = formulas;
      if (next) {
        formulas.delete(next[0]);
        next[0].replaceWith(formulaElement(next[1]));
      } else {
        place.append(...(steps.shift()?.() ?? []));
      }
      if (steps.length || formulas.size) stop = later(step);
      else done("");
    };
    step();
  }
}
