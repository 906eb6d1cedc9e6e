package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	readBuffer  = 32 << 10
	keptBuffer  = 1 << 20  // a larger buffer is given up after its frame
	maxUnsent   = 256      // frames that wait for a runner that does not read, and
	maxBacklog  = 32 << 20 // bytes of them, if more than one
	frameEnding = '\n'
)

var (
	errFrameTooLong = errors.New("frame too long")
	errNotReading   = errors.New("the kernel does not read its control stream")
)

// frameReader cuts a control stream into lines. A line past maxFrame is passed over without being kept.
type frameReader struct {
	r    *bufio.Reader
	long []byte // a line that did not fit the buffer of r
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, readBuffer)}
}

// next is the next line without its end, valid until the next call, or errFrameTooLong once for each such line. A
// line without an end is none.
func (fr *frameReader) next() ([]byte, error) {
	if cap(fr.long) > keptBuffer {
		fr.long = nil
	}
	fr.long = fr.long[:0]
	for {
		part, err := fr.r.ReadSlice(frameEnding)
		switch {
		case err == nil && len(fr.long) == 0:
			return part[:len(part)-1], nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(fr.long)+len(part) > maxFrame:
			if err != nil {
				err = fr.skip()
			}
			if err != nil {
				return nil, err
			}
			return nil, errFrameTooLong
		}
		fr.long = append(fr.long, part...)
		if err == nil {
			return fr.long[:len(fr.long)-1], nil
		}
	}
}

func (fr *frameReader) skip() error {
	fr.long = nil
	for {
		if _, err := fr.r.ReadSlice(frameEnding); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// frameWriter sends frames from a goroutine of its own, so that a runner that does not read holds up nobody.
type frameWriter struct {
	w io.Writer

	mu     sync.Mutex
	unsent [][]byte
	size   int // of unsent
	closed bool
	wake   chan struct{} // has room for one
}

func newFrameWriter(w io.Writer) *frameWriter {
	return &frameWriter{w: w, wake: make(chan struct{}, 1)}
}

// The frames to the runner.
type (
	executeOut struct {
		Type       string `json:"type"`
		ID         string `json:"id"`
		Code       string `json:"code"`
		Count      int64  `json:"count"`
		Silent     bool   `json:"silent"`
		AllowStdin bool   `json:"allow_stdin"`
	}
	interruptOut struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	inputOut struct {
		Type      string `json:"type"`
		RequestID string `json:"request_id"`
		Value     string `json:"value"`
	}
	inputRefusedOut struct {
		Type      string `json:"type"`
		RequestID string `json:"request_id"`
	}
)

// encodeFrame is a frame as it is written: between two newlines, so that half a line before it spoils nothing.
func encodeFrame(frame any) ([]byte, error) {
	object, err := jsonv2.Marshal(frame, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	line := append(make([]byte, 0, len(object)+2), frameEnding)
	return append(append(line, object...), frameEnding), nil
}

func (fw *frameWriter) send(frame any) error {
	line, err := encodeFrame(frame)
	if err != nil {
		return err
	}
	return fw.push(line)
}

// push queues an encoded frame; it never blocks. It fails with errNotReading when too many are queued.
func (fw *frameWriter) push(line []byte) error {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	if n := len(fw.unsent); n >= maxUnsent || n > 0 && fw.size+len(line) > maxBacklog {
		return errNotReading
	}
	fw.unsent = append(fw.unsent, line)
	fw.size += len(line)
	fw.rouse()
	return nil
}

// run sends until close is called or a write fails. A write that hangs ends when the stream is closed.
func (fw *frameWriter) run() {
	for range fw.wake {
		fw.mu.Lock()
		lines, closed := fw.unsent, fw.closed
		fw.unsent, fw.size = nil, 0
		fw.mu.Unlock()
		if closed {
			return
		}
		for _, line := range lines {
			if _, err := fw.w.Write(line); err != nil {
				return
			}
		}
	}
}

func (fw *frameWriter) close() {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	fw.closed = true
	fw.unsent = nil
	fw.rouse()
}

func (fw *frameWriter) rouse() {
	select {
	case fw.wake <- struct{}{}:
	default:
	}
}
