import { expect, test } from "vitest";
import { bounded, concerns, restored, weightOf } from "../src/log/bound";
import { reduceAll } from "../src/log/reduce";
import { empty, type LogState } from "../src/log/state";
import type { Event } from "../src/proto/types";

let seq = 0;
const event = (execution_id: string, fields: object) => ({ seq: ++seq, time: "", execution_id, ...fields }) as unknown as Event;
const show = (run: string, text: string, display_id?: string) => event(run, { type: "display_data", data: { "text/plain": text }, metadata: {}, display_id });
const finished = (run: string) => event(run, { type: "execution_finished", execution: { status: "ok", usage: {} } });
const ran = (run: string, output: () => Event) => [event(run, { type: "execution_queued", code: "1" }), output(), finished(run)];
const outputs = (state: LogState, run: string) => state.runs.get(run)?.outputs;

test("outputs held longest go first, and come back as they were", () => {
  const log = ["a", "b", "c"].flatMap((run) => ran(run, () => show(run, run.repeat(1000))));
  const all = reduceAll(empty, log);
  expect(bounded(all, 10_000)).toBe(all);
  const cut = bounded(all, 2100);
  expect(["a", "b", "c"].map((run) => outputs(cut, run)?.length)).toEqual([0, 1, 1]);
  expect(cut.runs.get("a")?.dropped).toBeGreaterThanOrEqual(1000);
  const back = restored(cut, "a", log.filter((e) => concerns(e, "a")));
  expect(outputs(back, "a")).toEqual(outputs(all, "a"));
  expect(["a", "b", "c"].map((run) => outputs(bounded(back, 2100), run)?.length)).toEqual([1, 0, 1]); // what was asked for stays
  expect(() => restored(cut, "a", [])).toThrow("no longer has these outputs");
});

test("tool calls count, and come back too", () => {
  const log = ["a", "b"].flatMap((run) => ran(run, () => event(run, { type: "tool_call", call_id: "1", tool: "t", arguments: { text: "x".repeat(3000) } })));
  const all = reduceAll(empty, log);
  const cut = bounded(all, 4000);
  expect(["a", "b"].map((run) => cut.runs.get(run)?.calls.latest.length)).toEqual([0, 1]);
  expect(restored(cut, "a", log.filter((e) => concerns(e, "a"))).runs.get("a")?.calls).toEqual(all.runs.get("a")?.calls);
});

test("the last run and open ones keep theirs", () => {
  const log = [event("open", { type: "execution_queued", code: "1" }), show("open", "x".repeat(1000)), ...ran("last", () => show("last", "y".repeat(1000)))];
  const cut = bounded(reduceAll(empty, log), 10);
  expect([outputs(cut, "open")?.length, outputs(cut, "last")?.length]).toEqual([1, 1]);
});

test("what others do to dropped outputs is not lost", () => {
  const first = [...ran("a", () => show("a", "x".repeat(1000), "d")), ...ran("b", () => show("b", "y".repeat(1000)))];
  const cut = bounded(reduceAll(empty, first), 1100);
  expect([cut.runs.get("a")?.dropped !== undefined, cut.runs.get("a")?.scattered]).toEqual([true, false]);
  const rest = [event("b", { type: "update_display_data", data: { "text/plain": "new" }, metadata: {}, display_id: "d" }), event("a", { type: "stream", name: "stdout", text: "late" })];
  const after = reduceAll(cut, rest);
  expect([after.runs.get("a")?.scattered, outputs(after, "a")]).toEqual([true, []]);
  const log = [...first, ...rest];
  expect(outputs(restored(after, "a", log.filter((e) => concerns(e, "a"))), "a")).toEqual(outputs(reduceAll(empty, log), "a"));
});

test("objects count for more than their text", () => {
  const state = reduceAll(empty, ran("a", () => event("a", { type: "display_data", data: { "application/json": [1, 2, 3] }, metadata: {} })));
  expect(weightOf(state.runs.get("a") as never)).toBeGreaterThan(7);
});
