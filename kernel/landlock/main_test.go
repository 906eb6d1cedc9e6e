package landlock_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
	"talaria/kernel/landlock"
	"talaria/kernel/python"
	"talaria/kernel/sandbox"
)

// sessionUID is a user id reserved for these tests; each session has its own id above it.
const sessionUID = 1900001000

var sessions int

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newBackend(t *testing.T, dir string, changes ...func(*sandbox.Config)) *sandbox.Backend {
	t.Helper()
	cfg := sandbox.Config{Root: filepath.Join(dir, "sessions"), LibDir: filepath.Join(dir, "lib")}
	for _, change := range changes {
		change(&cfg)
	}
	b, err := landlock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(filepath.Join(cfg.Root, ".own-*")); len(left) > 0 || err != nil {
			t.Errorf("directories are left: %v %v", left, err)
		}
	})
	return b
}

func environment(t *testing.T) kernel.Environment {
	t.Helper()
	env, _, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Engine: python.EngineStdlib})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func newSpec(t *testing.T, dir string) kernel.Spec {
	sessions++
	spec := kerneltest.NewSpec(t, filepath.Join(dir, "sessions"), sessionUID+sessions)
	// As the server does it: no mount separates a session from its packages.
	packages := fmt.Sprintf("/proc/self/fd/%d", spec.Packages.Fd())
	if err := errors.Join(os.Chown(packages, os.Geteuid(), os.Getegid()), os.Chmod(packages, 0o755)); err != nil {
		t.Fatal(err)
	}
	return spec
}

// sealed returns a sandbox for one session, which ends with the test at the latest.
func sealed(t *testing.T, b *sandbox.Backend, env kernel.Environment, spec kernel.Spec) kernel.Sandbox {
	t.Helper()
	s, err := b.Create(t.Context(), env, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Seal(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	dir := kerneltest.StateDir(t)
	kerneltest.Conformance(t, newBackend(t, dir), environment(t), kerneltest.OwnFiles,
		func(t *testing.T) kernel.Spec { return newSpec(t, dir) })
}

func TestConformanceOfForked(t *testing.T) {
	dir := kerneltest.StateDir(t)
	b, env := newBackend(t, dir), environment(t)
	env.Preload = []string{"numpy", "pandas", "matplotlib"}
	if err := b.Warm(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	kerneltest.Conformance(t, b, env, kerneltest.OwnFiles, func(t *testing.T) kernel.Spec { return newSpec(t, dir) })
}

func TestAllAgainAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("these tests run as an ordinary user already")
	}
	if testing.Short() {
		t.Skip("runs all tests for a second time")
	}
	if version, err := kerneltest.LandlockVersion(); err != nil || version < 6 {
		t.Skipf("Landlock ABI %d (%v) cannot restrict the signals of an ordinary user's sessions", version, err)
	}
	out, err := kerneltest.Again(t, true, kerneltest.StateDir(t), "-test.v").CombinedOutput()
	if err != nil {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}

// Pid 1 handles calls of the processes inside, and must not go on when none is left to make any.
func TestPid1RestsWhenItsCommandsHaveEnded(t *testing.T) {
	dir := kerneltest.StateDir(t)
	s, err := newBackend(t, dir).Create(t.Context(), environment(t), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Seal(t.Context(), newSpec(t, dir)); err != nil {
		t.Fatal(err)
	}
	run := func(command string) {
		p, err := s.Start(t.Context(), kernel.Program{Args: []string{"/bin/sh", "-c", command}})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if exit := p.Exit(); exit != (kernel.Exit{}) {
			t.Errorf("%s: %+v", command, exit)
		}
		p.Stdout().Close()
		p.Stderr().Close()
	}
	cpu := func() time.Duration {
		used, err := s.(kernel.Watched).CPU(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	run("touch x && chmod 600 x")
	before := cpu()
	run("sleep 1") // enough time for a busy pid 1 to use all of it
	if used := cpu() - before; used > 500*time.Millisecond {
		t.Errorf("a second of sleep took %v of CPU time", used)
	}
}
