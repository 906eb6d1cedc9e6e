// Package artifacts keeps immutable bytes, addressed by their SHA-256, below one directory.
//
// It knows nothing of sessions or SQL: only the caller knows what is still referred to, and tells [Store.Sweep]. Package session
// keeps here what is too large for a row of the database: large charts (displays.go), long output (output.go), bodies of events
// (journal.go), files that cells changed (changedfiles.go), and the files and variables of checkpoints.
package artifacts

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// The folders next to the blobs, which lie in folders of two hexadecimal digits.
const (
	tempFolder  = "tmp"
	spoolFolder = "spool"
)

const (
	fileMode = 0o600
	dirMode  = 0o700
	copySize = 128 << 10
)

// Blob names stored bytes.
type Blob struct {
	SHA256 string // 64 lower-case hexadecimal digits
	Size   int64
}

// Store is a directory of blobs. It is safe for concurrent use within one process; the directory must have only one
// Store at a time.
//
// Nothing is flushed to the disk on the way in: bytes that were put survive every crash of this program, but not
// necessarily a power failure. After one, the file system may show a blob as missing or as shorter than it was;
// putting the same bytes again repairs it.
type Store struct {
	// Spare reports why no more of a file may be stored, or nil. It is asked again and again while a file is copied, and not for bytes
	// from elsewhere. Optional; it is set before the Store is used.
	Spare func() error

	dir string
	run string // names the temporary files of this Store, so that Sweep leaves them alone

	// locks make checking a blob's name and changing it one step, by the first byte of the digest. They are held
	// across the few system calls that do so, never across a copy of bytes.
	locks [256]sync.Mutex

	mu   sync.Mutex     // guards held; taken after one of locks
	held map[string]int // how many holds keep a digest
}

// Open opens the directory, and creates it if it is missing.
func Open(dir string) (*Store, error) {
	for _, d := range []string{dir, filepath.Join(dir, tempFolder), filepath.Join(dir, spoolFolder)} {
		if err := os.MkdirAll(d, dirMode); err != nil {
			return nil, fmt.Errorf("make the folder of artifacts: %w", err)
		}
	}
	return &Store{dir: dir, run: rand.Text()[:10], held: map[string]int{}}, nil
}

// Put stores everything that r delivers. ctx is checked between two reads; r itself must end when ctx does. Nothing is
// stored after an error.
func (s *Store) Put(ctx context.Context, r io.Reader) (Blob, error) { return s.put(ctx, r, nil) }

// PutBytes stores b. Bytes that are already there are not written again.
func (s *Store) PutBytes(ctx context.Context, b []byte) (Blob, error) { return s.putBytes(ctx, b, nil) }

func (s *Store) put(ctx context.Context, r io.Reader, hold *Hold) (Blob, error) {
	f, err := s.createTemp()
	if err != nil {
		return Blob{}, err
	}
	defer func() {
		f.Close()
		os.Remove(f.Name()) // already gone if commit has moved it
	}()
	h := sha256.New()
	var size int64
	if file, ok := r.(*os.File); ok {
		size, err = copySparse(ctx, f, h, file, s.Spare)
	} else {
		size, err = copyHashing(ctx, f, h, r)
	}
	if err != nil {
		return Blob{}, fmt.Errorf("store an artifact: %w", err)
	}
	blob := Blob{hex.EncodeToString(h.Sum(nil)), size}
	if err := s.commit(f.Name(), blob, hold); err != nil {
		return Blob{}, err
	}
	return blob, nil
}

func (s *Store) putBytes(ctx context.Context, b []byte, hold *Hold) (Blob, error) {
	sum := sha256.Sum256(b)
	blob := Blob{hex.EncodeToString(sum[:]), int64(len(b))}
	known, err := s.renew(blob, hold)
	if known || err != nil {
		return blob, err
	}
	return s.put(ctx, bytes.NewReader(b), hold)
}

// Space returns the disk space that the bytes of a digest take: less than their size if they have holes. It is 0 for a
// digest that is not stored.
func (s *Store) Space(sha256 string) int64 {
	path, err := s.path(sha256)
	if err != nil {
		return 0
	}
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	return st.Blocks * 512
}

// Get opens the bytes of a digest, which the caller closes, and returns their size. It returns [fs.ErrNotExist] for a
// digest that is not stored, or not a digest.
func (s *Store) Get(sha256 string) (*os.File, int64, error) {
	path, err := s.path(sha256)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("open artifact %s: %w", sha256, withoutPath(err))
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("open artifact %s: %w", sha256, withoutPath(err))
	}
	return f, info.Size(), nil
}

