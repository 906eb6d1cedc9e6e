import { describe, expect, test } from "vitest";
import { insert, move, newCell, remove } from "../src/log/cells";
import { Groups, type Group } from "../src/ui/page/groups";
import type { Cell } from "../src/proto/types";

const cells = (n: number): Cell[] => Array.from({ length: n }, (_, i) => ({ id: `c-${i}`, cell_type: "code", source: "" }));
const flat = (groups: readonly Group[]): Cell[] => groups.flatMap((group) => group.cells);
const keys = (groups: readonly Group[]): Map<string, number> => new Map(groups.flatMap((group) => group.cells.map((cell) => [cell.id, group.key] as const)));

// moved counts the cells that were in another group before.
function moved(before: ReadonlyMap<string, number>, after: readonly Group[]): number {
  return [...keys(after)].filter(([id, key]) => before.has(id) && before.get(id) !== key).length;
}

describe("groups of cells", () => {
  test("have all cells in their order, and know where they start", () => {
    const all = cells(2500);
    const groups = new Groups().of(all);
    expect(flat(groups)).toEqual(all);
    expect(groups.length).toBeLessThan(70);
    let start = 0;
    for (const group of groups) {
      expect(group.start).toBe(start);
      start += group.cells.length;
    }
  });

  test("stay when more cells come behind them", () => {
    const all = cells(300);
    const groups = new Groups();
    let before = keys(groups.of(all.slice(0, 12)));
    for (let n = 16; n <= 300; n += 4) {
      const after = groups.of(all.slice(0, n));
      expect(moved(before, after)).toBe(0);
      before = keys(after);
    }
    expect(new Set(before.values()).size).toBeGreaterThan(5);
  });

  test("that did not change are the same objects", () => {
    const all = cells(200);
    const groups = new Groups();
    const before = groups.of(all);
    const after = groups.of(all.map((cell) => (cell.id === "c-50" ? { ...cell, source: "x" } : cell)));
    expect(after.filter((group, i) => group !== before[i]).map((group) => group.start)).toEqual([40]);
  });

  test("change as little as can be, whatever is done", () => {
    const groups = new Groups();
    let all = cells(400);
    let before = keys(groups.of(all));
    let seed = 7;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    for (let i = 0; i < 2000; i++) {
      const at = random(all.length);
      const id = all[at]?.id ?? "";
      all = [() => move(all, id, random(2) ? 1 : -1), () => insert(all, at, newCell()), () => remove(all, [id])][random(3)]?.() ?? all;
      const after = groups.of(all);
      expect(flat(after)).toEqual(all);
      expect(new Set(after.map((group) => group.key)).size).toBe(after.length);
      expect(moved(before, after)).toBeLessThanOrEqual(after.length > new Set(before.values()).size ? 80 : 1);
      before = keys(after);
    }
  });
});
