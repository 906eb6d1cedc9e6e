package session

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/kernel/trace"
	"talaria/session/transcript"
	"talaria/store"
)

// take turns records of the kernel into events, commits them with the position, and acknowledges. On the
// session's goroutine.
func (s *Session) take(ctx context.Context, batch []record.Record) {
	trace.Step("records received")
	key := s.kernelKey()
	t := s.translation(ctx)
	for _, r := range batch {
		if r.Key != key {
			continue
		}
		t.kseq, t.flushed = r.KSeq, false
		if t.record(r); t.failed {
			return
		}
	}
	if !t.flushed {
		t.flush()
	}
	trace.Step("events committed and published")
	if t.kseq > 0 && !t.failed { // a batch of an earlier kernel has nothing to acknowledge
		s.m.cfg.Host.Ack(key, t.kseq)
	}
}

// translation turns many records into one change. The end of an execution is committed at once, since the next one may
// start then.
type translation struct {
	s    *Session
	ctx  context.Context
	c    change
	kseq uint64
	// count and late are the session's execution count and late bytes after the records so far.
	count, late int64
	over        bool            // this change ends the execution, so no server needs its output to go on
	flushed     bool            // nothing came after the last commit
	failed      bool            // the store accepts nothing more
	looked      func(kept bool) // not nil from collect to endLook
	hold        *artifacts.Hold // of what the change refers to
}

// translation returns a translation that begins where the session stands. On the session's goroutine.
func (s *Session) translation(ctx context.Context) *translation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &translation{s: s, ctx: ctx, count: s.executionCount, late: s.lateBytes, hold: s.m.cfg.Artifacts.Hold(), flushed: true}
}

// flushBefore commits the changes of the records before the current one.
func (t *translation) flushBefore() {
	t.kseq--
	t.flush()
	t.kseq++
	t.flushed = false
}

func (t *translation) flush() {
	kseq, count, late, s := t.kseq, t.count, t.late, t.s
	var saved []byte
	if !t.over {
		var err error
		if saved, err = s.savedOutput(); err != nil {
			s.log.Error("save the output so far for the next server", "error", err)
		}
	}
	t.c.add(change{
		progress: store.Progress{Cursor: &store.Cursor{KSeq: kseq, ExecutionCount: count, LateBytes: late, Output: saved}},
		done: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.executionCount, s.lateBytes = count, late
		},
	})
	t.failed = !s.mustCommit(t.ctx, t.c)
	t.hold.Release()
	s.pendingArtifacts = 0
	t.c, t.over, t.flushed = change{}, false, true
}

func (t *translation) log(executionID string, body api.EventBody) {
	t.c.drafts = append(t.c.drafts, draft{executionID: executionID, body: body})
}

// running returns the execution that the record belongs to, or nil if its execution has ended.
func (t *translation) running(r record.Record) *execution {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if c := t.s.current; c != nil && c.row.ID == r.ExecutionID && c.given {
		return c
	}
	return nil
}

func (t *translation) record(r record.Record) {
	running := t.running(r)
	if died, ok := r.Body.(record.Died); ok {
		t.died(running, died)
		return
	}
	switch b := r.Body.(type) { // may come from outside a cell
	case record.Asked:
		t.asked(running, r, b)
		return
	case record.AskClosed:
		t.askClosed(running, r, b)
		return
	case record.ToolEnded:
		t.toolEnded(b)
		return
	case record.CopyLost:
		t.copyLost(b)
		return
	}
	if running == nil && isOfComms(r) {
		t.betweenCells(r)
		return
	}
	if running == nil {
		t.lateOutput(r)
		return
	}
	switch b := r.Body.(type) {
	case record.Started:
		t.executionStarted(running, r)
	case record.Stream:
		t.c.drafts = append(t.c.drafts, running.out.add(b.Name, b.Text)...)
	case record.Display:
		t.showDisplay(running, b)
	case record.Result:
		if running.row.Silent {
			return
		}
		data, meta, refs := t.s.out.bundle(t.ctx, b.Data, b.Metadata, running.out.kept)
		running.out.result(data)
		t.c.drafts = append(t.c.drafts, running.out.last(draft{executionID: r.ExecutionID, refs: refs, body: api.ExecuteResult{
			Data: data, Metadata: meta, ExecutionCount: *running.row.ExecutionCount,
		}})...)
	case record.Raised:
		failure := errorOutput(b.Error)
		running.failure = &failure
		running.out.traceback(failure)
		t.c.drafts = append(t.c.drafts, running.out.last(draft{executionID: running.row.ID, body: api.ErrorEvent{
			ErrorOutput: failure, Limit: limitOf(b.Limit),
		}})...)
	case record.Comm:
		t.comm(running, b)
	case record.Expressions:
		t.log(r.ExecutionID, api.UserExpressions{Values: api.Raw(b.Values)})
	case record.Clear:
		t.showClear(running, b)
	case record.Finished:
		t.finished(running, b)
	}
}

