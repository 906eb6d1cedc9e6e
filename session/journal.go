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
	"talaria/artifacts"
	"talaria/store"
)

const (
	// inlineBody is the largest body of an event that the database holds itself.
	inlineBody = 64 << 10
	// ringBytes is how much of the newest log is kept in memory while somebody reads.
	ringBytes = 2 << 20
	// maxLag is how far a live reader may fall behind.
	maxLag = 8 << 20
	// replayBatch is how many events one query reads.
	replayBatch = 128
	// eventCost is what an event counts for in the log beside its body.
	eventCost = store.EventCost
)

// The ends of a log that is being read.
var (
	ErrLagging = errors.New("the reader is too far behind; resume with after")
	ErrDeleted = api.Errorf(api.CodeSessionNotFound, "the session was deleted")
	ErrClosing = api.Errorf(api.CodeShuttingDown, "the server is shutting down; resume with after")
)

// draft is an event before it has a place in the log.
type draft struct {
	executionID string
	body        api.EventBody
	encoded     []byte // the body as JSON, where that is known already
	refs        []ref  // blobs that the event's text names
}

// encode makes the body's JSON, once.
func (d *draft) encode() error {
	if d.encoded != nil {
		return nil
	}
	_, encoded, err := api.EncodeBody(d.body)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", d.body.EventType(), err)
	}
	d.encoded = encoded
	return nil
}

// change is what happens to a session at once: events, and what else is written with them.
type change struct {
	before func(*store.Tx) error // optional; before the events are written
	drafts []draft
	also   func(*store.Tx) error // optional; after them
	// rowBytes is what the change adds to the session's executions, which counts for the log too.
	rowBytes int64
	drops    []string // digests of artifacts that the session keeps no longer
	// progress is written last. The place of the log's end in it is the journal's to set.
	progress store.Progress
	// done runs after the commit and before readers see the events. Changes of one session run it in the order of their
	// commits; those of other sessions do not wait for it. Optional.
	done func()
}

// row is a draft on its way into the database.
type row struct {
	store.Event
	artifact *store.Artifact
	refs     []ref
}

// ref is a reference to a blob. bytes is the disk space of a public one.
type ref struct {
	digest, kind, mediaType string
	bytes                   int64
}

// journal is the log of one session. The store's writer gives seq; readers see what is committed.
type journal struct {
	tail int64 // last seq given; only the store's writer touches it, and the next
	next int64 // last seq of the change that is being written

	published store.Sequence // publishes changes in the order of their commits

	mu      sync.Mutex // guards what is below
	last    int64      // last seq committed
	written int64      // bytes committed since this program started
	ring    []entry    // the newest events, without gaps, up to last
	held    int        // bytes in ring
	readers map[*Reader]struct{}
	more    chan struct{} // closed and replaced when there is more
	end     error         // set once when no more will come
}

// entry is an event of the log: as it is published, or a row of the database whose body is still to be read.
type entry struct {
	event api.Event
	size  int
	row   store.Event
}

func newJournal(last int64) *journal {
	return &journal{tail: last, last: last, readers: map[*Reader]struct{}{}, more: make(chan struct{})}
}

// commit writes the change and returns when it is committed and published. Changes of one session take effect in the
// order of their commits. ctx bounds the waiting only.
func (s *Session) commit(ctx context.Context, c change) error {
	hold := s.m.cfg.Artifacts.Hold()
	defer hold.Release()
	rows := make([]row, len(c.drafts))
	p := c.progress
	p.LogBytes = c.rowBytes
	for i := range c.drafts {
		r, err := s.prepare(ctx, &c.drafts[i], hold)
		if err != nil {
			return err
		}
		rows[i] = r
		p.LogBytes += r.Size + eventCost
	}
	j := s.journal
	var before int64 // the tail; only the store's writer touches it
	return s.m.cfg.Store.Do(ctx, store.Write{
		Apply: func(tx *store.Tx) (err error) {
			if c.before != nil {
				if err := c.before(tx); err != nil {
					return err
				}
			}
			before = j.tail
			j.next = j.tail + int64(len(rows))
			if p.ArtifactBytes, err = insert(tx, s.n, j.tail, rows); err != nil {
				return err
			}
			for _, digest := range c.drops {
				freed, err := tx.DropRef(s.n, digest, store.RefPublic)
				if err != nil {
					return fmt.Errorf("drop reference: %w", err)
				}
				p.ArtifactBytes -= freed
			}
			if c.also != nil {
				if err := c.also(tx); err != nil {
					return err
				}
			}
			tail := j.next
			if len(rows) > 0 {
				p.LastSeq = &tail
			}
			if p != (store.Progress{}) {
				if err := tx.Advance(s.n, p); err != nil {
					return err
				}
			}
			j.tail = tail
			return nil
		},
		Aborted:  func() { j.tail = min(j.tail, before) },
		Sequence: &j.published,
		Committed: func() {
			if p.LogBytes != 0 || p.ArtifactBytes != 0 {
				s.keeps(p.LogBytes, p.ArtifactBytes)
			}
			if c.done != nil {
				c.done()
			}
			j.publish(rows)
			s.m.events.Add(int64(len(rows)))
		},
	})
}

// place is where the events of the change that is being written begin and end in the log. It is for a change's also.
func (j *journal) place() (first, last int64) { return j.tail + 1, j.next }

