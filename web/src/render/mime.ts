// Which of the forms of a value the page shows.

import type { Bundle, Json } from "../proto/types";

export type View =
  | { kind: "table"; value: Json }
  | { kind: "chart"; library: "vega" | "vega-lite" | "plotly"; mime: string; spec: Json }
  | { kind: "html"; html: string; scripts: boolean }
  | { kind: "image"; mime: string; data: string; svg: boolean }
  | { kind: "markdown" | "latex" | "text"; text: string }
  | { kind: "json"; value: Json }
  | { kind: "media"; mime: string; data: string };

export const tableType = "application/vnd.dataresource+json";
const maxSearched = 1 << 20; // characters of HTML that are looked through for scripts
export const chartType = "application/vnd.talaria.chart+json";

const text = (value: Json | undefined): string | undefined =>
  typeof value === "string" ? value : Array.isArray(value) && value.every((part) => typeof part === "string") ? value.join("") : undefined;

const object = (value: Json | undefined): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

// view takes the richest form that it knows. What is not as its type says is passed over: output is never trusted.
export function view(data: Bundle): View {
  const table = data[tableType];
  if (object(table) && Array.isArray((table as { data?: Json }).data)) return { kind: "table", value: table as Json };
  for (const [mime, value] of Object.entries(data)) {
    if (!object(value)) continue;
    if (/^application\/vnd\.vegalite\.v\d+(\.\d+)*\+json$/.test(mime)) return { kind: "chart", library: "vega-lite", mime, spec: value };
    if (/^application\/vnd\.vega\.v\d+(\.\d+)*\+json$/.test(mime)) return { kind: "chart", library: "vega", mime, spec: value };
    if (mime === "application/vnd.plotly.v1+json") return { kind: "chart", library: "plotly", mime, spec: value };
  }
  const html = text(data["text/html"]);
  if (html) return { kind: "html", html, scripts: hasScripts(html.slice(0, maxSearched)) };
  const svg = text(data["image/svg+xml"]);
  if (svg) return { kind: "image", mime: "image/svg+xml", data: svg, svg: true };
  for (const mime of ["image/png", "image/jpeg", "image/webp", "image/gif"]) {
    const image = text(data[mime]);
    if (image) return { kind: "image", mime, data: image.replaceAll("\n", ""), svg: false };
  }
  for (const [mime, value] of Object.entries(data)) {
    const media = /^(audio|video)\/[a-z0-9.+-]+$/.test(mime) ? text(value) : undefined;
    if (media) return { kind: "media", mime, data: media.replaceAll("\n", "") };
  }
  const markdown = text(data["text/markdown"]);
  if (markdown !== undefined) return { kind: "markdown", text: markdown };
  const latex = text(data["text/latex"]);
  if (latex) return { kind: "latex", text: latex };
  const json = data["application/json"];
  if (json !== undefined && object(json) || Array.isArray(json)) return { kind: "json", value: json as Json };
  return { kind: "text", text: text(data["text/plain"]) ?? plainOf(data) };
}

// hasScripts tells whether HTML would do something if scripts ran. It decides on a word to the reader, on nothing else.
export const hasScripts = (html: string): boolean => /<script\b|\son[a-z]+\s*=|javascript:/i.test(html);

function plainOf(data: Bundle): string {
  const kinds = Object.keys(data);
  return kinds.length ? `(${kinds.join(", ")})` : "";
}

// describe is what an image is called for who cannot see it.
export function describe(data: Bundle, metadata: Bundle, where: string): string {
  const said = metadata["alt"] ?? (object(metadata["image/png"] as Json) ? (metadata["image/png"] as { alt?: Json }).alt : undefined);
  if (typeof said === "string" && said) return said;
  const title = chartTitle(data[chartType]);
  if (title) return `Chart: ${title}. ${where}`;
  return `Figure, output of ${where}`;
}

function chartTitle(chart: Json | undefined): string | undefined {
  if (!object(chart)) return undefined;
  const found: string[] = [];
  let room = 1000; // values that are looked at
  const seek = (value: Json | undefined, depth: number): void => {
    if (depth > 4 || room-- < 0 || found.length || typeof value !== "object" || value === null) return;
    if (!Array.isArray(value) && typeof value["title"] === "string" && value["title"]) found.push(value["title"]);
    for (const child of Object.values(value).slice(0, room)) seek(child, depth + 1);
  };
  seek(chart, 0);
  return found[0]?.slice(0, 200);
}
