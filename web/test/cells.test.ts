import { describe, expect, test } from "vitest";
import * as cells from "../src/log/cells";
import { mergeDocuments, sameDocument } from "../src/log/merge";
import { reduceAll } from "../src/log/reduce";
import { empty } from "../src/log/state";
import { restored, Undo } from "../src/log/undo";
import type { Cell, Document, Event } from "../src/proto/types";

const cell = (id: string, source = id): Cell => ({ id, cell_type: "code", source });
const doc = (...list: Cell[]): Document => ({ ...cells.noDocument, revision: 1, cells: list });
const ids = (list: readonly Cell[]) => list.map((c) => c.id).join("");

describe("cells", () => {
  const list = [cell("a"), cell("b"), cell("c")];
  test("move, and stay within the list", () => {
    expect(ids(cells.move(list, "a", 1))).toBe("bac");
    expect(ids(cells.move(list, "c", -9))).toBe("cab");
    expect(ids(cells.move(list, "x", 1))).toBe("abc");
  });
  test("split and merge are each other's opposite", () => {
    const two = cells.split([cell("a", "1\n2")], "a", 2);
    expect(two?.cells.map((c) => c.source)).toEqual(["1", "2"]);
    expect(cells.merge(two?.cells ?? [], "a")).toEqual([cell("a", "1\n2")]);
    expect(cells.merge(list, "c")).toBeUndefined();
  });
  test("a run's id names its cell", () => {
    expect(cells.cellOf(cells.runID("c-1"))).toBe("c-1");
    expect(cells.cellOf("some.other-id")).toBe("some.other-id");
  });
  test("undo brings a cell back, and leaves text that was typed since", () => {
    const undo = new Undo();
    const without = cells.remove(list, ["b"]);
    undo.did(list, without, "delete");
    const typed = cells.change(without, "a", { source: "typed" });
    const step = undo.undo(typed);
    const back = step ? restored(step, typed) : [];
    expect(back.map((c) => c.source)).toEqual(["typed", "b", "c"]);
    expect(ids(undo.redo(back)?.cells ?? [])).toBe("ac");
    expect(undo.redo(back)).toBeUndefined();
  });
  test("undo leaves what others did meanwhile", () => {
    const undo = new Undo();
    const without = cells.remove(list, ["b"]);
    undo.did(list, without, "delete");
    const meanwhile = cells.insert(cells.remove(without, ["c"]), 1, cell("x"));
    const step = undo.undo(meanwhile);
    const back = step ? restored(step, meanwhile) : [];
    expect(ids(back)).toBe("axb");
    const again = undo.redo(back);
    expect(again && ids(restored(again, back))).toBe("ax");
  });
  test("undo takes back what a step did to a cell itself", () => {
    const undo = new Undo();
    const two = cells.split([cell("a", "1\n2")], "a", 2)?.cells ?? [];
    undo.did([cell("a", "1\n2")], two, "split");
    const step = undo.undo(two);
    expect(step && restored(step, two)).toEqual([cell("a", "1\n2")]);
    const text = cells.change(list, "a", { cell_type: "markdown" });
    undo.did(list, text, "a change of cell type");
    const kind = undo.undo(text);
    expect(kind && restored(kind, text)).toEqual(list);
  });
  test("undo of an insertion takes the cell away with what was typed into it, and redo brings both", () => {
    const undo = new Undo();
    const more = cells.insert(list, 1, cell("n", ""));
    undo.did(list, more, "an insertion");
    const typed = cells.change(more, "n", { source: "typed" });
    const step = undo.undo(typed);
    const back = step ? restored(step, typed) : [];
    expect(ids(back)).toBe("abc");
    const again = undo.redo(back);
    expect(again && restored(again, back)).toEqual(typed);
  });
  test("clearing outputs gives a cell a new id, and undoing it keeps what was typed since", () => {
    const undo = new Undo();
    const cleared = cells.renamed(list, ["b"]);
    expect(cleared.cells.map((c) => [c.id === "b", c.source])).toEqual(list.map((c) => [false, c.source]));
    const id = cleared.to.get("b") ?? "";
    undo.did(list, cleared.cells, "clear", new Map([["b", id], [id, "b"]]));
    const typed = cells.change(cleared.cells, id, { source: "typed" });
    const step = undo.undo(typed);
    const back = step ? restored(step, typed) : [];
    expect(back.map((c) => [c.id, c.source])).toEqual([["a", "a"], ["b", "typed"], ["c", "c"]]);
    const again = undo.redo(back);
    expect((again ? restored(again, cells.change(back, "b", { source: "more" })) : [])[1]).toMatchObject({ id, source: "more" });
  });
});

describe("runs that the document does not know", () => {
  const run = (seq: number, id: string, count: number | null): Event[] => [
    { seq, time: "", execution_id: id, type: "execution_queued", code: id },
    { seq: seq + 1, time: "", execution_id: id, type: "execution_started", code: id, execution_count: count },
  ];
  test("become cells, once, unless they are silent or were there before", () => {
    const log = reduceAll(empty, [...run(1, "old", 1), ...run(3, "a.r12345678", 2), ...run(5, "chat", 3), ...run(7, "quiet", null), ...run(9, "chat.r00000000", 4)]);
    const got = cells.withRuns({ ...doc(cell("a")), through: 2 }, log);
    expect(got.cells).toEqual([cell("a"), cell("chat")]);
    expect(cells.withRuns(got, log)).toBe(got);
    expect(log.cells.get("chat")).toEqual(["chat", "chat.r00000000"]);
    expect(cells.lastRun(log, "chat")?.count).toBe(4);
    expect(cells.lastRun(log, "none")).toBeUndefined();
  });
});

