package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// uploadPrefix starts the names of unfinished uploads; thisRun follows, so that those of a crashed program can be told
// from those under way.
const uploadPrefix = ".talaria-upload-"

var thisRun = rand.Text()[:10]

const (
	fileMode   = 0o644
	folderMode = 0o755
	copySize   = 128 << 10
)

// Write makes path a regular file with all that r delivers, at most limit bytes, atomically: a reader of path sees the
// old file or the new one. It makes the folders on the way, and reports whether there was no file before. ctx is
// checked between two reads; r itself must end when ctx does.
//
// If path is a link, it returns [ErrOutside]; for a folder, pipe, socket or device [ErrNotAFile]; for more than limit
// bytes [ErrLimit]. After any error the old file is untouched, though folders may have been made on the way.
func (d *Dir) Write(ctx context.Context, path string, r io.Reader, limit int64) (created bool, e Entry, err error) {
	folder, name, err := split(path)
	if err != nil {
		return false, Entry{}, explain("write", path, err)
	}
	parent, err := d.makeFolder(folder)
	if err != nil {
		return false, Entry{}, explain("write", path, err)
	}
	defer unix.Close(parent)
	if _, err := replaceable(parent, name); err != nil {
		return false, Entry{}, explain("write", path, err)
	}
	created, e, err = d.writeIn(ctx, parent, name, r, limit)
	if err != nil {
		return false, Entry{}, explain("write", path, err)
	}
	e.Path = path
	return created, e, nil
}

func (d *Dir) writeIn(ctx context.Context, parent int, name string, r io.Reader, limit int64) (bool, Entry, error) {
	temp := uploadPrefix + thisRun + rand.Text()
	fd, err := openBeneath(parent, temp, asNew, 0o600)
	if err != nil {
		return false, Entry{}, err
	}
	f := os.NewFile(uintptr(fd), temp)
	defer f.Close()
	done := false
	defer func() {
		if !done {
			_ = unix.Unlinkat(parent, temp, 0)
		}
	}()
	if err := copyBounded(ctx, f, r, limit); err != nil {
		return false, Entry{}, err
	}
	// Until here the file was the server's alone, so nobody in the session could write to it.
	if err := d.giveAway(fd, fileMode); err != nil {
		return false, Entry{}, err
	}
	// Without it, a power failure after the rename could leave an empty file in place of a whole one.
	if err := f.Sync(); err != nil {
		return false, Entry{}, err
	}
	created, err := moveInto(parent, temp, name)
	if err != nil {
		return false, Entry{}, err
	}
	done = true
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, Entry{}, err
	}
	return created, entryOf(name, &st), nil
}

// giveAway sets the mode of a file or folder that we have made, and gives it to the session's user.
func (d *Dir) giveAway(fd int, mode uint32) error {
	if err := unix.Fchmod(fd, mode); err != nil {
		return fmt.Errorf("set the mode: %w", err)
	}
	known := d.known()
	if known.owner < 0 {
		return nil
	}
	if err := unix.Fchown(fd, known.owner, known.group); err != nil {
		return fmt.Errorf("set the owner: %w", err)
	}
	return nil
}

// replaceable reports whether name exists. It returns an error unless name is a regular file, which may be replaced,
// or does not exist.
func replaceable(parent int, name string) (there bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	switch kindOf(st.Mode) {
	case File:
		return true, nil
	case Symlink:
		return true, ErrOutside
	}
	return true, ErrNotAFile
}

// moveInto renames temp to name, replacing what is there. What user code puts there between the check and the rename
// is replaced unless it is a folder, and never followed.
func moveInto(parent int, temp, name string) (created bool, err error) {
	for range 10 {
		there, err := replaceable(parent, name)
		if err != nil {
			return false, err
		}
		if there {
			return false, unix.Renameat(parent, temp, parent, name)
		}
		err = renameNoReplace(parent, temp, parent, name)
		if !errors.Is(err, fs.ErrExist) {
			return err == nil, err
		}
	}
	return false, fs.ErrExist
}

// makeFolder opens a folder, creating it and those on the way if they are missing. The caller closes it.
func (d *Dir) makeFolder(folder string) (int, error) {
	fd := -1
	err := d.use(func(root int) (err error) {
		fd, err = openBeneath(root, folder, asPath, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fd, err = openBeneath(root, ".", asPath, 0)
		if err != nil {
			return err
		}
		for name := range strings.SplitSeq(folder, "/") {
			next, err := d.enterOrMake(fd, name)
			unix.Close(fd)
			if err != nil {
				return err
			}
			fd = next
		}
		return nil
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func (d *Dir) enterOrMake(parent int, name string) (int, error) {
	fd, err := openBeneath(parent, name, asPath, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return fd, err
	}
	fd, err = d.makeIn(parent, name)
	if errors.Is(err, fs.ErrExist) {
		return openBeneath(parent, name, asPath, 0)
	}
	return fd, err
}

// makeIn makes a folder that did not exist, and opens it.
func (d *Dir) makeIn(parent int, name string) (int, error) {
	if err := unix.Mkdirat(parent, name, 0o700); err != nil {
		return -1, translate(err)
	}
	fd, err := openBeneath(parent, name, asFolder, 0)
	if err != nil {
		return -1, err
	}
	// The open folder may be another one that the session has put there meanwhile: only ours is given away.
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && int(st.Uid) == os.Geteuid() {
		err = d.giveAway(fd, folderMode)
	}
	if err != nil {
		unix.Close(fd)
		return -1, translate(err)
	}
	return fd, nil
}

// RemoveUploads removes the unfinished uploads that an earlier run of this program left in the workspace, at most
// [MaxDepth] deep. It leaves uploads under way alone. ctx bounds the work. In a [Lazy] workspace that is not open,
// this happens when it is next opened.
func (d *Dir) RemoveUploads(ctx context.Context) error {
	if d.later() {
		return nil
	}
	err := d.use(func(root int) error { return removeUploads(ctx, root) })
	if err != nil {
		return fmt.Errorf("remove unfinished uploads: %w", translate(err))
	}
	return nil
}

func removeUploads(ctx context.Context, root int) error {
	err := walk(ctx, root, func(at int, name string, _ *unix.Stat_t) error {
		if !isUpload(name) || strings.HasPrefix(name, uploadPrefix+thisRun) {
			return nil
		}
		if err := unix.Unlinkat(at, name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) && err != unix.EISDIR {
			return err
		}
		return nil
	})
	if errors.Is(err, ErrTruncated) {
		return nil
	}
	return err
}

func isUpload(name string) bool { return strings.HasPrefix(name, uploadPrefix) }

func copyBounded(ctx context.Context, w io.Writer, r io.Reader, limit int64) error {
	buf := make([]byte, copySize)
	var size int64
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, readErr := r.Read(buf)
		if size += int64(n); size > limit {
			return ErrLimit
		}
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if readErr == io.EOF {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}
