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
func (s *Session) View(after, through int64) *Reader {
	r := s.Follow(after)
	r.view = &view{through: through}
	return r
}

// nextOfView returns the next events of a view that the reader has not finished.
func (r *Reader) nextOfView(ctx context.Context) ([]entry, error) {
	if r.view.replaced == "" {
		var err error
		if r.view.replaced, err = r.s.replaced(ctx, r.view.through); err != nil {
			return nil, r.s.readError(ctx, err)
		}
	}
	rows, err := r.s.m.cfg.Store.ViewEvents(ctx, r.s.n, r.after, r.view.through, r.view.replaced, replayBatch)
	if err != nil {
		return nil, r.s.readError(ctx, err)
	}
	if r.s.FirstSeq() > r.after+1 {
		return nil, r.s.expired()
	}
	if len(rows) == 0 {
		return nil, r.s.readError(ctx, fmt.Errorf("the log has nothing after %d", r.after))
	}
	return entries(rows), nil
}

// replaced lists, as JSON, the executions that had ended at a position of the log, and after which another one of the
// same cell had been queued.
func (s *Session) replaced(ctx context.Context, seq int64) (string, error) {
	last := map[string]string{}
	var ended []string
	err := s.m.cfg.Store.ExecutionsThrough(ctx, s.n, seq, func(id string, over bool) {
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
