import { describe, expect, test } from "vitest";
import { Rope } from "../src/log/rope";
import { pending } from "../src/log/approvals";
import { greeted, reduce, reduceAll } from "../src/log/reduce";
import { empty, type LogState } from "../src/log/state";
import type { Event, Execution, Session } from "../src/proto/types";
import { goldenEvents } from "./golden";

let seq = 0;
const at = "2026-01-01T00:00:00.000Z";
const event = (fields: object): Event => ({ seq: ++seq, time: at, ...fields }) as Event;
const on = (id: string, fields: object): Event => event({ execution_id: id, ...fields });

function finished(id: string, part: Partial<Execution> = {}): Event {
  const execution = {
    id, execution_count: 1, code: "", status: "ok", state: "kept", generation: 1, truncated_bytes: 0, started_at: at, finished_at: at,
    usage: { duration_ms: 5, cpu_ms: 1, peak_memory_bytes: 9 }, ...part,
  };
  return on(id, { type: "execution_finished", execution });
}

// A session in which most things happen.
function story(): Event[] {
  seq = 0;
  return [
    event({ type: "session_state", state: "starting" }),
    event({ type: "session_state", state: "idle" }),
    on("a", { type: "execution_queued", code: "1" }),
    on("a", { type: "execution_started", code: "1", execution_count: 1 }),
    on("b", { type: "execution_queued", code: "2" }),
    on("a", { type: "stream", name: "stdout", text: "x" }),
    on("a", { type: "stream", name: "stdout", text: "y\n" }),
    on("a", { type: "stream", name: "stderr", text: "oh" }),
    on("a", { type: "stream", name: "stdout", text: "z" }),
    on("a", { type: "display_data", data: { "text/plain": "old" }, metadata: {}, display_id: "d" }),
    on("a", { type: "input_request", request_id: "q", prompt: "Who? ", password: false }),
    on("a", { type: "input_closed", request_id: "q", how: "answered" }),
    on("a", { type: "artifact", path: "f", change: "created", size: 1, media_type: "text/plain", url: "/v1/artifacts/1" }),
    on("a", { type: "artifact", path: "f", change: "modified", size: 2, media_type: "text/plain", url: "/v1/artifacts/2" }),
    on("a", { type: "tool_call", call_id: "t1", tool: "look", arguments: { city: "oslo", many: [1], deep: { a: 1 }, n: 5 } }),
    on("a", { type: "tool_call", call_id: "t2", tool: "look", arguments: {} }),
    on("a", { type: "approval_request", approval_id: "p", kind: "tool", summary: "look", detail: "", expires_at: at }),
    on("a", { type: "approval_resolved", approval_id: "p", decision: "once", by: "me" }),
    on("a", { type: "tool_result", call_id: "t1", ok: false, error: { code: "c", message: "no" }, duration_ms: 12 }),
    finished("a"),
    on("b", { type: "execution_started", code: "2", execution_count: 2 }),
    on("b", { type: "update_display_data", data: { "text/plain": "new" }, metadata: {}, display_id: "d" }),
    on("b", { type: "stream", name: "stdout", text: "gone" }),
    on("b", { type: "clear_output", wait: true }),
    on("b", { type: "execute_result", data: { "text/plain": "2" }, metadata: {}, execution_count: 2 }),
    on("b", { type: "error", ename: "E", evalue: "v", traceback: ["E: v"] }),
    event({ type: "kernel_died", reason: "signal:SIGKILL", generation: 1, signal: "SIGKILL" }),
    finished("b", { status: "died", state: "lost", execution_count: 2 }),
    event({ type: "kernel_reset", reason: "died", generation: 2 }),
    event({ type: "document_changed", revision: 3 }),
    on("b", { type: "comm_open", comm_id: "w", target_name: "jupyter.widget", data: {}, metadata: {} }),
    on("comm~m", { type: "stream", name: "stdout", text: "a widget's" }),
    on("comm~m", { type: "comm_handled" }),
    event({ type: "something_new", of: "the future" }),
    on("a", { type: "stream", name: "stdout", text: "late" }),
  ];
}

// plainly is a state without what only makes it fast.
const plainly = (state: LogState) => ({
  ...state,
  displays: [...state.displays],
  runs: [...state.runs.values()].map((run) => ({ ...run, outputs: run.outputs.map((o) => (o.kind === "stream" ? { ...o, text: o.text.toString() } : o)) })),
});

