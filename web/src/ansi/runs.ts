// The styles of a line as runs: neighbours of one style are one run, so a line costs what is in it, not its width.

import { plain, type Style } from "./style";

// A run starts where the one before it ends.
export interface StyleRun { end: number; style: Style }

const maxRuns = 1000; // in one line; further changes of style spread over the last run

// restyle gives [from, to) of a line a style, and returns the line's runs: none if all of it is plain. A gap between the
// line's end and from is plain.
export function restyle(runs: StyleRun[] | undefined, length: number, from: number, to: number, style: Style): StyleRun[] | undefined {
  if (!runs && style === plain) return undefined;
  runs ??= length ? [{ end: length, style: plain }] : [];
  if (from > length) extend(runs, from, plain);
  if (from >= length) extend(runs, to, style);
  else replace(runs, from, to, style);
  if (runs.length > maxRuns) runs.splice(maxRuns - 1, 1);
  return runs.length === 1 && runs[0]?.style === plain ? undefined : runs;
}

// cut leaves the runs of a line's first `length` characters.
export function cut(runs: StyleRun[] | undefined, length: number): StyleRun[] | undefined {
  if (!runs || length <= 0) return undefined;
  const last = indexAt(runs, length - 1);
  const run = runs[last];
  if (!run) return runs;
  runs.length = last + 1;
  run.end = length;
  return runs.length === 1 && run.style === plain ? undefined : runs;
}

function extend(runs: StyleRun[], end: number, style: Style): void {
  const last = runs.at(-1);
  if (last?.style === style) last.end = end;
  else runs.push({ end, style });
}

function replace(runs: StyleRun[], from: number, to: number, style: Style): void {
  const first = indexAt(runs, from);
  const after = indexAt(runs, to); // the run that goes on behind it, if there is one
  const start = runs[first - 1]?.end ?? 0;
  const left = runs[first];
  const added: StyleRun[] = left && start < from ? [{ end: from, style: left.style }, { end: to, style }] : [{ end: to, style }];
  runs.splice(first, after - first, ...added);
  for (let i = first + added.length - 1; i >= Math.max(0, first - 1); i--) {
    if (runs[i]?.style === runs[i + 1]?.style) runs.splice(i, 1);
  }
}

// indexAt is the index of the run that covers a column; the number of runs if none does.
function indexAt(runs: readonly StyleRun[], column: number): number {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((runs[middle]?.end ?? 0) > column) high = middle;
    else low = middle + 1;
  }
  return low;
}
