// A table as a CSV file: all of its rows where Python still has them, in the order that is shown.

import type { Json } from "../../proto/types";
import { count } from "../../render/format";
import { toCSV, type Order, type Table } from "../../render/table";
import { save } from "../page/save";
import type { LiveTable } from "./live.svelte";

const most = 100_000; // rows: more are a cell's work
const piece = 500;

export async function saveTable(table: Table, here: Json[][], live: LiveTable | undefined, filter: string,
  orders: readonly Order[], progress: (part: string) => void): Promise<void> {
  const total = live?.total ?? table.total;
  if (!live) return save("table.csv", "text/csv", toCSV({ ...table, rows: here }));
  if (total > most) throw new Error(`The table has ${count(total)} rows, but a CSV from this page has at most ${count(most)}. Run df.to_csv("table.csv") in a cell, then download the file.`);
  const rows: Json[][] = [];
  while (rows.length < total) {
    const page = await live.ask(filter, orders, rows.length, piece, () => true);
    if (!page.rows.length) break;
    rows.push(...page.rows);
    progress(`${count(rows.length)} of ${count(page.total)}`);
  }
  save("table.csv", "text/csv", toCSV({ ...table, rows }));
}
