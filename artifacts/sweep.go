package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Sweep removes every blob that was last put before that instant and that keep does not want, and temporary files that
// a crash left. It never touches spools.
//
// A caller records a digest only after Put has returned, so keep may not know it yet: before has to lie further back
// than the longest time between the two. While nothing is being put, as at start, it may be the present. keep is
// called without any lock held, once for each old blob. ctx is checked between two files. Sweep continues after an
// error with one file, and returns the first error.
func (s *Store) Sweep(ctx context.Context, before time.Time, keep func(sha256 string) bool) (removed int, err error) {
	folders, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, fmt.Errorf("sweep artifacts: %w", withoutPath(err))
	}
	var first error
	note := func(err error) {
		if err != nil && first == nil && !errors.Is(err, fs.ErrNotExist) {
			first = fmt.Errorf("sweep artifacts: %w", withoutPath(err))
		}
	}
	for _, folder := range folders {
		files, err := os.ReadDir(filepath.Join(s.dir, folder.Name()))
		if err != nil {
			note(err)
			continue
		}
		for _, file := range files {
			if err := context.Cause(ctx); err != nil {
				return removed, fmt.Errorf("sweep artifacts: %w", err)
			}
			digest := folder.Name() + file.Name()
			switch {
			case folder.Name() == tempFolder:
				if !strings.HasPrefix(file.Name(), s.run+"-") {
					note(os.Remove(filepath.Join(s.dir, tempFolder, file.Name())))
				}
			case validDigest(digest):
				gone, err := s.sweepBlob(digest, before, keep)
				note(err)
				if gone {
					removed++
				}
			}
		}
	}
	return removed, first
}

func (s *Store) sweepBlob(digest string, before time.Time, keep func(string) bool) (bool, error) {
	path, err := s.path(digest)
	if err != nil {
		return false, err
	}
	if old, err := putBefore(path, before); !old || err != nil || keep(digest) {
		return false, err
	}
	l := s.lockOf(digest)
	l.Lock()
	defer l.Unlock()
	if old, err := putBefore(path, before); !old || err != nil || s.isHeld(digest) { // put again meanwhile
		return false, err
	}
	if err := os.Remove(path); err != nil {
		return false, err
	}
	return true, nil
}

func putBefore(path string, before time.Time) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	return info.ModTime().Before(before), nil
}
