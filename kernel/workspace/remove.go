package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// removeDepth is how many folders a removal holds open. Deeper folders are moved up first: user code can nest
	// folders deeper than there are descriptors, and deeper than a path can name.
	removeDepth = 64
	removeBatch = 10_000
)

// Remove removes a file, a link itself, or a folder with its contents. It follows no links. It first makes folders
// accessible whose modes are in the way. ctx bounds the work; what was removed until then stays removed.
func (d *Dir) Remove(ctx context.Context, path string) error {
	folder, name, err := split(path)
	if err != nil {
		return explain("remove", path, err)
	}
	err = d.use(func(root int) error {
		parent, err := openBeneath(root, folder, asPath, 0)
		if err != nil {
			return err
		}
		defer unix.Close(parent)
		err = unix.Unlinkat(parent, name, 0)
		if err != unix.EISDIR {
			return err
		}
		return removeFolder(ctx, parent, name)
	})
	if err != nil {
		return explain("remove", path, err)
	}
	return nil
}

// Clear removes everything in the workspace, and resets the mode of the workspace's folder. ctx bounds the work.
func (d *Dir) Clear(ctx context.Context) error {
	err := d.use(func(root int) error {
		fd, err := openToRemove(root, ".")
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := empty(ctx, fd, fd, 0); err != nil {
			return err
		}
		return unix.Fchmod(fd, 0o700)
	})
	if err != nil {
		return fmt.Errorf("clear the workspace: %w", translate(err))
	}
	return nil
}

func removeFolder(ctx context.Context, parent int, name string) error {
	fd, err := openToRemove(parent, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		if err := empty(ctx, fd, fd, 0); err != nil {
			return err
		}
		err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		if err != unix.ENOTEMPTY { // something was made in it meanwhile
			return err
		}
	}
}

// empty removes everything in the folder fd, which lies depth folders below top.
func empty(ctx context.Context, top, fd, depth int) error {
	for {
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			return err
		}
		names, err := readFolder(fd, removeBatch)
		if err != nil && !errors.Is(err, ErrTruncated) {
			return err
		}
		if len(names) == 0 {
			return nil
		}
		for _, n := range names {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			err := unix.EISDIR
			if n.kind != unix.DT_DIR {
				err, _ = unix.Unlinkat(fd, n.name, 0).(unix.Errno)
			}
			switch err {
			case 0, unix.ENOENT:
			case unix.EISDIR:
				if err := removeNested(ctx, top, fd, n.name, depth); err != nil {
					return err
				}
			default:
				return err
			}
		}
	}
}

// removeNested removes a folder in fd, or moves it up to top, whose list is read again until nothing is left.
func removeNested(ctx context.Context, top, fd int, name string, depth int) error {
	child, err := openToRemove(fd, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotAFolder) {
		return nil // replaced meanwhile; the list is read again
	}
	if err != nil {
		return err
	}
	defer unix.Close(child)
	if depth < removeDepth {
		if err := empty(ctx, top, child, depth+1); err != nil {
			return err
		}
	}
	err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
	if err == unix.ENOTEMPTY && depth >= removeDepth {
		err = unix.Renameat(fd, name, top, ".talaria-remove-"+rand.Text())
	}
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ENOTEMPTY: // changed meanwhile; the list is read again
		return nil
	}
	return err
}

// openToRemove opens a folder so that its contents can be removed. Without root's rights this may require changing its
// mode: through its descriptor only.
func openToRemove(parent int, name string) (int, error) {
	fd, err := openBeneath(parent, name, asFolder, 0)
	if os.Geteuid() == 0 {
		return fd, err
	}
	if err == nil {
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
			err = unix.Fchmod(fd, st.Mode&0o7777|0o700)
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		return fd, nil
	}
	if !errors.Is(err, fs.ErrPermission) {
		return -1, err
	}
	path := parent // in a folder without search permission not even "." resolves
	if name != "." {
		if path, err = openBeneath(parent, name, asPath, 0); err != nil {
			return -1, err
		}
		defer unix.Close(path)
	}
	// fchmod refuses O_PATH descriptors; this name of the descriptor is ours and leads to exactly the folder that it
	// holds.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(path), 0o700); err != nil {
		return -1, err
	}
	return openBeneath(path, ".", asFolder, 0)
}
