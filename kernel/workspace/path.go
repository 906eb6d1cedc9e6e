package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// beneath is how every path of a session is resolved.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Flags of descriptors, by purpose. Folders go without O_NOFOLLOW: RESOLVE_NO_SYMLINKS refuses a link as the last
// element too, and then returns ELOOP, where O_NOFOLLOW would return ENOTDIR.
const (
	asPath   = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	asFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC
	asFile   = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	asNew    = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
)

const (
	maxName = 255
	maxPath = 4095
)

// checkPath rejects everything except plain relative paths, before any system call sees it.
func checkPath(path string) error {
	if len(path) > maxPath {
		return fs.ErrInvalid
	}
	for name := range strings.SplitSeq(path, "/") {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return ErrOutside
	case len(name) > maxName:
		return fs.ErrInvalid
	}
	return nil
}

// split checks a path and splits it into the folder, "." for the root, and the name in it.
func split(path string) (folder, name string, err error) {
	if err := checkPath(path); err != nil {
		return "", "", err
	}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:], nil
	}
	return ".", path, nil
}

// folderPath checks the path of a folder, where "" and "." mean the root and one trailing slash is allowed.
func folderPath(path string) (string, error) {
	if path == "" || path == "." {
		return ".", nil
	}
	path = strings.TrimSuffix(path, "/")
	return path, checkPath(path)
}

// openBeneath opens path, which was checked or came from the directory itself, beneath the folder at.
func openBeneath(at int, path string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode), Resolve: beneath}
	fd, err := retry(func() (int, error) { return unix.Openat2(at, path, &how) })
	return fd, translate(err)
}

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// translate turns an error of the system into one of this package; the original stays in the chain.
func translate(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case unix.ELOOP, unix.EXDEV:
		return wrapped{ErrOutside, errno}
	case unix.EISDIR, unix.ENXIO, unix.ENODEV:
		return wrapped{ErrNotAFile, errno}
	case unix.ENOTDIR:
		return wrapped{ErrNotAFolder, errno}
	case unix.ENOSPC, unix.EDQUOT, unix.EFBIG:
		return wrapped{ErrNoSpace, errno}
	case unix.ENAMETOOLONG, unix.EINVAL:
		return wrapped{fs.ErrInvalid, errno}
	case unix.EAGAIN: // a lease, which user code may take on its own files
		return wrapped{fs.ErrPermission, errno}
	}
	return err
}

// wrapped prints as the first error and matches both.
type wrapped struct{ kind, cause error }

func (w wrapped) Error() string   { return w.kind.Error() }
func (w wrapped) Unwrap() []error { return []error{w.kind, w.cause} }

func explain(what, path string, err error) error {
	return fmt.Errorf("%s %q: %w", what, path, translate(err))
}
