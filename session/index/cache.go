package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// unfinished begins the names of files that are being written.
const unfinished = "unfinished-"

// errNoRoom is that what is being written takes all of the cache.
var errNoRoom = errors.New("the package cache is full")

// cache keeps files by their SHA-256. A file in it is never changed; the ones that were not used for longest go first.
// What is being written counts too. It belongs to one process.
type cache struct {
	dir   string
	limit int64

	mu    sync.Mutex
	ready bool
	files map[string]*kept
	bytes int64
}

type kept struct {
	bytes int64
	used  time.Time
}

func (c *cache) path(digest string) string { return filepath.Join(c.dir, digest[:2], digest) }

// prepare makes the directory and finds what is in it. c.mu is held.
func (c *cache) prepare() error {
	if c.ready {
		return nil
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	c.files, c.bytes = map[string]*kept{}, 0
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.HasPrefix(entry.Name(), unfinished) { // of a process that died
			return os.Remove(path)
		}
		info, err := entry.Info()
		if err == nil && digest(entry.Name()) != "" && info.Mode().IsRegular() {
			c.files[entry.Name()] = &kept{info.Size(), info.ModTime()}
			c.bytes += info.Size()
		}
		return err
	})
	c.ready = err == nil
	return err
}

// open gives a file that is there; the error is fs.ErrNotExist where it is not.
func (c *cache) open(digest string) (f *os.File, size int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.prepare(); err != nil {
		return nil, 0, fmt.Errorf("package cache: %w", err)
	}
	entry := c.files[digest]
	if entry == nil {
		return nil, 0, fs.ErrNotExist
	}
	f, err = os.Open(c.path(digest))
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() != entry.bytes {
			err = fs.ErrNotExist // it was cut off when the machine stopped
		}
		if err == nil {
			entry.used = time.Now()
			_ = os.Chtimes(f.Name(), entry.used, entry.used) // else it goes earlier than it should
			return f, entry.bytes, nil
		}
		_ = f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		delete(c.files, digest)
		c.bytes -= entry.bytes
	}
	return nil, 0, err
}

// create makes a file that becomes one of the cache by commit. The caller closes and, without commit, removes it.
func (c *cache) create() (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.prepare()
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(c.dir, unfinished); err == nil {
			return f, nil
		}
	}
	return nil, fmt.Errorf("package cache: %w", err)
}

// grow makes room for bytes that are about to be written, and counts them until commit or shrink.
func (c *cache) grow(bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += bytes
	return c.evict()
}

// shrink forgets bytes that grow has counted.
func (c *cache) shrink(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= bytes
}

// commit takes a file whose content was checked, and for which grow has made room.
func (c *cache) commit(f *os.File, digest string, size int64) error {
	path := c.path(digest)
	err := f.Sync()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o400)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("package cache: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.files[digest]; old != nil {
		c.bytes -= old.bytes
	}
	c.files[digest] = &kept{size, time.Now()}
	return nil
}

// evict removes files until the rest is within the limit. Who reads one goes on reading it. c.mu is held.
func (c *cache) evict() error {
	for c.bytes > c.limit {
		oldest := ""
		if len(c.files) == 0 {
			return errNoRoom
		}
		for digest, entry := range c.files {
			if oldest == "" || entry.used.Before(c.files[oldest].used) {
				oldest = digest
			}
		}
		if err := os.Remove(c.path(oldest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("package cache: %w", err)
		}
		c.bytes -= c.files[oldest].bytes
		delete(c.files, oldest)
	}
	return nil
}
