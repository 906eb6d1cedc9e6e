// HTML of Markdown to elements: DOMPurify takes out what could run or reach anything, and formulas are put in their places.
// Nothing of it ever is a string of HTML in the page.

import DOMPurify from "dompurify";
import { placeholder } from "./mathspans";
import type { Formula } from "./prose";
import { Tidy } from "./tidy";
import { isUnbroken, textNodes } from "./unbroken";

const maxCopied = { length: 256 << 10, tags: 4000 };

// sanitized is HTML of an output without what could run or reach anything, for other programs to read; undefined if it is
// too large to be made so in a moment.
export function sanitized(html: string): string | undefined {
  if (html.length > maxCopied.length) return undefined;
  const tidy = new Tidy();
  const text = tidy.write(html) + tidy.end();
  if (tidy.tags > maxCopied.tags) return undefined;
  return DOMPurify.sanitize(text, { USE_PROFILES: { html: true }, FORBID_TAGS: ["style", "form"], FORBID_ATTR: ["src", "srcset", "background"] });
}

// ownFile tells whether an image's address is that of a file or an artifact on this server. It is read as the browser reads
// it: with the login of the reader, no other address may be asked for.
export function ownFile(src: string, origin: string): boolean {
  try {
    const url = new URL(src, origin);
    return url.origin === origin && /^\/v1\/(artifacts|sessions\/[^/]+\/files)\/./.test(url.pathname);
  } catch {
    return false;
  }
}

// elements are a piece of prose. Links open beside the page, images come from data: and this server's files only.
export function elements(html: string, math: readonly Formula[], place: (formula: Formula) => Node): DocumentFragment {
  const fragment = DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    USE_PROFILES: { html: true },
    SANITIZE_NAMED_PROPS: true,
    FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "dialog", "audio", "video", "iframe", "picture", "source", "map", "area"],
    FORBID_ATTR: ["style", "class", "target", "srcset", "background"],
    ALLOW_DATA_ATTR: false,
  });
  for (const link of fragment.querySelectorAll("a")) {
    if (!/^(https?:|mailto:|#)/i.test(link.getAttribute("href") ?? "")) link.removeAttribute("href");
    link.rel = "noopener noreferrer";
    if (!link.getAttribute("href")?.startsWith("#")) link.target = "_blank";
  }
  for (const image of fragment.querySelectorAll("img")) {
    const src = image.getAttribute("src") ?? "";
    if (!/^data:image\//i.test(src) && !ownFile(src, location.origin)) image.replaceWith(document.createTextNode(`[image ${image.alt || src}]`));
  }
  placeTexts(fragment, math, place);
  return fragment;
}

// placeTexts puts formulas in their places, and lets overlong words break.
function placeTexts(fragment: DocumentFragment, math: readonly Formula[], place: (formula: Formula) => Node): void {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  for (const node of texts) {
    const parts = math.length ? node.data.split(placeholder) : [node.data];
    if (parts.length === 1 && !isUnbroken(node.data)) continue;
    node.replaceWith(...parts.flatMap((part, i) => {
      const formula = i % 2 ? math[Number(part)] : undefined;
      return formula ? [place(formula)] : textNodes(part);
    }));
  }
}
