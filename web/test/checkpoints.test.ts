// Checkpoints in the log: where they are, what they have, and which runs going back to one undoes.

import { describe, expect, test } from "vitest";
import { pointsOfCells, runsAfter } from "../src/log/checkpoints";
import { reduceAll } from "../src/log/reduce";
import { empty, type LogState } from "../src/log/state";
import type { Checkpoint, Event, RollbackPart } from "../src/proto/types";
import { amountWords, changesOf } from "../src/render/changes";
import { backWords, cellPointWords, lossWords, partsOf, pointDetails, pointTitle } from "../src/render/checkpoints";

// Log writes events as the server does.
class Log {
  readonly events: Event[] = [];
  private count = 0;
  private last = "";

  add(fields: object): this {
    this.events.push({ seq: this.events.length + 1, time: "", ...fields } as Event);
    return this;
  }

  queue(execution_id: string): this {
    return this.add({ type: "execution_queued", execution_id, code: "" });
  }

  start(execution_id: string): this {
    const execution_count = ++this.count;
    this.last = execution_id;
    this.add({ type: "execution_started", execution_id, code: "", execution_count });
    const execution = { id: execution_id, status: "ok", state: "kept", execution_count, generation: 1, started_at: "", usage: {}, truncated_bytes: 0 };
    return this.add({ type: "execution_finished", execution_id, execution });
  }

  run(id: string): this {
    return this.queue(id).start(id);
  }

  point(id: string, part: Partial<Checkpoint> = {}): this {
    return this.add({ type: "checkpoint_created", checkpoint: {
      id, execution_id: this.last, execution_count: this.count, created_at: "2026-01-01T00:00:00Z", level: "live", bytes: 1, not_saved: [], ...part,
    } });
  }

  back(checkpoint_id: string, undo: string, what: RollbackPart = "all"): this {
    this.point(undo, { undo: true });
    this.last = this.state().points.find((point) => point.id === checkpoint_id)?.execution_id ?? "";
    return this.add({ type: "rolled_back", execution_id: this.last, checkpoint_id, undo, what, not_restored: [] });
  }

  state(from = 0): LogState {
    return reduceAll(empty, this.events.slice(from));
  }
}

const undone = (state: LogState) => [...state.undone].sort().join(" ");

describe("going back", () => {
  test("undoes the runs after the checkpoint, until that is taken back", () => {
    const log = new Log().run("a").point("p").run("b").run("c").back("p", "u");
    expect(undone(log.state())).toBe("b c");
    expect(log.state().runs.get("a")?.status).toBe("ok");
    log.run("d");
    expect(undone(log.state())).toBe("b c");
    expect(undone(log.back("u", "u2").state())).toBe("d");
    expect(undone(log.back("u2", "u3").state())).toBe("b c");
  });

  test("further back keeps what was undone before the checkpoint, and no more", () => {
    const log = new Log().run("a").point("p").run("b").back("p", "u").run("c").point("q").run("d");
    expect(undone(log.back("q", "u2").state())).toBe("b d");
    expect(undone(log.back("p", "u3").state())).toBe("b c d");
    expect(undone(log.back("u3", "u4").state())).toBe("b d");
  });

  test("for files alone undoes nothing", () => {
    const log = new Log().run("a").point("p").run("b").back("p", "u", "files");
    expect(undone(log.state())).toBe("");
    expect(log.state().rolledBack).toBeGreaterThan(0);
    expect(undone(log.back("p", "u2", "variables").state())).toBe("b");
  });

  test("to a checkpoint that an execution asked for undoes that execution, which was queued before it", () => {
    const log = new Log().run("a").queue("b").point("p").start("b").queue("c").add({ type: "execution_finished", execution_id: "c",
      execution: { id: "c", status: "cancelled", state: "kept", execution_count: null, generation: 1, started_at: null, usage: {}, truncated_bytes: 0 } });
    expect(runsAfter(log.state(), "p")).toBe(1);
    expect(undone(log.back("p", "u").state())).toBe("b");
    expect(runsAfter(log.state(), "p")).toBe(0);
  });

  test("to a checkpoint that the log has lost undoes all that the log has", () => {
    const log = new Log().run("a").point("p").run("b").back("p", "u");
    expect(undone(log.state(4))).toBe("b");
    expect([...log.state(4).runs.keys()]).toEqual(["b"]); // and makes none of the run that the rollback names
  });

  test("is the same by one event or by many", () => {
    const log = new Log().run("a").point("p").run("b").back("p", "u").run("c").back("u", "u2");
    expect(log.events.reduce((state, event) => reduceAll(state, [event]), empty)).toEqual(log.state());
  });
});

