// Markdown to elements: marked makes HTML, DOMPurify takes out what could run or reach anything, and math is set in the
// result. Nothing of it ever is a string of HTML in the page.

import DOMPurify from "dompurify";
import { marked } from "marked";

export interface MathSpan { tex: string; display: boolean }

// A private-use character cannot be Markdown, so a formula is out of marked's reach while it works.
const open = "\uE000";
const close = "\uE001";

// takeMath cuts formulas out: $…$, $$…$$, \(…\), \[…\], but none in code.
export function takeMath(source: string): { text: string; math: MathSpan[] } {
  const math: MathSpan[] = [];
  const clean = source.replaceAll(/[\uE000\uE001]/g, "");
  const pattern =
    /(^ {0,3}(`{3,}|~{3,})[^\n]*\n[\s\S]*?(?:^ {0,3}\2[`~]*[ \t]*$|(?![\s\S])))|(`+)(?:(?!\3)[\s\S])+?\3(?!`)|\\\\|\\\$|\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\]|\\\(([\s\S]+?)\\\)|\$(?=\S)([^$\n]*?[^\s$\\])\$(?!\d)/gm;
  const text = clean.replace(pattern, (whole, _fence, _marks, _ticks, block, bracket, paren, inline) => {
    const tex = block ?? bracket ?? paren ?? inline;
    if (tex === undefined) return whole as string;
    math.push({ tex: String(tex), display: block !== undefined || bracket !== undefined });
    return `${open}${math.length - 1}${close}`;
  });
  return { text, math };
}

// withoutHandlers takes event handlers out of tags. DOMPurify would too, but the browser complains of each one that it
// parses, also in a document that is never shown.
export function withoutHandlers(html: string): string {
  const handler = /(<[a-z][^>]*?)[\s/]on[a-z]+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]*)/gi;
  let before = "";
  let after = html;
  while (before !== after) [before, after] = [after, after.replace(handler, "$1 ")];
  return after;
}

// sanitized is HTML of an output without what could run or reach anything, for other programs to read.
export const sanitized = (html: string): string => DOMPurify.sanitize(withoutHandlers(html), { USE_PROFILES: { html: true }, FORBID_TAGS: ["style", "form"], FORBID_ATTR: ["src", "srcset", "background"] });

export type Typeset = (tex: string, display: boolean, into: HTMLElement) => void;

// render is the text as elements. Links open beside the page, images come from data: and this server only.
export function render(source: string, typeset: Typeset): DocumentFragment {
  const { text, math } = takeMath(source);
  const html = withoutHandlers(marked.parse(text, { async: false, gfm: true }));
  const fragment = DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    USE_PROFILES: { html: true },
    SANITIZE_NAMED_PROPS: true,
    FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "dialog", "audio", "video", "iframe"],
    FORBID_ATTR: ["style", "class", "target"],
    ALLOW_DATA_ATTR: false,
  });
  for (const link of fragment.querySelectorAll("a")) {
    if (!/^(https?:|mailto:|#)/i.test(link.getAttribute("href") ?? "")) link.removeAttribute("href");
    link.rel = "noopener noreferrer";
    if (!link.getAttribute("href")?.startsWith("#")) link.target = "_blank";
  }
  for (const image of fragment.querySelectorAll("img")) {
    if (!/^(data:image\/|\/v1\/)/i.test(image.getAttribute("src") ?? "")) {
      image.replaceWith(document.createTextNode(`[image ${image.alt || image.getAttribute("src") || ""}]`));
    }
  }
  placeMath(fragment, math, typeset);
  return fragment;
}

function placeMath(fragment: DocumentFragment, math: readonly MathSpan[], typeset: Typeset): void {
  if (!math.length) return;
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  for (const node of texts) {
    const parts = node.data.split(/\uE000(\d+)\uE001/);
    if (parts.length === 1) continue;
    node.replaceWith(...parts.map((part, i) => {
      const span = i % 2 ? math[Number(part)] : undefined;
      if (!span) return document.createTextNode(part);
      const place = document.createElement("span");
      typeset(span.tex, span.display, place);
      return place;
    }));
  }
}
