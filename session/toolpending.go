package session

import (
	"context"
	"slices"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/session/toolspec"
	"talaria/store"
)

// provideFor registers the tools that came with an execution's request. The execution lists the rejected ones.
func (ts *Tools) provideFor(r *execution) {
	if len(r.row.Tools) == 0 {
		return
	}
	p := &provider{kind: api.ProviderExecution, execution: r.row.ID, tools: map[string]*toolspec.Tool{}}
	for _, t := range r.row.Tools {
		one, err := toolspec.NewForClient(t)
		if err != nil {
			r.rejected = append(r.rejected, api.RejectedTool{Name: t.Name, Reason: err.Error()})
			continue
		}
		p.tools[t.Name] = one
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for name := range p.tools {
		ts.know(name)
	}
	ts.providers = append(ts.providers, p)
}

// pending lists the calls that wait for the client of an execution, in the order in which they were made, and returns a
// channel that is closed when that changes.
func (ts *Tools) pending(execution string) ([]api.PendingToolCall, <-chan struct{}) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var open []*toolCall
	for _, c := range ts.calls {
		if c.kind == api.ProviderExecution && c.execution == execution && c.handed && !c.answered {
			open = append(open, c)
		}
	}
	slices.SortFunc(open, func(a, b *toolCall) int { return a.began.Compare(b.began) })
	var list []api.PendingToolCall
	for _, c := range open {
		list = append(list, api.PendingToolCall{CallID: c.id, Tool: c.name, Arguments: api.Raw(c.arguments)})
	}
	return list, ts.changed
}

// WaitForCalls is Wait that also returns when the execution waits for the client that gave it its tools.
func (s *Session) WaitForCalls(ctx context.Context, id string) (api.Execution, error) {
	r := s.openExecution(id)
	if r == nil || len(r.row.Tools) == 0 {
		return s.Wait(ctx, id)
	}
	for {
		calls, changed := s.tools.pending(id)
		var pause <-chan time.Time
		if len(calls) > 0 {
			pause = time.After(pendingPause)
			changed = nil
		}
		select {
		case <-r.done:
			return s.Wait(ctx, id)
		case <-s.deleted:
			return s.Wait(ctx, id)
		case <-ctx.Done():
			return s.Wait(ctx, id)
		case <-changed:
		case <-pause:
			if calls, _ := s.tools.pending(id); len(calls) > 0 {
				return s.executions.Get(context.WithoutCancel(ctx), id)
			}
		}
	}
}

// Calls returns a page of the audit of tool calls, newest first.
func (ts *Tools) Calls(ctx context.Context, q api.PageQuery) (api.Page[api.ToolCallRecord], error) {
	return PageOf(q, func(before int64, limit int) ([]api.ToolCallRecord, []int64, error) {
		rows, err := ts.journal.store.ToolCalls(ctx, ts.n, before, limit)
		items, numbers := make([]api.ToolCallRecord, len(rows)), make([]int64, len(rows))
		for i, r := range rows {
			status := "open"
			switch {
			case r.Error != nil:
				status = "error"
			case r.DurationMS != nil:
				status = "ok"
			}
			numbers[i], items[i] = r.N, api.ToolCallRecord{
				CallID: r.CallID, ExecutionID: r.Execution, Tool: r.Tool, Provider: r.Provider, Arguments: r.Arguments, Status: status,
				Error: r.Error, CreatedAt: api.Millis(r.CreatedAt), DurationMS: r.DurationMS,
			}
		}
		return items, numbers, err
	})
}

// recover takes over the calls of a kernel that an earlier server left open: calls whose answer the kernel has end with its next
// records, calls that may be carried out again wait for their client, and the others have lost their provider. The
// executions have been queued again before.
func (ts *Tools) recover(ctx context.Context, key record.Key, asks []command.OpenAsk) error {
	rows, err := ts.journal.store.OpenToolCalls(ctx, ts.n)
	if err != nil {
		return err
	}
	if current := ts.running(); current != nil {
		made, err := ts.journal.store.CountToolCalls(ctx, ts.n, current.row.ID)
		if err != nil {
			return err
		}
		current.toolCalls.Store(made)
	}
	var work toolWork
	ts.mu.Lock()
	for _, row := range rows {
		ts.recoverCall(key, row, slices.Contains(asks, command.OpenAsk{Kind: record.AskTool, ID: row.CallID}), &work)
	}
	ts.mu.Unlock()
	ts.carryOut(work)
	return nil
}

// recoverCall takes over one call. asked reports that the kernel waits for its answer. mu is held.
func (ts *Tools) recoverCall(key record.Key, row store.ToolCall, asked bool, work *toolWork) {
	c := &toolCall{
		key: key, id: row.CallID, execution: row.Execution, name: row.Tool, kind: row.Provider, arguments: []byte(row.Payload),
		began: time.UnixMilli(row.CreatedAt), deadline: time.UnixMilli(row.Deadline),
		tool: &toolspec.Tool{Tool: api.Tool{Name: row.Tool, Idempotent: row.Idempotent, TimeoutS: float64(row.Deadline-row.CreatedAt) / 1000}},
	}
	ts.calls[c.id] = c
	if !asked {
		return
	}
	c.provider = ts.providerAgain(c, row)
	switch {
	case row.AwaitsApproval && (c.provider != nil || c.kind == api.ProviderBuiltin):
		c.awaits = true // recoverApprovals takes its question over
		return
	case c.kind == api.ProviderBuiltin: // it is not running: it would have answered
		c.answered = true
		work.answers = append(work.answers, ts.inside(c))
		return
	case c.provider == nil:
		work.fail(c, goneFailure(c.name))
		return
	}
	ts.handed++
	c.handed, c.counted = true, true
	c.timer = time.AfterFunc(time.Until(c.deadline), func() { ts.expire(c) })
	if c.provider.lasting {
		work.again = append(work.again, c)
	}
}

// providerAgain returns the provider that may carry out a call of the last server, or nil. mu is held.
func (ts *Tools) providerAgain(c *toolCall, row store.ToolCall) *provider {
	switch {
	case c.kind == api.ProviderExecution:
		i := slices.IndexFunc(ts.providers, func(p *provider) bool { return p.execution == c.execution })
		if i >= 0 {
			return ts.providers[i]
		}
	case row.ClientID != "" && row.Idempotent:
		return ts.expected(row.ClientID)
	}
	return nil
}

// expected returns a provider for a client that may come back now that the server has. mu is held.
func (ts *Tools) expected(clientID string) *provider {
	for _, p := range ts.providers {
		if p.clientID == clientID {
			return p
		}
	}
	p := &provider{kind: api.ProviderClient, clientID: clientID, tools: map[string]*toolspec.Tool{}}
	ts.forgetLater(p)
	ts.providers = append(ts.providers, p)
	return p
}
