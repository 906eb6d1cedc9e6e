// What the log says about a session. Values are never changed: what an event does not touch stays the same object.

import type { Bundle, Cut, ErrorFrame, Limit, SessionState, Status, Truncated } from "../proto/types";
import type { Approval } from "./approvals";
import type { Calls } from "./calls";
import type { Point } from "./checkpoints";
import type { Rope } from "./rope";

export interface StreamOutput { kind: "stream"; name: "stdout" | "stderr"; text: Rope; truncated?: Truncated }
export interface DataOutput { kind: "data"; data: Bundle; metadata: Bundle; displayID?: string; count?: number; cut?: Cut }
export interface ErrorOutput { kind: "error"; ename: string; evalue: string; traceback: string[]; limit?: Limit; hint?: string; frames?: ErrorFrame[] }
export interface InputOutput { kind: "input"; requestID: string; prompt: string; password: boolean; how?: string }
export type Output = StreamOutput | DataOutput | ErrorOutput | InputOutput;

export interface MadeFile { path: string; change: string; size?: number; mediaType?: string; url?: string }

// Run is one execution.
export interface Run {
  id: string;
  code: string;
  status: Status;
  reason?: string;
  lost: boolean; // its variables went
  silent: boolean;
  count: number | null;
  generation: number;
  queuedSeq: number;
  queuedAt: string;
  startedAt?: string;
  startedSeq?: number;
  durationMs?: number;
  peakMemory?: number;
  truncatedBytes: number;
  outputs: readonly Output[];
  dropped?: number; // bytes of outputs, about, that the page does not hold; 0: it never had them, nor knows whether there are any
  heldSince: number; // seq: runs that were held longest are dropped first
  scattered: boolean; // outputs came after its end, or another run updated its displays
  clearNext: boolean; // clear_output(wait=True): the next output replaces those so far
  files: ReadonlyMap<string, MadeFile>; // by path, the last one last
  calls: Calls;
}

export interface KernelNote {
  seq: number;
  time: string;
  kind: "died" | "reset";
  reason: string;
  generation: number;
  signal?: string;
  exitCode?: number;
  limit?: Limit;
}

// Greeting is how the server described the session at a position of the log.
export interface Greeting {
  seq: number;
  state: SessionState;
  reason?: string;
  generation: number;
  view: boolean; // up to there the outputs of runs that others of their cell replaced are left out
}

export interface LogState {
  seq: number; // of the last event; 0: none
  state: SessionState;
  reason?: string;
  generation: number;
  runs: ReadonlyMap<string, Run>; // in the order they were queued
  cells: ReadonlyMap<string, readonly string[]>; // cell id to ids of its runs, oldest first
  open: readonly string[]; // ids of runs that are queued or running, oldest first
  displays: ReadonlyMap<string, readonly string[]>; // display id to ids of runs that show it
  notes: readonly KernelNote[];
  asked?: InputOutput & { runID: string };
  approvals: readonly Approval[]; // in the order in which they were asked
  points: readonly Point[]; // the checkpoints that the log tells of, oldest first
  undone: ReadonlySet<string>; // runs that are not part of what is now: the session went back to a point before them
  rolledBack: number; // seq of the last rollback; 0: none
  greeting?: Greeting; // of a position that the log has not reached yet
  documentRevision: number; // the last one that the log told of; 0: none
}

export const empty: LogState = {
  seq: 0,
  state: "starting",
  generation: 1,
  runs: new Map(),
  cells: new Map(),
  open: [],
  displays: new Map(),
  notes: [],
  approvals: [],
  points: [],
  undone: new Set(),
  rolledBack: 0,
  documentRevision: 0,
};

export const running = (run: Run | undefined): boolean => run?.status === "running";
export const ended = (run: Run): boolean => run.status !== "queued" && run.status !== "running";
