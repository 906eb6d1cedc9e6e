// (state, events) → state: the only way in which the page's picture of a session changes. Taking events one by one or in
// any batches gives the same picture.

import type { Event, Execution, Session, Truncated } from "../proto/types";
import { withDecision, withQuestion } from "./approvals";
import { noCalls, withCall, withResult } from "./calls";
import { cellOf } from "./cells";
import { undoneBy, withCheckpoint, withoutCheckpoint, withoutCopies } from "./checkpoints";
import { Rope } from "./rope";
import { ended, type Greeting, type InputOutput, type LogState, type MadeFile, type Output, type Run } from "./state";

// What begins the id of a Jupyter client's message to a widget, among those of executions: its output is that client's.
const frontEndMessage = "comm~";

export const reduce = (state: LogState, event: Event): LogState => reduceAll(state, [event]);

// reduceAll copies what it changes once for all of the events. Events that the state has already are passed over.
export function reduceAll(state: LogState, events: readonly Event[]): LogState {
  const draft = new Draft(state);
  for (const event of events) {
    if (event.seq > draft.next.seq) draft.take(event);
  }
  return draft.next.seq === state.seq ? state : draft.next;
}

// greeted takes the session as the server describes it at a position of the log. It counts once the log is there: what comes
// before that is history.
export function greeted(state: LogState, session: Session, view = false): LogState {
  const draft = new Draft(state);
  draft.greet({ seq: session.last_seq, state: session.state, reason: session.reason, generation: session.kernel.generation, view });
  return draft.next;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

class Draft {
  readonly next: Mutable<LogState>;
  private runs: Map<string, Run> | undefined; // a copy, once something in it changes
  private cells: Map<string, readonly string[]> | undefined; // likewise
  private displays: Map<string, readonly string[]> | undefined; // likewise
  private readonly listed = new Set<string>(); // runs whose files are copies already
  private readonly copied = new Set<string>(); // runs that are copies already

  constructor(state: LogState) {
    this.next = { ...state };
  }

  greet(greeting: Greeting): void {
    this.next.greeting = greeting;
    this.settle();
  }

  // settle takes over what the server said of the position that is reached.
  private settle(): void {
    const { greeting, seq } = this.next;
    if (!greeting || seq < greeting.seq) return;
    if (seq === greeting.seq) Object.assign(this.next, { state: greeting.state, reason: greeting.reason, generation: greeting.generation });
    if (greeting.view) this.dropReplaced();
    this.next.greeting = undefined;
  }

  // dropReplaced marks the runs whose outputs the server has left out: those that ended and are not the last of their cell.
  private dropReplaced(): void {
    const runs = new Map(this.next.runs);
    for (const ids of this.next.cells.values()) {
      for (const id of ids.slice(0, -1)) {
        const run = runs.get(id);
        if (run && ended(run)) runs.set(id, { ...run, outputs: [], dropped: 0 });
      }
    }
    this.next.runs = this.runs = runs;
    this.copied.clear();
  }

  take(event: Event): void {
    this.next.seq = event.seq;
    this.change(event);
    this.settle();
  }

  private change(event: Event): void {
    const next = this.next;
    switch (event.type) {
      case "session_state":
        next.state = event.state;
        next.reason = event.reason;
        if (event.state === "dead" || event.state === "hibernated") next.points = withoutCopies(next.points);
        return;
      case "kernel_reset":
        next.generation = event.generation;
        next.points = withoutCopies(next.points);
        this.note({ seq: event.seq, time: event.time, kind: "reset", reason: event.reason, generation: event.generation });
        return;
      case "kernel_died":
        next.asked = undefined;
        this.note({
          seq: event.seq, time: event.time, kind: "died", reason: event.reason, generation: event.generation,
          signal: event.signal, exitCode: event.exit_code, limit: event.limit,
        });
        return;
      case "approval_request":
        next.approvals = withQuestion(next.approvals, event);
        return;
      case "approval_resolved":
        next.approvals = withDecision(next.approvals, event);
        return;
      case "checkpoint_created":
        next.points = withCheckpoint(next.points, event, next.undone);
        return;
      case "checkpoint_dropped":
        next.points = withoutCheckpoint(next.points, event);
        return;
      case "rolled_back":
        next.rolledBack = event.seq;
        next.undone = undoneBy(next, event);
        return;
      case "document_changed":
        next.documentRevision = event.revision;
        return;
    }
    if (event.execution_id && !event.execution_id.startsWith(frontEndMessage)) this.takeRun(event, event.execution_id);
  }

  private note(note: LogState["notes"][number]): void {
    this.next.notes = [...this.next.notes, note];
  }

  private run(id: string, event: Event): Mutable<Run> {
    if (!this.runs) {
      this.runs = new Map(this.next.runs);
      this.next.runs = this.runs;
    }
    const old = this.runs.get(id);
    if (old && this.copied.has(id)) return old;
    const run: Run = old ? { ...old, outputs: [...old.outputs] } : {
      id, code: "", status: "queued", lost: false, silent: false, count: null, generation: this.next.generation,
      queuedSeq: event.seq, queuedAt: event.time, truncatedBytes: 0, outputs: [], heldSince: event.seq, scattered: false, clearNext: false, files: new Map(), calls: noCalls,
    };
    this.runs.set(id, run);
    this.copied.add(id);
    if (!old) this.addToCell(id);
    return run;
  }

  private addToCell(id: string): void {
    const cell = cellOf(id);
    this.cells ??= new Map(this.next.cells);
    this.next.cells = this.cells.set(cell, [...this.next.cells.get(cell) ?? [], id]);
  }

  private takeRun(event: Event, id: string): void {
    const run = this.run(id, event);
    switch (event.type) {
      case "execution_queued":
        run.code = event.code;
        this.next.open = [...this.next.open.filter((other) => other !== id), id];
        return;
      case "execution_started":
        run.code = event.code;
        run.status = "running";
        run.count = event.execution_count;
        run.silent = event.execution_count === null;
        run.generation = this.next.generation;
        run.startedAt = event.time;
        run.startedSeq = event.seq;
        return;
      case "execution_finished":
        this.finish(run, event.execution);
        return;
      case "stream":
        addStream(this.outputs(run), event.name, event.text, event.truncated);
        return;
      case "display_data":
        if (event.display_id) this.remember(event.display_id, id);
        this.outputs(run).push({ kind: "data", data: event.data, metadata: event.metadata, cut: event.cut, displayID: event.display_id });
        return;
      case "execute_result":
        this.outputs(run).push({ kind: "data", data: event.data, metadata: event.metadata, cut: event.cut, count: event.execution_count });
        return;
      case "update_display_data":
        this.update(event);
        return;
      case "error":
        this.outputs(run).push({
          kind: "error", ename: event.ename, evalue: event.evalue, traceback: event.traceback, limit: event.limit, hint: event.hint, frames: event.frames,
        });
        return;
      case "clear_output":
        if (event.wait) run.clearNext = true;
        else this.clear(run);
        return;
      case "input_request":
        this.ask(run, event);
        return;
      case "input_closed":
        this.answer(run, event.request_id, event.how);
        return;
      case "tool_call":
        run.calls = withCall(run.calls, event);
        return;
      case "tool_result":
        run.calls = withResult(run.calls, event);
        return;
      case "artifact":
        this.file(run, {
          path: event.path, change: event.change, size: event.size, mediaType: event.media_type, url: event.url,
        });
    }
  }

  // file puts a file at the end of a run's list, in place of what the path had.
  private file(run: Mutable<Run>, file: MadeFile): void {
    if (!this.listed.has(run.id)) {
      run.files = new Map(run.files);
      this.listed.add(run.id);
    }
    const files = run.files as Map<string, MadeFile>;
    files.delete(file.path);
    files.set(file.path, file);
  }

  private finish(run: Mutable<Run>, e: Execution): void {
    run.status = e.status;
    run.reason = e.reason;
    run.lost = e.state === "lost";
    run.count = e.execution_count;
    run.generation = e.generation;
    run.durationMs = e.started_at ? e.usage.duration_ms : undefined;
    run.peakMemory = e.usage.peak_memory_bytes;
    run.truncatedBytes = e.truncated_bytes;
    if (ended(run)) this.next.open = this.next.open.filter((other) => other !== run.id);
    if (this.next.asked?.runID === run.id) this.next.asked = undefined;
  }

  // outputs is the run's list for one more output; what clear_output(wait=True) was told to clear goes first.
  private outputs(run: Mutable<Run>): Output[] {
    if (ended(run)) run.scattered = true;
    if (run.dropped !== undefined) return []; // what is dropped comes from the server, with this
    if (run.clearNext) this.clear(run);
    return run.outputs as Output[];
  }

  private clear(run: Mutable<Run>): void {
    if (ended(run)) run.scattered = true;
    run.outputs = [];
    run.clearNext = false;
  }

  private remember(displayID: string, runID: string): void {
    const known = this.next.displays.get(displayID) ?? [];
    if (known.includes(runID)) return;
    this.displays ??= new Map(this.next.displays);
    this.next.displays = this.displays.set(displayID, [...known, runID]);
  }

  // update replaces what is shown under a display id, in whichever cell that is.
  private update(event: Event & { type: "display_data" | "update_display_data" }): void {
    for (const runID of this.next.displays.get(event.display_id ?? "") ?? []) {
      const run = this.run(runID, event);
      if (ended(run) || runID !== event.execution_id) run.scattered = true;
      const outputs = run.outputs as Output[]; // a copy already
      for (const [i, o] of outputs.entries()) {
        if (o.kind === "data" && o.displayID === event.display_id) outputs[i] = { ...o, data: event.data, metadata: event.metadata, cut: event.cut };
      }
    }
  }

  private ask(run: Mutable<Run>, event: Event & { type: "input_request" }): void {
    const asked: InputOutput = { kind: "input", requestID: event.request_id, prompt: event.prompt, password: event.password };
    this.outputs(run).push(asked);
    this.next.asked = { ...asked, runID: run.id };
  }

  private answer(run: Mutable<Run>, requestID: string, how: string): void {
    run.outputs = run.outputs.map((o) => (o.kind === "input" && o.requestID === requestID ? { ...o, how } : o));
    if (this.next.asked?.requestID === requestID) this.next.asked = undefined;
  }
}

function addStream(outputs: Output[], name: "stdout" | "stderr", text: string, truncated?: Truncated): void {
  const last = outputs.at(-1);
  if (last?.kind === "stream" && last.name === name && !truncated && !last.truncated) {
    outputs[outputs.length - 1] = { ...last, text: last.text.append(text) };
    return;
  }
  outputs.push({ kind: "stream", name, text: Rope.of(text), truncated });
}
