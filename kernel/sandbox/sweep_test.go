package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
	"talaria/kernel/namespace"
	"talaria/kernel/python"
	"talaria/kernel/sandbox"
)

// serverRole makes this binary a server with one sandbox, which runs until it is killed.
const serverRole = "server"

// lockAndWait runs in the server's sandbox: it takes a lock, says so, and never ends.
const lockAndWait = `
import fcntl, time
lock = open("/workspace/lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(100000)
`

func serve() {
	if err := runServer(context.Background(), os.Getenv(kerneltest.DirectoryVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runServer(ctx context.Context, dir string) error {
	b, err := namespace.New(config(dir))
	if err != nil {
		return err
	}
	env, _, err := python.DiscoverEnvironment(ctx, python.EnvironmentConfig{Engine: python.EngineStdlib})
	if err != nil {
		return err
	}
	session := filepath.Join(dir, "sessions", "one")
	if err := os.Mkdir(session, 0o755); err != nil {
		return err
	}
	spec, err := openSpec(session)
	if err != nil {
		return err
	}
	s, err := b.Create(ctx, env, false)
	if err != nil {
		return err
	}
	if err := s.Seal(ctx, spec); err != nil {
		return err
	}
	p, err := s.Start(ctx, kernel.Program{Args: []string{env.Python, "-c", lockAndWait}})
	if err != nil {
		return err
	}
	if _, err := bufio.NewReader(p.Stdout()).ReadString('\n'); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.Handle()); err != nil {
		return err
	}
	<-p.Done()
	return errors.New("the sandbox ended by itself")
}

// startServer runs a server as a separate process, and returns it with the handle of its sandbox.
func startServer(t *testing.T, dir string) (server *os.Process, handle kernel.Handle) {
	t.Helper()
	cmd := again(t, false, dir)
	cmd.Env = append(cmd.Env, roleVariable+"="+serverRole)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	})
	if err := json.NewDecoder(stdout).Decode(&handle); err != nil {
		t.Fatalf("the server did not come up: %v", err)
	}
	return cmd.Process, handle
}

// openLock opens the lock that the process in the server's sandbox holds.
func openLock(t *testing.T, dir string) int {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(dir, "own", "sessions", "one", "workspace", "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	fd := int(lock.Fd())
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		t.Fatal("the lock is free while its holder should live")
	}
	return fd
}

func TestServerDeathEndsSandboxes(t *testing.T) {
	dir := stateDir(t)
	server, handle := startServer(t, dir)
	lock := openLock(t, dir)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	// It waits until the process inside is dead.
	if err := syscall.Flock(lock, syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, filepath.Join(dir, "own"))
	if err := b.Sweep(t.Context(), []kernel.Handle{handle}); err != nil {
		t.Fatal(err)
	}
	checkNoGroups(t, handle)
}

func TestSweepKillsALeftoverSandbox(t *testing.T) {
	dir := stateDir(t)
	server, handle := startServer(t, dir)
	lock := openLock(t, dir)
	// A server that hangs cannot close its sockets.
	kerneltest.StopProcess(t, server.Pid)
	b := newBackend(t, filepath.Join(dir, "own"))
	for what, wrong := range map[string]func(*kernel.Handle){
		"start time": func(h *kernel.Handle) { h.StartTime++ },
		"boot":       func(h *kernel.Handle) { h.BootID = "another" },
		"backend":    func(h *kernel.Handle) { h.Backend = "another" },
	} {
		other := handle
		wrong(&other)
		// Only the handles: anything in groups of this instance is killed, whatever it is.
		if err := sandbox.SweepHandles(t.Context(), b, []kernel.Handle{other}); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			t.Fatalf("a process was killed that has another %s than the handle", what)
		}
	}
	if err := b.Sweep(t.Context(), []kernel.Handle{handle}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("it outlived Sweep: %v", err)
	}
	checkNoGroups(t, handle)
}

func TestSweepKillsWhatOnlyItsGroupTells(t *testing.T) {
	dir := stateDir(t)
	server, handle := startServer(t, dir)
	if len(handle.Cgroups) == 0 {
		t.Skip("no control groups can be written here")
	}
	lock := openLock(t, dir)
	kerneltest.StopProcess(t, server.Pid)
	if err := newBackend(t, filepath.Join(dir, "own")).Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("it outlived Sweep: %v", err)
	}
	checkNoGroups(t, handle)
}

