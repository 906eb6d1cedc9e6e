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
	"talaria/kernel/runner"
)

// library is the embedded Python on disk, in a directory named after its content.
type library struct {
	dir string

	mu       sync.Mutex // guards compiled, and is held while compiling so that it is done only once
	compiled map[string]bool
}

// programs is the prefix of the names of executable files.
const programs = "programs/bin/"

// writeLibrary writes the embedded Python below parent unless it is already there, and returns its directory.
func writeLibrary(parent string) (string, error) {
	files, hash, err := sources()
	if err != nil {
		return "", fmt.Errorf("read embedded Python: %w", err)
	}
	dir := filepath.Join(parent, hash)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	temp, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return "", fmt.Errorf("write embedded Python: %w", err)
	}
	defer os.RemoveAll(temp)
	for name, content := range files {
		path := filepath.Join(temp, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", fmt.Errorf("write embedded Python: %w", err)
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(name, programs) {
			mode = 0o755
		}
		if err := writeSynced(path, content, mode); err != nil {
			return "", fmt.Errorf("write embedded Python: %w", err)
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return "", fmt.Errorf("write embedded Python: %w", err)
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("write embedded Python: %w", err)
	}
	return dir, nil
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

func writeSynced(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// compile makes the byte code for an environment's interpreter, since nothing inside a sandbox can write it. It runs
// only code of the standard library, and does nothing if this or an earlier process has done it since the machine's
// boot and the interpreter is the same.
func (l *library) compile(ctx context.Context, env kernel.Environment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.compiled[env.Python] {
		return nil
	}
	if l.compiled == nil {
		l.compiled = make(map[string]bool)
	}
	mark, err := l.compiledMark(env)
	if err != nil {
		return fmt.Errorf("compile the runner with %s: %w", env.Python, err)
	}
	if _, err := os.Stat(mark); err == nil {
		l.compiled[env.Python] = true
		return nil
	}
	// Unchecked: a directory named after its content does not change.
	cmd := exec.CommandContext(ctx, env.Python, "-I", "-S", "-m", "compileall", "-q", "-f",
		"--invalidation-mode", "unchecked-hash", l.dir)
	cmd.Env = pythonEnv
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the runner with %s: %w: %s", env.Python, err, bytes.TrimSpace(out))
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return fmt.Errorf("remember that the runner is compiled: %w", err)
	}
	l.compiled[env.Python] = true
	return nil
}

// compiledMark names the file that says that an interpreter has compiled the library. Another boot or another
// interpreter has another name: byte code is not synced to the disk, so a crash of the machine can damage it.
func (l *library) compiledMark(env kernel.Environment) (string, error) {
	boot, err := kernel.BootID()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(env.Python)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s %q %s %d %d", boot, env.Python, env.Version, info.Size(), info.ModTime().UnixNano())
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(l.dir, ".compiled-"+hex.EncodeToString(sum[:8])), nil
}
