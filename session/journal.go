package session

import (
	"context"
	"fmt"
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
	// eventCost is what an event counts towards the size of the log, in addition to its body.
	eventCost = store.EventCost
)

// draft is an event before it has a place in the log.
type draft struct {
	executionID string
	body        api.EventBody
	encoded     []byte // the body as JSON, if it is already known
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

// change is one atomic change of a session: events, and other writes in the same transaction.
type change struct {
	before func(*store.Tx) error // optional; before the events are written
	drafts []draft
	also   func(*store.Tx) error // optional; after them
	// rowBytes is the size that the change adds to the session's executions; it counts towards limits.log_bytes.
	rowBytes int64
	drops    []string // digests of artifacts that the session no longer keeps
	// progress is written last. The journal sets the position of the log's end in it.
	progress store.Progress
	// done runs after the commit and before readers see the events. Changes of one session run it in the order of their
	// commits; those of other sessions do not wait for it. Optional.
	done func()
	// published runs after readers see the events. Optional.
	published func()
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

// Journal is the log of events of one session: every change of the session is committed through it, and readers follow it.
// The store's writer assigns seq; readers see only committed events. It is safe for concurrent use.
type Journal struct {
	n         int64 // the number of the session
	store     *store.Store
	blobs     *blobs
	committed *atomic.Int64 // events, of all sessions
	// retain keeps the session loaded until release is called, and reports false if it is being unloaded.
	retain  func() bool
	release func()
	// limit is limits.log_bytes, or 0 if the log no longer needs to be shortened.
	limit func() int64

	tail int64 // last seq given; only the store's writer touches it, and the next
	next int64 // last seq of the change being written

	published store.Sequence // publishes changes in the order of their commits

	mu      sync.Mutex // guards the fields below
	last    int64      // last seq committed
	written int64      // bytes committed since this program started
	ring    []entry    // the newest events, without gaps, up to last
	held    int        // bytes in ring
	readers map[*Reader]struct{}
	more    chan struct{} // closed and replaced when there is more
	end     error         // set once when no more will come
	kept    kept
}

// kept is how much a session keeps of its log and its artifacts.
type kept struct {
	logID         string
	firstSeq      int64
	logBytes      int64 // of events and executions
	artifactBytes int64 // disk space
}

// entry is an event of the log: a published one, or a row of the database whose body is not read yet.
type entry struct {
	event api.Event
	size  int
	row   store.Event
}

// newJournal returns the log of a session's row, to be read. It can be written once it has retain, release and limit.
func newJournal(r store.Session, blobs *blobs, committed *atomic.Int64) *Journal {
	return &Journal{
		n: r.N, store: blobs.store, blobs: blobs, committed: committed,
		tail: r.LastSeq, last: r.LastSeq, readers: map[*Reader]struct{}{}, more: make(chan struct{}),
		kept: kept{logID: r.LogID, firstSeq: r.FirstSeq, logBytes: r.LogBytes, artifactBytes: r.ArtifactBytes},
	}
}

// FirstSeq returns the position of the oldest event that the log keeps.
func (j *Journal) FirstSeq() int64 { j.mu.Lock(); defer j.mu.Unlock(); return j.kept.firstSeq }

// LastSeq returns the position of the newest event.
func (j *Journal) LastSeq() int64 { j.mu.Lock(); defer j.mu.Unlock(); return j.last }

// ID identifies the log. It changes when the log starts over or lost its tail.
func (j *Journal) ID() string { j.mu.Lock(); defer j.mu.Unlock(); return j.kept.logID }

// figures returns how much the session keeps, and the position of the newest event.
func (j *Journal) figures() (k kept, last int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.kept, j.last
}

// commit writes the change and returns when it is committed and published. Changes of one session take effect in the
// order of their commits. ctx bounds only the wait.
func (j *Journal) commit(ctx context.Context, c change) error {
	hold := j.blobs.artifacts.Hold()
	defer hold.Release()
	rows := make([]row, len(c.drafts))
	p := c.progress
	p.LogBytes = c.rowBytes
	for i := range c.drafts {
		r, err := j.prepare(ctx, &c.drafts[i], hold)
		if err != nil {
			return err
		}
		rows[i] = r
		p.LogBytes += r.Size + eventCost
	}
	var before int64 // the tail; only the store's writer touches it
	return j.write(ctx, store.Write{
		Apply: func(tx *store.Tx) (err error) {
			if c.before != nil {
				if err := c.before(tx); err != nil {
					return err
				}
			}
			before = j.tail
			j.next = j.tail + int64(len(rows))
			if p.ArtifactBytes, err = insert(tx, j.n, j.tail, rows); err != nil {
				return err
			}
			for _, digest := range c.drops {
				freed, err := tx.DropRef(j.n, digest, store.RefPublic)
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
				if err := tx.Advance(j.n, p); err != nil {
					return err
				}
			}
			j.tail = tail
			return nil
		},
		Aborted: func() { j.tail = min(j.tail, before) },
		Committed: func() {
			if c.done != nil {
				c.done()
			}
			j.publish(rows, p.LogBytes, p.ArtifactBytes)
			if c.published != nil {
				c.published()
			}
			j.committed.Add(int64(len(rows)))
		},
	})
}

// write commits a write of the session, which stays loaded until the outcome is known.
func (j *Journal) write(ctx context.Context, w store.Write) error {
	if !j.retain() {
		return ErrClosing
	}
	w.Settled = j.release
	w.Sequence = &j.published
	return j.store.Do(ctx, w)
}

// place returns the first and last position in the log of the change being written. Only a change's also may call it.
func (j *Journal) place() (first, last int64) { return j.tail + 1, j.next }

// prepare encodes a draft, and moves a big body into a blob.
func (j *Journal) prepare(ctx context.Context, d *draft, hold *artifacts.Hold) (row, error) {
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
			r.refs = append(r.refs, ref{b.SHA256, store.RefPublic, b.MediaType, j.blobs.artifacts.Space(b.SHA256)})
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

// insert writes the rows after tail, and returns the disk space of the artifacts that the session did not keep before.
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

// publish shows committed rows to readers, and counts what they add to what is kept. A reader that was too far behind before
// them is cut off.
func (j *Journal) publish(rows []row, logBytes, artifactBytes int64) {
	if len(rows) == 0 && logBytes == 0 && artifactBytes == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept.logBytes += logBytes
	j.kept.artifactBytes += artifactBytes
	if len(rows) == 0 {
		return
	}
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
func (j *Journal) finish(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.end == nil {
		j.end = err
		close(j.more)
		j.more = make(chan struct{})
	}
}
