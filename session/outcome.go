package session

import (
	"context"

	"talaria/api"
	"talaria/store"
)

// outcome is how an execution ended.
type outcome struct {
	status api.ExecutionStatus
	reason string
	state  api.VariablesState
	usage  api.ExecutionUsage
}

// ended returns the change that ends an execution that ran: its last output, its artifacts, which collect made a change
// of, and its end.
func (t *translation) ended(r *execution, o outcome, artifacts change) change {
	var c change
	c.drafts, c.done = r.out.end(t.ctx)
	c.add(artifacts)
	signed := sign(r.row.Code, o.status, o.reason, r.failure)
	r.row.Signature, r.row.Guard = string(signed), t.s.guard.observe(t.ctx, signed)
	c.add(t.s.ended(r, o))
	return c
}

// ended returns the change that ends an execution: execution_finished and the row. Its commit wakes the clients that
// wait for the execution.
func (s *Session) ended(r *execution, o outcome) change {
	c := s.tools.endOf(r, o)
	c.add(s.approvals.withdraw(r.row.ID))
	now := api.Now().UnixMilli()
	r.row.Status, r.row.Reason, r.row.State, r.row.Usage = o.status, o.reason, o.state, o.usage
	r.row.Text, r.row.TruncatedBytes, r.row.FinishedAt = r.out.text(), r.out.lacking(), &now
	r.row.Error = r.failure
	r.row.Outside = r.row.Outside || o.status != api.StatusCancelled && s.reachesOutside()
	r.final = executionOf(s.clientID, r.row)
	c.drafts = append(c.drafts, draft{executionID: r.row.ID, body: api.ExecutionFinished{Execution: r.final}})
	row := r.row
	c.rowBytes = rowBytes(row)
	c.also = both(c.also, func(tx *store.Tx) error {
		row.StartedSeq, row.FinishedSeq = s.journal.place()
		return tx.FinishExecution(row)
	})
	spent := store.Spent{CPUMS: o.usage.CPUMS, ToolCalls: r.row.ToolCalls}
	c.progress.LastActive, c.progress.Spent = &now, c.progress.Spent.Plus(spent)
	c.done = then(c.done, func() {
		s.m.ended.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[row.ID] != nil {
			s.freeQueued(int64(len(row.Code)))
		}
		s.spent = s.spent.Plus(spent)
		s.used(now)
	})
	c.published = then(c.published, func() { // a client that waits for it finds its events in the log, and the session's new state
		s.mu.Lock()
		delete(s.open, row.ID)
		s.mu.Unlock()
		close(r.done)
	})
	return c
}

// rowBytes returns what the end of an execution adds to its row, as [store.Tx.ForgetExecutions] counts it.
func rowBytes(r store.Execution) int64 {
	n := len(r.Text)
	if r.Error != nil {
		n += encodedLen(r.Error)
	}
	return int64(n + encodedLen(r.Artifacts))
}

// encodedLen returns the length of a value's JSON. What cannot be encoded cannot be written either.
func encodedLen(v any) int {
	b, _ := api.Marshal(v)
	return len(b)
}

// RunSilently runs code that is not counted and not shown, and returns how it ended. ctx bounds the wait.
func (s *Session) RunSilently(ctx context.Context, code string) (api.Execution, error) {
	silent := true
	id, err := s.Submit(context.WithoutCancel(ctx), api.ExecutionRequest{Code: &code, Silent: &silent}, false)
	if err != nil {
		return api.Execution{}, err
	}
	for _, err := range s.journal.ExecutionEvents(ctx, id, 0) {
		if err != nil {
			return api.Execution{}, err
		}
	}
	return s.executions.Get(ctx, id)
}
