package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/session/toolspec"
	"talaria/session/transcript"
	"talaria/store"
)

const (
	// maxHanded is how many calls of one session providers have at once.
	maxHanded = 64
	// auditedArguments is the longest JSON of arguments that the audit holds; the log has longer ones.
	auditedArguments = 4 << 10
	maxToolMessage   = 64 << 10
	// pendingPause is how long to wait for further calls of an execution before telling its client of them all.
	pendingPause = 5 * time.Millisecond
)

// The codes of the session's own failures. Some have exceptions of their own inside.
const (
	codeUnavailable  = "unavailable"
	codeToolTimeout  = "timeout"
	codeToolLimit    = "limit"
	codeProviderGone = "provider_gone"
	codeArguments    = "invalid_arguments"
	codeLate         = "late"
	codeInterrupted  = "interrupted"
	codeUnknown      = "unknown"
	codeToolError    = "tool_error"
	codeDenied       = "denied"
)

// toolCall is a call that a kernel waits for, or that runs inside the kernel.
type toolCall struct {
	key       record.Key
	id        string
	execution string
	name      string
	tool      *toolspec.Tool
	kind      api.ToolProvider
	arguments json.RawMessage
	began     time.Time
	awaits    bool // of an earlier server: no person had approved it

	// Guarded by Tools.mu.
	provider *provider // nil for a built-in tool
	handed   bool      // the provider has it, or must come back for it
	counted  bool      // in Tools.handed
	missing  bool      // the provider came back, so far without the tool
	deadline time.Time
	timer    *time.Timer
	holds    int            // people who are asked during the call: its time stands still
	left     time.Duration  // of that time
	answered bool           // the kernel has its answer, or is about to get it
	failure  *api.ToolError // the answer, if it is not a result
	ended    bool
}

func (c *toolCall) stopTimer() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *toolCall) request() api.ToolRequest {
	return api.ToolRequest{
		Type: "tool_request", CallID: c.id, ExecutionID: c.execution, Tool: c.name, Arguments: api.Raw(c.arguments),
		Deadline: api.At(c.deadline),
	}
}

// called handles a call from a cell. The call is refused, or becomes an event and a row of the audit, and is handed to its
// provider once those are committed. On the session's goroutine.
func (t *translation) called(running *execution, r record.Record, id string, call record.ToolCall) {
	s := t.s
	refuse := func(code, format string, args ...any) {
		s.tools.answerSoon(r.Key, command.AnswerTool{RequestID: id, Error: &command.ToolFailure{Code: code, Message: fmt.Sprintf(format, args...)}})
	}
	if running == nil {
		refuse(codeLate, "%.80s was called after its cell had finished", call.Tool)
		return
	}
	c := &toolCall{key: r.Key, id: id, execution: r.ExecutionID, name: call.Tool, began: r.Time}
	ts := s.tools
	ts.mu.Lock()
	open := ts.calls[id] != nil
	if c.provider, c.tool = ts.find(call.Tool, r.ExecutionID); c.provider == nil {
		c.provider, c.tool = ts.unlisted(call.Tool)
	}
	gone := c.provider != nil && c.provider.client == nil && c.provider.execution == ""
	ts.mu.Unlock()
	s.mu.Lock()
	limit, budget := s.limits.ToolCalls, s.left().ToolCalls
	s.mu.Unlock()
	switch {
	case open: // from a kernel that is no longer ours; the first call with that id goes on
		return
	case c.provider != nil:
		c.kind = c.provider.kind
	case slices.Contains(ts.builtin, call.Tool):
		c.kind, c.tool = api.ProviderBuiltin, toolspec.Builtin(call.Tool)
	default:
		refuse(codeUnavailable, "there is no tool %.80s at the moment; available: %s", call.Tool, toolNames(ts.list(r.ExecutionID)))
		return
	}
	if gone {
		refuse(codeProviderGone, "the client that provides %s has disconnected", call.Tool)
		return
	}
	if running.toolCalls.Load() >= limit {
		refuse(codeToolLimit, "this cell has reached limits.tool_calls (%d); raise the limit, or make fewer calls", limit)
		return
	}
	if budget != nil && running.toolCalls.Load() >= budget.Left { // calls of this cell count as spent when it ends
		refuse(codeToolLimit, "the session has used up its budget of %d tool calls (budgets.tool_calls)", budget.Limit)
		return
	}
	if len(call.Arguments) > api.MaxToolArguments {
		refuse(codeToolLimit, "the arguments of a call may have %d bytes of JSON, and these have %d; pass a file's path instead",
			api.MaxToolArguments, len(call.Arguments))
		return
	}
	c.arguments = call.Arguments
	if c.tool != nil && c.tool.Schema != nil {
		checked, err := c.tool.Schema.Arguments(call.Arguments)
		if err != nil {
			refuse(codeArguments, "%s: %v", call.Tool, err)
			return
		}
		c.arguments = checked
	}
	t.accept(running, c)
}

