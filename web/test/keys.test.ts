import { describe, expect, test } from "vitest";
import { Keys, matches, shown, type Stroke } from "../src/keys/match";
import { actions } from "../src/keys/table";

const stroke = (key: string, mods: Partial<Stroke> = {}): Stroke => ({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...mods });
const idOf = (found: ReturnType<Keys["press"]>) => (found && found !== "more" ? found.action.id : found);

describe("the table of keys", () => {
  test("has every action once, and no key twice in a mode", () => {
    expect(new Set(actions.map((a) => a.id)).size).toBe(actions.length);
    for (const mode of ["command", "edit"]) {
      const keys = actions.flatMap((a) => (a.keys ?? []).filter((b) => b.mode === mode || b.mode === "any").map((b) => b.keys));
      expect(keys.filter((key, i) => keys.indexOf(key) !== i)).toEqual([]);
      const firsts = keys.filter((k) => k.includes(" ")).map((k) => k.split(" ")[0] ?? "");
      expect(firsts.filter((first) => keys.includes(first))).toEqual([]);
    }
  });
  test("has Jupyter's letters", () => {
    const letters: Record<string, string> = { a: "insert-above", b: "insert-below", "d d": "delete", m: "to-text", y: "to-code", j: "down", k: "up", z: "undo", c: "copy", x: "cut", v: "paste", "Shift-m": "merge", "i i": "interrupt", "0 0": "reset", Enter: "edit" };
    for (const [keys, id] of Object.entries(letters)) {
      expect(actions.find((a) => a.keys?.some((b) => b.keys === keys && b.mode === "command"))?.id).toBe(id);
    }
  });
});

describe("key strokes", () => {
  test("find their action in their mode", () => {
    const keys = new Keys(false);
    expect(idOf(keys.press(stroke("a"), "command", 0))).toBe("insert-above");
    expect(keys.press(stroke("a"), "edit", 0)).toBeUndefined();
    expect(idOf(keys.press(stroke("Enter", { shiftKey: true }), "edit", 0))).toBe("run-next");
    expect(idOf(keys.press(stroke("?", { shiftKey: true }), "command", 0))).toBe("keys");
    expect(idOf(keys.press(stroke("M", { shiftKey: true }), "command", 0))).toBe("merge");
    expect(idOf(keys.press(stroke("_", { shiftKey: true, ctrlKey: true, code: "Minus" }), "edit", 0))).toBe("split");
    expect(keys.press(stroke("Shift", { shiftKey: true }), "command", 0)).toBeUndefined();
  });
  test("come in sequences, soon after each other", () => {
    const keys = new Keys(false);
    expect(keys.press(stroke("d"), "command", 0)).toBe("more");
    expect(idOf(keys.press(stroke("d"), "command", 300))).toBe("delete");
    expect(keys.press(stroke("d"), "command", 1000)).toBe("more");
    expect(keys.press(stroke("d"), "command", 5000)).toBe("more");
    expect(keys.press(stroke("g"), "command", 5100)).toBe("more");
    expect(idOf(keys.press(stroke("f"), "command", 5200))).toBe("files");
  });
  test("mean ⌘ on a Mac", () => {
    expect(idOf(new Keys(true).press(stroke("k", { metaKey: true }), "edit", 0))).toBe("palette");
    expect(new Keys(true).press(stroke("k", { ctrlKey: true }), "edit", 0)).toBeUndefined();
    expect(shown("Mod-Shift-Enter", true)).toEqual(["⌘⇧Enter"]);
    expect(shown("d d", false)).toEqual(["D", "D"]);
  });
});

test("the palette finds words in any order, beginnings first", () => {
  expect(matches("Run all cells above", "above run")).toBeGreaterThan(0);
  expect(matches("Run all cells", "xyz")).toBe(0);
  expect(matches("Run all cells", "run")).toBeGreaterThan(matches("Interrupt the running cell", "run"));
  const best = (typed: string) => actions.map((a) => ({ id: a.id, score: matches(`${a.title} ${a.group}`, typed, a.also) })).filter((a) => a.score)
    .sort((a, b) => b.score - a.score)[0]?.id;
  for (const [typed, id] of Object.entries({
    interrupt: "interrupt", restart: "reset", kernel: "reset", theme: "toggle-theme", dark: "toggle-theme", clear: "clear-output", find: "find", download: "export-ipynb",
    pip: "install", collapse: "toggle-output", new: "insert-above", stop: "interrupt", home: "sessions",
  })) expect(best(typed), typed).toBe(id);
});
