package sandbox_test

import (
	"strings"
	"syscall"
	"testing"

	"talaria/kernel"
)

// A process that gets round its own limit hits the group's, and its exit says so.
func TestGroupMemoryLimitIsNamed(t *testing.T) {
	dir := stateDir(t)
	b := newBackend(t, dir)
	env := environment(t)
	s, err := b.Create(t.Context(), env, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spec := newSpec(t, dir)
	spec.Limits.MemoryBytes = 128 << 20
	if err := s.Seal(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(s.Layers(), "\n"), "memory: cgroup") {
		t.Skip("no control group bounds memory here")
	}
	run := func(code string) kernel.Exit {
		t.Helper()
		p, err := s.Start(t.Context(), kernel.Program{Args: []string{env.Python, "-c", code}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stdout().Close()
		defer p.Stderr().Close()
		<-p.Done()
		return p.Exit()
	}
	const unlimited = `
import mmap
pages = mmap.mmap(-1, 512 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
for i in range(0, len(pages), 4096):
    pages[i] = 1
`
	if exit := run(unlimited); exit != (kernel.Exit{Signal: syscall.SIGKILL, Limit: "memory_limit"}) {
		t.Errorf("%+v", exit)
	}
	// An earlier kill is not blamed for a signal from inside.
	exit := run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
	if exit != (kernel.Exit{Signal: syscall.SIGKILL}) {
		t.Errorf("%+v", exit)
	}
}
