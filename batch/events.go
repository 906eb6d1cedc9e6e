package batch

import (
	"context"
	"iter"

	"talaria/api"
	"talaria/session"
	"talaria/store"
)

// readAhead is how many events are read from the database at a time.
const readAhead = 128

// Events returns a job's events after a position. They end with that of the job's end, or, without follow, at the
// present. A position beyond the job's last event is an error.
func (m *Manager) Events(ctx context.Context, owner, id string, after int64, follow bool) (iter.Seq2[api.BatchEvent, error], error) {
	row, err := m.row(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	if after > row.LastSeq {
		return nil, api.Invalid("after is %d, beyond last_seq %d", after, row.LastSeq)
	}
	return func(yield func(api.BatchEvent, error) bool) {
		for {
			changed := m.changed(row.N) // before the events are read, so that none is missed
			list, err := m.cfg.Store.BatchEvents(ctx, row.N, after, readAhead)
			if err != nil {
				yield(api.BatchEvent{}, err)
				return
			}
			for _, e := range list {
				event := eventOf(row, e)
				after = e.Seq
				if !yield(event, nil) || event.Status.Final() {
					return
				}
			}
			switch {
			case len(list) > 0:
				continue
			case !follow || changed == nil:
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(api.BatchEvent{}, context.Cause(ctx))
				return
			case <-m.ctx.Done():
				yield(api.BatchEvent{}, session.ErrClosing)
				return
			}
		}
	}, nil
}

// changed returns what is closed when a job has new events, or nil if it has ended.
func (m *Manager) changed(n int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[n]; j != nil {
		return j.changed
	}
	return nil
}

func eventOf(row store.Batch, e store.BatchEvent) api.BatchEvent {
	event := api.BatchEvent{Seq: e.Seq, Time: api.Millis(e.At), Type: api.BatchEventJob}
	if e.Item != nil {
		item := itemOf(row.ID, *e.Item)
		event.Type, event.Item = api.BatchEventItem, &item
		return event
	}
	event.Status, event.Reason = api.BatchStatus(e.Status), e.Reason
	return event
}
