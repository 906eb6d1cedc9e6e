// The rows of a table's page, drawn without components: a wide table has more than a thousand cells.

import type { Json } from "../../proto/types";
import { inCell, numeric, shown, type Field } from "../../render/table";
import { later } from "../page/turns";

const atOnce = 250; // cells

// Rows are those of a page, with the decimals of each column.
export interface Rows { fields: readonly Field[]; rows: readonly Json[][]; places: readonly number[] }

// drawRows fills the body of a table.
export function drawRows(body: HTMLElement, { fields, rows, places }: Rows): void {
  body.replaceChildren(...rows.map((row) => line(fields, row, places)));
}

// drawRowsInTurns fills it part by part. What it returns stops it.
export function drawRowsInTurns(body: HTMLElement, { fields, rows, places }: Rows): () => void {
  const most = Math.max(1, Math.floor(atOnce / Math.max(1, fields.length)));
  let at = 0;
  const part = () => {
    body.append(...rows.slice(at, at + most).map((row) => line(fields, row, places)));
    at += most;
    if (at < rows.length) stop = later(part);
  };
  let stop = later(part);
  return () => stop();
}

function line(fields: readonly Field[], row: readonly Json[], places: readonly number[]): HTMLElement {
  const element = document.createElement("tr");
  element.append(...fields.map((field, i) => cell(field, row[i] ?? null, places[i] ?? -1)));
  return element;
}

function cell(field: Field, value: Json, places: number): HTMLElement {
  const element = document.createElement(field.index ? "th" : "td");
  const missing = value === null && !field.index;
  if (numeric(field)) element.className = "num";
  if (missing) element.classList.add("empty");
  if (field.index) element.setAttribute("scope", "row");
  element.textContent = missing ? "–" : inCell(shown(value, places));
  return element;
}
