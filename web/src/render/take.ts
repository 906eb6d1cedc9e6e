// An output as something to take along: text for the clipboard, a file to save.

import { settled } from "../ansi/screen";
import type { Output } from "../log/state";
import type { Json } from "../proto/types";
import { view } from "./mime";
import { parseTable, show, type Table } from "./table";

// Taken is a file of text or of base64, or the whole of a value that the page has only in part.
export interface Taken { name: string; type: string; text?: string; base64?: string; blob?: Blob }

const endings: Record<string, string> = { "image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif" };

const maxRich = 256 << 10; // characters of HTML that are copied beside the text

// terminalText is the text of an output that control sequences may be in, if that is what it says.
export function terminalText(output: Output): string | undefined {
  switch (output.kind) {
    case "stream": return output.text.toString();
    case "error": return output.traceback.join("\n") || `${output.ename}: ${output.evalue}`;
    case "input": return undefined;
  }
  const shown = view(output.data);
  switch (shown.kind) {
    case "markdown": case "latex": case "text": return shown.text;
    case "json": return undefined;
    case "table": if (parseTable(shown.value)) return undefined;
  }
  const plain = output.data["text/plain"];
  return typeof plain === "string" ? plain : "";
}

// textOf is what an output says, without colours: rows of a table with tabs between the cells. settle makes plain text of
// terminal text, and may take its time.
export async function textOf(output: Output, settle: (text: string) => string | Promise<string> = settled): Promise<string> {
  const text = terminalText(output);
  if (text !== undefined) return settle(text);
  if (output.kind !== "data") return output.kind === "input" ? output.prompt : "";
  const shown = view(output.data);
  if (shown.kind === "json") return await output.cut?.whole.get("application/json")?.text() ?? JSON.stringify(shown.value, null, 2);
  const table = shown.kind === "table" ? parseTable(shown.value) : undefined;
  return table ? [table.fields.map((f) => f.title ?? f.name), ...table.rows.map((row) => row.map(show))].map(tabbed).join("\n") : "";
}

const tabbed = (cells: string[]): string => cells.map((cell) => cell.replaceAll(/[\t\r\n]+/g, " ")).join("\t");

// richOf is the HTML of an output that has a richer form than its text: still as the kernel gave it, so not to be trusted.
// What is long has none: to make it harmless takes the page too long.
export function richOf(output: Output): string | undefined {
  if (output.kind !== "data") return undefined;
  const shown = view(output.data);
  if (shown.kind === "html") return shown.html.length > maxRich ? undefined : shown.html;
  const table = shown.kind === "table" ? parseTable(shown.value) : undefined;
  const html = table && tableHTML(table);
  return html && html.length <= maxRich ? html : undefined;
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
export async function fileOf(output: Output, settle?: (text: string) => string | Promise<string>): Promise<Taken | undefined> {
  const text = (name: string): Promise<Taken> => textOf(output, settle).then((t) => ({ name, type: "text/plain", text: t }));
  if (output.kind === "stream") return text(`${output.name === "stderr" ? "errors" : "output"}.txt`);
  if (output.kind === "error") return text("error.txt");
  if (output.kind === "input") return undefined;
  const shown = view(output.data);
  const json = (name: string, mime: string, value: Json): Taken => {
    const blob = output.cut?.whole.get(mime);
    return { name, type: "application/json", ...(blob ? { blob } : { text: JSON.stringify(value, null, 2) }) };
  };
  switch (shown.kind) {
    case "table": return undefined;
    case "image": return shown.svg ? { name: "figure.svg", type: shown.mime, text: shown.data } : { name: `figure.${endings[shown.mime] ?? "png"}`, type: shown.mime, base64: shown.data };
    case "media": return { name: `media.${shown.mime.split("/")[1] ?? "bin"}`, type: shown.mime, base64: shown.data };
    case "html": return { name: "output.html", type: "text/html", text: shown.html };
    case "chart": return json("chart.json", shown.mime, shown.spec);
    case "json": return json("output.json", "application/json", shown.value);
    case "markdown": return { name: "output.md", type: "text/markdown", text: shown.text };
    case "latex": return { name: "formula.tex", type: "text/plain", text: shown.text };
  }
  return text("output.txt");
}