describe("the log as a state", () => {
  test("says what happened", () => {
    const state = reduceAll(empty, story());
    expect(state).toMatchObject({ state: "idle", generation: 2, documentRevision: 3, open: [], asked: undefined });
    const [a, b] = plainly(state).runs;
    expect(a?.outputs).toMatchObject([
      { kind: "stream", name: "stdout", text: "xy\n" },
      { kind: "stream", name: "stderr", text: "oh" },
      { kind: "stream", name: "stdout", text: "z" },
      { kind: "data", data: { "text/plain": "new" } },
      { kind: "input", prompt: "Who? ", how: "answered" },
      { kind: "stream", name: "stdout", text: "late" },
    ]);
    expect([...a?.files.values() ?? []]).toMatchObject([{ path: "f", change: "modified", url: "/v1/artifacts/2" }]);
    expect(a?.calls).toMatchObject({ made: 2, failed: 1, latest: [
      { id: "t1", tool: "look", summary: 'city="oslo", many=[…], deep={…}, n=5', ok: false, error: { message: "no" }, durationMs: 12 },
      { id: "t2", arguments: "{}" },
    ] });
    expect(a?.calls.latest[1]?.ok).toBeUndefined();
    expect(state.approvals).toMatchObject([{ id: "p", runID: "a", kind: "tool", decision: "once", by: "me" }]);
    expect(b).toMatchObject({ status: "died", lost: true, outputs: [{ kind: "data", count: 2 }, { kind: "error" }] });
    expect(state.notes.map((n) => n.kind)).toEqual(["died", "reset"]);
  });

  test("is the same for any batches and any cut", () => {
    const events = story();
    const whole = plainly(reduceAll(empty, events));
    expect(plainly(events.reduce(reduce, empty))).toEqual(whole);
    for (let cut = 0; cut <= events.length; cut++) {
      // What was seen before the cut comes again, as it may after a reconnect.
      const before = reduceAll(empty, events.slice(0, cut));
      expect(plainly(reduceAll(before, events.slice(Math.max(0, cut - 3))))).toEqual(whole);
    }
  });

  test("takes what the server says of a position when it is there", () => {
    const events = story();
    const session = { state: "busy", reason: "why", last_seq: 24, kernel: { generation: 7 } } as Session;
    const early = greeted(empty, session);
    expect(early).toMatchObject({ state: "starting", generation: 1 });
    // The runs of an earlier kernel stay with it.
    expect(reduceAll(early, events.slice(0, 4)).runs.get("a")).toMatchObject({ generation: 1 });
    const there = reduceAll(early, events.slice(0, 24));
    expect(there).toMatchObject({ state: "busy", reason: "why", generation: 7, greeting: undefined });
    expect(plainly(events.slice(0, 24).reduce(reduce, early))).toEqual(plainly(there));
    expect(plainly(greeted(reduceAll(empty, events.slice(0, 24)), session))).toEqual(plainly(there));
    expect(greeted(reduceAll(empty, events), session)).toMatchObject({ state: "idle", generation: 2 }); // older than the log
  });

  test("does not change the states before", () => {
    const events = story();
    const states: LogState[] = [empty];
    for (const e of events) states.push(reduce(states.at(-1) ?? empty, e));
    for (const [i, state] of states.entries()) expect(plainly(state)).toEqual(plainly(reduceAll(empty, events.slice(0, i))));
    const fork = reduce(states[6] ?? empty, { ...events[6], text: "other" } as Event);
    expect([...fork.runs.values()][0]?.outputs[0]).toMatchObject({ kind: "stream" });
    expect(plainly(states[7] ?? empty)).toEqual(plainly(reduceAll(empty, events.slice(0, 7))));
  });

  test("keeps what an event does not touch", () => {
    const events = story();
    const before = reduceAll(empty, events.slice(0, 15));
    const after = reduceAll(before, events.slice(15, 17));
    expect(after.notes).toBe(before.notes);
    expect(reduceAll(after, events.slice(0, 10))).toBe(after);
  });

  test("takes every kind of event that the server has", () => {
    for (const e of goldenEvents()) expect(() => reduce(empty, e)).not.toThrow();
  });
});

describe("tool calls and approvals", () => {
  const call = (id: string, tool: string, args: unknown): Event => on("a", { type: "tool_call", call_id: id, tool, arguments: args });

  test("are held in bounded memory, whatever their number, size and depth", () => {
    seq = 0;
    let deep: unknown = 1;
    for (let i = 0; i < 20_000; i++) deep = [deep];
    const events = [call("deep", "t".repeat(1 << 20), { deep }), ...Array.from({ length: 2000 }, (_, i) => call(`${i}`, "t", { text: "x".repeat(i < 10 ? 1 << 20 : 5000) }))];
    events.push(on("a", { type: "tool_result", call_id: "1999", ok: false, error: { message: "m".repeat(1 << 20) }, duration_ms: 1 }));
    for (let i = 0; i < 500; i++) events.push(event({ type: "approval_request", approval_id: `p${i}`, kind: "cell", summary: "s".repeat(5000), detail: "d".repeat(1 << 16), expires_at: at }));
    const state = reduceAll(empty, events);
    expect(state.runs.get("a")?.calls).toMatchObject({ made: 2001, failed: 1 });
    expect(reduceAll(empty, events.slice(0, 1)).runs.get("a")?.calls.latest[0]?.summary).toBe("deep=[…]");
    expect(JSON.stringify([...state.runs.values()].map((run) => run.calls)).length).toBeLessThan(1 << 20);
    expect(JSON.stringify(state.approvals).length).toBeLessThan(4 << 20);
  });

  test("keep a question that waits while answered ones go", () => {
    seq = 0;
    const ask = (id: string) => event({ type: "approval_request", approval_id: id, kind: "cell", summary: id, expires_at: at });
    const events = [ask("first")];
    for (let i = 0; i < 300; i++) events.push(ask(`p${i}`), event({ type: "approval_resolved", approval_id: `p${i}`, decision: "deny" }));
    const { approvals } = reduceAll(empty, events);
    expect(pending(approvals).map(({ id }) => id)).toEqual(["first"]);
    expect(approvals.length).toBe(100);
  });
});

describe("a rope", () => {
  test("is its pieces, and forks do not meet", () => {
    const one = Rope.of("a").append("b");
    const left = one.append("L");
    const right = one.append("R");
    expect([one, left, right].map(String)).toEqual(["ab", "abL", "abR"]);
    expect([left.length, left.piece(2), right.piece(2), one.piece(2)]).toEqual([3, "L", "R", ""]);
    expect([Rope.empty.append("x"), Rope.empty.append("y")].map(String)).toEqual(["x", "y"]);
  });
});
