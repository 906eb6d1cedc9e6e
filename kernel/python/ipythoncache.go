package python

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"talaria/kernel"
)

// trials remembers, in a directory that only the operator can write to, the environments whose IPython could be
// imported: the import takes longer than everything else that discovery does. It has one file for each interpreter, with
// the fingerprint of the environment that was tried. Failures are not remembered. An empty dir remembers nothing.
type trials struct{ dir string }

func (t trials) file(env kernel.Environment) string {
	sum := sha256.Sum256([]byte(env.Python))
	return filepath.Join(t.dir, "ipython-"+hex.EncodeToString(sum[:8]))
}

// passed reports whether a trial of the environment with that fingerprint succeeded.
func (t trials) passed(env kernel.Environment, fingerprint string) bool {
	if t.dir == "" || fingerprint == "" {
		return false
	}
	kept, err := os.ReadFile(t.file(env))
	return err == nil && string(kept) == fingerprint
}

// pass remembers a successful trial. It ignores errors: the next start tries again.
func (t trials) pass(env kernel.Environment, fingerprint string) {
	if t.dir == "" || fingerprint == "" || os.MkdirAll(t.dir, 0o700) != nil {
		return
	}
	temp, err := os.CreateTemp(t.dir, ".new-")
	if err != nil {
		return
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(fingerprint)
	if errors.Join(err, temp.Close()) == nil {
		_ = os.Rename(temp.Name(), t.file(env))
	}
}

// fingerprint identifies what decides whether an environment's IPython can be imported: the interpreter, the entries of
// each directory of its path, and all files of IPython. It is "" if that cannot be read. A change deep inside
// another package does not change it.
func fingerprint(env kernel.Environment) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %q %q %q %q %q\n", minIPython, env.Python, env.Version, env.Prefix, env.Path, env.Modules)
	real, err := filepath.EvalSymlinks(env.Python)
	if err != nil || addFile(sum, real) != nil {
		return ""
	}
	for _, prefix := range env.Prefix { // it says which base a virtual environment has
		if err := addFile(sum, filepath.Join(prefix, "pyvenv.cfg")); err != nil {
			return ""
		}
	}
	for _, dir := range env.Path {
		if err := addFolder(sum, dir); err != nil {
			return ""
		}
		if err := addTree(sum, filepath.Join(dir, "IPython")); err != nil {
			return ""
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// addFile adds the size, mode and time of modification of a file that need not exist.
func addFile(w io.Writer, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%q %d %v %d\n", path, info.Size(), info.Mode(), info.ModTime().UnixNano())
	return nil
}

// addFolder adds the entries of a directory that need not exist, except for byte code.
func addFolder(w io.Writer, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || isFile(dir) {
		return addFile(w, dir)
	}
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "__pycache__" })
	for _, entry := range entries {
		if err := addFile(w, filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// addTree adds all of a directory that need not exist, except for byte code.
func addTree(w io.Writer, root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.Name() == "__pycache__":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		return addFile(w, path)
	})
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
