package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// image is a file with the file system of a workspace, whose root is the workspace.
type image struct {
	mu    sync.Mutex // guards the fields below
	path  string
	uid   int
	limit int64 // bytes
	// frozen says that nothing more may be written, whatever the limit.
	frozen bool
	first  *os.File
}

// makeImage makes an image that is mounted and belongs to no session. After an error nothing is left.
func makeImage(ctx context.Context, path string, bytes, most int64) (_ *image, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	size, inodes := geometry(bytes, most)
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	if err := format(ctx, path, inodes); err != nil {
		return nil, err
	}
	i := &image{path: path, limit: bytes}
	if i.first, err = i.mount(); err != nil {
		return nil, err
	}
	if err := i.prepare(); err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

// format makes the file system. It writes nothing that can be written later, when it is needed.
func format(ctx context.Context, path string, inodes int64) error {
	program, err := formatter()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-q", "-F", "-b", strconv.Itoa(blockBytes), "-I", strconv.Itoa(inodeBytes),
		"-N", strconv.FormatInt(inodes, 10), "-m", "0", "-J", "size="+strconv.Itoa(journalBytes>>20),
		"-O", "^resize_inode,^metadata_csum,uninit_bg,has_journal,extent,huge_file,64bit",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0", path)
	cmd.Env = []string{"LANG=C", "PATH=/usr/sbin:/sbin:/usr/bin:/bin", "MKE2FS_SYNC=0"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// errNoFormatter reports that e2fsprogs is not installed.
var errNoFormatter = errors.New("there is no mkfs.ext4")

func formatter() (string, error) {
	for _, name := range []string{"mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoFormatter
}

// prepare makes the root of the file system an empty workspace.
func (i *image) prepare() error {
	if err := unix.Unlinkat(int(i.first.Fd()), "lost+found", unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("empty the image: %w", err)
	}
	root, err := reopen(i.first)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Chmod(0o700); err != nil {
		return err
	}
	return setAvailable(i.first, i.limit)
}

// moveTo makes the image that of a session.
func (i *image) moveTo(path string, uid int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := own(i.first, uid); err != nil {
		return err
	}
	if err := os.Rename(i.path, path); err != nil {
		return fmt.Errorf("move image: %w", err)
	}
	i.path, i.uid = path, uid
	return nil
}

// open returns a mount of the image.
func (i *image) open() (*os.File, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f := i.first; f != nil {
		i.first = nil
		return f, nil
	}
	f, err := i.mount()
	if err != nil {
		return nil, err
	}
	// A power failure may have lost the first change of the owner.
	if err := errors.Join(own(f, i.uid), setAvailable(f, i.available())); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// mount attaches the image if it is not attached, and mounts it.
func (i *image) mount() (*os.File, error) {
	device, err := attach(i.path)
	if err != nil {
		return nil, fmt.Errorf("attach image: %w", err)
	}
	defer device.Close() // the mount keeps it open
	f, err := mount(device.Name())
	if err != nil {
		return nil, fmt.Errorf("mount image: %w", err)
	}
	return f, nil
}

// setLimit sets the limit in bytes, for the mounted image and for later mounts.
func (i *image) setLimit(bytes int64) error {
	info, err := os.Stat(i.path)
	if err != nil {
		return fmt.Errorf("look at the image: %w", err)
	}
	f, err := i.open()
	if err != nil {
		return err
	}
	defer f.Close()
	capacity, err := capacityOf(f)
	if err != nil {
		return err
	}
	if bytes > capacity-slackBytes/2 {
		return fmt.Errorf("%w: %d bytes, it was created for at most %d", ErrCapacity, bytes, min(capacity, info.Size())-slackBytes/2)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.limit
	i.limit = bytes
	if err := setAvailable(f, i.available()); err != nil {
		i.limit = before
		return err
	}
	return nil
}

// shutDown makes the file system stop writing, if it is mounted.
func (i *image) shutDown() error {
	f, err := i.open()
	if err != nil {
		return err
	}
	defer f.Close()
	return shutDown(f)
}

// close lets go of a mount that nobody has opened.
func (i *image) close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	f := i.first
	i.first = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// discard removes an image that the store owns.
func (i *image) discard() error {
	return errors.Join(i.shutDown(), i.close(), os.Remove(i.path))
}
