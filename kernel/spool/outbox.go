// Package spool numbers the records of a kernel, joins adjacent text, and keeps everything until a consumer
// acknowledges it, in files that outlive the host.
package spool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"talaria/kernel/record"
)

const (
	firstRetry = 100 * time.Millisecond // after the spool refused records, and
	lastRetry  = 10 * time.Second       // the longest pause
	tellAgain  = time.Minute            // time without trouble after which the operator is told of new trouble

	// briefly is how long readers do not get a start, a result or the end of a tool call, so that a small cell reaches
	// them as a whole. Any record that follows ends the delay. On a busy machine, a small cell takes some milliseconds.
	briefly = 5 * time.Millisecond

	// apart is how long after the text before it text is handed out at once: at that rate there is nothing to gain by
	// joining. Text that returns to the start of its line is joined all the same, since it overwrites itself.
	apart = 10 * time.Millisecond
)

// Outbox numbers the records of one key and keeps them in a spool until they are acknowledged. Adjacent text is joined
// on the way in: what comes apart from other text is handed out at once, otherwise it is collected to the end of the window,
// and the parts that it overwrote itself meanwhile are left out. Every other record ends the collecting, which keeps
// the order. It is safe for concurrent use.
//
// Readers get a record once it is in the spool, or briefly later. Callers of Add and Text, which never wait, call Flush soon after,
// holding no lock.
type Outbox struct {
	limit  int64         // unacknowledged bytes at which the readers of a kernel wait
	window time.Duration // for joining; 0 joins nothing
	log    *slog.Logger

	flushing sync.Mutex // held while records are written, to keep their order; taken before mu

	room *sync.Cond // on mu: there may be room, or room may no longer be needed

	mu        sync.Mutex
	spool     *spool // nil until open
	pending   []byte // encoded records that are not in the spool yet; of record.TakeBuffer
	last      uint64 // the newest number assigned
	written   uint64 // the newest number in the spool
	told      uint64 // the newest number that readers get
	acked     uint64
	given     string // the last execution that started
	lone      bool   // pending holds only records that readers need not be told of at once
	soon      *time.Timer
	soonSet   bool // soon will tell the readers
	printing  bool // the newest record is text, and more may follow soon
	unlimited bool
	ended     bool
	changed   chan struct{} // closed at the next record; nil while nobody waits

	pause     time.Duration // until a spool that refused records is tried again; 0 while it accepts them
	retry     *time.Timer
	refusedAt time.Time // time of the last refusal

	joined struct { // text that has no number yet
		execution, name string
		since           time.Time
		text            []byte // of record.TakeBuffer
		atStart         bool   // text begins in the first column
	}
	atStart bool      // the newest text ended a line, or returned to its start
	quiet   time.Time // the end of the window of the last piece of text
	newest  time.Time // when the last text came
	timer   *time.Timer
}

// NewOutbox makes an outbox; Open comes before the first record. limit is the number of unacknowledged bytes at which
// WaitRoom waits; window is the time in which adjacent text is joined, 0 or less to join nothing.
func NewOutbox(limit int64, window time.Duration, log *slog.Logger) *Outbox {
	q := &Outbox{limit: limit, window: window, log: log}
	q.room = sync.NewCond(&q.mu)
	return q
}

// Open makes the spool in that folder, or in memory if it is "". It comes before the first record.
func (q *Outbox) Open(dir string) error {
	s, err := createSpool(dir, min(maxSegment, max(q.limit/16, 4<<10)))
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spool = s
	return nil
}

// Add adds a record.
func (q *Outbox) Add(execution string, body record.Body) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	q.release()
	b, err := record.AppendBody(q.buffer(), q.last+1, time.Now(), execution, body)
	first := len(q.pending) == 0
	q.append(b, err)
	q.printing = false
	if _, ok := body.(record.Started); ok {
		q.given = execution
		q.quiet = time.Time{} // the first text of an execution is not joined
	}
	q.lone = (first || q.lone) && q.window > 0 && mayWait(body)
}

// mayWait reports whether readers need not be told of a record at once: soon another one follows, or nobody waits for it.
func mayWait(body record.Body) bool {
	switch b := body.(type) {
	case record.Started, record.Result:
		return true
	case record.AskClosed: // whoever asked has the answer
		return b.How == record.Answered && (b.Kind == record.AskTool || b.Kind == record.AskTools)
	}
	return false
}

