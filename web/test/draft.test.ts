import { expect, test, vi } from "vitest";
import { change, noDocument } from "../src/log/cells";
import type { Document } from "../src/proto/types";
import { Draft } from "../src/ui/page/draft";

class Store {
  kept = new Map<string, string>();
  room = Infinity;
  writes = 0;
  get length(): number { return this.kept.size; }
  key(i: number): string | null { return [...this.kept.keys()][i] ?? null; }
  getItem(key: string): string | null { return this.kept.get(key) ?? null; }
  setItem(key: string, text: string): void {
    this.writes++;
    if (text.length > this.room) throw new Error("full");
    this.kept.set(key, text);
  }
  removeItem(key: string): void { this.kept.delete(key); }
  clear(): void { this.kept.clear(); }
}

const session = { id: "s", created_at: "2026-01-01T00:00:00.000Z" };
const base: Document = { ...noDocument, revision: 1, cells: [{ id: "a", cell_type: "code", source: "1" }, { id: "b", cell_type: "code", source: "2" }] };
const typed = (id: string, source: string): Document => ({ ...base, cells: change(base.cells, id, { source }) });
const sources = (doc: Document): string => doc.cells.map((c) => c.source).join("|");

test("what several tabs left comes together, once", () => {
  const store = new Store();
  const tabs = [0, 1, 2, 3].map(() => new Draft(session, store));
  tabs[0]?.keep({ base, mine: typed("a", "one") });
  tabs[1]?.keep({ base, mine: typed("b", "two") });
  for (const tab of tabs) tab.flush();
  store.setItem([...store.kept.keys()][0] + "x", "{"); // what is not a draft
  tabs[2]?.drop(); // it had nothing to save
  expect(sources(tabs[3]?.take(base).doc ?? noDocument)).toBe("one|two");
  expect(store.length).toBe(0);
});

test("what was left of another owner's session, or of a deleted one, of the same id stays away", () => {
  const store = new Store();
  const old = new Draft({ ...session, created_at: "2025-01-01T00:00:00.000Z" }, store);
  old.keep({ base, mine: typed("a", "secret") });
  old.flush();
  expect(sources(new Draft(session, store).take(base).doc)).toBe("1|2");
  expect(store.length).toBe(1);
  old.forget();
  expect(store.length).toBe(0);
});

test("drafts that nobody asks for go after a month", () => {
  vi.useFakeTimers({ now: 0 });
  const store = new Store();
  const old = new Draft({ ...session, id: "gone" }, store);
  old.keep({ base, mine: typed("a", "x") });
  old.flush();
  new Draft(session, store).take(base);
  expect(store.length).toBe(1);
  vi.setSystemTime(31 * 24 * 3600_000);
  new Draft(session, store).take(base);
  expect(store.length).toBe(0);
  vi.useRealTimers();
});

test("many keys are one write, and past the room no older text stays", () => {
  vi.useFakeTimers();
  const store = new Store();
  const draft = new Draft(session, store);
  for (const text of ["x", "xy", "xyz"]) draft.keep({ base, mine: typed("a", text) });
  vi.advanceTimersByTime(1000);
  expect([store.writes, sources(new Draft(session, store).take(base).doc)]).toEqual([1, "xyz|2"]);
  draft.keep({ base, mine: typed("a", "fits") });
  expect(draft.flush()).toBe(true);
  store.room = 10;
  draft.keep({ base, mine: typed("a", "does not") });
  expect([draft.flush(), store.length]).toEqual([false, 0]);
  vi.useRealTimers();
});
