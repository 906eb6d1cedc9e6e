// Formulas, by KaTeX, which is loaded with the first one.

import type { Typeset } from "./markdown";

type Katex = typeof import("katex").default;

let katex: Katex | undefined;
let loading: Promise<Katex> | undefined;

async function load(): Promise<Katex> {
  const [module] = await Promise.all([import("katex"), import("katex/dist/katex.min.css")]);
  katex = module.default;
  return katex;
}

function set(k: Katex, tex: string, display: boolean, into: HTMLElement): void {
  try {
    k.render(tex, into, { displayMode: display, throwOnError: true, trust: false, maxExpand: 500, maxSize: 20, strict: "ignore" });
  } catch {
    into.textContent = tex;
    into.classList.add("bad-math");
    into.title = "This formula could not be set.";
  }
}

// typeset shows the source until KaTeX is there.
export const typeset: Typeset = (tex, display, into) => {
  into.className = display ? "math display" : "math";
  if (katex) return set(katex, tex, display, into);
  into.textContent = tex;
  loading ??= load();
  loading.then((k) => set(k, tex, display, into), () => into.classList.add("bad-math"));
};

// withoutDollars is the formula of text/latex, which comes with its delimiters.
export function withoutDollars(latex: string): { tex: string; display: boolean } {
  const text = latex.trim();
  const found = /^\$\$([\s\S]*)\$\$$|^\\\[([\s\S]*)\\\]$|^\$([\s\S]*)\$$|^\\\(([\s\S]*)\\\)$/.exec(text);
  const display = found ? found[1] !== undefined || found[2] !== undefined : true;
  const tex = found?.[1] ?? found?.[2] ?? found?.[3] ?? found?.[4] ?? text;
  return { tex: tex.replace(/^\\displaystyle\s*/, ""), display: display || tex.startsWith("\\displaystyle") };
}
