package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

const (
	idleBuffer  = 1 << 10  // buffer for reading while a kernel says little
	maxUnsent   = 2048     // frames that wait for a runner that does not read, and
	maxBacklog  = 32 << 20 // their bytes, if more than one frame waits
	frameEnding = '\n'
)

var (
	ErrTooLong    = fmt.Errorf("frame too long; the limit is %d MiB", maxFrame>>20)
	ErrLost       = errors.New("a large frame was lost")
	errNotReading = errors.New("the kernel does not read its control stream")
)

// Reader splits a control stream into lines. It skips a line longer than maxFrame without keeping it.
type Reader struct {
	r      io.Reader
	before func() // called before each read, which may block forever, and before a large line is let go

	idle   [idleBuffer]byte
	busy   *[record.MaxText]byte // used while idle is too small
	unread []byte                // of the bytes read
	filled bool                  // the latest read filled its buffer
	long   LongLine              // the beginning of a line that started in an earlier read
	skip   error                 // why the line being read is skipped
}

// NewReader reads from r. It calls before ahead of each read, which may block forever, and ahead of giving up a large
// line; long is where large lines are collected.
func NewReader(r io.Reader, before func(), long LongLine) *Reader {
	return &Reader{r: r, before: before, long: long}
}

// Next returns the next line without its newline, valid until Done is called. For each skipped line it returns, once,
// an error that says why. A last line without a newline does not count.
func (fr *Reader) Next() ([]byte, error) {
	for {
		part, rest, whole := bytes.Cut(fr.unread, []byte{frameEnding})
		fr.unread = rest
		if whole && fr.long.size == 0 && fr.skip == nil {
			return part, nil
		}
		fr.collect(part)
		if whole {
			return fr.collected()
		}
		if err := fr.fill(); err != nil {
			return nil, err
		}
	}
}

// collect takes a part of a line that arrived in several reads.
func (fr *Reader) collect(part []byte) {
	if fr.skip != nil || len(part) == 0 {
		return
	}
	if fr.long.size+len(part) > maxFrame {
		fr.skip = ErrTooLong
	} else if err := fr.long.add(part); err != nil {
		fr.skip = fmt.Errorf("%w: %w", ErrLost, err)
	}
	if fr.skip != nil {
		fr.long.drop()
	}
}

