// Rows of a table that did not come with the output: asked of Python, which has them as long as the object lives.

import { Refused } from "../../proto/rest";
import type { Json, TablePage } from "../../proto/types";
import type { Order } from "../../render/table";
import type { Notebook } from "../page/notebook.svelte";

const patience = 60_000; // ms for which a busy Python is asked again
const pause = 150; // ms between, beside the time that it has for an answer

export class LiveTable {
  page = $state.raw<{ start: number; rows: Json[][] }>();
  total = $state<number>();
  waiting = $state("");
  gone = $state(false); // what came is all that there is
  note = $state("");
  private serial = 0;

  constructor(private readonly nb: Notebook, private readonly id: string) {}

  // want asks for a page, in place of the one before.
  // unsortable is called where the rows have no such order.
  want(filter: string, orders: readonly Order[], start: number, rows: number, unsortable: () => void): void {
    void this.get(++this.serial, filter, orders, start, rows, unsortable);
  }

  rest(): void {
    this.serial++;
    this.waiting = "";
  }

  private async get(serial: number, filter: string, orders: readonly Order[], start: number, rows: number, unsortable: () => void): Promise<void> {
    if (filter || orders.length || start) this.note = "";
    this.waiting = filter ? "Searching…" : orders.length ? "Sorting…" : "Fetching…";
    try {
      const page = await this.ask(filter, orders, start, rows, () => serial === this.serial);
      if (serial !== this.serial) return;
      this.page = { start: page.offset, rows: page.rows };
      this.total = page.total;
      this.waiting = "";
    } catch (err) {
      if (serial !== this.serial) return;
      this.waiting = "";
      if (err instanceof Refused && err.code === "not_sortable") {
        this.note = `${err.message.charAt(0).toUpperCase()}${err.message.slice(1)}.`;
        unsortable();
      } else this.fail(err);
    }
  }

  // ask waits for a Python that is busy. A sort that takes longer than an answer may goes on there meanwhile.
  async ask(filter: string, orders: readonly Order[], start: number, rows: number, wanted: () => boolean): Promise<TablePage> {
    const sort = orders.map((o) => ({ column: o.column, descending: o.down }));
    const end = performance.now() + patience;
    for (;;) {
      try {
        return await this.nb.tablePage(this.id, filter, sort, start, rows);
      } catch (err) {
        if (!(err instanceof Refused) || !["kernel_busy", "unreachable"].includes(err.code) || performance.now() > end || !wanted()) throw err;
        if (err.code === "unreachable") this.waiting = "Reconnecting…";
        else if (this.nb.runningID) this.waiting = "Waiting for Python, which is busy with a cell…";
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  private fail(err: unknown): void {
    this.gone = true;
    const why = err instanceof Refused ? reasons[err.code] : undefined;
    this.note = `${why ?? (err instanceof Error ? err.message : String(err))} The rows that came with the output are shown.`;
  }
}

const reasons: Record<string, string> = {
  table_gone: "This table's data is gone: its object was dropped or changed, or Python restarted.",
  no_kernel: "This table's data is gone: Python is not running.",
  kernel_busy: "Python is too busy to return rows.",
};
