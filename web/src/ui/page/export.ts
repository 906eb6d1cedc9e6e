// The notebook as one HTML file without any script, to be read anywhere. All of it is built as elements and text.

import type { Output } from "../../log/state";
import { describe, view } from "../../render/mime";
import type { Formula } from "../../render/prose";
import { parseTable, show } from "../../render/table";
import { proseOf } from "../outputs/prose";
import { settle, textToTake } from "../outputs/take";
import { turn } from "./turns";
import type { Notebook } from "./notebook.svelte";

const style = `body{max-width:860px;margin:48px auto;padding:0 24px;font:17px/1.6 "Source Serif 4",Georgia,serif;color:#1b1a17;background:#fbfaf7}
pre{font:13px/20px "JetBrains Mono",ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:8px 0}
.code{border-left:1px solid #dcd8cc;padding-left:12px}.stderr{color:#6a665c}.error{color:#a3201d}img{max-width:100%}
table{border-collapse:collapse;font:13px/20px system-ui,sans-serif}td,th{padding:2px 12px 2px 0;text-align:right}thead{border-bottom:1px solid #dcd8cc}
iframe{width:100%;height:420px;border:0}`;

export async function toPage(nb: Notebook): Promise<Blob> {
  const { elements } = await import("../../render/markdown");
  const page = document.implementation.createHTMLDocument(nb.title);
  const make = (tag: string, className = "", text = ""): HTMLElement => {
    const element = page.createElement(tag);
    if (className) element.className = className;
    if (text) element.textContent = text;
    return element;
  };
  const policy = page.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-src 'self'";
  const charset = page.createElement("meta");
  charset.setAttribute("charset", "utf-8");
  page.head.prepend(charset, policy);
  // The styles come in as text: this page's own policy would complain of them.
  const parts = [`<!doctype html>\n<html>${page.head.outerHTML.replace("</head>", () => `<style>${style}</style></head>`)}\n<body>`];
  // Each element is text before the next one is made, and the page may draw between them.
  const add = async (element: HTMLElement) => {
    parts.push(element.outerHTML);
    await turn();
  };
  await add(make("h1", "", nb.title));
  for (const cell of nb.view.cells) {
    if (cell.cell_type === "markdown") {
      const prose = make("div");
      const found = await proseOf("markdown", cell.source);
      const formula = ({ tex, display }: Formula) => document.createTextNode(display ? `$$${tex}$$` : `$${tex}$`);
      if (found) prose.append(...found.pieces.map((html) => page.importNode(elements(html, found.math, formula), true)));
      else prose.append(make("pre", "", cell.source));
      await add(prose);
      continue;
    }
    await add(make("pre", "code", cell.source));
    const run = nb.lastRun(cell.id);
    for (const output of await nb.outputs(cell.id)) {
      const shown = await outputOf(output, make, `cell ${run?.count ?? ""}`);
      if (shown) await add(shown);
    }
  }
  return new Blob([...parts, "</body></html>\n"], { type: "text/html" });
}

type Make = (tag: string, className?: string, text?: string) => HTMLElement;

async function outputOf(output: Output, make: Make, where: string): Promise<HTMLElement | undefined> {
  if (output.kind === "input") return undefined;
  if (output.kind !== "data") return make("pre", output.kind === "stream" ? output.name : "error", await textToTake(output));
  const shown = view(output.data);
  switch (shown.kind) {
    case "image": {
      const image = make("img") as HTMLImageElement;
      image.src = shown.svg ? await dataURL(new Blob([shown.data], { type: "image/svg+xml" })) : `data:${shown.mime};base64,${shown.data}`;
      image.alt = describe(output.data, output.metadata, where);
      return image;
    }
    case "table": {
      const table = parseTable(shown.value);
      if (!table) return undefined;
      const element = make("table");
      const head = make("tr");
      head.append(...table.fields.map((f) => make("th", "", f.title ?? f.name)));
      const thead = make("thead");
      thead.append(head);
      const body = make("tbody");
      for (const row of table.rows.slice(0, 100)) {
        const line = make("tr");
        line.append(...row.map((value) => make("td", "", show(value))));
        body.append(line);
      }
      element.append(thead, body);
      return element;
    }
    case "html": {
      const frame = make("iframe") as HTMLIFrameElement;
      frame.setAttribute("sandbox", "");
      frame.srcdoc = shown.html;
      return frame;
    }
  }
  const plain = output.data["text/plain"];
  return make("pre", "", typeof plain === "string" ? await settle(plain) : "");
}

function dataURL(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
