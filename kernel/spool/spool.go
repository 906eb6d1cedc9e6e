package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"talaria/kernel/record"
)

const (
	maxSegment   = 4 << 20   // size from which a segment accepts no more records
	keptSegment  = 256 << 10 // what the last segment may keep of records that are all acknowledged
	maxRead      = 1 << 20   // bytes that one read returns, if more than one record
	maxReadCount = 2048      // records that one read returns
)

// spool holds the encoded records of one key in files, from when they are appended until they are acknowledged. It
// takes little memory, however much it holds, and one or two descriptors. It forces nothing to the disk: appended
// records survive this program, not the machine. It is safe for concurrent use; a read does not wait for an append.
type spool struct {
	dir          string       // the key's folder; "" keeps the segments in memory
	segmentBytes int64        // size from which a segment accepts no more records
	size         atomic.Int64 // bytes of records that may not be acknowledged

	writing sync.Mutex // held for appending or beginning a segment, during the I/O; taken before mu

	reading sync.Mutex // guards cursor, and is held during the I/O of a read; taken before mu
	cursor  cursor

	mu       sync.Mutex // guards the fields below
	segments []segment  // in order; the last one takes new records
	closed   bool
}

// cursor is where the latest read ended.
type cursor struct {
	number uint64 // of the segment; 0 means none
	after  uint64 // the number of the record before
	at     int64
	file   *os.File // of a segment that has no file open
}

// createSpool makes the folder of a new key or, if dir is "", a spool in memory. The error wraps fs.ErrExist if the
// key already has one.
func createSpool(dir string, segmentBytes int64) (*spool, error) {
	s := &spool{dir: dir, segmentBytes: segmentBytes}
	if dir != "" {
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return nil, fmt.Errorf("create spool: %w", err)
		}
		if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("create spool: %w: its earlier records are in %s", fs.ErrExist, dir)
		} else if err != nil {
			return nil, fmt.Errorf("create spool: %w", err)
		}
	}
	if err := s.begin(0, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("create spool: %w", err), s.discard())
	}
	return s, nil
}

// append writes encoded records, the newest of which has the number last. After an error nothing was appended, and it
// can be tried again. given is the last execution that the kernel was given.
func (s *spool) append(b []byte, last uint64, given string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if now := s.newest(); now.size >= s.segmentBytes {
		if err := s.begin(now.last, given); err != nil {
			return err
		}
	}
	now := s.newest()
	// At its offset, not at the end of the file: half of it may be there from an append that failed.
	if _, err := now.file.WriteAt(b, now.size); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fs.ErrClosed
	}
	newest := &s.segments[len(s.segments)-1]
	newest.size += int64(len(b))
	newest.last = last
	s.size.Add(int64(len(b)))
	return nil
}

func (s *spool) newest() segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 {
		return segment{}
	}
	return s.segments[len(s.segments)-1]
}

// begin makes a segment for the records after base. The caller holds writing, or nobody else knows the spool.
func (s *spool) begin(base uint64, given string) error {
	next := segment{number: s.newest().number + 1, base: base, last: base}
	var err error
	if s.dir == "" {
		next.file, err = memoryFile()
	} else {
		next.file, err = os.OpenFile(next.path(s.dir), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err != nil {
		return err
	}
	head := segmentHead(base, given)
	next.begin, next.size = int64(len(head)), int64(len(head))
	if _, err := next.file.WriteAt(head, 0); err != nil {
		return errors.Join(err, s.drop(next))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(fs.ErrClosed, s.drop(next))
	}
	if n := len(s.segments); n > 0 && s.dir != "" {
		_ = s.segments[n-1].file.Close()
		s.segments[n-1].file = nil
	}
	s.segments = append(s.segments, next)
	return nil
}

func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("records", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return os.NewFile(uintptr(fd), "records"), nil
}

// drop removes a segment from the machine.
func (s *spool) drop(old segment) error {
	if old.file != nil {
		_ = old.file.Close()
	}
	if s.dir == "" {
		return nil
	}
	return os.Remove(old.path(s.dir))
}

// acknowledge drops what nobody needs once the records up to kseq are taken. If these are all of them, little stays if
// tidy is set: a segment that is still being filled is not replaced all the time. given is as in append. Whatever the
// error, which is about files that stay, the records are acknowledged.
func (s *spool) acknowledge(kseq uint64, given string, tidy bool) error {
	old, replace := s.release(kseq)
	if replace && tidy && s.writing.TryLock() { // otherwise more is being appended, and that is acknowledged later
		if now := s.newest(); now.last <= kseq && s.begin(now.last, given) == nil {
			more, _ := s.release(kseq)
			old = append(old, more...)
		}
		s.writing.Unlock()
	}
	var errs []error
	for _, segment := range old {
		if err := s.drop(segment); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// release removes from the list the segments without a record above kseq. replace reports that the last segment has
// none either, and is large.
func (s *spool) release(kseq uint64) (old []segment, replace bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	n := 0
	for n < len(s.segments)-1 && s.segments[n].last <= kseq {
		s.size.Add(-s.segments[n].unacked())
		n++
	}
	if n > 0 {
		old = slices.Clone(s.segments[:n])
		s.segments = slices.Clone(s.segments[n:]) // small again after it was large
	}
	newest := &s.segments[len(s.segments)-1]
	if newest.last > kseq {
		return old, false
	}
	s.size.Add(-newest.unacked())
	newest.acked = newest.size - newest.begin
	return old, newest.acked > keptSegment
}

// read returns whole encoded records numbered above after, in order, and the number of the last of them; none if there
// are none yet. It may leave out acknowledged records. The caller owns the bytes.
func (s *spool) read(after uint64) (b []byte, last uint64, err error) {
	batch, err := s.readBatch(after, false)
	return batch.bytes, batch.last, err
}

// readBatch is read. With large, it may leave a record of more than maxRead in its file.
func (s *spool) readBatch(after uint64, large bool) (Batch, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		from, ok := s.holding(after)
		if !ok {
			return Batch{last: after}, s.check()
		}
		batch, err := s.readSegment(from, after, large && s.dir != "")
		if err == nil {
			return batch, nil
		}
		if now, ok := s.holding(after); ok && now.number == from.number && now.file == from.file {
			return Batch{last: after}, fmt.Errorf("read spool: %s: %w", from.path(s.dir), err)
		}
		// It was closed for a newer segment, or acknowledged, since it was looked up.
	}
}

// check returns fs.ErrClosed once the spool is discarded.
func (s *spool) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fs.ErrClosed
	}
	return nil
}

// holding returns the first segment with a record above after.
func (s *spool) holding(after uint64) (segment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.segments, func(s segment) bool { return s.last > max(after, s.base) })
	if i < 0 {
		return segment{}, false
	}
	return s.segments[i], true
}