func (t *translation) executionStarted(running *execution, r record.Record) {
	s := t.s
	at := api.At(r.Time).UnixMilli()
	running.row.StartedAt, running.row.Status = &at, api.StatusRunning
	s.commBytes = 0
	if running.row.ExecutionCount != nil {
		t.count = *running.row.ExecutionCount
		running.out.tellLoss(t.s.journal.lossNotice(t.ctx, running.row, t.s.log))
	}
	t.c.state(s, api.StateBusy, "")
	t.log(r.ExecutionID, api.ExecutionStarted{Code: running.row.Code, ExecutionCount: running.row.ExecutionCount})
	row := running.row
	t.c.add(change{also: func(tx *store.Tx) error {
		row.StartedSeq, _ = s.journal.place()
		return tx.StartExecution(row)
	}})
}

// asked handles a request from code inside. running is nil if the request does not come from the running cell.
func (t *translation) asked(running *execution, r record.Record, asked record.Asked) {
	switch body := asked.Body.(type) {
	case record.InputRequest:
		if running != nil {
			t.input(r, asked.ID, body)
		}
	case record.ToolsRequest:
		t.s.tools.task(func(ctx context.Context) { t.s.tools.tell(ctx, r.Key, r.ExecutionID, asked.ID) })
	case record.ToolCall:
		t.called(running, r, asked.ID, body)
	case record.AfterCell:
		t.askedAfter(running, r, asked.ID, body)
	case record.PackageChange:
		if running != nil {
			t.c.add(running.marked())
		}
		if r.KSeq > t.s.replayTo { // the server before has answered what came earlier
			t.s.packages.Begin(r.Key, r.ExecutionID, asked.ID, body)
		}
	}
}

// askClosed handles a request that nobody inside waits for any longer.
func (t *translation) askClosed(running *execution, r record.Record, closed record.AskClosed) {
	switch closed.Kind {
	case record.AskInput:
		if running != nil {
			t.log(r.ExecutionID, api.InputClosed{RequestID: closed.ID, How: closed.How})
			t.c.add(change{done: func() { t.s.mu.Lock(); t.s.pending = nil; t.s.mu.Unlock() }})
		}
	case record.AskTool:
		t.callClosed(closed.ID, closed.How)
	case record.AskAfter:
		if running != nil && closed.How != record.Answered {
			t.withdrawAfter(running, closed.ID)
		}
	case record.AskInstall:
		if closed.How != record.Answered {
			t.s.packages.Cancel(closed.ID)
		}
	}
}

func (t *translation) input(r record.Record, id string, b record.InputRequest) {
	s := t.s
	s.mu.Lock()
	alone, key := s.attached == 0 && r.KSeq > s.replayTo, s.key()
	s.mu.Unlock()
	if alone {
		err := command.Tell(t.ctx, s.m.cfg.Host, key, command.RefuseInput{RequestID: id})
		if err != nil {
			s.log.Debug("refuse input", "error", err)
		}
		if !errors.Is(err, command.ErrUnresponsive) {
			return
		} // otherwise it is asked: somebody who answers may still attach
	}
	t.log(r.ExecutionID, api.InputRequested{RequestID: id, Prompt: b.Prompt, Password: b.Password})
	t.c.add(change{done: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending = &api.PendingInput{
			RequestID: id, ExecutionID: r.ExecutionID, Prompt: b.Prompt, Password: b.Password,
		}
	}})
}

var statuses = map[record.Status]api.ExecutionStatus{
	record.OK: api.StatusOK, record.Errored: api.StatusError,
	record.TimedOut: api.StatusTimeout, record.Interrupted: api.StatusInterrupted,
}

// finished ends the execution. If it failed, stop_on_error also cancels the executions that wait behind it.
func (t *translation) finished(running *execution, b record.Finished) {
	s := t.s
	o := outcome{status: statuses[b.Status], state: api.VariablesKept, usage: executionUsage(b.Usage)}
	switch o.status {
	case api.StatusTimeout, api.StatusInterrupted:
		o.reason = string(o.status)
	}
	artifacts := t.collect(running)
	defer t.endLook()
	if t.failed {
		return
	}
	t.c.add(t.ended(running, o, artifacts))
	if o.status != api.StatusOK && running.row.StopOnError {
		t.c.add(s.stopQueue())
	}
	s.mu.Lock()
	idle := len(s.queue)+s.reserved == 0
	s.mu.Unlock()
	if idle {
		t.c.state(s, api.StateIdle, "")
	}
	t.c.add(change{done: func() { s.mu.Lock(); s.current = nil; s.armReaper(); s.mu.Unlock(); s.armCheckpoint() }})
	t.over = true
	t.flush()
	t.dueAfter(running)
}

