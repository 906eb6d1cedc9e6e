package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/workspace"
)

// maxFontList bounds matplotlib's list of fonts; a list of a few hundred fonts has 200 kB.
const maxFontList = 32 << 20

// listFonts makes matplotlib search for fonts, which takes a second, and keep the result in the workspace.
const listFonts = "import matplotlib.font_manager"

// Prepare does once what benefits every sandbox of an environment: it compiles the runner, and makes matplotlib list
// the machine's fonts, in a sandbox of its own, so that the first plot of a session need not. It reuses what an
// earlier server made. Sandboxes made before Prepare returns work too. ctx bounds it.
func (b *Backend) Prepare(ctx context.Context, env kernel.Environment) error {
	if err := b.prepare(ctx, env); err != nil {
		return fmt.Errorf("prepare environment %s: %w", env.Name, err)
	}
	return nil
}

func (b *Backend) prepare(ctx context.Context, env kernel.Environment) error {
	if err := b.library.compile(ctx, env); err != nil {
		return err
	}
	cache, err := b.cacheDir(env)
	if err != nil || cache == "" || !hasModule(env, "matplotlib") {
		return err
	}
	if found, err := filepath.Glob(filepath.Join(cache, "fontlist-*.json")); err != nil || len(found) > 0 {
		return err
	}
	create := func() (*Sandbox, error) { return b.create(ctx, env) }
	return b.withOwnSandbox(ctx, ownMemory, create, func(s *Sandbox, workspace string) error {
		const folder = "matplotlib"
		cmd := kernel.Program{
			Args: []string{env.Python, "-c", listFonts},
			Env:  map[string]string{"MPLCONFIGDIR": folder}, // it runs in the workspace
		}
		if err := run(ctx, s, cmd); err != nil {
			return fmt.Errorf("list fonts: %w", err)
		}
		return copyFontLists(filepath.Join(workspace, folder), cache)
	})
}

// cacheDir returns the directory of an environment's caches, or "".
func (b *Backend) cacheDir(env kernel.Environment) (string, error) {
	if b.cfg.CacheDir == "" {
		return "", nil
	}
	key := strings.Join(append([]string{env.Python, env.Version}, env.Modules...), "\n")
	sum := sha256.Sum256([]byte(key))
	return realDir(filepath.Join(b.cfg.CacheDir, hex.EncodeToString(sum[:8])))
}

func hasModule(env kernel.Environment, name string) bool {
	for _, module := range env.Modules {
		if strings.HasPrefix(module, name+" ") {
			return true
		}
	}
	return false
}

// ownMemory is enough for our own programs.
const ownMemory = 1 << 30

// withOwnSandbox runs f with a sandbox that belongs to no session, sealed with that much memory.
func (b *Backend) withOwnSandbox(ctx context.Context, memory int64, create func() (*Sandbox, error),
	f func(s *Sandbox, workspace string) error) (err error) {
	b.working.Lock()
	defer b.working.Unlock()
	dir, err := b.makeOwnDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.removeOwnDir(dir)) }()
	spec := kernel.Spec{Limits: kernel.Limits{MemoryBytes: memory, PIDs: 64, TmpBytes: 64 << 20}}
	workspace, packages := filepath.Join(dir, "workspace"), filepath.Join(dir, "packages")
	for path, file := range map[string]**os.File{workspace: &spec.Workspace, packages: &spec.Packages} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if *file, err = os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
			return err
		}
		defer (*file).Close()
		if os.Geteuid() == 0 {
			spec.UID = b.cfg.OwnUID
			if err := os.Chown(path, spec.UID, spec.UID); err != nil {
				return err
			}
		}
	}
	s, err := create()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Seal(ctx, spec); err != nil {
		return err
	}
	return f(s, workspace)
}

// ownPrefix starts the names of the directories that the backend's own sandboxes work in. The instance follows, and a
// number.
const ownPrefix = ".own-"

// MakeDir implements [kernel.DirMaker].
func (b *Backend) MakeDir() (string, error) { return b.makeOwnDir() }

// RemoveDir implements [kernel.DirMaker].
func (b *Backend) RemoveDir(dir string) error { return b.removeOwnDir(dir) }

func (b *Backend) makeOwnDir() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir, err := os.MkdirTemp(b.cfg.Root, ownPrefix+b.cfg.Instance+"-")
	if err != nil {
		return "", err
	}
	b.own[dir] = true
	return dir, os.Chmod(dir, 0o711) // the user that works in it has to pass through
}

func (b *Backend) removeOwnDir(dir string) error {
	// User code may have left anything in it.
	err := workspace.Delete(context.Background(), b.cfg.Root, filepath.Base(dir))
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.own, dir)
	return err
}

// sweepOwnDirs removes the directories that an earlier program of an instance did not get to remove.
func (b *Backend) sweepOwnDirs(instance string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries, err := os.ReadDir(b.cfg.Root)
	errs := []error{err}
	for _, entry := range entries {
		name := entry.Name()
		dir := filepath.Join(b.cfg.Root, name)
		if i := strings.LastIndexByte(name, '-'); i >= 0 && name[:i] == ownPrefix+instance && !b.own[dir] {
			errs = append(errs, workspace.Delete(context.Background(), b.cfg.Root, name))
		}
	}
	return errors.Join(errs...)
}

// run waits for a command, whose output goes into the error if it fails.
func run(ctx context.Context, s *Sandbox, cmd kernel.Program) error {
	p, err := s.Start(ctx, cmd)
	if err != nil {
		return err
	}
	defer p.Stdout().Close()
	defer p.Stderr().Close()
	stop := context.AfterFunc(ctx, func() { _ = p.Signal(unix.SIGKILL) })
	defer stop()
	var words tail
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(io.Discard, p.Stdout())
	}()
	_, _ = io.Copy(&words, p.Stderr())
	<-copied
	<-p.Done()
	if exit := p.Exit(); exit != (kernel.Exit{}) {
		return errors.Join(fmt.Errorf("ended with %+v: %s", exit, strings.TrimSpace(words.String())), context.Cause(ctx))
	}
	return nil
}

// copyFontLists copies files that code in a sandbox wrote, so it trusts neither their names nor their kinds nor their
// content.
func copyFontLists(from, to string) error {
	dir, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if matched, _ := filepath.Match("fontlist-v*.json", entry.Name()); !matched || !entry.Type().IsRegular() {
			continue
		}
		f, err := dir.OpenFile(entry.Name(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.LimitReader(f, maxFontList))
		f.Close()
		if err != nil {
			return err
		}
		if !json.Valid(content) {
			return fmt.Errorf("%s is not JSON", entry.Name())
		}
		if err := writeAtomic(filepath.Join(to, entry.Name()), content); err != nil {
			return err
		}
	}
	return nil
}

func writeAtomic(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
