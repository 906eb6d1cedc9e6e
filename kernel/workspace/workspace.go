// Package workspace is the only code that touches a session's files from outside its sandbox.
//
// The code in the session owns those files and changes them at any moment, so a name is never trusted twice: each
// access resolves its path beneath one directory descriptor with openat2, following no link of any kind and crossing
// no mount, and then works on the resulting descriptor. Modes and owners are never changed through a path that user
// code can influence.
//
// Paths are relative to the workspace and separated by slashes; a backslash is an ordinary character. Linux only.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The folders in a session's directory.
const (
	WorkspaceFolder = "workspace"
	PackagesFolder  = "packages"
)

// Bounds on a walk.
const (
	// MaxEntries bounds a list and a scan.
	MaxEntries = 200_000
	// MaxDepth bounds how many folders deep a scan goes, and a workspace may be.
	MaxDepth = 64
	// maxUsageDepth bounds how many folders deep measuring the usage goes, with a descriptor for each. It is larger
	// than MaxDepth so that a cell that has gone too deep is still seen to write.
	maxUsageDepth = 256
)

// The errors that callers branch on, besides [fs.ErrNotExist], [fs.ErrExist], [fs.ErrPermission], [fs.ErrInvalid] (an
// impossible name, or a folder moved into itself) and [os.ErrClosed].
var (
	// ErrOutside: the path leaves the workspace, is not a plain relative path, or names or passes through a link or a
	// mount.
	ErrOutside = errors.New("path is outside of the workspace or passes through a link")
	// ErrNotAFile: the path names something other than a regular file, such as a folder, a pipe, a socket or a device.
	ErrNotAFile = errors.New("not a regular file")
	// ErrNotAFolder: the path names something other than a folder.
	ErrNotAFolder = errors.New("not a folder")
	// ErrLimit: there were more bytes than the caller allows.
	ErrLimit = errors.New("more bytes than allowed")
	// ErrNoSpace: the disk or a quota is full.
	ErrNoSpace = errors.New("no space left")
	// ErrTruncated: there is more than MaxEntries or MaxDepth allow; what was seen comes with the error.
	ErrTruncated = errors.New("too many entries or too deep")
	// ErrUnseen: there is more than measuring the usage could see. It is also an ErrTruncated.
	ErrUnseen = fmt.Errorf("%w: some folders could not be looked into", ErrTruncated)
)

// Dir is a workspace. It is safe for concurrent use, and so is Close at any moment.
type Dir struct {
	name   string
	source func() (*os.File, error) // opens the directory again; nil if it stays open

	mu      sync.Mutex // guards the fields below
	root    *os.File   // O_PATH; nil if it is to be opened when it is used
	users   int        // of root
	idle    *time.Timer
	closed  bool
	uploads bool // unfinished ones are to be removed when it is opened
	dirInfo
}

// dirInfo holds what is known about an open directory.
type dirInfo struct {
	owner  int // of new files; -1 where they are the server's own anyway
	group  int
	device uint64
	// exactTimes says that a file's modification time changes with each change, however quickly they follow each
	// other.
	exactTimes bool
}

// Create makes the directory of a session below parent: NAME/workspace, which uid owns, and NAME/packages, which the
// server owns and the session may read. It returns the open workspace. A uid of 0 means the server's own user. It
// returns [fs.ErrExist] if the name is taken; after any error nothing is left.
func Create(parent, name string, uid int) (*Dir, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("make session directory %q: %w", name, err)
	}
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make session directory: %w", err)
	}
	d, err := create(dir, uid)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make session directory: %w", err), os.RemoveAll(dir))
	}
	return d, nil
}

// create works by path: until it returns, only the server has been in dir.
func create(dir string, uid int) (*Dir, error) {
	ws, packages := filepath.Join(dir, WorkspaceFolder), filepath.Join(dir, PackagesFolder)
	if err := errors.Join(os.Mkdir(ws, 0o700), os.Mkdir(packages, 0o755)); err != nil {
		return nil, err
	}
	if uid != 0 {
		if err := os.Lchown(ws, uid, uid); err != nil {
			return nil, err
		}
	}
	// Exact modes, whatever the umask. In tiers without a root of their own, the session passes through the first one.
	if err := errors.Join(os.Chmod(packages, 0o755), os.Chmod(dir, 0o711)); err != nil {
		return nil, err
	}
	return Open(ws)
}

// Open opens a directory that Create made: a workspace, or packages. The path is the server's own and is trusted,
// except for its last element, which must not be a link. New files will belong to the owner of the directory.
func Open(path string) (*Dir, error) {
	return open(func() (int, error) {
		return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}, path)
}

func open(call func() (int, error), path string) (*Dir, error) {
	fd, err := retry(call)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	d := &Dir{name: path, root: os.NewFile(uintptr(fd), path)}
	if d.dirInfo, err = factsOf(fd); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func factsOf(fd int) (dirInfo, error) {
	f := dirInfo{owner: -1, group: -1}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return f, fmt.Errorf("stat workspace: %w", err)
	}
	f.device = uint64(st.Dev)
	if me := os.Geteuid(); me == 0 && st.Uid != 0 {
		f.owner, f.group = int(st.Uid), int(st.Gid)
	}
	f.exactTimes = exactTimes(fd)
	return f, nil
}

// File returns the directory itself, open with O_PATH. It belongs to the Dir and is valid until Close. It is nil for a
// [Lazy] one, for which Hold returns it.
func (d *Dir) File() *os.File {
	if d.source != nil {
		return nil
	}
	return d.root
}

// Close releases the directory. It is idempotent.
func (d *Dir) Close() error {
	d.mu.Lock()
	root := d.root
	d.closed = true
	if d.idle != nil {
		d.idle.Stop()
	}
	if d.source != nil {
		d.root = nil
		if d.users > 0 { // the last user closes it
			root = nil
		}
	}
	d.mu.Unlock()
	if root == nil {
		return nil
	}
	if err := root.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close workspace: %w", err)
	}
	return nil
}

// Delete removes the directory of a session, made by Create, with everything in it. A missing session is not an error.
// ctx bounds the work.
func Delete(ctx context.Context, parent, name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("delete session directory %q: %w", name, err)
	}
	d, err := Open(parent)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete session directory: %w", err)
	}
	return nil
}
