package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"talaria/kernel"
	"talaria/kernel/python"
	"talaria/kernel/runner"
)

// library is the embedded Python on disk, in a directory named after its content.
type library struct {
	dir string

	pid1 byteCode // of what makes sandboxes
	rest byteCode // of the runner, and of programs for commands
}

func newLibrary(dir string) library {
	return library{
		dir:  dir,
		pid1: byteCode{dir: dir, folders: []string{"talaria_init"}},
		rest: byteCode{dir: dir, folders: []string{"talaria_runner", "programs"}},
	}
}

// programs is the prefix of the names of executable files.
const programs = "programs/bin/"

// writeLibrary writes the embedded Python below parent unless it is already there, and returns its directory. The files are not
// synced to the disk, which takes longer than everything else: they are compared, so damage by a crash of the machine is repaired.
func writeLibrary(parent string) (string, error) {
	files, hash, err := sources()
	if err != nil {
		return "", fmt.Errorf("read embedded Python: %w", err)
	}
	dir := filepath.Join(parent, hash)
	if intact(dir, files) {
		return dir, nil
	}
	temp, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return "", fmt.Errorf("write embedded Python: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := writeFiles(temp, files); err != nil {
		return "", fmt.Errorf("write embedded Python: %w", err)
	}
	if err := os.Rename(temp, dir); err == nil || intact(dir, files) { // another host can have been faster
		return dir, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(temp, dir)); err != nil {
		return "", fmt.Errorf("write embedded Python: %w", err)
	}
	return dir, nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(name, programs) {
			mode = 0o755
		}
		if err := os.WriteFile(path, content, mode); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755)
}

// intact reports whether a directory has these files, unchanged. It may have others: byte code.
func intact(dir string, files map[string][]byte) bool {
	for name, content := range files {
		if found, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(found, content) {
			return false
		}
	}
	return true
}

func sources() (files map[string][]byte, hash string, err error) {
	files = make(map[string][]byte)
	sum := sha256.New()
	tree := runner.Sources()
	err = fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, path)
		files[path] = content
		fmt.Fprintf(sum, "%s\x00%d\x00%s", path, len(content), content)
		return err
	})
	return files, hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// compile makes the byte code that sandboxes of an environment use, since nothing inside a sandbox can write it.
func (l *library) compile(ctx context.Context, env kernel.Environment) error {
	if err := l.pid1.compile(ctx, env); err != nil || env.Engine == python.EngineScript {
		return err
	}
	return l.rest.compile(ctx, env)
}

// byteCode is what interpreters have made of some folders of a library.
type byteCode struct {
	dir     string // the library's
	folders []string

	mu       sync.Mutex // guards compiled, and is held while compiling so that it is done only once
	compiled map[string]bool
}

// compile runs only code of the standard library, and does nothing if this or an earlier process has done it since the machine's
// boot and the interpreter is the same.
func (b *byteCode) compile(ctx context.Context, env kernel.Environment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.compiled[env.Python] {
		return nil
	}
	if b.compiled == nil {
		b.compiled = make(map[string]bool)
	}
	mark, err := b.mark(env)
	if err != nil {
		return fmt.Errorf("compile the runner with %s: %w", env.Python, err)
	}
	if _, err := os.Stat(mark); err == nil {
		b.compiled[env.Python] = true
		return nil
	}
	// Unchecked: a directory named after its content does not change.
	cmd := exec.CommandContext(ctx, env.Python, append([]string{"-I", "-S", "-m", "compileall", "-q", "-f",
		"--invalidation-mode", "unchecked-hash"}, b.folders...)...)
	cmd.Env = pythonEnv
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the runner with %s: %w: %s", env.Python, err, bytes.TrimSpace(out))
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return fmt.Errorf("remember that the runner is compiled: %w", err)
	}
	b.compiled[env.Python] = true
	return nil
}

// mark names the file that says that an interpreter has compiled the folders. Another boot or another interpreter has another name:
// byte code is not synced to the disk, so a crash of the machine can damage it.
func (b *byteCode) mark(env kernel.Environment) (string, error) {
	boot, err := kernel.BootID()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(env.Python)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s %q %s %d %d %q", boot, env.Python, env.Version, info.Size(), info.ModTime().UnixNano(), b.folders)
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(b.dir, ".compiled-"+hex.EncodeToString(sum[:8])), nil
}
