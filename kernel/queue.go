package kernel

import (
	"context"
	"io"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxPiece     = 64 << 10 // bytes of text in one record
	maxBatch     = 512      // records that one call of next returns
	maxBatchSize = 4 << 20  // bytes that one call of next returns, if more than one record
	recordCost   = 160      // bytes that a record takes beside what it carries
)

// queue holds the records of one key from when they happen until they are acknowledged. Adjacent text is joined on
// the way in: it is handed out at once after a quiet window, else collected to the end of the window. Everything
// else ends the collecting, so that the order stays. It is safe for concurrent use.
type queue struct {
	key    Key
	limit  int64         // unacknowledged bytes at which readers wait
	window time.Duration // for joining; 0 joins nothing

	room *sync.Cond // on mu: there may be room, or no need for any

	mu        sync.Mutex
	records   []queued
	last      uint64 // the newest number given
	size      int64  // of records
	unlimited bool
	ended     bool
	changed   chan struct{} // closed at the next record; nil while nobody waits

	joined struct { // text that has no number yet
		execution, name string
		since           time.Time
		text            []byte
	}
	quiet time.Time // the end of the window of the last piece of text
	timer *time.Timer
}

type queued struct {
	Record
	size int64
}

func newQueue(key Key, limit int64, window time.Duration) *queue {
	q := &queue{key: key, limit: limit, window: window}
	q.room = sync.NewCond(&q.mu)
	return q
}

// add takes a record that carries about size bytes.
func (q *queue) add(execution string, body RecordBody, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	q.release()
	q.append(execution, time.Now(), body, size)
}

// text takes valid UTF-8 of a stream; it keeps no reference to b.
func (q *queue) text(execution, name string, b []byte) {
	if len(b) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	now := time.Now()
	if q.joined.execution != execution || q.joined.name != name {
		q.release()
	}
	for len(b) > 0 {
		if len(q.joined.text) == 0 && (len(b) >= maxPiece || !now.Before(q.quiet)) {
			n := cut(b, maxPiece)
			q.append(execution, now, Stream{Name: name, Text: string(b[:n])}, n)
			q.quiet = now.Add(q.window)
			b = b[n:]
			continue
		}
		n := cut(b, maxPiece-len(q.joined.text))
		if len(q.joined.text) == 0 {
			q.joined.execution, q.joined.name, q.joined.since = execution, name, now
			q.wake(q.quiet.Sub(now))
		}
		q.joined.text = append(q.joined.text, b[:n]...)
		b = b[n:]
		if len(b) > 0 || len(q.joined.text) == maxPiece {
			q.release()
		}
	}
}

// cut is the length of the longest prefix of valid UTF-8 that has at most size bytes and ends with a whole rune.
func cut(b []byte, size int) int {
	if len(b) <= size {
		return len(b)
	}
	for size > 0 && !utf8.RuneStart(b[size]) {
		size--
	}
	return size
}

// end takes no further records and lifts the limit. What is queued can still be had.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.release()
	q.ended = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.notify()
	q.room.Broadcast()
}

// lift removes the limit: the records that are still to come are few.
func (q *queue) lift() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unlimited = true
	q.room.Broadcast()
}

// waitRoom waits until a reader may read on. It is false when nothing is taken any more.
func (q *queue) waitRoom() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size >= q.limit && !q.unlimited && !q.ended {
		q.room.Wait()
	}
	return !q.ended
}

// next waits for records after that number and returns those that are ready. At the end it is io.EOF.
func (q *queue) next(ctx context.Context, after uint64) ([]Record, error) {
	for {
		batch, ended, changed := q.ready(after)
		switch {
		case len(batch) > 0:
			return batch, nil
		case ended:
			return nil, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (q *queue) ready(after uint64) (batch []Record, ended bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from := len(q.records)
	if n := len(q.records); n > 0 && after < q.last {
		from = 0
		if first := q.records[0].KSeq; after >= first {
			from = int(after - first + 1)
		}
	}
	var size int64
	to := from
	for to < len(q.records) && to-from < maxBatch {
		if size += q.records[to].size; size > maxBatchSize && to > from {
			break
		}
		to++
	}
	if to == from {
		if q.ended {
			return nil, true, nil
		}
		if q.changed == nil {
			q.changed = make(chan struct{})
		}
		return nil, false, q.changed
	}
	batch = make([]Record, to-from)
	for i := range batch {
		batch[i] = q.records[from+i].Record
	}
	return batch, false, nil
}

// acknowledge drops the records up to kseq. It is true when none can follow and none is left.
func (q *queue) acknowledge(kseq uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.records) && q.records[n].KSeq <= kseq {
		q.size -= q.records[n].size
		n++
	}
	clear(q.records[:n])
	q.records = q.records[n:]
	if len(q.records) == 0 {
		q.records = nil
	}
	if q.size < q.limit {
		q.room.Broadcast()
	}
	return q.ended && len(q.records) == 0
}

// release gives the joined text a number. The caller holds mu.
func (q *queue) release() {
	n := len(q.joined.text)
	if n == 0 {
		return
	}
	q.append(q.joined.execution, q.joined.since, Stream{Name: q.joined.name, Text: string(q.joined.text)}, n)
	q.joined.text = q.joined.text[:0]
	q.quiet = time.Now().Add(q.window)
}

// append gives a record its number and tells the readers. The caller holds mu.
func (q *queue) append(execution string, at time.Time, body RecordBody, size int) {
	q.last++
	r := queued{size: int64(size) + recordCost}
	r.Record = Record{Key: q.key, KSeq: q.last, Time: at, ExecutionID: execution, Body: body}
	q.records = append(q.records, r)
	q.size += r.size
	q.notify()
}

func (q *queue) notify() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// wake arms the one timer for the end of the window. The caller holds mu.
func (q *queue) wake(in time.Duration) {
	if q.timer == nil {
		q.timer = time.AfterFunc(in, q.windowEnded)
		return
	}
	q.timer.Reset(in)
}

func (q *queue) windowEnded() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.joined.text) == 0 || q.ended {
		return
	}
	if left := time.Until(q.quiet); left > 0 {
		q.wake(left)
		return
	}
	q.release()
}

// tail is the end of the text on that stream, at most size bytes of it.
func (q *queue) tail(name string, size int) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var text []byte
	for _, r := range q.records {
		if s, ok := r.Body.(Stream); ok && s.Name == name {
			text = append(text, s.Text...)
			if over := len(text) - size; over > 0 {
				text = text[over:]
			}
		}
	}
	return string(toValid(text))
}
