// An output as something to take along: text for the clipboard, a file to save.

import { settled } from "../ansi/screen";
import type { Output } from "../log/state";
import { view } from "./mime";
import { parseTable, show, type Table } from "./table";

export interface Taken { name: string; type: string; text?: string; base64?: string }

const endings: Record<string, string> = { "image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif" };

// textOf is what an output says, without colours: rows of a table with tabs between the cells.
export function textOf(output: Output): string {
  switch (output.kind) {
    case "stream": return settled(output.text.toString());
    case "error": return settled(output.traceback.join("\n")) || `${output.ename}: ${output.evalue}`;
    case "input": return output.prompt;
  }
  const shown = view(output.data);
  const plain = output.data["text/plain"];
  switch (shown.kind) {
    case "table": {
      const table = parseTable(shown.value);
      if (table) return [table.fields.map((f) => f.title ?? f.name), ...table.rows.map((row) => row.map(show))].map(tabbed).join("\n");
      break;
    }
    case "markdown": case "latex": case "text": return settled(shown.text);
    case "json": return JSON.stringify(shown.value, null, 2);
  }
  return typeof plain === "string" ? settled(plain) : "";
}

const tabbed = (cells: string[]): string => cells.map((cell) => cell.replaceAll(/[\t\r\n]+/g, " ")).join("\t");

// richOf is the HTML of an output that has a richer form than its text: still as the kernel gave it, so not to be trusted.
export function richOf(output: Output): string | undefined {
  if (output.kind !== "data") return undefined;
  const shown = view(output.data);
  if (shown.kind === "html") return shown.html;
  const table = shown.kind === "table" ? parseTable(shown.value) : undefined;
  return table && tableHTML(table);
}

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string): string => text.replaceAll(/[&<>"]/g, (c) => escapes[c] ?? c);

function tableHTML(table: Table): string {
  const line = (tag: string, cells: string[]) => `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join("")}</tr>`;
  return `<table><thead>${line("th", table.fields.map((f) => f.title ?? f.name))}</thead><tbody>${table.rows.map((row) => line("td", row.map(show))).join("")}</tbody></table>`;
}

// savable tells whether there is a file of an output: a table has a way of its own, and a question is none.
export const savable = (output: Output): boolean => output.kind !== "input" && !(output.kind === "data" && view(output.data).kind === "table");

// fileOf is an output as a file, if it is savable. It takes as long as the output is.
export function fileOf(output: Output): Taken | undefined {
  if (output.kind === "stream") return { name: `${output.name === "stderr" ? "errors" : "output"}.txt`, type: "text/plain", text: textOf(output) };
  if (output.kind === "error") return { name: "error.txt", type: "text/plain", text: textOf(output) };
  if (output.kind === "input") return undefined;
  const shown = view(output.data);
  switch (shown.kind) {
    case "table": return undefined;
    case "image": return shown.svg ? { name: "figure.svg", type: shown.mime, text: shown.data } : { name: `figure.${endings[shown.mime] ?? "png"}`, type: shown.mime, base64: shown.data };
    case "media": return { name: `media.${shown.mime.split("/")[1] ?? "bin"}`, type: shown.mime, base64: shown.data };
    case "html": return { name: "output.html", type: "text/html", text: shown.html };
    case "chart": return { name: "chart.json", type: "application/json", text: JSON.stringify(shown.spec, null, 2) };
    case "json": return { name: "output.json", type: "application/json", text: JSON.stringify(shown.value, null, 2) };
    case "markdown": return { name: "output.md", type: "text/markdown", text: shown.text };
    case "latex": return { name: "formula.tex", type: "text/plain", text: shown.text };
  }
  return { name: "output.txt", type: "text/plain", text: textOf(output) };
}
