// What the page shows from the server's view of a log is what it shows from the whole log.

import { expect, test } from "vitest";
import { concerns, mayBeUpdated, restored } from "../src/log/bound";
import { cellOf } from "../src/log/cells";
import { greeted, reduceAll } from "../src/log/reduce";
import { empty, type LogState, type Run } from "../src/log/state";
import type { Event, Session } from "../src/proto/types";

function randomly(seed: number): (n: number) => number {
  return (n) => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    return (seed >> 8) % n;
  };
}

// A log in which four cells run again and again, print late, and change each other's displays.
function randomLog(pick: (n: number) => number): Event[] {
  const events: Event[] = [];
  const add = (execution_id: string, fields: object) => events.push({ seq: events.length + 1, time: "", execution_id, ...fields } as unknown as Event);
  const ended: string[] = [];
  for (let n = 0; n < 12; n++) {
    const id = `c-${pick(4)}.r${String(n).padStart(8, "0")}`;
    add(id, { type: "execution_queued", code: `${n}` });
    add(id, { type: "execution_started", code: `${n}`, execution_count: n + 1 });
    for (let i = pick(8); i > 0; i--) {
      const data = { data: { "text/plain": `${n}.${i}` }, metadata: {} };
      switch (pick(8)) {
        case 0: add(id, { type: "display_data", ...data }); break;
        case 1: case 2: add(id, { type: "display_data", ...data, display_id: `d${pick(3)}` }); break;
        case 3: add(id, { type: "update_display_data", ...data, display_id: `d${pick(3)}` }); break;
        case 4: add(id, { type: "clear_output", wait: pick(2) === 0 }); break;
        case 5: add(id, { type: "artifact", path: "f", change: "created", size: n }); break;
        case 6: if (ended.length) add(ended[pick(ended.length)] ?? "", { type: "stream", name: "stdout", text: `late ${n}\n` }); break;
        default: add(id, { type: "stream", name: pick(2) ? "stdout" : "stderr", text: `${n}.${i}\n` });
      }
    }
    add(id, { type: "execution_finished", execution: { status: "ok", state: "kept", execution_count: n + 1, generation: 1, started_at: "", usage: { duration_ms: 1, peak_memory_bytes: 1 }, truncated_bytes: 0 } });
    ended.push(id);
  }
  return events;
}

// viewOf is the view that the server sends, as docs/events.md says.
function viewOf(log: readonly Event[], through: number): Event[] {
  const last = new Map<string, string>();
  const ends = new Map<string, number>();
  for (const e of log.slice(0, through)) {
    if (e.type === "execution_queued") last.set(cellOf(e.execution_id ?? ""), e.execution_id ?? "");
    if (e.type === "execution_finished") ends.set(e.execution_id ?? "", e.seq);
  }
  const outputs = ["stream", "display_data", "execute_result", "error", "clear_output", "input_request", "input_closed"];
  return log.slice(0, through).filter((e) => {
    const id = e.execution_id ?? "";
    return e.seq === through || !outputs.includes(e.type) || last.get(cellOf(id)) === id || e.seq > (ends.get(id) ?? 0);
  });
}

const plainly = (run: Run | undefined) => run && {
  ...run, heldSince: 0, dropped: undefined, outputs: run.outputs.map((o) => (o.kind === "stream" ? { ...o, text: String(o.text) } : o)),
};

// fetched is a state with the outputs of a run, as the page fetches them (ui/page/past).
function fetched(state: LogState, log: readonly Event[], run: Run): LogState {
  const end = log.find((e) => e.type === "execution_finished" && e.execution_id === run.id)?.seq ?? Infinity;
  const own = log.filter((e) => e.execution_id === run.id && e.seq <= end);
  const events = !run.scattered && !mayBeUpdated(own) ? own : log.filter((e) => e.seq >= run.queuedSeq);
  return restored(state, run.id, events.filter((e) => concerns(e, run.id)));
}

test("a view and what follows show what the whole log shows", () => {
  let left = 0;
  for (let seed = 1; seed <= 300; seed++) {
    const pick = randomly(seed);
    const log = randomLog(pick);
    const through = 1 + pick(log.length);
    const session = { state: "idle", last_seq: through, kernel: { generation: 1 } } as Session;
    const whole = reduceAll(greeted(empty, session), log);
    const view = viewOf(log, through);
    left += through - view.length;
    let state = reduceAll(reduceAll(greeted(empty, session, true), view), log.slice(through));
    expect([...state.runs.keys()]).toEqual([...whole.runs.keys()]);
    const last = new Map([...whole.runs.keys()].map((id) => [cellOf(id), id]));
    for (const id of last.values()) expect(plainly(state.runs.get(id)), `seed ${seed}, ${id}`).toEqual(plainly(whole.runs.get(id)));
    for (const run of state.runs.values()) {
      if (run.dropped === undefined) continue;
      state = fetched(state, log, run);
      const { scattered, ...want } = plainly(whole.runs.get(run.id)) ?? {};
      expect(plainly(state.runs.get(run.id)), `seed ${seed}, ${run.id}, fetched`).toMatchObject(want);
    }
  }
  expect(left).toBeGreaterThan(1000);
});

test("what was fetched follows the updates of its displays", () => {
  const event = (seq: number, id: string, fields: object) => ({ seq, time: "", execution_id: id, ...fields }) as unknown as Event;
  const show = (text: string) => ({ data: { "text/plain": text }, metadata: {}, display_id: "d" });
  const finish = { type: "execution_finished", execution: { status: "ok", usage: {} } };
  const log = [
    event(1, "c.raaaaaaaa", { type: "execution_queued", code: "" }), event(2, "c.raaaaaaaa", { type: "display_data", ...show("old") }), event(3, "c.raaaaaaaa", finish),
    event(4, "c.rbbbbbbbb", { type: "execution_queued", code: "" }),
  ];
  const session = { state: "busy", last_seq: 4, kernel: { generation: 1 } } as Session;
  const seen = reduceAll(greeted(empty, session, true), viewOf(log, 4));
  const run = seen.runs.get("c.raaaaaaaa") as Run;
  expect([run.dropped, run.outputs]).toEqual([0, []]);
  const after = reduceAll(fetched(seen, log, run), [event(5, "c.rbbbbbbbb", { type: "update_display_data", ...show("new") })]);
  expect(after.runs.get("c.raaaaaaaa")?.outputs).toMatchObject([{ data: { "text/plain": "new" } }]);
});
