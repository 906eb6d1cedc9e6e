package sandbox_test

import (
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"talaria/kernel"
	"talaria/kernel/sandbox"
)

// unlimited takes memory that RLIMIT_DATA does not bound.
const unlimited = `
import mmap
pages = mmap.mmap(-1, 512 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
for i in range(0, len(pages), 4096):
    pages[i] = 1
`

// limited returns a sandbox whose control group has 128 MiB, and what runs code in it.
func limited(t *testing.T) (s kernel.Sandbox, run func(code string) kernel.Exit) {
	t.Helper()
	dir := stateDir(t)
	env := environment(t)
	s = create(t, newBackend(t, dir), env, false)
	spec := newSpec(t, dir)
	spec.Limits.MemoryBytes = 128 << 20
	if err := s.Seal(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(s.Layers(), "\n"), "memory: cgroup") {
		t.Skip("no control group bounds memory here")
	}
	return s, func(code string) kernel.Exit {
		t.Helper()
		p, err := s.Start(t.Context(), kernel.Program{Args: []string{env.Python, "-c", code}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stdout().Close()
		defer p.Stderr().Close()
		said, err := io.ReadAll(p.Stderr())
		if err != nil || len(said) > 0 {
			t.Errorf("%s%v", said, err)
		}
		<-p.Done()
		return p.Exit()
	}
}

// A process that gets round its own limit hits the group's, and its exit says so.
func TestGroupMemoryLimitIsNamed(t *testing.T) {
	_, run := limited(t)
	if exit := run(unlimited); exit != (kernel.Exit{Signal: syscall.SIGKILL, Limit: "memory_limit"}) {
		t.Errorf("%+v", exit)
	}
	// An earlier kill is not blamed for a signal from inside.
	exit := run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
	if exit != (kernel.Exit{Signal: syscall.SIGKILL}) {
		t.Errorf("%+v", exit)
	}
}

// A copy of an interpreter can be killed in a cell, and its end be noticed in the next one. The interpreter has outlived it.
func TestAMemoryLimitIsNamedForAnEndThatIsNoticedLate(t *testing.T) {
	s, run := limited(t)
	interpreter, err := s.Start(t.Context(), kernel.Program{})
	if err != nil {
		t.Fatal(err)
	}
	defer interpreter.Stdout().Close()
	defer interpreter.Stderr().Close()
	twice := "import os\nfor _ in range(2):\n    if not os.fork():\n        exec(" + strconv.Quote(unlimited) + ")\n    os.wait()"
	if exit := run(twice); exit != (kernel.Exit{}) {
		t.Fatalf("%+v", exit)
	}
	if err := s.(kernel.PeakResetter).ResetPeak(); err != nil {
		t.Fatal(err)
	}
	if limit := sandbox.LimitReached(s, true); limit != "" {
		t.Errorf("the interpreter ended for the limit %q", limit)
	}
	for _, want := range []string{"memory_limit", "memory_limit", ""} {
		if limit := sandbox.LimitReached(s, false); limit != want {
			t.Errorf("the limit is %q, not %q", limit, want)
		}
	}
}
