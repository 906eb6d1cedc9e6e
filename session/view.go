package session

import (
	"context"
	"fmt"

	"talaria/api"
)

// view is the part of the log that a notebook page starts from: up to a position, an execution that had ended and was
// not the last one of its cell comes without its outputs.
type view struct {
	through  int64
	replaced string // ids of those executions, as a JSON list; "" until it is read
}

// View returns a reader of the view of the log from one position to another, and of all events that follow.
func (j *Journal) View(after, through int64) *Reader {
	r := j.Follow(after)
	r.view = &view{through: through}
	return r
}

// nextOfView returns the next events of a view that the reader has not finished.
func (r *Reader) nextOfView(ctx context.Context) ([]entry, error) {
	if r.view.replaced == "" {
		var err error
		if r.view.replaced, err = r.j.replaced(ctx, r.view.through); err != nil {
			return nil, r.j.readError(ctx, err)
		}
	}
	rows, err := r.j.store.ViewEvents(ctx, r.j.n, r.after, r.view.through, r.view.replaced, replayBatch)
	if err != nil {
		return nil, r.j.readError(ctx, err)
	}
	if r.j.FirstSeq() > r.after+1 {
		return nil, r.j.expired()
	}
	if len(rows) == 0 {
		return nil, r.j.readError(ctx, fmt.Errorf("the log has nothing after %d", r.after))
	}
	return entries(rows), nil
}

// replaced lists, as JSON, the executions that had ended at a position of the log, and after which another one of the
// same cell had been queued.
func (j *Journal) replaced(ctx context.Context, seq int64) (string, error) {
	last := map[string]string{}
	var ended []string
	err := j.store.ExecutionsThrough(ctx, j.n, seq, func(id string, over bool) {
		last[api.CellOf(id)] = id
		if over {
			ended = append(ended, id)
		}
	})
	if err != nil {
		return "", fmt.Errorf("read executions: %w", err)
	}
	list := []string{}
	for _, id := range ended {
		if last[api.CellOf(id)] != id {
			list = append(list, id)
		}
	}
	encoded, err := api.Marshal(list)
	return string(encoded), err
}