// Text adds valid UTF-8 of a stream; it keeps no reference to b.
func (q *Outbox) Text(execution, name string, b []byte) {
	if len(b) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	now := time.Now()
	atOnce := now.Sub(q.newest) >= apart && bytes.IndexByte(b, '\r') < 0
	q.newest = now
	j := &q.joined
	if j.execution != execution || j.name != name {
		q.release()
	}
	for len(b) > 0 {
		if len(j.text) == 0 && (len(b) >= record.MaxText || atOnce || !now.Before(q.quiet)) {
			n := cut(b, record.MaxText)
			q.piece(now, execution, name, b[:n], q.atStart)
			q.atStart = startsNext(b[:n])
			q.quiet = now.Add(q.window)
			b = b[n:]
			continue
		}
		n := cut(b, record.MaxText-len(j.text))
		if len(j.text) == 0 {
			j.execution, j.name, j.since, j.atStart = execution, name, now, q.atStart
			if j.text == nil {
				j.text = record.TakeBuffer()
			}
			q.wake(q.quiet.Sub(now))
		}
		j.text = append(j.text, b[:n]...)
		q.atStart = startsNext(j.text)
		b = b[n:]
		if len(b) > 0 || len(j.text) == record.MaxText {
			q.squeeze()
		}
	}
	if atOnce {
		q.release()
	}
}

// startsNext reports whether the output after text begins in the first column.
func startsNext(text []byte) bool {
	last := text[len(text)-1]
	return last == '\n' || last == '\r'
}

// squeeze makes room in the joined text: it drops what was overwritten and, if that is not much, releases all of it.
// The caller holds mu.
func (q *Outbox) squeeze() {
	j := &q.joined
	if bytes.IndexByte(j.text, '\r') >= 0 {
		rest := appendVisible(record.TakeBuffer(), j.text, j.atStart)
		record.RecycleBuffer(j.text)
		j.text = rest
	}
	if len(j.text) > record.MaxText/2 {
		q.release()
	}
}

// piece gives text a number, without the parts that it overwrites itself. The caller holds mu.
func (q *Outbox) piece(at time.Time, execution, name string, text []byte, atStart bool) {
	if bytes.IndexByte(text, '\r') >= 0 {
		visible := appendVisible(record.TakeBuffer(), text, atStart)
		defer record.RecycleBuffer(visible)
		text = visible
	}
	q.append(record.AppendStream(q.buffer(), q.last+1, at, execution, name, text))
	q.printing, q.lone = true, false
}

// cut returns the length of the longest prefix of valid UTF-8 that has at most size bytes and ends with a whole rune.
func cut(b []byte, size int) int {
	if len(b) <= size {
		return len(b)
	}
	for size > 0 && !utf8.RuneStart(b[size]) {
		size--
	}
	return size
}

// End stops accepting records and lifts the limit. Queued records can still be read.
func (q *Outbox) End() {
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

// Lift removes the limit: few records are still to come.
func (q *Outbox) Lift() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unlimited = true
	q.room.Broadcast()
}

// WaitRoom waits until a reader may read on. It returns false when records are no longer accepted.
func (q *Outbox) WaitRoom() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for flushed := false; q.full(); {
		if !flushed { // only stored records may be acknowledged
			q.mu.Unlock()
			q.Flush()
			q.mu.Lock()
			flushed = true
			continue
		}
		q.room.Wait()
	}
	return !q.ended
}

// full reports whether the readers of the kernel have to wait. The caller holds mu.
func (q *Outbox) full() bool {
	if q.unlimited || q.ended || q.spool == nil {
		return false
	}
	return q.pause > 0 || q.spool.size.Load()+int64(len(q.pending)) >= q.limit
}

// Flush writes added records to the spool and tells the readers. Records that the spool refuses are kept and tried
// again: when something is acknowledged, when something is added, and after growing pauses.
func (q *Outbox) Flush() {
	q.flushing.Lock()
	defer q.flushing.Unlock()
	q.mu.Lock()
	s, b, last, given, lone := q.spool, q.pending, q.last, q.given, q.lone
	q.pending, q.lone = nil, false
	q.mu.Unlock()
	if len(b) == 0 || s == nil {
		return
	}
	err := s.append(b, last, given)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.refused(b, err)
		return
	}
	record.RecycleBuffer(b)
	if q.pause > 0 {
		q.pause = 0
		q.room.Broadcast()
	}
	q.written = last
	if lone && !q.ended {
		q.notifySoon()
		return
	}
	q.notify()
}

// notifySoon tells the readers a little later. The caller holds mu.
func (q *Outbox) notifySoon() {
	if q.soonSet { // the first of several sets the time
		return
	}
	q.soonSet = true
	if q.soon != nil {
		q.soon.Reset(briefly)
		return
	}
	q.soon = time.AfterFunc(briefly, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.soonSet { // else somebody told them first
			q.notify()
		}
	})
}

