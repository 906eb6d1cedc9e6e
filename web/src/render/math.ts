// Formulas, as the worker set them.

import type { Formula } from "./prose";

// formulaElement is a formula as elements, or as it was written. What is parsed here is KaTeX's own HTML, made without
// trust in the formula.
export function formulaElement({ tex, display, html }: Formula): HTMLElement {
  const element = document.createElement("span");
  element.className = display ? "math display" : "math";
  if (html !== undefined) element.append(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  else {
    element.textContent = tex;
    element.classList.add("bad-math");
    element.title = "This formula could not be rendered.";
  }
  return element;
}

// withoutDollars is the formula of text/latex, which comes with its delimiters.
export function withoutDollars(latex: string): { tex: string; display: boolean } {
  const text = latex.trim();
  const found = /^\$\$([\s\S]*)\$\$$|^\\\[([\s\S]*)\\\]$|^\$([\s\S]*)\$$|^\\\(([\s\S]*)\\\)$/.exec(text);
  const display = found ? found[1] !== undefined || found[2] !== undefined : true;
  const tex = found?.[1] ?? found?.[2] ?? found?.[3] ?? found?.[4] ?? text;
  return { tex: tex.replace(/^\\displaystyle\s*/, ""), display: display || tex.startsWith("\\displaystyle") };
}