// collected returns the line that was passed to collect.
func (fr *Reader) collected() ([]byte, error) {
	if err := fr.skip; err != nil {
		fr.skip = nil
		return nil, err
	}
	line, err := fr.long.whole()
	if err != nil {
		fr.Done()
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return line, nil
}

// Done lets go of the line that Next returned.
func (fr *Reader) Done() {
	if fr.long.held > 0 {
		fr.before()
	}
	fr.long.drop()
}

// fill reads more once everything has been handed out.
func (fr *Reader) fill() error {
	fr.before()
	buf := fr.idle[:]
	switch {
	case !fr.filled:
		fr.giveBack()
	case fr.busy == nil:
		fr.busy = record.TakeBlock()
		fallthrough
	default:
		buf = fr.busy[:]
	}
	n, err := fr.r.Read(buf)
	fr.unread, fr.filled = buf[:n], n == len(buf)
	if n > 0 {
		return nil
	}
	return err
}

// Close gives the buffers back. Lines are no longer valid after it.
func (fr *Reader) Close() {
	fr.long.drop()
	fr.giveBack()
}

// giveBack gives the large buffer back.
func (fr *Reader) giveBack() {
	if fr.busy != nil {
		record.RecycleBlock(fr.busy)
		fr.busy = nil
	}
}

// Writer sends frames from a goroutine of its own, so that a runner that does not read holds nobody up. The goroutine
// exists only while there is something to send.
type Writer struct {
	w       io.Writer
	senders sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	unsent  [][]byte
	size    int // of unsent
	writing int // bytes of unsent that a write is sending
	sending bool
	closed  bool
}

// NewWriter writes to w. Close it, and then wait for its goroutine with Wait.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// The frames to the runner.
type (
	Execute struct {
		Type       string `json:"type"`
		ID         string `json:"id"`
		Code       string `json:"code"`
		Count      int64  `json:"count"`
		Silent     bool   `json:"silent"`
		AllowStdin bool   `json:"allow_stdin"`
		// Expressions are evaluated after the code, by name.
		Expressions map[string]string `json:"expressions,omitempty"`
	}
	Interrupt struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	queryOut struct {
		Type      string `json:"type"`
		RequestID string `json:"request_id"`
		Code      string `json:"code"`
		Cursor    int64  `json:"cursor"`
		Detail    int64  `json:"detail"`
	}
	tableOut struct {
		Type      string          `json:"type"`
		RequestID string          `json:"request_id"`
		Table     string          `json:"table"`
		Filter    string          `json:"filter"`
		Sort      []api.TableSort `json:"sort"`
		Offset    int64           `json:"offset"`
		Count     int64           `json:"count"`
	}
)

// Encode returns a frame as it is written: between two newlines, so that half a line before it spoils nothing.
func Encode(frame any) ([]byte, error) {
	object, err := jsonv2.Marshal(frame, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	line := append(make([]byte, 0, len(object)+2), frameEnding)
	return append(append(line, object...), frameEnding), nil
}

// Send encodes a frame and queues it as Push does.
func (fw *Writer) Send(frame any) error {
	line, err := Encode(frame)
	if err != nil {
		return err
	}
	return fw.Push(line)
}

// Push queues an encoded frame; it never blocks. It fails with errNotReading if too many are queued. After the end of
// the stream a frame is discarded.
func (fw *Writer) Push(line []byte) error {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	if fw.closed {
		return nil
	}
	if n := len(fw.unsent); n >= maxUnsent || n > 0 && fw.size+len(line) > maxBacklog {
		return errNotReading
	}
	fw.unsent = append(fw.unsent, line)
	fw.size += len(line)
	if !fw.sending {
		fw.sending = true
		fw.senders.Go(fw.sendAll)
	}
	return nil
}

// sendAll sends until nothing is queued. A write that hangs ends when the stream is closed.
func (fw *Writer) sendAll() {
	for {
		fw.mu.Lock()
		lines := fw.unsent
		fw.unsent, fw.size, fw.writing = nil, 0, fw.size
		if len(lines) == 0 {
			fw.sending = false
			fw.mu.Unlock()
			return
		}
		fw.mu.Unlock()
		for _, line := range lines {
			if _, err := fw.w.Write(line); err != nil {
				fw.Close()
				break
			}
		}
	}
}

// Backlog returns how many bytes the runner has not taken yet.
func (fw *Writer) Backlog() int {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	return fw.size + fw.writing
}

// Close drops what is queued. Wait returns when no write is under way; close the stream first.
func (fw *Writer) Close() {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	fw.closed = true
	fw.unsent = nil
}

// Wait returns when no write is under way.
func (fw *Writer) Wait() { fw.senders.Wait() }

// ForQuery returns the frame that sends a query to the runner.
func ForQuery(q command.Query, id string) any {
	if t := q.Table; q.Kind == command.QueryTable && t != nil {
		return tableOut{string(q.Kind), id, t.Table, t.Filter, t.Sort, t.Offset, t.Count}
	}
	return queryOut{string(q.Kind), id, q.Code, q.Cursor, q.Detail}
}

// AsideOut is the frame that has the interpreter wait as a copy does. Until is a time of CLOCK_MONOTONIC, in seconds.
type AsideOut struct {
	Type      string  `json:"type"`
	RequestID string  `json:"request_id"`
	Until     float64 `json:"until"`
}

// SaveOut is the frame that has variables saved.
type SaveOut struct {
	Type      string  `json:"type"`
	RequestID string  `json:"request_id"`
	Path      string  `json:"path"`
	Seconds   float64 `json:"seconds"`
	MaxBytes  int64   `json:"max_bytes"`
}

// LoadOut is the frame that has variables loaded.
type LoadOut struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	Path      string `json:"path"`
	Digest    string `json:"digest"`
}