// refused keeps records that the spool refused. The caller holds mu.
func (q *Outbox) refused(b []byte, err error) {
	if errors.Is(err, fs.ErrClosed) {
		return // nobody wants them
	}
	q.pending = append(b, q.pending...)
	now := time.Now()
	if now.Sub(q.refusedAt) > tellAgain {
		q.log.Error("the spool cannot be written, and the kernel is paused until it can; free some space on its disk", "error", err)
	}
	q.refusedAt = now
	q.pause = min(max(2*q.pause, firstRetry), lastRetry)
	if q.retry == nil {
		q.retry = time.AfterFunc(q.pause, q.Flush)
		return
	}
	q.retry.Reset(q.pause)
}

// Next waits for records after that number and returns those that are ready. With large, it may leave a large record
// in the spool. At the end it returns io.EOF.
func (q *Outbox) Next(ctx context.Context, after uint64, large bool) (Batch, error) {
	for {
		s, ended, changed := q.ready(after)
		switch {
		case s != nil:
			batch, err := s.readBatch(after, large)
			if err != nil || batch.Len() > 0 {
				return batch, err
			}
			continue // they were acknowledged in between
		case ended:
			return Batch{last: after}, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{last: after}, context.Cause(ctx)
		}
	}
}

// ready returns the spool if it has records after that number, else the signal of the next record.
func (q *Outbox) ready(after uint64) (s *spool, ended bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case max(after, q.acked) < q.told:
		return q.spool, false, nil
	case q.ended && len(q.pending) == 0 && q.written == q.last:
		return nil, true, nil
	}
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return nil, false, q.changed
}

// Acknowledge drops the records up to kseq. It returns true if none can follow and none is left.
func (q *Outbox) Acknowledge(kseq uint64) bool {
	q.mu.Lock()
	s, given, printing := q.spool, q.given, q.printing
	q.acked = max(q.acked, min(kseq, q.written))
	if kseq >= q.last && q.ended {
		q.pending, q.acked, q.written, q.told = nil, q.last, q.last, q.last
	}
	acked := q.acked
	q.mu.Unlock()
	if s != nil {
		if err := s.acknowledge(acked, given, !printing); err != nil {
			q.log.Error("remove acknowledged records from the spool", "error", err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pause > 0 {
		q.retry.Reset(0)
	}
	if !q.full() {
		q.room.Broadcast()
	}
	return q.ended && q.acked == q.last
}

// Discard removes the remaining records from the machine.
func (q *Outbox) Discard() error {
	q.mu.Lock()
	s := q.spool
	if q.retry != nil {
		q.retry.Stop()
	}
	q.notify()
	q.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.discard()
}

// buffer returns the buffer that records are encoded into. The caller holds mu.
func (q *Outbox) buffer() []byte {
	if q.pending == nil {
		q.pending = record.TakeBuffer()
	}
	return q.pending
}

// append makes b, which now has one more encoded record, the pending data. The caller holds mu.
func (q *Outbox) append(b []byte, err error) {
	if err != nil { // no frame is that large
		q.log.Error("a record was skipped", "error", err)
		return
	}
	q.last++
	q.pending = b
}

// release gives the joined text a number. The caller holds mu.
func (q *Outbox) release() {
	j := &q.joined
	if len(j.text) == 0 {
		return
	}
	q.piece(j.since, j.execution, j.name, j.text, j.atStart)
	record.RecycleBuffer(j.text)
	j.text = nil
	q.quiet = time.Now().Add(q.window)
}

// notify tells the readers of what is in the spool. The caller holds mu.
func (q *Outbox) notify() {
	q.told = q.written
	if q.soonSet {
		q.soonSet = false
		q.soon.Stop()
	}
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// wake arms the one timer for the end of the window. The caller holds mu.
func (q *Outbox) wake(in time.Duration) {
	if q.timer == nil {
		q.timer = time.AfterFunc(in, q.windowEnded)
		return
	}
	q.timer.Reset(in)
}

func (q *Outbox) windowEnded() {
	defer q.Flush()
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

// Newest returns the newest number assigned.
func (q *Outbox) Newest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// Tail returns the end of the text on that stream, at most size bytes of it.
func (q *Outbox) Tail(name string, size int) string {
	q.Flush()
	var text []byte
	for after := uint64(0); ; {
		s, _, _ := q.ready(after)
		if s == nil {
			break
		}
		encoded, last, err := s.read(after)
		records, decodeErr := record.Decode(record.Key{}, encoded)
		if err != nil || decodeErr != nil || len(records) == 0 {
			break
		}
		after = last
		for _, r := range records {
			if s, ok := r.Body.(record.Stream); ok && s.Name == name {
				text = append(text, s.Text...)
				if over := len(text) - size; over > 0 {
					text = text[over:]
				}
			}
		}
	}
	return string(record.ToValid(text))
}