func toolNames(list []api.ToolInfo) string {
	if len(list) == 0 {
		return "none"
	}
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.Name
	}
	return transcript.Cut(strings.Join(names, ", "), 2000)
}

// accept records a call, and hands it over once the record is committed and, if the call needs approval, a person has
// approved it.
func (t *translation) accept(running *execution, c *toolCall) {
	s := t.s
	running.toolCalls.Add(1)
	c.deadline = time.Now().Add(c.timeout())
	proposal, ask := s.tools.asks(c)
	ts := s.tools
	ts.mu.Lock()
	ts.calls[c.id] = c
	row := store.ToolCall{
		Session: s.n, CallID: c.id, Execution: c.execution, Tool: c.name, Provider: c.kind, Deadline: c.deadline.UnixMilli(),
		CreatedAt: c.began.UnixMilli(), Arguments: s.tools.audited(c.arguments), AwaitsApproval: ask,
	}
	if c.provider != nil {
		row.ClientID, row.Idempotent = c.provider.clientID, c.tool.Idempotent
		if ask || c.kind == api.ProviderExecution || row.ClientID != "" && row.Idempotent {
			row.Payload = api.Raw(c.arguments)
		}
	}
	ts.mu.Unlock()
	t.log(c.execution, api.ToolCalled{CallID: c.id, Tool: c.name, Arguments: api.Raw(c.arguments)})
	t.c.add(change{also: func(tx *store.Tx) error { return tx.InsertToolCall(row) }})
	if c.kind != api.ProviderBuiltin {
		t.c.add(running.marked())
	}
	if ask {
		t.c.add(s.approvals.propose(t.ctx, proposal))
		return
	}
	t.c.add(change{done: func() { s.tools.handOver(c) }})
}

func (c *toolCall) timeout() time.Duration {
	if c.tool == nil {
		return api.ToolTimeoutS * time.Second
	}
	return c.tool.Timeout()
}

// audited returns the arguments as the audit holds them: without secrets, or nil if they are too long.
func (ts *Tools) audited(arguments json.RawMessage) api.Raw {
	if len(arguments) > auditedArguments {
		return nil
	}
	clean := api.Raw(ts.redact.Text(string(arguments)))
	if !clean.IsValid() { // a secret spanned several parts of the JSON
		return nil
	}
	return clean
}

// handOver hands a call to its provider, or queues it until the provider has fewer.
func (ts *Tools) handOver(c *toolCall) {
	ts.mu.Lock()
	var work toolWork
	if c.kind == api.ProviderBuiltin {
		c.answered = true
		work.answers = []toolAnswer{ts.inside(c)}
	} else if ts.handed < maxHanded {
		ts.start(c, &work)
	} else {
		ts.waiting = append(ts.waiting, c)
	}
	ts.mu.Unlock()
	ts.carryOut(work)
}

// inside answers the call of a built-in tool: the runner carries it out, in the workspace and the mounts.
func (ts *Tools) inside(c *toolCall) toolAnswer {
	mounts := make([]string, len(ts.mounts))
	for i, m := range ts.mounts {
		mounts[i] = m.Target
	}
	return toolAnswer{c.key, command.AnswerTool{RequestID: c.id, Run: true, Result: c.arguments, Mounts: mounts}}
}

// start hands a call to its provider, unless it was answered meanwhile. mu is held.
func (ts *Tools) start(c *toolCall, work *toolWork) {
	if c.answered || c.ended {
		return
	}
	ts.handed++
	c.handed, c.counted, c.deadline = true, true, time.Now().Add(c.timeout())
	c.timer = time.AfterFunc(c.timeout(), func() { ts.expire(c) })
	work.again = append(work.again, c)
	if c.kind == api.ProviderExecution {
		ts.signal()
	}
}

