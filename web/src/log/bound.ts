// A bound on the outputs that the page holds in memory. Those of the runs that ended first are dropped; the server has them.

import type { Event } from "../proto/types";
import { weightOfCalls } from "./calls";
import { reduceAll } from "./reduce";
import { empty, ended, type LogState, type Output, type Run } from "./state";

const perJSON = 4; // bytes of objects for a character of JSON, about

const weights = new WeakMap<Output | readonly Output[], number>(); // what changes is another object

// weightOf is how much memory a run's outputs and tool calls take, about.
export function weightOf({ calls, outputs }: Run): number {
  return weightOfCalls(calls) + known(outputs, () => outputs.reduce((sum, output) => sum + known(output, () => weightOfOutput(output)), 0));
}

function known(of: Output | readonly Output[], weigh: () => number): number {
  let weight = weights.get(of);
  if (weight === undefined) weights.set(of, (weight = weigh()));
  return weight;
}

function weightOfOutput(output: Output): number {
  switch (output.kind) {
    case "stream": return output.text.length;
    case "error": return output.traceback.reduce((sum, line) => sum + line.length, output.evalue.length);
    case "input": return output.prompt.length;
  }
  return [...Object.values(output.data), output.metadata].reduce((sum: number, value) => sum + (typeof value === "string" ? value.length : weightOfJSON(value)), 0);
}

function weightOfJSON(value: unknown): number {
  try {
    return perJSON * JSON.stringify(value).length;
  } catch {
    return 1 << 20; // too deep to write
  }
}

// bounded drops the outputs of runs, those held longest first, until all take no more than the bound. Open runs and the run
// that came last keep theirs.
export function bounded(state: LogState, most: number): LogState {
  let sum = 0;
  for (const run of state.runs.values()) sum += weightOf(run);
  if (sum <= most) return state;
  const runs = new Map(state.runs);
  const oldest = [...runs.values()].filter((run) => ended(run) && weightOf(run) > 0).sort((a, b) => a.heldSince - b.heldSince);
  for (const run of oldest.slice(0, -1)) {
    if (sum <= most) break;
    sum -= weightOf(run);
    runs.set(run.id, { ...run, outputs: [], calls: { ...run.calls, latest: [] }, dropped: weightOf(run) });
  }
  return { ...state, runs };
}

// restored puts outputs back that were dropped, made again from events: those of the run, and updates of its displays.
export function restored(state: LogState, id: string, events: readonly Event[]): LogState {
  const run = state.runs.get(id);
  const whole = reduceAll(empty, events);
  const again = whole.runs.get(id);
  if (run?.dropped === undefined) return state;
  if (!again || run.dropped && !again.outputs.length && !again.calls.made) throw new Error("The server no longer has these outputs.");
  const displays = new Map(state.displays);
  for (const shown of whole.displays.keys()) {
    const known = displays.get(shown) ?? [];
    if (!known.includes(id)) displays.set(shown, [...known, id]);
  }
  const runs = new Map(state.runs).set(id, { ...run, outputs: again.outputs, calls: again.calls, clearNext: again.clearNext, dropped: undefined, heldSince: state.seq });
  return { ...state, displays, runs };
}

// mayBeUpdated tells whether a run, of which these are the events, shows something that other runs can change.
export const mayBeUpdated = (events: readonly Event[]): boolean => events.some((e) => e.type === "display_data" && e.display_id !== undefined);

// concerns tells whether an event is needed to make the outputs of a run again.
export const concerns = (event: Event, id: string): boolean => event.execution_id === id || event.type === "update_display_data";
