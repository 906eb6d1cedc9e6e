package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"unsafe"
)

const maxSpoolName = 200 // bytes

var spoolPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

func isSpoolName(name string) bool {
	return len(name) <= maxSpoolName && spoolPattern.MatchString(name)
}

// Writer is a blob being written, in a file whose name the caller chose, so that it is found again after a crash of
// the program. It ends with Commit or Abort. It is safe for concurrent use; what was written can be read while more is
// still being written.
type Writer struct {
	store *Store
	name  string
	file  *os.File

	mu     sync.Mutex // guards the fields below, and orders the writes
	hash   hash.Hash
	size   int64
	closed bool
}

// Create starts a spool of that name: letters, digits and "._:-", at most 200 of them. It returns [fs.ErrExist] if the
// name is in use.
func (s *Store) Create(name string) (*Writer, error) {
	f, err := s.openSpool(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	return &Writer{store: s, name: name, file: f, hash: sha256.New()}, nil
}

// OpenSpool opens a spool that a crash left, reads it through for its digest, and continues at its end, or at size
// bytes if it is longer and size is not negative: the rest is dropped. ctx bounds the reading. It returns
// [fs.ErrNotExist] if there is no such spool. The caller makes sure that no other Writer has this spool.
func (s *Store) OpenSpool(ctx context.Context, name string, size int64) (*Writer, error) {
	f, err := s.openSpool(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && size >= 0 && info.Size() > size {
		err = f.Truncate(size)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("shorten spool %s: %w", name, withoutPath(err))
		}
	}
	w := &Writer{store: s, name: name, file: f, hash: sha256.New()}
	if w.size, err = copyHashing(ctx, discard{}, w.hash, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("read spool %s: %w", name, withoutPath(err))
	}
	return w, nil
}

// Spools lists the names of the existing spools, sorted: those being written, and those that a crash left.
func (s *Store) Spools() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, spoolFolder))
	if err != nil {
		return nil, fmt.Errorf("list the spools: %w", withoutPath(err))
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.Type().IsRegular() && isSpoolName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (s *Store) openSpool(name string, flags int) (*os.File, error) {
	if !isSpoolName(name) {
		return nil, fmt.Errorf("open spool %.80q: %w", name, fs.ErrInvalid)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, spoolFolder, name), flags, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open spool %s: %w", name, withoutPath(err))
	}
	return f, nil
}

// Write appends. After an error, such as a full disk, the bytes already written are part of the blob, and Write may be
// tried again.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, fmt.Errorf("write spool %s: %w", w.name, fs.ErrClosed)
	}
	n, err := w.file.WriteAt(p, w.size)
	w.hash.Write(p[:n])
	w.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write spool %s: %w", w.name, withoutPath(err))
	}
	return n, nil
}

// WriteString is Write. Neither the file nor the digest changes the bytes, so they need no copy.
func (w *Writer) WriteString(s string) (int, error) {
	return w.Write(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Size returns how many bytes were written.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// Blob returns what Commit would store now. A caller that records the digest before it calls Commit finds the spool
// again after a crash in between, and can commit it then.
func (w *Writer) Blob() Blob {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Blob{hex.EncodeToString(w.hash.Sum(nil)), w.size}
}

// ReadAt implements [io.ReaderAt] over what has been written. It works until Commit or Abort.
func (w *Writer) ReadAt(p []byte, off int64) (int, error) { return w.file.ReadAt(p, off) }

// Commit stores what was written, and ends the spool. After an error the spool is still there.
func (w *Writer) Commit() (Blob, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return Blob{}, fmt.Errorf("commit spool %s: %w", w.name, fs.ErrClosed)
	}
	blob := Blob{hex.EncodeToString(w.hash.Sum(nil)), w.size}
	if err := w.store.commit(w.file.Name(), blob, nil); err != nil {
		return Blob{}, fmt.Errorf("commit spool %s: %w", w.name, err)
	}
	w.closed = true
	w.file.Close()
	return blob, nil
}

// Close ends the Writer and leaves the spool for [Store.OpenSpool]. It is idempotent, and does nothing after
// Commit or Abort.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	return w.file.Close()
}

// Abort removes the spool and what was written. It is idempotent, and does nothing after Commit or Close.
func (w *Writer) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	w.file.Close()
	if err := os.Remove(w.file.Name()); err != nil {
		return fmt.Errorf("remove spool %s: %w", w.name, withoutPath(err))
	}
	return nil
}

// discard has no ReadFrom, unlike io.Discard, so that the copy keeps to its own buffer.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
