// One open notebook: its log, its document, its connection, and what can be done with them. Components draw it.

import { pending } from "../../log/approvals";
import { bounded } from "../../log/bound";
import { cellOf, change, indexOf, insert, lastRun, merge, move, newCell, noDocument, remove, renamed, runID, split, throughOf, withRuns } from "../../log/cells";
import { pointsOfCells } from "../../log/checkpoints";
import { Intake } from "../../log/intake";
import { greeted } from "../../log/reduce";
import { empty, type LogState, type Output, type Run } from "../../log/state";
import { DocumentSync } from "../../log/sync";
import { restored, Undo } from "../../log/undo";
import { importedOutputs, type Imported, type Notebook as NotebookFile } from "../../ipynb/nbformat";
import { call, getDocument, getText, putDocument, Refused, sessionPath } from "../../proto/rest";
import { browserHost, large, SessionSocket, type Link } from "../../proto/socket";
import type { Cell, Completion, Document, Event, Inspection, Limits, Session, TablePage, TableSort, Usage, UsageFrame, Variable } from "../../proto/types";
import { duration, plural } from "../../render/format";
import { approvalWords, askedWords, resolvedWords, runWords, titleOf, whyWords } from "../../render/words";
import { aside } from "./aside";
import { wentBack, woke } from "./back";
import { serverNow, setClock } from "./clock";
import { Draft } from "./draft";
import { editors } from "./editors";
import { outputsOf, withOutputs } from "./past";
import { Panels } from "./panels.svelte";
import { keepPlace, placeIn } from "./place";
import { Selection } from "./selection.svelte";
import { Terminals } from "./terminals.svelte";
import { withUsage, type CPU } from "./usage";
import { Voice, type Action } from "./voice.svelte";

const mostHeld = 128 << 20; // bytes of outputs, about; more are fetched again when they are asked for

export class Notebook {
  log = $state.raw<LogState>(empty);
  doc = $state.raw<Document>(noDocument);
  session = $state.raw<Session>();
  usage = $state.raw<Usage>();
  limits = $state.raw<Limits>();
  reapAt = $state<number>();
  cpu = $state.raw<CPU>();
  link = $state<Link>("connecting");
  notSaved = $state(""); // why saving was refused, or has failed more than once; "" where it has not
  loaded = $state(false);
  gone = $state(false);
  signedOut = $state(false);
  stopping = $state(0); // when an interrupt was asked for and nothing has stopped yet
  unsent = $state.raw<ReadonlySet<string>>(new Set()); // cells that run once the server is back
  caughtUp = $state(0); // lines that came after a lost connection

  readonly selection = new Selection(() => this.view.cells);
  readonly panels = new Panels();
  readonly voice = new Voice();
  readonly terminals: Terminals;
  imported = $state.raw<ReadonlyMap<string, Imported>>(new Map());
  filesChanged = $state(0);
  callsChanged = $state(0);

  readonly view = $derived.by(() => withRuns(this.doc, this.log));
  readonly points = $derived.by(() => pointsOfCells(this.log));
  readonly title = $derived.by(() => this.session ? titleOf(this.session) : "");
  readonly runningID = $derived(this.log.open.find((id) => this.log.runs.get(id)?.status === "running"));

  private readonly sync: DocumentSync;
  private readonly socket: SessionSocket;
  private readonly undoing = new Undo();
  private readonly intake = new Intake(
    (work) => (document.visibilityState === "visible" ? requestAnimationFrame(work) : setTimeout(work, 200)),
    () => this.log,
    (state, events) => this.take(state, events),
  );
  private readonly approving = new Set<string>(); // approvals that are answered here
  private readonly asking = new Set<string>(); // cells whose run the server has not confirmed
  private draft: Draft | undefined; // once what earlier pages left has been looked at
  private greet: (session: Session) => void = () => {};
  private readonly greeted = new Promise<Session>((resolve) => (this.greet = resolve));
  private documentReady = false;
  private helloSeq = -1;
  private lostAt = 0; // seq when the connection was lost; 0: it was not
  private ended = false; // the page shows something else
  private readonly ending = new AbortController();