// startWaiting hands waiting calls to their providers, now that a call no longer counts as one that a provider has. mu is held.
func (ts *Tools) startWaiting(c *toolCall, work *toolWork) {
	if c.counted {
		c.counted = false
		ts.handed--
	}
	if len(ts.waiting) == 0 {
		return
	}
	ts.waiting = slices.DeleteFunc(ts.waiting, func(w *toolCall) bool { return w.ended || w.answered })
	for ts.handed < maxHanded && len(ts.waiting) > 0 {
		next := ts.waiting[0]
		ts.waiting = ts.waiting[1:]
		ts.start(next, work)
	}
}

// signal wakes whoever waits for calls of an execution. mu is held.
func (ts *Tools) signal() {
	close(ts.changed)
	ts.changed = make(chan struct{})
}

// holdDeadline stops the time of a call until resume is called: its provider asks a person, who may take long.
func (ts *Tools) holdDeadline(callID string) (resume func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	c := ts.calls[callID]
	if c == nil || c.timer == nil {
		return func() {}
	}
	if c.holds++; c.holds == 1 {
		c.timer.Stop()
		c.left = time.Until(c.deadline)
	}
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		if c.holds--; c.holds == 0 && !c.answered && !c.ended {
			c.deadline = time.Now().Add(c.left)
			c.timer.Reset(c.left)
		}
	}
}

// expire ends a call that has taken too long.
func (ts *Tools) expire(c *toolCall) {
	ts.mu.Lock()
	var work toolWork
	if !c.answered && !c.ended {
		work.cancel(c, "timeout")
		work.fail(c, &api.ToolError{Code: codeToolTimeout, Message: fmt.Sprintf("%s did not answer within %v", c.name, c.timeout())})
		ts.signal()
	}
	ts.mu.Unlock()
	ts.carryOut(work)
}

// callClosed handles a call that a kernel no longer waits for. On the session's goroutine.
func (t *translation) callClosed(id, how string) {
	ts := t.s.tools
	if how != record.Answered && t.s.isGone() {
		how = reasonDeleted // the host knows only that the kernel ends
	}
	ts.mu.Lock()
	c := ts.calls[id]
	if c == nil || c.kind == api.ProviderBuiltin && how == record.Answered { // refused, or it runs inside
		ts.mu.Unlock()
		return
	}
	failure := c.failure
	switch {
	case how != record.Answered:
		failure = &api.ToolError{Code: how, Message: "the cell no longer waits for the call"}
	case !c.answered: // by the last server
		failure = &api.ToolError{Code: codeUnknown, Message: "the server was restarted while it passed the answer on; the cell has it"}
	}
	ts.mu.Unlock()
	t.c.add(t.s.tools.end(c, failure, how))
}

// toolEnded handles the end of a built-in tool.
func (t *translation) toolEnded(b record.ToolEnded) {
	ts := t.s.tools
	ts.mu.Lock()
	c := ts.calls[b.CallID]
	ts.mu.Unlock()
	if c == nil || c.kind != api.ProviderBuiltin {
		return
	}
	var failure *api.ToolError
	if !b.OK {
		failure = &api.ToolError{Code: b.Code, Message: transcript.Cut(b.Message, maxToolMessage)}
	}
	t.c.add(t.s.tools.end(c, failure, ""))
}

// end returns the change that ends a call. how says why nobody waits for it, if its provider does not know.
func (ts *Tools) end(c *toolCall, failure *api.ToolError, how string) change {
	ts.mu.Lock()
	var work toolWork
	delete(ts.calls, c.id)
	if !c.answered {
		work.cancel(c, how)
	}
	c.ended = true
	c.stopTimer()
	ts.startWaiting(c, &work)
	if c.kind == api.ProviderExecution {
		ts.signal()
	}
	ts.mu.Unlock()
	ts.carryOut(work)
	end := ts.approvals.withdraw(c.id)
	duration := max(time.Since(c.began).Milliseconds(), 0)
	end.add(change{
		drafts: []draft{{executionID: c.execution, body: api.ToolReturned{
			CallID: c.id, OK: failure == nil, Error: failure, DurationMS: duration,
		}}},
		also: func(tx *store.Tx) error { return tx.EndToolCall(ts.n, c.id, duration, failure) },
	})
	return end
}