// Size returns how many bytes of a digest are stored, or -1 for a digest that is not stored.
func (s *Store) Size(sha256 string) int64 {
	path, err := s.path(sha256)
	if err != nil {
		return -1
	}
	info, err := os.Lstat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}

// DeleteUnless removes the bytes of a digest, unless a [Hold] protects them or wanted says that they are referred to.
// A digest that does not exist is not an error. Readers that have the bytes open can read on.
//
// wanted is called while nobody can put the same bytes, so it must not use the Store. Callers put bytes that they will
// refer to through a Hold, and release it once wanted knows of the reference.
func (s *Store) DeleteUnless(sha256 string, wanted func() (bool, error)) error {
	path, err := s.path(sha256)
	if err != nil {
		return nil
	}
	l := s.lockOf(sha256)
	l.Lock()
	defer l.Unlock()
	if s.isHeld(sha256) {
		return nil
	}
	if yes, err := wanted(); yes || err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete artifact %s: %w", sha256, withoutPath(err))
	}
	return nil
}

// commit gives the file at temp the name of its blob, or removes the file if the blob already exists. hold, which may
// be nil, protects the blob.
func (s *Store) commit(temp string, blob Blob, hold *Hold) error {
	path, err := s.path(blob.SHA256)
	if err != nil {
		return err
	}
	known, err := s.renew(blob, hold)
	if err != nil {
		return err
	}
	if known {
		if err := os.Remove(temp); err != nil {
			return fmt.Errorf("remove a second copy of an artifact: %w", withoutPath(err))
		}
		return nil
	}
	l := s.lockOf(blob.SHA256)
	l.Lock()
	defer l.Unlock()
	if err := os.Mkdir(filepath.Dir(path), dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a folder of artifacts: %w", withoutPath(err))
	}
	now := time.Now()
	if err := os.Chtimes(temp, now, now); err != nil {
		return fmt.Errorf("stamp artifact %s: %w", blob.SHA256, withoutPath(err))
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("name artifact %s: %w", blob.SHA256, withoutPath(err))
	}
	hold.add(blob.SHA256)
	return nil
}

// renew reports whether the blob exists in its full length, and if so stamps it as put just now. hold, which may be
// nil, protects it.
func (s *Store) renew(blob Blob, hold *Hold) (bool, error) {
	path, err := s.path(blob.SHA256)
	if err != nil {
		return false, err
	}
	l := s.lockOf(blob.SHA256)
	l.Lock()
	defer l.Unlock()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() != blob.Size {
		return false, nil
	}
	if err == nil {
		now := time.Now()
		err = os.Chtimes(path, now, now)
	}
	if err != nil {
		return false, fmt.Errorf("look for artifact %s: %w", blob.SHA256, withoutPath(err))
	}
	hold.add(blob.SHA256)
	return true, nil
}

func (s *Store) createTemp() (*os.File, error) {
	name := filepath.Join(s.dir, tempFolder, s.run+"-"+rand.Text())
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, fmt.Errorf("make a temporary artifact: %w", withoutPath(err))
	}
	return f, nil
}

func (s *Store) path(digest string) (string, error) {
	if !validDigest(digest) {
		return "", fmt.Errorf("artifact %.80q: %w", digest, fs.ErrNotExist)
	}
	return filepath.Join(s.dir, digest[:2], digest[2:]), nil
}

func (s *Store) lockOf(digest string) *sync.Mutex {
	b, _ := hex.DecodeString(digest[:2])
	return &s.locks[b[0]]
}

func validDigest(d string) bool {
	if len(d) != 2*sha256.Size {
		return false
	}
	for _, c := range []byte(d) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func copyHashing(ctx context.Context, w io.Writer, h hash.Hash, r io.Reader) (int64, error) {
	buf := make([]byte, copySize)
	var size int64
	for {
		if err := context.Cause(ctx); err != nil {
			return size, err
		}
		n, readErr := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return size, withoutPath(err)
			}
			h.Write(buf[:n])
			size += int64(n)
		}
		if readErr == io.EOF {
			return size, nil
		}
		if readErr != nil {
			return size, readErr
		}
	}
}

// withoutPath removes the host's path from an error, since errors may reach clients.
func withoutPath(err error) error {
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
