package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// StageFolder is where the next layer of a session's packages is built, next to them.
const StageFolder = "stage"

// CreateStage makes an empty stage in the directory of a session, owned by uid; 0 means the server's own user. It
// returns [fs.ErrExist] if there is one.
func CreateStage(parent, name string, uid int) (*Dir, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("make a stage in %q: %w", name, err)
	}
	stage := filepath.Join(parent, name, StageFolder)
	if err := os.Mkdir(stage, 0o700); err != nil {
		return nil, fmt.Errorf("make a stage: %w", err)
	}
	if uid != 0 { // by path: only the server has been there
		if err := os.Lchown(stage, uid, uid); err != nil {
			return nil, errors.Join(fmt.Errorf("make a stage: %w", err), os.Remove(stage))
		}
	}
	return Open(stage)
}

// Point atomically makes name, in the directory itself, a link to its sibling target. An existing name must be a link
// or a file. Only the server may be able to write to the directory.
func (d *Dir) Point(name, target string) error {
	if err := errors.Join(checkName(name), checkName(target)); err != nil {
		return explain("point", name, err)
	}
	next := ".next-" + rand.Text()
	err := d.use(func(root int) error {
		if err := unix.Symlinkat(target, root, next); err != nil {
			return err
		}
		if err := unix.Renameat(root, next, root, name); err != nil {
			return errors.Join(err, unix.Unlinkat(root, next, 0))
		}
		return nil
	})
	if err != nil {
		return explain("point", name, err)
	}
	return nil
}

// Target returns the name that the link of that name, in the directory itself, points to; [fs.ErrNotExist] without
// one.
func (d *Dir) Target(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", explain("read the link", name, err)
	}
	target := make([]byte, 256)
	err := d.use(func(root int) error {
		n, err := unix.Readlinkat(root, name, target)
		target = target[:max(n, 0)]
		return err
	})
	if err != nil {
		return "", explain("read the link", name, err)
	}
	return string(target), nil
}