// readSegment reads the records above after, of which the segment has at least one. The caller holds reading.
func (s *spool) readSegment(from segment, after uint64, large bool) (Batch, error) {
	c := &s.cursor
	if c.number != from.number || c.after > after {
		c.close()
		*c = cursor{number: from.number, after: from.base, at: from.begin}
	}
	file := from.file
	if file == nil {
		if c.file == nil {
			var err error
			if c.file, err = os.Open(from.path(s.dir)); err != nil {
				return Batch{}, err
			}
		}
		file = c.file
	}
	for size := int64(maxRead); ; {
		b, buffer := roomFor(min(from.size-c.at, size), large) // whoever wants large records closes the batch
		if _, err := file.ReadAt(b, c.at); err != nil {
			return Batch{}, err
		}
		found, err := wholeRecords(b, after)
		switch {
		case err != nil:
			return Batch{}, fmt.Errorf("the record after %d: %w", c.after, err)
		case found.end == 0 && (found.next == 0 || int64(found.next) > from.size-c.at):
			return Batch{}, fmt.Errorf("the record after %d: %w", c.after, record.ErrTornRecord)
		case found.end == 0 && large && record.NumberOf(b) > after:
			own, err := os.Open(from.path(s.dir))
			if err != nil {
				return Batch{}, err
			}
			batch := Batch{file: own, at: c.at, size: int64(found.next), last: record.NumberOf(b)}
			c.at, c.after = c.at+batch.size, batch.last
			return batch, nil
		case found.end == 0:
			size = int64(found.next)
			continue
		}
		c.at, c.after = c.at+int64(found.end), found.last
		if found.begin < found.end {
			return Batch{bytes: b[found.begin:found.end:found.end], last: found.last, buffer: buffer}, nil
		}
		size = maxRead
	}
}

func (c *cursor) close() {
	if c.file != nil {
		_ = c.file.Close()
		c.file = nil
	}
}

// wanted says where in some bytes the wanted records begin and end.
type wanted struct {
	begin, end int
	last       uint64 // the number of the last of them
	next       int    // the size of an incomplete record; 0: there is none
}

// wholeRecords finds the whole records in b, up to maxReadCount numbered above after.
func wholeRecords(b []byte, after uint64) (w wanted, err error) {
	for n := 0; n < maxReadCount && len(b)-w.end >= record.Prefix+record.MinSize; {
		size, err := record.Size(b[w.end:])
		if err != nil {
			return w, err
		}
		if size > len(b)-w.end {
			w.next = size
			break
		}
		w.last = record.NumberOf(b[w.end:])
		w.end += size
		if w.last <= after {
			w.begin = w.end
		} else {
			n++
		}
	}
	return w, nil
}

// close ends appends and reads. The files stay.
func (s *spool) close() {
	s.mu.Lock()
	segments := s.segments
	s.segments, s.closed = nil, true
	s.mu.Unlock()
	for _, segment := range segments {
		if segment.file != nil {
			_ = segment.file.Close()
		}
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	s.cursor.close()
}

// discard closes the spool and removes it from the machine.
func (s *spool) discard() error {
	s.close()
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}