// stopQueue returns the change that cancels the executions that wait behind a failed cell.
func (s *Session) stopQueue() (c change) {
	s.mu.Lock()
	waiting := s.queue
	s.queue = nil
	s.mu.Unlock()
	for _, w := range waiting {
		c.add(s.ended(w, outcome{status: api.StatusCancelled, reason: "stop_on_error", state: api.VariablesKept}))
	}
	return c
}

// died ends the kernel's executions and reports why the kernel is gone, unless it was ended on purpose.
func (t *translation) died(running *execution, b record.Died) {
	s := t.s
	saved := s.nextLoadsSaved() && b.Reason != reasonReset && b.Reason != reasonDeleted
	failed := saved && s.drafted.Reason == reasonStart // the variables could not be loaded into it
	s.running = false
	s.dropMain()
	s.packages.Cancel("")
	if running == nil { // it was given to the kernel, which never reported its start
		s.mu.Lock()
		switch c := s.current; {
		case c == nil:
		case !c.given, c.giving && !slices.Contains([]string{reasonHostCrash, reasonLost}, b.Reason):
			s.putBack(c) // the kernel did not take it: its start would have been reported before its death
		default:
			running = c
		}
		s.mu.Unlock()
	}
	if running != nil {
		o := outcome{status: api.StatusDied, reason: b.Reason, state: api.VariablesLost, usage: executionUsage(b.Usage)}
		if b.TimedOut {
			o.status = api.StatusTimeout
		}
		var artifacts change
		if running.row.StartedAt != nil {
			artifacts = t.collect(running)
			defer t.endLook()
			if t.failed {
				return
			}
		}
		failure := deathError(b, running)
		running.failure = &failure
		running.out.traceback(failure)
		t.c.drafts = append(t.c.drafts, running.out.last(draft{executionID: running.row.ID, body: api.ErrorEvent{ErrorOutput: failure}})...)
		t.c.add(t.ended(running, o, artifacts))
		t.c.add(s.cancelQueue(b.Reason))
	} else if !saved && slices.Contains([]string{reasonReset, reasonDeleted, reasonShutdown, reasonHostCrash}, b.Reason) {
		t.c.add(s.cancelQueue(b.Reason)) // the host may have given the next one to the kernel without reporting it
	}
	restart, state := "died", b.Reason
	switch {
	case slices.Contains([]string{reasonReset, reasonIdle, reasonHibernate, reasonRollback}, b.Reason):
		restart = b.Reason
	case saved && !failed, b.Reason == reasonDeleted:
	default:
		if b.Reason == reasonShutdown {
			restart = "restart"
		}
		t.log("", s.deathEvent(b))
	}
	t.c.add(s.died(restart))
	t.c.add(s.copiesEnded(b.Reason))
	switch {
	case failed: // the state says so
	case saved:
		t.c.state(s, api.StateHibernated, "")
	default:
		t.c.state(s, api.StateDead, state)
	}
	t.c.add(change{done: func() { s.mu.Lock(); s.current = nil; s.mu.Unlock() }})
	t.over = true
	t.flush()
	t.dueAfter(running)
}

func (s *Session) deathEvent(b record.Died) api.KernelDied {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := api.KernelDied{Reason: b.Reason, Generation: s.generation}
	e.Limit = limitOf(b.Limit)
	switch {
	case strings.HasPrefix(b.Reason, "exit:"):
		code := int64(b.Exit.Code)
		e.ExitCode = &code
	case strings.HasPrefix(b.Reason, "signal:"):
		e.Signal = strings.TrimPrefix(b.Reason, "signal:")
	}
	return e
}

func limitOf(hit *record.LimitHit) *api.Limit {
	if hit == nil {
		return nil
	}
	return &api.Limit{Name: hit.Name, Value: hit.Value, Used: hit.Used}
}

