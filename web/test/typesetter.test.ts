import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { maxText, Typesetter } from "../src/render/typesetter";
import type { Answer, Task } from "../src/render/worker";

// FakeWorker does what a test says.
class FakeWorker {
  onmessage: ((event: { data: Answer }) => void) | undefined;
  onerror: (() => void) | undefined;
  readonly asked: Task[] = [];
  ended = false;
  postMessage(task: Task): void { this.asked.push(task); }
  terminate(): void { this.ended = true; }
  begin(): void { this.onmessage?.({ data: { id: this.last.id, begun: true } }); }
  finish(): void { this.onmessage?.({ data: { id: this.last.id, begun: false, prose: { pieces: [this.last.text], math: [] } } }); }
  private get last(): Task { return this.asked.at(-1) as Task; }
}

let made: FakeWorker[];
let typesetter: Typesetter;
beforeEach(() => {
  vi.useFakeTimers();
  made = [];
  typesetter = new Typesetter(() => {
    made.push(new FakeWorker());
    return made.at(-1) as unknown as Worker;
  });
});
afterEach(() => vi.useRealTimers());

test("texts are set one by one", async () => {
  const both = Promise.all([typesetter.prose("markdown", "a"), typesetter.prose("markdown", "b")]);
  expect(made[0]?.asked.map((task) => task.text)).toEqual(["a"]);
  made[0]?.begin();
  made[0]?.finish();
  made[0]?.begin();
  made[0]?.finish();
  expect((await both).map((prose) => prose?.pieces)).toEqual([["a"], ["b"]]);
});

test("what takes too long ends with its worker, and the next text gets another", async () => {
  const both = Promise.all([typesetter.prose("markdown", "long"), typesetter.prose("markdown", "next")]);
  made[0]?.begin();
  vi.advanceTimersByTime(2000);
  expect([made[0]?.ended, made[1]?.asked.length]).toEqual([true, 1]);
  made[1]?.finish();
  expect((await both).map((prose) => prose?.pieces)).toEqual([undefined, ["next"]]);
});

test("loading does not count, and a worker that fails is replaced", async () => {
  const first = typesetter.prose("latex", "x");
  vi.advanceTimersByTime(60_000);
  expect(made[0]?.ended).toBe(false);
  made[0]?.onerror?.();
  expect(await first).toBeUndefined();
});

test("what is longer than the limit is not tried", async () => {
  expect(await typesetter.prose("markdown", "x".repeat(maxText + 1))).toBeUndefined();
  expect(made).toEqual([]);
});
