package disk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

// Room returns what the file system of the store's directory can still take once the ballast is spent, and its size,
// in bytes.
func (s *Store) Room() (free, size int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.cfg.Root, &st); err != nil {
		return 0, 0, fmt.Errorf("ask the disk of the workspaces: %w", err)
	}
	return int64(st.Bavail)*st.Bsize + s.ballast.Load(), int64(st.Blocks) * st.Bsize, nil
}

// Freeze makes a workspace in an image refuse new data until it is thawed, whatever its limit: writes that need space
// fail with ENOSPC. Otherwise the image could not get the space from the disk and would be damaged. For a workspace
// that is not in an image, it reports false and changes nothing: its writes fail by themselves. A program that opens
// the image after a crash of this one finds it thawed.
func (w *Workspace) Freeze() (bool, error) {
	if w.hold != kernel.DiskImage {
		return false, nil
	}
	return true, w.image.setFrozen(true)
}

// Thaw ends a freeze.
func (w *Workspace) Thaw() error {
	if w.hold != kernel.DiskImage {
		return nil
	}
	return w.image.setFrozen(false)
}

// Pending is the size of what was written into the workspace but uses no space on the store's disk yet: an image grows
// when its file system writes back, seconds later. It is 0 for a workspace that is not in an open image.
func (w *Workspace) Pending() int64 {
	if w.hold != kernel.DiskImage {
		return 0
	}
	space, err := w.Dir.Space()
	if err != nil {
		return 0
	}
	var st unix.Stat_t
	if unix.Stat(w.image.file(), &st) != nil {
		return 0
	}
	return max(0, space.Used-st.Blocks*512)
}

func (i *image) file() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.path
}

// available returns how many bytes the file system may hand out. The caller holds mu.
func (i *image) available() int64 {
	if i.frozen {
		return 0
	}
	return i.limit
}

func (i *image) setFrozen(frozen bool) error {
	f, err := i.open()
	if err != nil {
		return err
	}
	defer f.Close()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.frozen = frozen
	return setAvailable(f, i.available())
}

// healthy reports whether the file system of an image that nobody has used yet can be written to: a full disk may have
// made it read-only.
func (i *image) healthy() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	var st unix.Statfs_t
	return i.first != nil && unix.Fstatfs(int(i.first.Fd()), &st) == nil && st.Flags&unix.ST_RDONLY == 0
}

var errReadOnly = errors.New("a ready image has become read-only; creating another one")
