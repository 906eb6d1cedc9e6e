package spool

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// buffers are of maxRead bytes each. A burst reads so many that it would spend a fifth of the host's time on new ones.
var buffers = sync.Pool{New: func() any { return new(make([]byte, maxRead)) }}

// reuse is the size in bytes above which a read uses a buffer again: Go clears a new one.
const reuse = 32 << 10

// roomFor returns size bytes to read into. If the batch will be closed, they may be in one of buffers, which is returned too.
func roomFor(size int64, closed bool) (b []byte, buffer *[]byte) {
	if !closed || size <= reuse || size > maxRead {
		return make([]byte, size), nil
	}
	buffer = buffers.Get().(*[]byte)
	return (*buffer)[:size], buffer
}

// Batch is encoded records on their way out of a host. They are in memory, except for a single record that is too
// large for that, which is still in the spool. One goroutine uses it, and closes it.
type Batch struct {
	bytes []byte
	last  uint64

	buffer *[]byte // what bytes are in, if it is one of buffers

	file     *os.File // of a record that is not in memory
	at, size int64
}

// EmptyBatch returns a batch with no records. Its Last is after.
func EmptyBatch(after uint64) Batch { return Batch{last: after} }

// Last returns the number of the last record.
func (b Batch) Last() uint64 { return b.last }

// Len returns how many bytes the records take.
func (b Batch) Len() int { return len(b.bytes) + int(b.size) }

// Bytes returns the records if they are in memory, else nil. The caller owns them until it closes the batch.
func (b Batch) Bytes() []byte { return b.bytes }

// Reader returns a reader of the records.
func (b Batch) Reader() io.Reader {
	if b.file == nil {
		return bytes.NewReader(b.bytes)
	}
	return io.NewSectionReader(b.file, b.at, b.size)
}

// Close lets go of the spool and of the bytes.
func (b Batch) Close() error {
	if b.buffer != nil {
		buffers.Put(b.buffer)
	}
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}