  constructor(readonly id: string, readonly readOnly: boolean) {
    this.sync = new DocumentSync(
      { get: () => getDocument(id), put: (doc) => putDocument(id, doc), logEnd: () => (this.helloSeq < 0 ? Infinity : Math.max(this.helloSeq, this.intake.seq)),
        later: (work, ms) => { const t = setTimeout(work, ms); return () => clearTimeout(t); } },
      {
        document: (doc) => this.changed(doc),
        saved: (state, why, final) => this.setSaved(state, why, final),
        conflicts: (n) => this.sayConflicts(n),
      },
    );
    this.terminals = new Terminals(id, { say: (text, tone) => this.say(text, tone), leave: () => this.selection.toCells() });
    this.socket = new SessionSocket(browserHost(id, (data) => aside.ask("message", data)), () => this.intake.seq, {
      hello: (session, view) => this.hello(session, view),
      event: (event) => this.intake.add(event),
      usage: (frame) => this.takeUsage(frame),
      link: (link) => this.setLink(link),
      changed: () => this.forget(),
      gone: (deleted) => {
        this.gone = true;
        if (deleted) this.draft?.forget();
      },
      refused: () => (readOnly ? (this.gone = true) : this.signIn()),
    });
  }

  start(): void {
    this.socket.start();
    void this.loadDocument();
    const { signal } = this.ending;
    const hurry = () => {
      this.socket.hurry();
      this.terminals.hurry();
    };
    addEventListener("online", hurry, { signal });
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") hurry();
      else {
        void this.sync.save();
        this.draft?.flush();
      }
    }, { signal });
    addEventListener("pagehide", () => {
      this.keepPlace();
      this.draft?.flush();
    }, { signal });
    addEventListener("beforeunload", (event) => {
      if (!this.readOnly && this.sync.dirty || this.asking.size) event.preventDefault();
    }, { signal });
  }

  // signIn loads the page again, which asks for a token then. What is not saved comes back from the draft; where that does not hold
  // it, the browser asks first, and the person may stay.
  private signIn(): void {
    this.signedOut = true;
    if (this.draft?.flush() && !this.asking.size) this.ending.abort();
    location.reload();
  }

  private keepPlace(): void {
    const { id, mode } = this.selection;
    if (this.loaded) keepPlace(this.id, { cell: id, mode, caret: editors.get(id)?.cursor() ?? 0 });
  }

  // end leaves the session. The connection stays until the server has the cells that were run while it was away.
  end(): void {
    void this.sync.save();
    this.ended = true;
    if (!this.asking.size) this.disconnect();
    this.terminals.end();
    this.sync.end();
    this.draft?.flush();
    this.voice.end();
  }

  private disconnect(): void {
    this.ending.abort();
    this.socket.end();
  }

  // What comes from the server

  private hello(session: Session, view: boolean): void {
    this.session = session;
    this.greet(session);
    this.helloSeq = session.last_seq;
    void setClock();
    this.usage = session.usage;
    this.limits = session.limits;
    this.reapAt = session.reap_at ? Date.parse(session.reap_at) : undefined;
    this.log = greeted(this.log, session, view);
    if (this.doc.through > session.last_seq) this.doc = { ...this.doc, through: session.last_seq }; // the log has lost its end
    this.settle();
  }

  private take(state: LogState, events: readonly Event[]): void {
    const before = this.log;
    this.log = bounded(state, mostHeld);
    for (const event of events) this.notice(event);
    if (state.documentRevision > before.documentRevision) this.sync.remote(state.documentRevision);
    this.settle();
  }

  private back?: Event & { type: "rolled_back" }; // the last time that the session went back, until a kernel wakes

  // notice does what an event means beside the picture, unless it is history.
  private notice(event: Event): void {
    if (this.lostAt && event.type === "stream") this.caughtUp += event.text.split("\n").length - 1;
    if (event.seq <= this.helloSeq) return;
    switch (event.type) {
      case "execution_finished": {
        this.stopping = 0;
        if (event.execution.status !== "ok") break;
        this.voice.announce(`Cell ${event.execution.execution_count ?? ""} done in ${duration(event.execution.usage.duration_ms)}`);
        break;
      }
      case "error": this.voice.announce(`Error: ${event.ename}: ${event.evalue.slice(0, 200)}`); break;
      case "input_request": this.voice.announce(`Input needed: ${event.prompt}`); break;
      case "kernel_died": this.say(`Python exited: ${whyWords(event.reason, event.exit_code)}. Variables are lost; files are kept.`, "bad"); break;
      case "kernel_reset": this.say("Python restarted. Variables are gone; outputs are kept."); break;
      case "artifact": this.filesChanged++; break;
      case "rolled_back": this.filesChanged++; wentBack(this, this.back = event); break;
      case "kernel_woken": woke(this, event, this.back); this.back = undefined; break;
      case "execution_queued": this.voice.endStay(); break;
      case "tool_call": case "tool_result": this.callsChanged++; break;
      case "approval_request": this.callsChanged++; this.voice.announce(`${approvalWords(event.kind)} ${askedWords(event).slice(0, 200)}`); break;
      case "approval_resolved": this.callsChanged++; this.resolved(event.approval_id); break;
    }
  }

  // resolved says how a question that was not answered here ended.
  private resolved(id: string): void {
    const approval = this.log.approvals.find((one) => one.id === id);
    if (!approval || this.approving.delete(id)) return;
    this.say(resolvedWords(approval));
  }

  private settle(): void {
    if (this.helloSeq < 0 || this.log.seq < this.helloSeq) return;
    if (this.lostAt) {
      const lines = this.caughtUp;
      this.lostAt = 0;
      this.caughtUp = 0;
      this.say(lines ? `Reconnected. ${plural(lines, "new line")} while you were away.` : "Reconnected. Nothing was lost.");
    }
    if (this.loaded || !this.documentReady) return;
    if (!this.view.cells.length && !this.readOnly) this.doc = { ...this.doc, cells: [{ id: "c-first", cell_type: "code", source: "" }] };
    const [first, second] = this.view.cells;
    const place = placeIn(this.id);
    if (place && this.cell(place.cell)) this.selection.select(place.cell, this.readOnly ? "command" : place.mode, place.caret);
    else this.selection.select(first?.id ?? "", first && !second && !first.source && first.cell_type === "code" && !this.readOnly ? "edit" : "command");
    this.loaded = true;
  }

  private takeUsage(frame: UsageFrame): void {
    this.usage = frame.usage;
    this.limits = frame.limits;
    this.reapAt = frame.reap_at ? Date.parse(frame.reap_at) : undefined;
    this.cpu = withUsage(this.cpu, frame, performance.now());
  }

  private setLink(link: Link): void {
    if (link === "down" && this.link === "up") this.lostAt = Math.max(1, this.log.seq);
    this.unsent = new Set(this.asking);
    if (link === "up") void this.sync.save();
    if (link !== "connecting" || this.link !== "down") this.link = link;
  }

  private failure = ""; // why the last save failed

  private setSaved(state: "saved" | "saving" | "unsaved", why = "", final = false): void {
    if (why && (final || this.failure)) this.notSaved = why;
    if (why) this.failure = why;
    if (state === "saved") this.failure = this.notSaved = "";
    const { kept, dirty } = this.sync;
    if (dirty || kept.unanswered) this.draft?.keep(kept);
    else if (state === "saved") this.draft?.drop();
  }

  private forget(): void {
    this.intake.forget();
    this.helloSeq = -1;
    this.log = empty;
  }

  private async loadDocument(): Promise<void> {
    try {
      if (!this.documentReady) this.doc = await this.sync.load();
      if (!this.documentReady && !this.readOnly) {
        const draft = new Draft(await this.greeted);
        const { doc, conflicts } = draft.take(this.sync.base);
        this.draft = draft;
        this.doc = { ...doc, through: Math.max(this.sync.base.through, Math.min(doc.through, this.helloSeq)) };
        this.documentReady = true;
        this.sync.edit(this.doc);
        draft.flush();
        if (conflicts) this.sayConflicts(conflicts);
      }
      if (this.doc.imported) {
        await this.loadImported();
      }
    } catch (err) {
      if (!(err instanceof Refused) || err.status !== 501) {
        if (err instanceof Refused && err.status === 404) return;
        if (!this.ended) setTimeout(() => void this.loadDocument(), 1000);
        return;
      }
    }
    this.documentReady = true;
    this.settle();
  }

  // changed takes in what others made of the document. An import replaces all of its cells, and has outputs of its own.
  private changed(doc: Document): void {
    const known = new Set(this.doc.cells.map((cell) => cell.id));
    const imported = doc.imported && (!this.doc.imported || !doc.cells.some((cell) => known.has(cell.id)));
    this.doc = doc;
    if (!imported) return;
    this.undoing.forget();
    void this.attempt(() => this.loadImported());
  }

  private async loadImported(): Promise<void> {
    const text = await getText(sessionPath(this.id, "/notebook"));
    const file = text.length > large ? await aside.ask<NotebookFile>("notebook", text) : JSON.parse(text) as NotebookFile;
    this.imported = importedOutputs(file);
  }

  // Cells

  private edit(cells: Cell[], title = this.doc.title): void {
    if (this.readOnly) return;
    this.doc = { ...this.doc, cells, title, through: throughOf(this.doc, this.log) };
    this.sync.edit(this.doc);
  }

  // arrange is an edit that undo takes back.
  private arrange(said: string, cells: Cell[], same?: ReadonlyMap<string, string>): void {
    this.undoing.did(this.view.cells, cells, said, same);
    this.edit(cells);
  }

  cell(id: string): Cell | undefined {
    return this.view.cells.find((cell) => cell.id === id);
  }

  lastRun(id: string): Run | undefined {
    return lastRun(this.log, id);
  }

  type(id: string, source: string): void {
    if (this.cell(id)?.source !== source) this.edit(change(this.view.cells, id, { source }));
  }

  setSource(id: string, source: string): void {
    this.arrange("restoring code", change(this.view.cells, id, { source }));
  }

  setKind(id: string, cell_type: Cell["cell_type"]): void {
    this.arrange("a change of cell type", change(this.view.cells, id, { cell_type }));
  }

  heading(id: string, level: number): void {
    const cell = this.cell(id);
    if (!cell) return;
    const source = `${"#".repeat(level)} ${cell.source.replace(/^#+\s*/, "")}`;
    this.arrange("a heading", change(this.view.cells, id, { cell_type: "markdown", source }));
  }

  add(where: "above" | "below", id: string, cell: Cell = newCell()): string {
    const at = indexOf(this.view.cells, id);
    this.arrange("an insertion", insert(this.view.cells, at < 0 ? this.view.cells.length : at + (where === "below" ? 1 : 0), cell));
    this.selection.id = cell.id;
    return cell.id;
  }

  delete(id: string): void {
    const { cells } = this.view;
    const at = indexOf(cells, id);
    if (at < 0) return;
    const rest = remove(cells, [id]);
    if (!rest.length) rest.push(newCell());
    this.arrange("deleting a cell", rest);
    this.selection.select((rest[at] ?? rest.at(-1))?.id ?? "");
    this.say("Cell deleted.", "quiet", this.takeBack);
  }

  copy(id: string): void {
    const cell = this.cell(id);
    if (cell) this.selection.clip = [cell];
  }

  paste(id: string): void {
    for (const cell of this.selection.clip) this.add("below", id, newCell(cell.cell_type, cell.source));
  }

  move(id: string, by: number): void {
    this.arrange("a move", move(this.view.cells, id, by));
  }

  // clearOutputs takes the outputs of cells away, but for those that run or wait. The timeline keeps them.
  clearOutputs(ids: readonly string[]): void {
    const shown = ids.filter((id) => (this.lastRun(id) ?? this.imported.get(id)) && !this.log.open.includes(this.lastRun(id)?.id ?? ""));
    if (!shown.length) return this.say("There is no output to clear.");
    const { cells, to } = renamed(this.view.cells, shown);
    this.arrange("clearing outputs", cells, new Map([...to, ...[...to].map(([old, id]) => [id, old] as const)]));
    this.selection.id = to.get(this.selection.id) ?? this.selection.id;
    this.say(shown.length === 1 ? "Output cleared." : `${shown.length} outputs cleared.`, "quiet", this.takeBack);
  }

  split(id: string, at: number): void {
    const done = split(this.view.cells, id, at);
    if (!done) return;
    this.arrange("a split", done.cells);
    this.selection.id = done.added;
  }

  merge(id: string): void {
    const merged = merge(this.view.cells, id);
    if (merged) this.arrange("a merge", merged);
  }

  readonly takeBack: Action = { label: "Undo", run: () => this.undo() };

  undo(forward = false): void {
    const step = forward ? this.undoing.redo(this.view.cells) : this.undoing.undo(this.view.cells);
    if (!step) {
      this.say(forward ? "Nothing to redo." : "Nothing to undo here; Ctrl+Z in an editor undoes typing.");
      return;
    }
    this.edit(restored(step, this.view.cells));
    if (!this.cell(this.selection.id)) this.selection.id = step.same.get(this.selection.id) ?? this.view.cells[0]?.id ?? "";
    this.say(`${forward ? "Redone" : "Undone"}: ${step.said}.`);
  }

  // Python

  async run(id: string, options: { stopOnError?: boolean } = {}): Promise<void> {
    const cell = this.cell(id);
    if (!cell || cell.cell_type !== "code" || !cell.source.trim() || this.readOnly) return;
    void this.sync.save();
    this.asking.add(id);
    if (this.link !== "up") this.unsent = new Set(this.asking);
    await this.attempt(() => this.socket.ask(
      { type: "execute", code: cell.source, ...(options.stopOnError ? { stop_on_error: true } : {}) },
      { id: runID(cell.id), again: true },
    ));
    this.asking.delete(id);
    if (this.ended && !this.asking.size) this.disconnect();
  }

  async runMany(which: (index: number, here: number) => boolean): Promise<void> {
    const { cells } = this.view;
    const here = indexOf(cells, this.selection.id);
    await Promise.all(cells.filter((_, i) => which(i, here)).map((cell) => this.run(cell.id, { stopOnError: true })));
  }

  runAll(): Promise<void> {
    return this.runMany(() => true);
  }

  async interrupt(): Promise<void> {
    if (!this.log.open.length) return;
    this.stopping = serverNow();
    await this.attempt(() => this.socket.ask({ type: "interrupt" }));
  }

  async reset(keepFiles: boolean): Promise<boolean> {
    return this.attempt(async () => {
      this.say("Restarting Python…");
      await call("POST", sessionPath(this.id, "/reset"), { keep_files: keepFiles });
      this.filesChanged++;
    });
  }

  answer(requestID: string, value: string): Promise<boolean> {
    return this.attempt(() => this.socket.ask({ type: "input_reply", request_id: requestID, value }));
  }

  async approve(approval: string, decision: "once" | "session" | "deny"): Promise<void> {
    this.approving.add(approval);
    if (!await this.attempt(() => this.socket.ask({ type: "approve", approval_id: approval, decision }))) this.approving.delete(approval);
  }

  async keep(): Promise<void> {
    await this.attempt(async () => {
      const session = await call<Session>("POST", sessionPath(this.id, "/keep"));
      this.reapAt = session.reap_at ? Date.parse(session.reap_at) : undefined;
    });
  }

  // refresh asks again for what the log does not tell of, such as the isolation in force.
  async refresh(): Promise<void> {
    await this.attempt(async () => (this.session = await call<Session>("GET", sessionPath(this.id))));
  }

  async rename(name: string): Promise<void> {
    await this.attempt(async () => {
      this.session = await call<Session>("PATCH", sessionPath(this.id), { name });
    });
  }

  complete(code: string, cursor: number): Promise<Completion> {
    return this.socket.ask({ type: "complete", code, cursor_pos: cursor });
  }

  inspect(code: string, cursor: number): Promise<Inspection> {
    return this.socket.ask({ type: "inspect", code, cursor_pos: cursor, detail_level: 0 });
  }

  variables(): Promise<{ items: Variable[]; total?: number }> {
    return this.socket.ask({ type: "variables" });
  }

  // tablePage is rows of a table that was shown, as Python has them now.
  tablePage(table: string, filter: string, sort: readonly TableSort[], offset: number, count: number): Promise<TablePage> {
    return this.socket.ask({ type: "table", table, ...(filter ? { filter } : {}), sort, offset, count });
  }

  async import(file: string): Promise<void> {
    await this.attempt(async () => {
      await this.sync.save();
      await call("POST", sessionPath(this.id, "/notebook"), file);
      this.doc = await this.sync.load();
      this.undoing.forget();
      await this.loadImported();
      this.selection.id = this.view.cells[0]?.id ?? "";
      this.say("Notebook imported. Nothing in it has run yet.");
    });
  }

  async save(): Promise<void> {
    await this.sync.save();
    if (this.failure) this.say(`Not saved: ${this.failure}`, "bad");
    else this.say("Already saved.");
  }

  // restore brings a run's outputs back that the page has dropped.
  async restore(run: string): Promise<void> {
    this.log = bounded(await withOutputs(this.id, run, () => this.log), mostHeld);
  }

  // outputs is all that the last run of a cell showed, or what was imported.
  async outputs(cell: string): Promise<readonly Output[]> {
    const run = this.lastRun(cell);
    return run ? outputsOf(this.id, run, () => this.log) : this.imported.get(cell)?.outputs ?? [];
  }

  // What is said to people

  // attempt does something that the server may refuse, says so then, and tells whether it worked.
  async attempt(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (err) {
      this.say(err instanceof Error ? err.message : String(err), "bad");
      return false;
    }
  }

  say(text: string, tone: "quiet" | "bad" = "quiet", action?: Action): void {
    this.voice.say(text, tone, action);
  }

  private sayConflicts(count: number): void {
    this.say(`Another tab edited ${count === 1 ? "a cell" : `${count} cells`} that you edited too. Both versions are kept, theirs below yours.`);
  }

  // told describes how a run ended.
  told(run: Run): ReturnType<typeof runWords> {
    const ahead = run.status === "queued" ? this.log.open.indexOf(run.id) : 0;
    const death = run.status === "died" ? this.log.notes.find((note) => note.kind === "died" && note.generation === run.generation) : undefined;
    const approval = pending(this.log.approvals).some(({ runID }) => runID === run.id);
    return runWords(run, approval ? "approval" : this.log.asked?.runID === run.id ? "input" : "", ahead, death?.limit);
  }

  cellOfRun(run: string): string {
    return cellOf(run);
  }
}
