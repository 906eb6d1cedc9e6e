package workspace

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Identify finds a directory beneath root, which is trusted, and returns its device and inode: path is relative, "."
// for root itself, and passes through no link. It wraps the same errors as a [Dir].
func Identify(root, path string) (device, inode uint64, err error) {
	at, err := retry(func() (int, error) { return unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, 0, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(at)
	how := unix.OpenHow{Flags: asPath, Resolve: beneath &^ unix.RESOLVE_NO_XDEV}
	fd, err := retry(func() (int, error) { return unix.Openat2(at, path, &how) })
	if err != nil {
		return 0, 0, explain("find", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, explain("find", path, err)
	}
	return uint64(st.Dev), st.Ino, nil
}

// Reopen opens a workspace that another process has open; the caller still owns dir.
func Reopen(dir *os.File) (*Dir, error) {
	conn, err := dir.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	var d *Dir
	var inner error
	err = conn.Control(func(fd uintptr) {
		d, inner = open(func() (int, error) {
			return unix.Openat(int(fd), ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}, dir.Name())
	})
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	return d, inner
}

// Device is the file system that the workspace lies on, as reported by stat.
func (d *Dir) Device() uint64 { return d.known().device }

// Free returns how many bytes the workspace's file system has left for this user, or 0 if that is unknown.
func (d *Dir) Free() int64 {
	var st unix.Statfs_t
	if d.use(func(fd int) error { return unix.Fstatfs(fd, &st) }) != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}
