package spool

import (
	"bytes"
	"io"
	"os"
)

// Batch is encoded records on their way out of a host. They are in memory, but for a single record that is too large for
// that, which is still in the spool. It is used by one goroutine, which closes it.
type Batch struct {
	bytes []byte
	last  uint64

	file     *os.File // of a record that is not in memory
	at, size int64
}

// EmptyBatch has no records. Its Last is after.
func EmptyBatch(after uint64) Batch { return Batch{last: after} }

// Last is the number of the last record.
func (b Batch) Last() uint64 { return b.last }

// Len is how many bytes the records take.
func (b Batch) Len() int { return len(b.bytes) + int(b.size) }

// Bytes are the records where they are in memory, else nil. They are the caller's.
func (b Batch) Bytes() []byte { return b.bytes }

// Reader gives the records.
func (b Batch) Reader() io.Reader {
	if b.file == nil {
		return bytes.NewReader(b.bytes)
	}
	return io.NewSectionReader(b.file, b.at, b.size)
}

// Close lets go of the spool.
func (b Batch) Close() error {
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}
