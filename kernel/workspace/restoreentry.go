package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// remove removes what is there now: all that is not wanted, and what a rename cannot replace.
func (r *restorer) remove(c change) error {
	folder, name := parentOf(c.now.Path)
	parent, err := r.enter(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case c.now.Kind != Directory:
		err = unix.Unlinkat(parent, name, 0)
	case r.unseenNow[c.now.Path]:
		err = removeFolder(r.ctx, parent, name)
	default:
		err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.changed[folder] = true
	if c.want == nil {
		r.done.Deleted.add(c.now.Path)
	}
	return nil
}

// restore makes what is wanted at a path, where there is nothing or something that a rename replaces.
func (r *restorer) restore(c change) error {
	folder, name := parentOf(c.want.Path)
	parent, err := r.enter(folder)
	if err != nil {
		return err
	}
	inPlace := c.now != nil && c.want.Kind == c.now.Kind
	switch {
	case c.want.Kind == Directory && inPlace: // its mode is set in the end
	case c.want.Kind == Directory:
		err = r.makeFolder(parent, name)
	case c.want.Kind == Symlink:
		err = r.putLink(parent, name, c.want)
	case inPlace && c.want.Digest == c.now.Digest && !r.joined(c):
		err = r.setAttributes(parent, name, c)
	default:
		err = r.putFile(parent, name, c.want)
	}
	if err != nil {
		return err
	}
	r.changed[folder] = true
	if c.now == nil {
		r.done.Created.add(c.want.Path)
	} else {
		r.done.Modified.add(c.want.Path)
	}
	return nil
}

func (r *restorer) makeFolder(parent int, name string) error {
	fd, err := r.dir.makeIn(parent, name)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// putFile puts a file with stored contents in place, as writeIn does with those of a client.
func (r *restorer) putFile(parent int, name string, want *ManifestEntry) (err error) {
	from, err := r.open(want.Digest)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(reasonGone)
	}
	if err != nil {
		return fatalError{err}
	}
	defer from.Close()
	temp := uploadPrefix + thisRun + rand.Text()
	fd, err := openBeneath(parent, temp, asNew, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	defer f.Close()
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(parent, temp, 0)
		}
	}()
	size, err := copyData(r.ctx, f, from)
	if err != nil {
		return err
	}
	if size != want.Size {
		return errors.New(reasonDamaged)
	}
	if err := r.dir.giveAway(fd, want.Mode&keptMode); err != nil {
		return err
	}
	if err := setModTime(fd, want.ModTime); err != nil {
		return err
	}
	if err := unix.Renameat(parent, temp, parent, name); err != nil {
		return err
	}
	return r.know(fd, want)
}

// know remembers a file that is in place now, unless code of the session has already written to it.
func (r *restorer) know(fd int, want *ManifestEntry) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	e := manifestEntryOf(want.Path, &st)
	if e.Size == want.Size && e.ModTime == want.ModTime {
		e.Digest = want.Digest
		r.put[e.Path] = e
	}
	return nil
}

func (r *restorer) putLink(parent int, name string, want *ManifestEntry) (err error) {
	temp := uploadPrefix + thisRun + rand.Text()
	if err := unix.Symlinkat(want.Target, parent, temp); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(parent, temp, 0)
		}
	}()
	fd, err := openBeneath(parent, temp, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kindOf(st.Mode) != Symlink || int(st.Uid) != os.Geteuid() { // only ours is given away
		return errChanged
	}
	if known := r.dir.known(); known.owner >= 0 {
		if err := unix.Fchownat(fd, "", known.owner, known.group, unix.AT_EMPTY_PATH); err != nil {
			return fmt.Errorf("set the owner: %w", err)
		}
	}
	if err := setModTime(fd, want.ModTime); err != nil {
		return err
	}
	return unix.Renameat(parent, temp, parent, name)
}

// setAttributes puts back the mode and the time of a file whose contents are right.
func (r *restorer) setAttributes(parent int, name string, c change) error {
	fd, err := openBeneath(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kindOf(st.Mode) != File || st.Ino != c.now.Inode {
		return errChanged
	}
	if c.want.Mode != st.Mode&keptMode {
		if err := setMode(fd, c.want.Mode); err != nil {
			return err
		}
	}
	if err := setModTime(fd, c.want.ModTime); err != nil {
		return err
	}
	return r.know(fd, c.want)
}

// setMode and setModTime also work with descriptors that are O_PATH: this name of a descriptor leads to exactly what
// it holds, links included.
func setMode(fd int, mode uint32) error {
	if err := unix.Chmod(descriptorPath(fd), mode); err != nil {
		return fmt.Errorf("set the mode: %w", err)
	}
	return nil
}

func setModTime(fd int, ns int64) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, descriptorPath(fd), times, 0); err != nil {
		return fmt.Errorf("set the time: %w", err)
	}
	return nil
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// copyPiece is how much is copied between two looks at a context.
const copyPiece = 16 << 20

// copyData copies a file and leaves its holes holes. It returns the file's size.
func copyData(ctx context.Context, to, from *os.File) (int64, error) {
	info, err := from.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	for at := int64(0); at < size; {
		hole := size
		data, err := from.Seek(at, unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO): // only a hole is left
			return size, to.Truncate(size)
		case errors.Is(err, unix.EINVAL): // a file system without holes
			data = at
		case err != nil:
			return at, err
		default:
			if hole, err = from.Seek(data, unix.SEEK_HOLE); err != nil {
				return at, err
			}
		}
		if _, err := from.Seek(data, io.SeekStart); err != nil {
			return at, err
		}
		if _, err := to.Seek(data, io.SeekStart); err != nil {
			return at, err
		}
		for at = data; at < hole; {
			if err := context.Cause(ctx); err != nil {
				return at, err
			}
			n, err := io.CopyN(to, from, min(hole-at, copyPiece))
			at += n
			if err != nil {
				return at, err
			}
		}
	}
	return size, to.Truncate(size)
}