// endOf returns the change that ends the remaining calls of an execution, and forgets the tools of its own client.
func (ts *Tools) endOf(r *execution, o outcome) (c change) {
	ts.mu.Lock()
	var left []*toolCall
	for _, call := range ts.calls {
		if call.execution == r.row.ID {
			left = append(left, call)
		}
	}
	if len(r.row.Tools) > 0 {
		ts.providers = slices.DeleteFunc(ts.providers, func(p *provider) bool { return p.execution == r.row.ID })
	}
	ts.mu.Unlock()
	how := codeInterrupted
	switch {
	case o.reason == reasonDeleted:
		how = "deleted"
	case o.status == api.StatusTimeout:
		how = "timeout"
	}
	slices.SortFunc(left, func(a, b *toolCall) int { return a.began.Compare(b.began) })
	for _, call := range left {
		c.add(ts.end(call, &api.ToolError{Code: how, Message: "the cell ended before the call"}, how))
	}
	if r.row.ToolCalls = r.toolCalls.Load(); r.row.ToolCalls > 0 {
		c.also = both(c.also, func(tx *store.Tx) error { return tx.TrimToolCalls(ts.n) })
	}
	return c
}

func noCallPending() error {
	return api.Errorf(api.CodeNoCallPending, "no call with this call_id is waiting for your answer; it has been answered or cancelled")
}

// Answer answers a call that a connected client was asked to carry out. The first answer wins; a later one is
// no_call_pending.
func (ts *Tools) Answer(client ToolClient, r api.ToolResult) error {
	return ts.answer(r, func(p *provider) bool { return p.client != nil && p.client == client })
}

// AnswerPending answers calls of an execution whose client gave it its tools. The error is for the first result that is not
// accepted; the others are accepted all the same.
func (ts *Tools) AnswerPending(executionID string, results []api.ToolResult) error {
	var first error
	for _, r := range results {
		err := ts.answer(r, func(p *provider) bool { return p.execution != "" && p.execution == executionID })
		if first == nil {
			first = err
		}
	}
	return first
}

func (ts *Tools) answer(r api.ToolResult, mine func(*provider) bool) error {
	answer := command.AnswerTool{RequestID: r.CallID, Result: json.RawMessage(r.Result)}
	var failure *api.ToolError
	switch {
	case (r.Result == nil) == (r.Error == nil):
		return api.Invalid("call %.140q: give either result or error", r.CallID)
	case len(r.Result) > api.MaxToolResult:
		return api.Errorf(api.CodePayloadTooLarge, "the result of a call is limited to %d bytes of JSON; this one has %d", api.MaxToolResult, len(r.Result))
	case tooDeep(r.Result):
		return api.Errorf(api.CodePayloadTooLarge, "the result of a call may be nested %d levels deep; pass a text with the JSON instead", maxDepth)
	case r.Error != nil:
		failure = &api.ToolError{Code: r.Error.Code, Message: transcript.Cut(r.Error.Message, maxToolMessage)}
		if failure.Code == "" || len(failure.Code) > 64 {
			failure.Code = codeToolError
		}
		answer.Error = failureOf(failure)
	}
	ts.mu.Lock()
	c := ts.calls[r.CallID]
	if c == nil || c.answered || !c.handed || c.provider == nil || !mine(c.provider) {
		ts.mu.Unlock()
		return noCallPending()
	}
	c.answered, c.failure = true, failure
	c.stopTimer()
	key := c.key
	var work toolWork
	ts.startWaiting(c, &work)
	if c.kind == api.ProviderExecution {
		ts.signal()
	}
	ts.mu.Unlock()
	ts.carryOut(work)
	err := ts.answerCall(ts.ctx, key, answer)
	switch {
	case errors.Is(err, command.ErrNoCallPending), errors.Is(err, command.ErrNoKernel):
		return noCallPending()
	case ts.ctx.Err() != nil:
		return ts.ending()
	case err != nil: // the kernel has not received it, and must not wait forever
		ts.log.Error("answer a tool call", "error", err)
		ts.answerSoon(key, command.AnswerTool{RequestID: r.CallID, Error: &command.ToolFailure{
			Code: codeToolError, Message: "the answer could not be passed on to the cell",
		}})
		return api.Errorf(api.CodeInternal, "the answer could not be passed on to the cell")
	}
	return nil
}

// TellProgress passes on progress that the client carrying out a call reports.
func (ts *Tools) TellProgress(ctx context.Context, client ToolClient, p api.ToolProgress) error {
	ts.mu.Lock()
	c := ts.calls[p.CallID]
	ok := c != nil && !c.answered && c.handed && c.provider != nil && c.provider.client == client
	ts.mu.Unlock()
	if !ok {
		return noCallPending()
	}
	err := command.Tell(ctx, ts.host, c.key, command.ToolProgress{RequestID: c.id, Message: transcript.Cut(p.Message, maxToolMessage)})
	if errors.Is(err, command.ErrNoCallPending) || errors.Is(err, command.ErrNoKernel) {
		return noCallPending()
	}
	return err
}