describe("a run that another client queued", () => {
  const queued = (seq: number, id: string): Event => ({ seq, time: "", execution_id: id, type: "execution_queued", code: id });
  const started = (seq: number, id: string): Event => ({ seq, time: "", execution_id: id, type: "execution_started", code: id, execution_count: 1 });
  test("becomes a cell when it starts, although the page was edited while it waited", () => {
    const before = { ...doc(cell("a")), through: 2 };
    const log = reduceAll(empty, [queued(1, "a.r00000000"), started(2, "a.r00000000"), queued(3, "chat"), queued(4, "a.r11111111")]);
    const saved = { ...before, through: cells.throughOf(before, log) };
    expect(saved.through).toBe(2);
    const later = reduceAll(log, [started(5, "chat")]);
    expect(cells.withRuns(saved, later).cells).toEqual([cell("a"), cell("chat")]);
    expect(cells.throughOf(saved, later)).toBe(5);
  });
  test("does not bring back what was taken out", () => {
    const log = reduceAll(empty, [queued(1, "a.r00000000"), started(2, "a.r00000000"), queued(3, "gone.r00000000"), queued(4, "chat")]);
    expect(cells.throughOf(doc(cell("a")), log)).toBe(3);
    expect(cells.throughOf({ ...doc(cell("a")), through: 4 }, log)).toBe(4);
  });
});

describe("two tabs", () => {
  const base = doc(cell("a"), cell("b"), cell("c"));
  const edited = (d: Document, id: string, source: string): Document => ({ ...d, cells: cells.change(d.cells, id, { source }) });

  test("that change different cells both keep their text", () => {
    const { doc: merged, conflicts } = mergeDocuments(base, edited(base, "a", "mine"), edited(base, "c", "theirs"));
    expect(merged.cells.map((c) => c.source)).toEqual(["mine", "b", "theirs"]);
    expect(conflicts).toBe(0);
  });
  test("that change one cell both keep their text, one below the other", () => {
    const { doc: merged, conflicts } = mergeDocuments(base, edited(base, "b", "mine"), edited(base, "b", "theirs"));
    expect(merged.cells.map((c) => c.source)).toEqual(["a", "mine", "theirs", "c"]);
    expect(conflicts).toBe(1);
    expect(new Set(merged.cells.map((c) => c.id)).size).toBe(4);
  });
  test("that make the same change have no conflict", () => {
    const both = edited(base, "b", "same");
    expect(mergeDocuments(base, both, both)).toMatchObject({ conflicts: 0, doc: { cells: both.cells } });
  });
  test("deleting loses against changing, in either direction", () => {
    const less = doc(cell("a"), cell("c"));
    expect(ids(mergeDocuments(base, less, base).doc.cells)).toBe("ac");
    expect(ids(mergeDocuments(base, base, less).doc.cells)).toBe("ac");
    expect(mergeDocuments(base, edited(base, "b", "kept"), less).doc.cells.map((c) => c.source)).toEqual(["a", "kept", "c"]);
    expect(mergeDocuments(base, less, edited(base, "b", "kept")).doc.cells.map((c) => c.source)).toEqual(["a", "kept", "c"]);
  });
  test("new cells stay where they were put, and orders of both hold", () => {
    const mine = doc(cell("a"), cell("m"), cell("b"), cell("c"));
    const theirs = doc(cell("c"), cell("a"), cell("b"), cell("t"));
    expect(ids(mergeDocuments(base, mine, theirs).doc.cells)).toBe("cambt");
    expect(ids(mergeDocuments(base, theirs, mine).doc.cells)).toBe("cambt");
    expect(ids(mergeDocuments(base, mine, doc(...base.cells, cell("t"))).doc.cells)).toBe("ambct");
  });
  test("random changes: no text is ever lost, no id is there twice", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    let made = 0;
    const mangle = (d: Document): Document => {
      let list = [...d.cells];
      for (let i = random(5); i > 0; i--) {
        const some = list[random(Math.max(1, list.length))];
        const what = random(4);
        if (what === 0 || !some) list = cells.insert(list, random(list.length + 1), cell(`n${++made}`));
        else if (what === 1) list = cells.change(list, some.id, { source: `e${++made}` });
        else if (what === 2) list = cells.remove(list, [some.id]);
        else list = cells.move(list, some.id, random(5) - 2);
      }
      return { ...d, cells: list };
    };
    for (let round = 0; round < 500; round++) {
      const start = mangle(base);
      const [mine, theirs] = [mangle(start), mangle(start)];
      const { doc: merged } = mergeDocuments(start, mine, theirs);
      const texts = merged.cells.map((c) => c.source);
      const known = new Set(start.cells.map((c) => c.source));
      for (const c of [...mine.cells, ...theirs.cells]) if (!known.has(c.source)) expect(texts).toContain(c.source);
      expect(new Set(merged.cells.map((c) => c.id)).size).toBe(merged.cells.length);
      expect(sameDocument(mergeDocuments(theirs, merged, theirs).doc, merged)).toBe(true);
    }
  });
});
