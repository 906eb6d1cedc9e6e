// The checkpoints that the log tells of, and what going back to one means for the runs.

import type { Checkpoint, Event } from "../proto/types";
import { cellOf } from "./cells";
import type { LogState } from "./state";

const mostKept = 300; // a session has at most 164
const mostText = 1000; // characters

// Point is a checkpoint and where in the log it was made. What it lacks is asked for when a person looks at it.
export interface Point extends Omit<Checkpoint, "not_saved" | "reason"> {
  seq: number;
  undone: ReadonlySet<string>; // runs that were undone then
}

export function withCheckpoint(points: readonly Point[], event: Event & { type: "checkpoint_created" }, undone: ReadonlySet<string>): readonly Point[] {
  const { id, name, execution_id, execution_count, created_at, level, undo, bytes } = event.checkpoint;
  const point: Point = { id, name: name?.slice(0, mostText), execution_id, execution_count, created_at, level, undo, bytes, seq: event.seq, undone };
  return [...points.filter((one) => one.id !== id), point].slice(-mostKept);
}

// withoutCheckpoint drops a checkpoint, or its variables alone.
export function withoutCheckpoint(points: readonly Point[], event: Event & { type: "checkpoint_dropped" }): readonly Point[] {
  if (!event.level) return points.filter((one) => one.id !== event.checkpoint_id);
  return points.map((one) => (one.id === event.checkpoint_id ? { ...one, level: "files" } : one));
}

// withoutCopies leaves checkpoints with a copy of the interpreter their files only: copies end with it.
export const withoutCopies = (points: readonly Point[]): readonly Point[] =>
  points.some((one) => one.level === "live") ? points.map((one) => (one.level === "live" ? { ...one, level: "files" } : one)) : points;

// undoneBy is the runs that are undone once the session has gone back: those that were at the checkpoint, and those after it. A
// checkpoint is made while nothing runs, so what started after it came after it. What the log has lost came before all it has.
export function undoneBy({ runs, points, undone }: LogState, event: Event & { type: "rolled_back" }): ReadonlySet<string> {
  if (event.what === "files") return undone;
  const to = points.find((one) => one.id === event.checkpoint_id);
  const after = [...runs.values()].filter((run) => run.startedSeq !== undefined && run.startedSeq > (to?.seq ?? 0));
  return new Set([...to?.undone ?? [], ...after.map((run) => run.id)]);
}

// pointsOfCells is the checkpoints that were made right after a run of each cell: those of its last run first, then those that
// somebody asked for, then the newest.
export function pointsOfCells({ points, cells }: LogState): ReadonlyMap<string, readonly Point[]> {
  const found = new Map<string, Point[]>();
  for (const point of points) {
    if (!point.execution_id) continue;
    const cell = cellOf(point.execution_id);
    found.set(cell, [...found.get(cell) ?? [], point]);
  }
  for (const [cell, list] of found) {
    const last = cells.get(cell)?.at(-1);
    const rank = (point: Point) => (point.execution_id === last ? 2 : 0) + (point.undo ? 0 : 1);
    list.sort((a, b) => rank(b) - rank(a) || b.seq - a.seq);
  }
  return found;
}

// runsAfter is how many runs going back to a checkpoint would undo.
export function runsAfter({ runs, points, undone }: LogState, id: string): number {
  const to = points.find((one) => one.id === id)?.seq ?? 0;
  return [...runs.values()].filter((run) => !run.silent && !undone.has(run.id) && (run.startedSeq ?? 0) > to).length;
}
