package session

import (
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

// ended makes the change that ends an execution: its last output, its artifacts, execution_finished, and the row. Once
// it is committed whoever waits is woken.
func (s *Session) ended(r *run, o outcome) change {
	var c change
	if r.row.StartedAt != nil {
		c.drafts, c.done = r.out.end()
		c.add(s.scan(r))
	}
	now := api.Now().UnixMilli()
	r.row.Status, r.row.Reason, r.row.State, r.row.Usage = o.status, o.reason, o.state, o.usage
	r.row.Text, r.row.TruncatedBytes, r.row.FinishedAt = r.out.text(), r.out.lacking(), &now
	r.row.Error = r.failure
	r.final = s.execution(r.row)
	c.drafts = append(c.drafts, draft{executionID: r.row.ID, body: api.ExecutionFinished{Execution: r.final}})
	row := r.row
	c.also = both(c.also, func(tx *store.Tx) error {
		row.StartedSeq, row.FinishedSeq = s.journal.place()
		return tx.FinishExecution(row)
	})
	c.progress.LastActive = &now
	c.done = then(c.done, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.runs, row.ID)
		s.used(now)
		close(r.done)
	})
	return c
}

// execution is the row as clients see it, without outputs.
func (s *Session) execution(r store.Execution) api.Execution {
	return api.Execution{
		ID: r.ID, SessionID: s.clientID, ExecutionCount: r.ExecutionCount, Code: r.Code, Status: r.Status,
		Reason: r.Reason, State: r.State, Text: r.Text, Error: r.Error, Artifacts: r.Artifacts, Generation: r.Generation,
		Usage: r.Usage, TruncatedBytes: r.TruncatedBytes, CreatedAt: api.Millis(r.CreatedAt),
		StartedAt: millis(r.StartedAt), FinishedAt: millis(r.FinishedAt),
	}
}

// Execution is the execution of that id with its outputs, so far or in full.
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

// Executions lists the session's executions in full, newest first.
func (s *Session) Executions(ctx context.Context, q api.PageQuery) (api.Page[api.Execution], error) {
	return page(q, func(before int64, limit int) ([]api.Execution, []int64, error) {
		rows, err := s.m.cfg.Store.Executions(ctx, s.n, before, limit)
		if err != nil {
			return nil, nil, err
		}
		var items []api.Execution
		var numbers []int64
		for _, row := range rows {
			e, err := s.completed(ctx, row)
			if err != nil {
				return nil, nil, err
			}
			items, numbers = append(items, e), append(numbers, row.N)
		}
		return items, numbers, nil
	})
}

// completed is the row with its outputs and, while it runs, the text so far.
func (s *Session) completed(ctx context.Context, row store.Execution) (api.Execution, error) {
	e := s.execution(row)
	if !row.Status.Final() {
		s.mu.Lock()
		r := s.runs[row.ID]
		s.mu.Unlock()
		if r != nil {
			e.Text = r.out.text()
		}
	}
	return s.withOutputs(ctx, e)
}

// withOutputs folds the execution's events into its outputs.
func (s *Session) withOutputs(ctx context.Context, e api.Execution) (api.Execution, error) {
	var fold api.Outputs
	err := s.eachEvent(ctx, e.ID, func(event api.Event) bool {
		fold.Add(event.Body)
		return !last(event)
	})
	e.Outputs = fold.List()
	return e, err
}

// eachEvent calls do for each event of the execution that the log holds, decoded, until it returns false.
func (s *Session) eachEvent(ctx context.Context, executionID string, do func(api.Event) bool) error {
	after := int64(0)
	for {
		rows, err := s.m.cfg.Store.ExecutionEvents(ctx, s.n, executionID, after, replayBatch)
		if err != nil {
			return s.readError(ctx, err)
		}
		batch, err := s.m.entries(rows)
		if err != nil {
			return err
		}
		for _, e := range batch {
			event, err := e.event.Decoded()
			if err != nil {
				return err
			}
			if !do(event) {
				return nil
			}
			after = event.Seq
		}
		if len(rows) < replayBatch {
			return nil
		}
	}
}

// page makes a page from a query by number, newest first; the cursor is the number of the page's last item.
func page[T any](q api.PageQuery, list func(before int64, limit int) ([]T, []int64, error)) (api.Page[T], error) {
	before := int64(0)
	if q.Cursor != "" {
		n, err := strconv.ParseInt(q.Cursor, 36, 64)
		if err != nil || n <= 0 {
			return api.Page[T]{}, invalid("cursor %.40q is not one that this server gave", q.Cursor)
		}
		before = n
	}
	limit := q.Limit
	if limit == 0 {
		limit = api.DefaultPage
	}
	items, numbers, err := list(before, limit+1)
	if err != nil {
		return api.Page[T]{}, err
	}
	p := api.Page[T]{Items: items}
	if len(items) > limit {
		p.Items = items[:limit]
		p.NextCursor = strconv.FormatInt(numbers[limit-1], 36)
	}
	return p, nil
}