func TestSweepRemovesItsOwnDirectoriesAndNoSessions(t *testing.T) {
	dir := stateDir(t)
	b := newBackend(t, dir, func(cfg *sandbox.Config) { cfg.Instance = "this" })
	for _, name := range []string{".own-this-1", ".own-that-2", ".own-this-too-3", "one"} {
		if err := os.MkdirAll(filepath.Join(dir, "sessions", name, "workspace"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(dir, "sessions"))
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%v, not %v, %v", names, want, err)
		}
	}
	if err := b.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	check(".own-that-2", ".own-this-too-3", "one")
	if err := b.SweepInstance(t.Context(), "that", nil); err != nil {
		t.Fatal(err)
	}
	check(".own-this-too-3", "one")
}

func TestSweepLeavesOtherInstancesAloneUntilToldOfTheirEnd(t *testing.T) {
	dir := stateDir(t)
	ours := newBackend(t, dir, func(cfg *sandbox.Config) { cfg.Instance = "ours" })
	theirs := newBackend(t, dir, func(cfg *sandbox.Config) { cfg.Instance = "theirs" })
	s, err := theirs.Create(t.Context(), environment(t), false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := ours.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Seal(t.Context(), newSpec(t, dir)); err != nil {
		t.Errorf("after the sweep of another instance: %v", err)
	}
	if err := ours.SweepInstance(t.Context(), "theirs", []kernel.Handle{s.Handle()}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Usage(t.Context()); err == nil {
		t.Error("it outlived the sweep of its own instance")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "..", "a/b"} {
		if err := ours.SweepInstance(t.Context(), name, nil); err == nil {
			t.Errorf("%q is taken for an instance", name)
		}
	}
}

func TestSweepLeavesLivingSandboxes(t *testing.T) {
	dir := stateDir(t)
	b := newBackend(t, dir)
	env := environment(t)
	s, err := b.Create(t.Context(), env, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := b.Sweep(t.Context(), []kernel.Handle{s.Handle()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Seal(t.Context(), newSpec(t, dir)); err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(t.Context(), kernel.Program{Args: []string{"echo", "alive"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout().Close()
	defer p.Stderr().Close()
	if text, err := io.ReadAll(p.Stdout()); strings.TrimSpace(string(text)) != "alive" {
		t.Errorf("%q %v", text, err)
	}
	<-p.Done()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSweepRemovesGroupsThatHandlesNameElsewhere(t *testing.T) {
	dir := stateDir(t)
	b := newBackend(t, dir)
	s, err := b.Create(t.Context(), environment(t), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	leftover := s.Handle()
	if len(leftover.Cgroups) == 0 {
		t.Skip("no control groups can be written here")
	}
	foreign := leftover
	leftover.Cgroups, foreign.Cgroups = nil, nil
	for _, dir := range s.Handle().Cgroups {
		instance := filepath.Dir(dir)
		elsewhere := filepath.Join(filepath.Dir(filepath.Dir(instance)), "talaria-test-elsewhere")
		name := filepath.Base(instance)
		ours := filepath.Join(elsewhere, "talaria", name, "leftover")
		theirs := filepath.Join(elsewhere, "talaria", name+"-other", "theirs")
		for _, made := range []string{ours, theirs} {
			if err := os.MkdirAll(made, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			for _, made := range []string{ours, theirs} {
				for ; made != filepath.Dir(elsewhere); made = filepath.Dir(made) {
					_ = os.Remove(made)
				}
			}
		})
		leftover.Cgroups = append(leftover.Cgroups, ours)
		foreign.Cgroups = append(foreign.Cgroups, theirs)
	}
	if err := b.Sweep(t.Context(), []kernel.Handle{leftover, foreign}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range leftover.Cgroups {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	for _, dir := range foreign.Cgroups {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("another instance's group: %v", err)
		}
	}
}

func checkNoGroups(t *testing.T, handle kernel.Handle) {
	t.Helper()
	for _, dir := range handle.Cgroups {
		for range 2 { // the sandbox's group and the instance's
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", dir, err)
			}
			dir = filepath.Dir(dir)
		}
	}
}
