package session

import (
	"context"
	"errors"
	"math"

	"talaria/api"
	"talaria/session/transcript"
	"talaria/store"
)

// Executions are the executions of a session as clients read them. It is safe for concurrent use.
type Executions struct {
	sessionID string // as its owner calls it
	journal   *Journal
	tools     *Tools
	redact    *transcript.Redactor
	open      func(id string) *execution // the execution of that id, if it has not ended, or nil
}

// executionOf returns the row of a session as clients see it, without outputs.
func executionOf(sessionID string, r store.Execution) api.Execution {
	return api.Execution{
		ID: r.ID, SessionID: sessionID, ExecutionCount: r.ExecutionCount, Code: r.Code, Status: r.Status,
		Reason: r.Reason, State: r.State, Undone: r.Undone, Text: r.Text, Error: r.Error, Artifacts: r.Artifacts, Generation: r.Generation,
		Usage: r.Usage, ToolCalls: r.ToolCalls, Refundable: r.Status.Final() && !r.Outside, Guard: r.Guard, TruncatedBytes: r.TruncatedBytes, CreatedAt: api.Millis(r.CreatedAt),
		StartedAt: millis(r.StartedAt), FinishedAt: millis(r.FinishedAt),
	}
}

// Get returns the execution with that id and its outputs so far.
func (x *Executions) Get(ctx context.Context, id string) (api.Execution, error) {
	row, err := x.row(ctx, id)
	if err != nil {
		return api.Execution{}, err
	}
	return x.completed(ctx, row)
}

func (x *Executions) row(ctx context.Context, id string) (store.Execution, error) {
	row, err := x.journal.store.Execution(ctx, x.journal.n, id)
	if errors.Is(err, store.ErrNotFound) {
		return row, api.Errorf(api.CodeExecutionNotFound, "this session has no execution %.140q", id)
	}
	return row, err
}

// List lists the session's executions in full, newest first: it passes one after another to take, up to a page
// of them, and returns the cursor of the next page, or "" if there is none. An execution that take has no room for, as
// it reports, begins the next page.
func (x *Executions) List(ctx context.Context, q api.PageQuery, take func(api.Execution) (bool, error)) (next string, err error) {
	before, limit, err := position(q)
	if err != nil {
		return "", err
	}
	for taken := 0; ; taken++ {
		// One by one: the code of a page of executions may not fit into memory.
		rows, err := x.journal.store.Executions(ctx, x.journal.n, before, 1)
		if err != nil {
			return "", x.journal.readError(ctx, err)
		}
		if len(rows) == 0 {
			return "", nil
		}
		if taken == limit {
			return cursor(before), nil
		}
		e, err := x.completed(ctx, rows[0])
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
func (x *Executions) completed(ctx context.Context, row store.Execution) (api.Execution, error) {
	e := executionOf(x.sessionID, row)
	if !row.Status.Final() {
		if r := x.open(row.ID); r != nil {
			e.Text, e.ToolCalls, e.RejectedTools = r.out.text(), r.toolCalls.Load(), r.rejected
			e.PendingToolCalls, _ = x.tools.pending(row.ID)
		}
	}
	return x.withOutputs(ctx, e)
}

// At returns an execution that was queued up to seq as it was at that position of the log. over: it is known to have ended by then.
func (x *Executions) At(ctx context.Context, id string, seq int64, over bool) (api.Execution, error) {
	if over {
		return x.Get(ctx, id)
	}
	row, err := x.row(ctx, id)
	if err != nil {
		return api.Execution{}, err
	}
	e := executionOf(x.sessionID, row)
	unfinished := api.Execution{
		ID: e.ID, SessionID: e.SessionID, Code: e.Code, Status: api.StatusQueued, State: api.VariablesKept, Artifacts: []api.Artifact{},
		Generation: e.Generation, CreatedAt: e.CreatedAt, StartedAt: e.StartedAt,
	}
	begun, ended, err := x.addOutputs(ctx, &unfinished, seq)
	switch {
	case err != nil:
	case ended:
		return x.Get(ctx, id)
	case begun || unfinished.OutputsOmitted:
		unfinished.Status, unfinished.ExecutionCount = api.StatusRunning, e.ExecutionCount
	default:
		unfinished.StartedAt = nil
	}
	return unfinished, err
}

// withOutputs adds the execution's outputs, up to what fits into an answer.
func (x *Executions) withOutputs(ctx context.Context, e api.Execution) (api.Execution, error) {
	begun, _, err := x.addOutputs(ctx, &e, math.MaxInt64)
	if e.StartedAt != nil && !begun { // the log no longer reaches back that far
		e.OutputsOmitted = true
	}
	return e, err
}

// addOutputs folds the execution's events up to seq into its outputs, up to what fits into an answer, and reports whether it had
// begun and ended by then.
func (x *Executions) addOutputs(ctx context.Context, e *api.Execution, seq int64) (begun, ended bool, err error) {
	bare, err := api.Marshal(e)
	if err != nil {
		return false, false, err
	}
	var fold api.Outputs
	err = x.journal.eachEvent(ctx, e.ID, func(event api.Event, size int) bool {
		if event.Seq > seq {
			return false
		}
		switch event.Body.(type) {
		case api.ExecutionStarted:
			begun = true
		case api.ExecutionFinished:
			ended = true
			return false
		}
		e.OutputsOmitted = !fold.AddWithin(event.Body, size+eventCost, api.MaxAnswer-len(bare))
		return !e.OutputsOmitted
	})
	e.Outputs = fold.List()
	return begun, ended, err
}

// Origin returns what was given as Origin of the request for an execution, or nil.
func (x *Executions) Origin(ctx context.Context, executionID string) ([]byte, error) {
	return x.journal.store.Origin(ctx, x.journal.n, executionID)
}