// prepare encodes a draft, and moves a big body into a blob.
func (s *Session) prepare(ctx context.Context, d *draft, hold *artifacts.Hold) (row, error) {
	if err := d.encode(); err != nil {
		return row{}, err
	}
	body := d.encoded
	r := row{Event: store.Event{
		Time: api.Now().UnixMilli(), Type: d.body.EventType(), ExecutionID: d.executionID, Body: body, Size: int64(len(body)),
	}, refs: d.refs}
	if b, ok := d.body.(api.ArtifactEvent); ok {
		r.artifact = &store.Artifact{
			ExecutionID: d.executionID, Path: b.Path, Change: b.Change, Size: b.Size, MediaType: b.MediaType, SHA256: b.SHA256,
		}
		if b.SHA256 != "" {
			r.refs = append(r.refs, ref{b.SHA256, store.RefPublic, b.MediaType, s.m.cfg.Artifacts.Space(b.SHA256)})
		}
	}
	if r.Size <= inlineBody {
		return r, nil
	}
	blob, err := hold.PutBytes(context.WithoutCancel(ctx), body)
	if err != nil {
		return row{}, fmt.Errorf("store the body of an event: %w", err)
	}
	r.Digest = blob.SHA256
	r.refs = append(r.refs, ref{digest: blob.SHA256, kind: store.RefEvent})
	return r, nil
}

// insert writes the rows behind tail, and returns the disk space of the artifacts that the session did not keep before.
func insert(tx *store.Tx, session, tail int64, rows []row) (kept int64, err error) {
	for i := range rows {
		r := &rows[i]
		r.Seq = tail + int64(i) + 1
		inDatabase := r.Event
		if r.Digest != "" {
			inDatabase.Body = nil
		}
		if err := tx.InsertEvent(session, inDatabase); err != nil {
			return kept, fmt.Errorf("insert event: %w", err)
		}
		if r.artifact != nil {
			r.artifact.Seq, r.artifact.Time = r.Seq, r.Time
			if err := tx.InsertArtifact(session, *r.artifact); err != nil {
				return kept, fmt.Errorf("insert artifact: %w", err)
			}
		}
		for _, ref := range r.refs {
			isNew, err := tx.InsertRef(session, store.Ref{
				Digest: ref.digest, Kind: ref.kind, MediaType: ref.mediaType, Bytes: ref.bytes, Seq: r.Seq,
			})
			if err != nil {
				return kept, fmt.Errorf("insert reference: %w", err)
			}
			if isNew {
				kept += ref.bytes
			}
		}
	}
	return kept, nil
}

func joined(e store.Event) api.Event {
	return api.JoinEvent(e.Seq, api.Millis(e.Time), e.Type, e.ExecutionID, e.Body)
}

// publish shows committed rows to readers. A reader that was too far behind before them is cut off.
func (j *journal) publish(rows []row) {
	if len(rows) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for r := range j.readers {
		if r.live && j.written-r.read.Load() > maxLag {
			r.lag()
		}
	}
	for i := range rows {
		r := &rows[i]
		j.last = r.Seq
		j.written += r.Size
		if len(j.readers) > 0 {
			j.ring = append(j.ring, entry{event: joined(r.Event), size: int(r.Size)})
			j.held += int(r.Size)
		}
	}
	if len(j.readers) == 0 {
		j.ring, j.held = nil, 0
	}
	for j.held > ringBytes && len(j.ring) > 1 {
		j.held -= j.ring[0].size
		j.ring = j.ring[1:]
	}
	close(j.more)
	j.more = make(chan struct{})
}

// finish ends the log for its readers, once they have read it to its end.
func (j *journal) finish(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.end == nil {
		j.end = err
		close(j.more)
		j.more = make(chan struct{})
	}
}

func (j *journal) lastSeq() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Reader follows one session's log from a position: history, then live. It keeps a position, not a queue. It has one
// user at a time.
type Reader struct {
	s      *Session
	after  int64
	read   atomic.Int64 // bytes of the journal behind this reader, once live
	live   bool         // guarded by journal.mu: it has come to the end of the log
	lagged chan struct{}
	once   sync.Once
	view   *view // nil: the whole log
}

// Follow makes a reader of the events after a position, which must lie within the log.
func (s *Session) Follow(after int64) *Reader {
	return &Reader{s: s, after: after, lagged: make(chan struct{})}
}

// Lagged is closed when the reader had been live and has fallen more than 8 MiB behind.
func (r *Reader) Lagged() <-chan struct{} { return r.lagged }

func (r *Reader) lag() { r.once.Do(func() { close(r.lagged) }) }

// Events is the log after a position: history, then live, in order and without gaps, until ctx ends. The last pair
// may hold an error: [ErrLagging], [ErrDeleted], [ErrClosing], or that of ctx.
func (s *Session) Events(ctx context.Context, after int64) iter.Seq2[api.Event, error] {
	return s.Follow(after).Events(ctx)
}

// Events is the sequence that the reader stands in; see [Session.Events].
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
	if len(batch) == 0 { // though there was more: it was taken away with the session
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

// readError is err, or why there is nothing to read.
func (s *Session) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) { // a body that went with the beginning of the log
		return s.expired()
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if s.journal.end != nil {
		return s.journal.end
	}
	return fmt.Errorf("read events: %w", err)
}

// entries are rows of the database. Bodies that are blobs are read one by one when they are needed, since a batch of
// them may be far more than fits into memory.
func entries(rows []store.Event) []entry {
	list := make([]entry, len(rows))
	for i, row := range rows {
		list[i] = entry{size: int(row.Size), row: row}
	}
	return list
}

func (e entry) seq() int64 { return max(e.event.Seq, e.row.Seq) }

// loadEvent is the event with its body.
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

// ExecutionEvents is the events of one execution after a position, history and then live; it ends after
// execution_finished. Its errors are those of [Session.Events].
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
