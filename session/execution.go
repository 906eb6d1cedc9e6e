package session

import (
	"cmp"
	"context"
	"errors"
	"strconv"

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
func (t *translation) ended(r *run, o outcome, artifacts change) change {
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
func (s *Session) ended(r *run, o outcome) change {
	c := s.tools.endOf(r, o)
	c.add(s.approvals.withdraw(r.row.ID))
	now := api.Now().UnixMilli()
	r.row.Status, r.row.Reason, r.row.State, r.row.Usage = o.status, o.reason, o.state, o.usage
	r.row.Text, r.row.TruncatedBytes, r.row.FinishedAt = r.out.text(), r.out.lacking(), &now
	r.row.Error = r.failure
	r.row.Outside = r.row.Outside || o.status != api.StatusCancelled && s.reachesOutside()
	r.final = s.execution(r.row)
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
		if s.runs[row.ID] != nil {
			s.freeQueued(int64(len(row.Code)))
		}
		s.spent = s.spent.Plus(spent)
		s.used(now)
	})
	c.published = then(c.published, func() { // a client that waits for it finds its events in the log, and the session's new state
		s.mu.Lock()
		delete(s.runs, row.ID)
		s.mu.Unlock()
		close(r.done)
	})
	return c
}

// rowBytes returns about what the end of an execution adds to its row.
func rowBytes(r store.Execution) int64 {
	n := int64(len(r.Text))
	if r.Error != nil {
		n += int64(len(r.Error.Evalue))
		for _, line := range r.Error.Traceback {
			n += int64(len(line))
		}
	}
	for _, a := range r.Artifacts {
		n += int64(len(a.Path)) + listedCost/2
	}
	return n
}

// execution returns the row as clients see it, without outputs.
func (s *Session) execution(r store.Execution) api.Execution {
	return api.Execution{
		ID: r.ID, SessionID: s.clientID, ExecutionCount: r.ExecutionCount, Code: r.Code, Status: r.Status,
		Reason: r.Reason, State: r.State, Undone: r.Undone, Text: r.Text, Error: r.Error, Artifacts: r.Artifacts, Generation: r.Generation,
		Usage: r.Usage, ToolCalls: r.ToolCalls, Refundable: r.Status.Final() && !r.Outside, Guard: r.Guard, TruncatedBytes: r.TruncatedBytes, CreatedAt: api.Millis(r.CreatedAt),
		StartedAt: millis(r.StartedAt), FinishedAt: millis(r.FinishedAt),
	}
}

// Execution returns the execution with that id and its outputs so far.
func (s *Session) Execution(ctx context.Context, id string) (api.Execution, error) {
	row, err := s.m.cfg.Store.Execution(ctx, s.n, id)
	if errors.Is(err, store.ErrNotFound) {
		return api.Execution{}, api.Errorf(api.CodeExecutionNotFound, "this session has no execution %.140q", id)
	}
	if err != nil {
		return api.Execution{}, err
	}
	return s.completed(ctx, row)
}

// Executions lists the session's executions in full, newest first: it passes one after another to take, up to a page
// of them, and returns the cursor of the next page, or "" if there is none. An execution that take has no room for, as
// it reports, begins the next page.
func (s *Session) Executions(ctx context.Context, q api.PageQuery, take func(api.Execution) (bool, error)) (next string, err error) {
	before, limit, err := position(q)
	if err != nil {
		return "", err
	}
	for taken := 0; ; taken++ {
		// One by one: the code of a page of executions may not fit into memory.
		rows, err := s.m.cfg.Store.Executions(ctx, s.n, before, 1)
		if err != nil {
			return "", s.journal.readError(ctx, err)
		}
		if len(rows) == 0 {
			return "", nil
		}
		if taken == limit {
			return cursor(before), nil
		}
		e, err := s.completed(ctx, rows[0])
		if err != nil {
			return "", err
		}
		if fits, err := take(e); err != nil || !fits {
			return cursor(before), err
		}
		before = rows[0].N
	}
}

// completed returns the row with its outputs and, while it runs, the text so far.
func (s *Session) completed(ctx context.Context, row store.Execution) (api.Execution, error) {
	e := s.execution(row)
	if !row.Status.Final() {
		s.mu.Lock()
		r := s.runs[row.ID]
		s.mu.Unlock()
		if r != nil {
			e.Text, e.ToolCalls, e.RejectedTools = r.out.text(), r.toolCalls.Load(), r.rejected
			e.PendingToolCalls, _ = s.tools.pending(row.ID)
		}
	}
	return s.withOutputs(ctx, e)
}

// withOutputs folds the execution's events into its outputs, up to what fits into an answer.
func (s *Session) withOutputs(ctx context.Context, e api.Execution) (api.Execution, error) {
	bare, err := api.Marshal(e)
	if err != nil {
		return e, err
	}
	var fold api.Outputs
	begun := false
	err = s.journal.eachEvent(ctx, e.ID, func(event api.Event, size int) bool {
		switch event.Body.(type) {
		case api.ExecutionStarted:
			begun = true
		case api.ExecutionFinished:
			return false
		}
		e.OutputsOmitted = !fold.AddWithin(event.Body, size+eventCost, api.MaxAnswer-len(bare))
		return !e.OutputsOmitted
	})
	e.Outputs = fold.List()
	if e.StartedAt != nil && !begun { // the log no longer reaches back that far
		e.OutputsOmitted = true
	}
	return e, err
}

// page makes a page of a query by number, newest first; the cursor is the number of the page's last item.
func page[T any](q api.PageQuery, list func(before int64, limit int) ([]T, []int64, error)) (api.Page[T], error) {
	before, limit, err := position(q)
	if err != nil {
		return api.Page[T]{}, err
	}
	items, numbers, err := list(before, limit+1)
	if err != nil {
		return api.Page[T]{}, err
	}
	p := api.Page[T]{Items: items}
	if len(items) > limit {
		p.Items = items[:limit]
		p.NextCursor = cursor(numbers[limit-1])
	}
	return p, nil
}

// PageOf makes a page of a list of another package, which list reads: rows numbered below before (0: from the newest),
// newest first and at most limit, and their numbers.
func PageOf[T any](q api.PageQuery, list func(before int64, limit int) ([]T, []int64, error)) (api.Page[T], error) {
	return page(q, list)
}

// position returns the number below which a page begins, 0 for the newest, and the most items it may have.
func position(q api.PageQuery) (before int64, limit int, err error) {
	if q.Cursor != "" {
		before, err = strconv.ParseInt(q.Cursor, 36, 64)
		if err != nil || before <= 0 {
			return 0, 0, invalid("cursor %.40q was not issued by this server; use next_cursor of the previous page", q.Cursor)
		}
	}
	return before, cmp.Or(q.Limit, api.DefaultPage), nil
}

func cursor(number int64) string { return strconv.FormatInt(number, 36) }
