// A table as a cell shows it: bounded rows of a DataFrame, with their types and the true number of rows.

import type { Json } from "../proto/types";

export interface Field { name: string; title?: string; type: string; dtype?: string; nulls?: number; index: boolean }
// id is what to ask the kernel by for rows beyond those that came.
export interface Table { fields: Field[]; rows: Json[][]; total: number; cut: boolean; id?: string }

const maxFields = 500;
const maxCells = 50_000; // of the rows that came; more are asked for page by page
const maxNested = 10_000; // characters of a value that is a list or an object
const maxShown = 1000; // characters of a cell

type Obj = { [key: string]: Json };
const isObject = (value: Json | undefined): value is Obj => typeof value === "object" && value !== null && !Array.isArray(value);
const number = (value: Json | undefined): number | undefined => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

// parseTable reads application/vnd.dataresource+json. Rows are objects by field name, or lists in the fields' order.
export function parseTable(value: Json): Table | undefined {
  if (!isObject(value) || !Array.isArray(value["data"])) return undefined;
  const schema = isObject(value["schema"]) ? value["schema"] : {};
  const given = Array.isArray(schema["fields"]) ? schema["fields"] : [];
  const keys = [schema["primaryKey"] ?? []].flat().filter((k): k is string => typeof k === "string");
  const dtypes = isObject(value["dtypes"]) ? value["dtypes"] : {};
  const nulls = isObject(value["null_counts"]) ? value["null_counts"] : isObject(value["nulls"]) ? value["nulls"] : {};
  const fields: Field[] = given.filter(isObject).slice(0, maxFields).map((f) => {
    const name = String(f["name"] ?? "");
    const dtype = f["dtype"] ?? dtypes[name];
    return {
      name, type: String(f["type"] ?? "any"), index: f["index"] === true || keys.includes(name),
      title: typeof f["title"] === "string" ? f["title"] : undefined,
      dtype: typeof dtype === "string" ? dtype : undefined,
      nulls: number(f["null_count"]) ?? number(f["nulls"]) ?? number(nulls[name]),
    };
  });
  const rows: Json[][] = [];
  for (const row of value["data"]) {
    if (rows.length * Math.max(10, fields.length) > maxCells) break;
    if (Array.isArray(row)) rows.push(row.slice(0, maxFields).map(flat));
    else if (isObject(row)) {
      if (!fields.length) fields.push(...Object.keys(row).slice(0, maxFields).map((name) => ({ name, type: "any", index: false })));
      rows.push(fields.map((f) => flat(row[f.name] ?? null)));
    }
  }
  if (!fields.length && rows.length) return undefined;
  const total = number(value["total_rows"]) ?? number(value["total"]) ?? number(value["row_count"]) ?? value["data"].length;
  const id = value["table_id"];
  return {
    fields, rows, total: Math.max(total, rows.length), cut: total > rows.length || value["truncated"] === true,
    id: typeof id === "string" && total > rows.length ? id : undefined,
  };
}

function flat(value: Json): Json {
  if (typeof value !== "object" || value === null) return value;
  try {
    return JSON.stringify(value).slice(0, maxNested);
  } catch {
    return "(too deep to show)";
  }
}

export const drawnColumns = 50;

// inCell is a text as a cell has room for it.
export const inCell = (text: string): string => (text.length > maxShown ? `${text.slice(0, maxShown)}… (${text.length} characters)` : text);

export interface Order { column: number; down: boolean }

// sorted puts rows in order, by the first column first. Empty values come last either way; equal rows keep their places.
export function sorted(rows: readonly Json[][], orders: readonly Order[]): Json[][] {
  if (!orders.length) return [...rows];
  return [...rows].sort((a, b) => {
    for (const { column, down } of orders) {
      const order = compare(a[column] ?? null, b[column] ?? null, down);
      if (order) return order;
    }
    return 0;
  });
}

// filtered is the rows that have a text in one of their cells, in whatever case.
export function filtered(rows: readonly Json[][], text: string): readonly Json[][] {
  const wanted = text.toLowerCase();
  return wanted ? rows.filter((row) => row.some((cell) => show(cell).toLowerCase().includes(wanted))) : rows;
}

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function compare(a: Json, b: Json, down: boolean): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b : collator.compare(show(a), show(b));
  return down ? -order : order;
}

export const numeric = (field: Field): boolean => field.type === "integer" || field.type === "number";

const mostDecimals = 6;

// decimals is how many a column of numbers is shown with, so that its points stand below each other.
export function decimals(rows: readonly Json[][], column: number): number {
  let most = 0;
  for (const row of rows) {
    const value = row[column];
    if (typeof value !== "number" || Number.isInteger(value)) continue;
    const text = String(Number(value.toPrecision(7)));
    if (text.includes("e")) return -1;
    most = Math.max(most, text.length - text.indexOf(".") - 1);
  }
  return Math.min(most, mostDecimals);
}

// shown is a value in a column with that many decimals; -1 leaves each number as it is.
export function shown(value: Json | undefined, places: number): string {
  return typeof value === "number" && places > 0 ? value.toFixed(places) : show(value);
}

export function show(value: Json | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(7)));
  return typeof value === "boolean" ? (value ? "True" : "False") : JSON.stringify(value);
}

export function toCSV(table: Table): string {
  const quote = (text: string) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const full = (value: Json | undefined) => (typeof value === "number" ? String(value) : show(value));
  return [table.fields.map((f) => quote(f.title ?? f.name)), ...table.rows.map((row) => row.map((v) => quote(full(v))))]
    .map((line) => line.join(",")).join("\r\n") + "\r\n";
}
