package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sync"
	"sync/atomic"

	"talaria/api"
	"talaria/store"
)

// Reader follows one session's log from a position: history, then live. It keeps a position, not a queue. It has one
// user at a time.
type Reader struct {
	s      *Session
	after  int64
	read   atomic.Int64 // bytes of the journal after this reader, once live
	live   bool         // guarded by journal.mu: it has reached the end of the log
	lagged chan struct{}
	once   sync.Once
	view   *view // nil: the whole log
}

// Follow makes a reader of the events after a position, which must lie within the log.
func (s *Session) Follow(after int64) *Reader {
	return &Reader{s: s, after: after, lagged: make(chan struct{})}
}

// Lagged is closed when the reader has been live and has fallen more than 8 MiB behind.
func (r *Reader) Lagged() <-chan struct{} { return r.lagged }

func (r *Reader) lag() { r.once.Do(func() { close(r.lagged) }) }

// Events returns the log after a position: history, then live, in order and without gaps, until ctx ends. The last pair
// may hold an error: [ErrLagging], [ErrDeleted], [ErrClosing], or that of ctx.
func (s *Session) Events(ctx context.Context, after int64) iter.Seq2[api.Event, error] {
	return s.Follow(after).Events(ctx)
}

// Events continues the sequence of [Session.Events] at the reader's position.
func (r *Reader) Events(ctx context.Context) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		j := r.s.journal
		j.mu.Lock()
		j.readers[r] = struct{}{}
		j.mu.Unlock()
		defer func() {
			j.mu.Lock()
			delete(j.readers, r)
			j.mu.Unlock()
		}()
		for {
			batch, wait, err := r.next(ctx)
			if err != nil {
				yield(api.Event{}, err)
				return
			}
			for _, e := range batch {
				select {
				case <-r.lagged:
					yield(api.Event{}, ErrLagging)
					return
				default:
				}
				event, err := r.s.m.loadEvent(e)
				if err != nil {
					err = r.s.readError(ctx, err)
				}
				if !yield(event, err) || err != nil {
					return
				}
				r.after = event.Seq
				r.read.Add(int64(e.size))
			}
			if wait == nil {
				continue
			}
			select {
			case <-wait:
			case <-r.lagged:
				yield(api.Event{}, ErrLagging)
				return
			case <-ctx.Done():
				yield(api.Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// next returns what follows, from the ring or the database; with nothing to return it returns what to wait for.
func (r *Reader) next(ctx context.Context) ([]entry, <-chan struct{}, error) {
	if r.view != nil && r.after < r.view.through {
		batch, err := r.nextOfView(ctx)
		return batch, nil, err
	}
	j := r.s.journal
	j.mu.Lock()
	if r.after >= j.last {
		more, end := j.more, j.end
		r.reachLive(nil)
		j.mu.Unlock()
		return nil, more, end
	}
	if len(j.ring) > 0 && j.ring[0].event.Seq <= r.after+1 {
		batch := j.ring[r.after+1-j.ring[0].event.Seq:]
		batch = batch[:len(batch):len(batch)]
		r.reachLive(batch)
		j.mu.Unlock()
		return batch, nil, nil
	}
	j.mu.Unlock()
	rows, err := r.s.m.cfg.Store.Events(ctx, r.s.n, r.after, replayBatch)
	if err != nil {
		return nil, nil, r.s.readError(ctx, err)
	}
	batch := entries(rows)
	if len(batch) > 0 && batch[0].seq() > r.after+1 {
		return nil, nil, r.s.expired()
	}
	if len(batch) == 0 { // although there was more: it was deleted with the session
		return nil, nil, r.s.readError(ctx, fmt.Errorf("the log has nothing behind %d", r.after))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for batch[len(batch)-1].seq() > j.last { // committed, but not published yet
		batch = batch[:len(batch)-1]
	}
	if batch[len(batch)-1].seq() == j.last {
		r.reachLive(batch)
	}
	return batch, nil, nil
}

// reachLive notes that only this batch is between the reader and the end of the log. The caller holds journal.mu.
func (r *Reader) reachLive(batch []entry) {
	if r.live {
		return
	}
	r.live = true
	left := 0
	for _, e := range batch {
		left += e.size
	}
	r.read.Store(r.s.journal.written - int64(left))
}

// readError returns err, or the reason why the log cannot be read any further.
func (s *Session) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) { // a body that was removed with the beginning of the log
		return s.expired()
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if s.journal.end != nil {
		return s.journal.end
	}
	return fmt.Errorf("read events: %w", err)
}

// entries returns rows of the database as entries. Bodies that are blobs are read one by one when needed, since a
// batch of them may be far more than fits into memory.
func entries(rows []store.Event) []entry {
	list := make([]entry, len(rows))
	for i, row := range rows {
		list[i] = entry{size: int(row.Size), row: row}
	}
	return list
}

func (e entry) seq() int64 { return max(e.event.Seq, e.row.Seq) }

// loadEvent returns the event with its body.
func (m *Manager) loadEvent(e entry) (api.Event, error) {
	if e.event.Body != nil {
		return e.event, nil
	}
	if e.row.Digest != "" {
		body, err := m.blob(e.row.Digest, e.row.Size)
		if err != nil {
			return api.Event{}, fmt.Errorf("read the body of event %d: %w", e.row.Seq, err)
		}
		e.row.Body = body
	}
	return joined(e.row), nil
}

// ExecutionEvents returns the events of one execution after a position, history and then live; it ends after
// execution_finished. Its errors are the ones of [Session.Events].
func (s *Session) ExecutionEvents(ctx context.Context, executionID string, after int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		live := s.Follow(max(after, s.journal.lastSeq()))
		for {
			rows, err := s.m.cfg.Store.ExecutionEvents(ctx, s.n, executionID, after, replayBatch)
			if err != nil {
				yield(api.Event{}, s.readError(ctx, err))
				return
			}
			for _, e := range entries(rows) {
				event, err := s.m.loadEvent(e)
				if err != nil {
					err = s.readError(ctx, err)
				}
				if !yield(event, err) || err != nil || last(event) {
					return
				}
				after = event.Seq
			}
			if len(rows) < replayBatch {
				break
			}
		}
		if s.hasEnded(ctx, executionID, after) {
			return
		}
		for event, err := range live.Events(ctx) {
			if err == nil && (event.ExecutionID != executionID || event.Seq <= after) {
				continue
			}
			if !yield(event, err) || err != nil || last(event) {
				return
			}
		}
	}
}

// hasEnded reports whether the execution's last event lies at or before after.
func (s *Session) hasEnded(ctx context.Context, executionID string, after int64) bool {
	row, err := s.m.cfg.Store.Execution(ctx, s.n, executionID)
	if err != nil || !row.Status.Final() {
		return false
	}
	rows, err := s.m.cfg.Store.ExecutionEvents(ctx, s.n, executionID, after, replayBatch)
	if err != nil {
		return false
	}
	for _, r := range rows { // it ended between the two looks
		if r.Type == "execution_finished" {
			return false
		}
	}
	return true
}

func last(e api.Event) bool { return e.Body.EventType() == "execution_finished" }
