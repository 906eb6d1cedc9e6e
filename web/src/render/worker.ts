// The worker that turns Markdown and formulas into HTML, so that none of them can hold the page.

import { formulas, hasMath, proseOf, type Prose, type SetFormula } from "./prose";

export interface Task { id: number; kind: "markdown" | "latex"; text: string; display: boolean }
// Done comes after Begun, which says that all is loaded and the work itself starts.
export type Answer = { id: number; begun: true } | { id: number; begun: false; prose?: Prose };

const none: SetFormula = () => {
  throw new Error("KaTeX is not loaded");
};
let katex: SetFormula | undefined;

async function loadKatex(): Promise<SetFormula> {
  const { default: k } = await import("katex");
  return (tex, displayMode) => k.renderToString(tex, { displayMode, throwOnError: true, trust: false, maxExpand: 500, maxSize: 20, strict: "ignore" });
}

function work({ kind, text, display }: Task, set: SetFormula): Prose | undefined {
  try {
    return kind === "markdown" ? proseOf(text, set) : { pieces: [], math: formulas([{ tex: text, display }], set) };
  } catch {
    return undefined; // too deep for the parser
  }
}

self.onmessage = async ({ data }: MessageEvent<Task>) => {
  if (data.kind === "latex" || hasMath(data.text)) katex ??= await loadKatex().catch(() => undefined);
  self.postMessage({ id: data.id, begun: true } satisfies Answer);
  self.postMessage({ id: data.id, begun: false, prose: work(data, katex ?? none) } satisfies Answer);
};