describe("checkpoints", () => {
  test("are at the cell that ran last, those of its last run first, and those that were asked for before others", () => {
    const log = new Log().point("start").run("c-1.r00000000").point("old").run("c-1.r00000001").point("new").point("newest").back("new", "u");
    const points = pointsOfCells(log.state());
    expect([...points.keys()]).toEqual(["c-1"]);
    expect(points.get("c-1")?.map(({ id }) => id)).toEqual(["newest", "new", "u", "old"]);
  });

  test("lose their variables with the interpreter or one by one, and go when they are dropped", () => {
    const log = new Log().point("p").point("q").add({ type: "checkpoint_dropped", checkpoint_id: "p", reason: "memory_limit", level: "files" });
    const levels = () => log.state().points.map(({ id, level }) => `${id} ${level}`);
    expect(levels()).toEqual(["p files", "q live"]);
    log.point("r").add({ type: "session_state", state: "hibernated" });
    expect(levels()).toEqual(["p files", "q files", "r files"]);
    log.add({ type: "checkpoint_dropped", checkpoint_id: "q", reason: "keep" });
    expect(levels()).toEqual(["p files", "r files"]);
    log.point("s").add({ type: "session_state", state: "idle" });
    expect(levels().at(-1)).toBe("s live");
    log.add({ type: "kernel_reset", reason: "reset", generation: 2 });
    expect(levels().at(-1)).toBe("s files");
  });
});

describe("words", () => {
  const log = new Log().run("a").point("p", { name: "before" }).point("q").run("b").back("p", "u").state();
  const point = (id: string) => {
    const found = log.points.find((one) => one.id === id);
    if (!found) throw new Error(id);
    return found;
  };

  test("name a checkpoint", () => {
    expect(pointTitle(point("p"), log)).toBe("before");
    expect(pointTitle(point("q"), log)).toBe("After run 1");
    expect(pointTitle(point("u"), log)).toBe("Before going back");
    expect(pointTitle({ execution_id: "", execution_count: 0 }, log)).toBe("Before the first run");
    expect(pointDetails(point("p"), log)).toBe("After run 1, variables and files");
    expect(pointDetails(point("q"), log)).toBe("Variables and files");
    expect(pointDetails({ ...point("u"), level: "files" }, log)).toBe("After run 2, files only");
    expect(cellPointWords(point("p"), 2, "a", log)).toMatch(/^Checkpoint “before”, variables and files, .*\(and 1 other here\)$/);
    expect(cellPointWords(point("p"), 1, "z", log)).toMatch(/, after run 1 \(an earlier run\)$/);
  });

  test("say what going back does, and what it did", () => {
    const diff = { files: [{ path: "f", change: "created" as const, size: 1 }], variables: [] };
    expect(changesOf(diff, "all").map(({ one, list }) => `${one} ${list.length}`)).toEqual(["variable 0", "file 1"]);
    expect(changesOf(diff, "variables").map(({ one }) => one)).toEqual(["variable"]);
    expect(changesOf(diff, "files")[0]?.list).toEqual([{ name: "f", change: "created" }]);
    expect(amountWords([], "file", false)).toBe("No file has changed");
    expect(amountWords([1], "file", false)).toBe("1 file");
    expect(amountWords([1, 2], "file", true)).toBe("2 files or more");
    expect(partsOf("files")).toEqual(["files"]);
    expect(backWords(point("p"), "all", [], log)).toBe("Went back: variables and files are as they were at “before”.");
    expect(backWords(point("q"), "files", [{ name: "t", reason: "a thread" }], log)).toBe("Went back: the files are as they were after run 1. Not restored: t (a thread).");
    expect(backWords(point("u"), "variables", [], log)).toBe("Went back: the variables are as they were before going back.");
    expect(lossWords([1, 2, 3, 4, 5].map((n) => ({ name: `n${n}`, reason: "r" })))).toBe("n1 (r), n2 (r), n3 (r) and 2 more");
  });
});
