// Work on the page that can wait for its turn: as much in a frame as leaves the page at hand, and the rest in the next.

import { flushSync } from "svelte";

const slice = 8; // ms of a frame
const enough = 2; // ms of drawing until the browser has to lay it out
const atOnce = 4; // work of a frame that need not wait, so that the few outputs of a cell come with its end

const waiting = new Set<() => void>();
let scheduled = false;
let free = 0; // none while the page opens

// mayNow tells whether work of a size, 1 for little, need not wait for its turn.
export function mayNow(size: number): boolean {
  if (waiting.size || free < size) return false;
  free -= size;
  schedule();
  return true;
}

// later does work when it has its turn, in the order in which it was asked for; what it returns calls it off.
export function later(work: () => void): () => void {
  waiting.add(work);
  schedule();
  return () => waiting.delete(work);
}

// turn is over when work has its turn.
export const turn = (): Promise<void> => new Promise((resolve) => later(resolve));

// Work comes after a frame, not in it: the browser draws the frame in the same task.
function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  if (document.visibilityState === "visible") requestAnimationFrame(() => setTimeout(run));
  else setTimeout(run, 50);
}

function run(): void {
  scheduled = false;
  free = atOnce;
  let start = performance.now();
  const end = start + slice;
  for (const work of waiting) {
    waiting.delete(work);
    work();
    flushSync(); // so that what it draws counts
    if (performance.now() - start > enough) {
      void document.body.offsetHeight; // and what that takes to lay out
      start = performance.now();
    }
    if (performance.now() > end) break;
  }
  if (waiting.size) schedule();
}