// deathError describes to the cell's user what happened to the kernel.
func deathError(b record.Died, running *execution) api.ErrorOutput {
	e := api.ErrorOutput{Ename: "KernelDied"}
	const after = "its variables are lost; the files in the workspace are kept, and the next cell starts a new kernel"
	switch {
	case b.TimedOut:
		e.Ename = "ExecutionTimeout"
		e.Evalue = fmt.Sprintf("the cell exceeded its timeout of %g s and ignored the interrupt, so its kernel was ended: %s",
			float64(running.row.TimeoutMS)/1000, after)
	case b.Limit != nil:
		e.Evalue = fmt.Sprintf("the kernel was ended because %v: %s; raise the limit or use less", b.Limit, after)
	case b.Reason == reasonReset:
		e.Evalue = "the session was reset while the cell ran; its variables are lost"
	case b.Reason == reasonDeleted:
		e.Evalue = "the session was deleted while the cell ran"
	default:
		e.Evalue = fmt.Sprintf("the kernel ended (%s): %s", b.Reason, after)
	}
	e.Traceback = []string{e.Ename + ": " + e.Evalue}
	return e
}

// cutJSON bounds the JSON of a text. A note says what was cut.
func cutJSON(text string) string {
	if len(text) <= maxErrorJSON/6 {
		return text
	}
	encoded := len(api.Text(text))
	if encoded <= maxErrorJSON {
		return text
	}
	kept := transcript.Cut(text, int(int64(len(text))*maxErrorJSON/int64(encoded))) // close enough if escapes are spread evenly
	if len(api.Text(kept)) > 2*maxErrorJSON {
		kept = transcript.Cut(text, maxErrorJSON/6)
	}
	return kept + fmt.Sprintf(" [%d bytes were left out]", len(text)-len(kept))
}

// lateOutput handles output that arrives after its execution's end: it goes to the log only, up to a limit for each generation.
func (t *translation) lateOutput(r record.Record) {
	s := t.s
	s.mu.Lock()
	limit := s.limits.OutputBytes
	s.mu.Unlock()
	before := t.late
	if before > limit {
		return
	}
	d := draft{executionID: r.ExecutionID}
	switch b := r.Body.(type) {
	case record.Stream:
		t.late += max(int64(len(b.Text)), eventCost)
		d.body = api.Stream{Name: b.Name, Text: b.Text}
	case record.Display:
		if t.late += max(rawSize(b.Data, b.Metadata), eventCost); t.late <= limit { // beyond it there is no artifact
			d = s.out.display(t.ctx, r.ExecutionID, b, t.hold)
		}
	case record.Clear:
		t.late += eventCost
		d.body = api.ClearOutput{Wait: b.Wait}
	default:
		return
	}
	if t.late <= limit {
		t.c.drafts = append(t.c.drafts, d)
	} else {
		t.log(r.ExecutionID, api.Stream{Name: "stderr", Text: fmt.Sprintf(
			"\n[output after the end of its cell reached limits.output_bytes (%d) for this kernel; further output is dropped]\n", limit)})
	}
}

func executionUsage(u record.ExecutionUsage) api.ExecutionUsage {
	return api.ExecutionUsage{
		DurationMS: u.Duration.Milliseconds(), CPUMS: u.CPU.Milliseconds(), PeakMemoryBytes: u.PeakMemory,
	}
}

// maxErrorJSON bounds the JSON of an exception's value, and of its traceback: an execution holds both twice.
const maxErrorJSON = 2 << 20

func errorOutput(e record.ErrorInfo) api.ErrorOutput {
	lines := strings.Join(e.Traceback, "\n")
	if cut := cutJSON(lines); len(cut) < len(lines) {
		e.Traceback, e.Frames = strings.Split(cut, "\n"), nil
	}
	out := api.ErrorOutput{Ename: e.Ename, Evalue: cutJSON(e.Evalue), Traceback: e.Traceback, Hint: e.Hint}
	for _, f := range e.Frames {
		out.Frames = append(out.Frames, api.ErrorFrame{
			File: f.File, Line: f.Line, Function: f.Function, User: f.User, Cell: f.Cell, TracebackStart: f.Start, TracebackEnd: f.End,
		})
	}
	return out
}

func largest(data api.MIMEBundle) string {
	name := ""
	for mime, v := range data {
		if name == "" || len(v) > len(data[name]) || len(v) == len(data[name]) && mime < name {
			name = mime
		}
	}
	return name
}

// decoded returns the bytes that a value of a bundle stands for.
func decoded(mime string, value api.Raw) []byte {
	var text string
	if jsonv2.Unmarshal(value, &text) != nil {
		return value // JSON other than a string
	}
	if strings.HasPrefix(mime, "image/") && mime != "image/svg+xml" || mime == "application/pdf" {
		if b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", "")); err == nil {
			return b
		}
	}
	return []byte(text)
}
