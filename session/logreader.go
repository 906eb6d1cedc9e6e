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
	j      *Journal
	after  int64
	read   atomic.Int64 // bytes of the journal after this reader, once live
	live   bool         // guarded by Journal.mu: it has reached the end of the log
	lagged chan struct{}
	once   sync.Once
	view   *view // nil: the whole log
}

// Follow makes a reader of the events after a position, which must lie within the log.
func (j *Journal) Follow(after int64) *Reader {
	return &Reader{j: j, after: after, lagged: make(chan struct{})}
}

// Lagged is closed when the reader has been live and has fallen more than 8 MiB behind.
func (r *Reader) Lagged() <-chan struct{} { return r.lagged }

func (r *Reader) lag() { r.once.Do(func() { close(r.lagged) }) }

// Events returns the log after a position: history, then live, in order and without gaps, until ctx ends. The last pair
// may hold an error: [ErrLagging], [ErrDeleted], [ErrClosing], or that of ctx.
func (j *Journal) Events(ctx context.Context, after int64) iter.Seq2[api.Event, error] {
	return j.Follow(after).Events(ctx)
}

// Events continues the sequence of [Journal.Events] at the reader's position.
func (r *Reader) Events(ctx context.Context) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		j := r.j
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
				event, err := r.j.load(e)
				if err != nil {
					err = r.j.readError(ctx, err)
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
	j := r.j
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
	rows, err := j.store.Events(ctx, j.n, r.after, replayBatch)
	if err != nil {
		return nil, nil, r.j.readError(ctx, err)
	}
	batch := entries(rows)
	if len(batch) > 0 && batch[0].seq() > r.after+1 {
		return nil, nil, r.j.expired()
	}
	if len(batch) == 0 { // although there was more: it was deleted with the session
		return nil, nil, r.j.readError(ctx, fmt.Errorf("the log has nothing after %d", r.after))
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

// reachLive notes that only this batch is between the reader and the end of the log. The caller holds Journal.mu.
func (r *Reader) reachLive(batch []entry) {
	if r.live {
		return
	}
	r.live = true
	left := 0
	for _, e := range batch {
		left += e.size
	}
	r.read.Store(r.j.written - int64(left))
}

// readError returns err, or the reason why the log cannot be read any further.
func (j *Journal) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) { // a body that was removed with the beginning of the log
		return j.expired()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.end != nil {
		return j.end
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

// load returns the event with its body.
func (j *Journal) load(e entry) (api.Event, error) {
	if e.event.Body != nil {
		return e.event, nil
	}
	if e.row.Digest != "" {
		body, err := j.blobs.read(e.row.Digest, e.row.Size)
		if err != nil {
			return api.Event{}, fmt.Errorf("read the body of event %d: %w", e.row.Seq, err)
		}
		e.row.Body = body
	}
	return joined(e.row), nil
}

// ExecutionEvents returns the events of one execution after a position, history and then live; it ends after
// execution_finished. Its errors are the ones of [Journal.Events].
func (j *Journal) ExecutionEvents(ctx context.Context, executionID string, after int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		live := j.Follow(max(after, j.LastSeq()))
		for {
			rows, err := j.store.ExecutionEvents(ctx, j.n, executionID, after, replayBatch)
			if err != nil {
				yield(api.Event{}, j.readError(ctx, err))
				return
			}
			for _, e := range entries(rows) {
				event, err := j.load(e)
				if err != nil {
					err = j.readError(ctx, err)
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
		if j.hasEnded(ctx, executionID, after) {
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

// eachEvent calls do for each event of the execution that the log holds, decoded and with the size of its JSON, until
// do returns false.
func (j *Journal) eachEvent(ctx context.Context, executionID string, do func(e api.Event, size int) bool) error {
	after := int64(0)
	for {
		rows, err := j.store.ExecutionEvents(ctx, j.n, executionID, after, replayBatch)
		if err != nil {
			return j.readError(ctx, err)
		}
		for _, e := range entries(rows) {
			raw, err := j.load(e)
			if err != nil {
				return j.readError(ctx, err)
			}
			event, err := raw.Decoded()
			if err != nil {
				return err
			}
			if !do(event, e.size) {
				return nil
			}
			after = event.Seq
		}
		if len(rows) < replayBatch {
			return nil
		}
	}
}

// hasEnded reports whether the execution's last event lies at or before after.
func (j *Journal) hasEnded(ctx context.Context, executionID string, after int64) bool {
	row, err := j.store.Execution(ctx, j.n, executionID)
	if err != nil || !row.Status.Final() {
		return false
	}
	rows, err := j.store.ExecutionEvents(ctx, j.n, executionID, after, replayBatch)
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
