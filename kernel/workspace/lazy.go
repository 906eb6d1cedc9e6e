package workspace

import (
	"context"
	"fmt"
	"os"
	"time"
)

// idleTime is how long a directory of [Lazy] stays open after its last use.
const idleTime = 10 * time.Second

// Lazy returns a workspace that costs something while it is open, so it is opened with source when it is used, and
// closed again when it has not been used for a while. source returns a descriptor with O_PATH, of the same directory
// each time; it is not called twice at once. name is for errors.
func Lazy(name string, source func() (*os.File, error)) *Dir {
	return &Dir{name: name, source: source, dirInfo: dirInfo{owner: -1, group: -1}}
}

// Hold returns the directory, open with O_PATH until release is called.
func (d *Dir) Hold() (root *os.File, release func(), err error) {
	root, err = d.hold()
	if err != nil {
		return nil, nil, err
	}
	return root, func() { d.release(root) }, nil
}

// IsOpen reports whether the directory is open at this moment.
func (d *Dir) IsOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root != nil
}

// use calls fn with the root's descriptor, which stays open meanwhile even if Close is called.
func (d *Dir) use(fn func(fd int) error) error {
	root, err := d.hold()
	if err != nil {
		return err
	}
	defer d.release(root)
	conn, err := root.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) {
		inner = fn(int(fd))
	}); err != nil {
		return fmt.Errorf("use workspace: %w", os.ErrClosed)
	}
	return inner
}

// known returns what was found out when the directory was last opened.
func (d *Dir) known() dirInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dirInfo
}

func (d *Dir) hold() (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.source == nil {
		return d.root, nil
	}
	if d.closed {
		return nil, fmt.Errorf("use workspace: %w", os.ErrClosed)
	}
	if d.root == nil {
		if err := d.openAgain(); err != nil {
			return nil, err
		}
	}
	if d.idle != nil {
		d.idle.Stop()
	}
	d.users++
	return d.root, nil
}

// later postpones the removal of uploads until the directory is opened; it returns false if it is open.
func (d *Dir) later() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.source == nil || d.root != nil {
		return false
	}
	d.uploads = true
	return true
}

// openAgain opens a directory that is not open. The caller holds mu: all other users have to wait anyway.
func (d *Dir) openAgain() error {
	root, err := d.source()
	if err != nil {
		return fmt.Errorf("open workspace %s: %w", d.name, err)
	}
	if d.dirInfo, err = factsOf(int(root.Fd())); err != nil {
		root.Close()
		return err
	}
	if d.uploads {
		d.uploads = false
		_ = removeUploads(context.Background(), int(root.Fd())) // leftovers do no harm
	}
	d.root = root
	return nil
}

// release ends a use that hold began.
func (d *Dir) release(root *os.File) {
	if d.source == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users--
	switch {
	case d.users > 0:
	case d.closed:
		_ = root.Close()
	case d.idle == nil:
		d.idle = time.AfterFunc(idleTime, d.rest)
	default:
		d.idle.Reset(idleTime)
	}
}

// rest closes a directory that is not in use.
func (d *Dir) rest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users == 0 && d.root != nil && !d.closed {
		_ = d.root.Close()
		d.root = nil
	}
}
