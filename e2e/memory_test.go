package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/api"
)

// hibernates waits until a session hibernates by itself.
func hibernates(t *testing.T, s *Server, id string) {
	t.Helper()
	s.attach(t, id, "after=0").awaits(t, func(h head, raw []byte) bool {
		return h.Type == "session_state" && decode[api.SessionStateEvent](t, string(raw)).State == api.StateHibernated
	})
}

// With a reserve of all memory, memory is always short.
func TestIdleKernelsHibernateWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		t.Fatal(err)
	}
	s := start(t, options{config: fmt.Sprintf("memory_reserve: %d\n", uint64(machine.Totalram)*uint64(machine.Unit)-1)})
	c := s.Client()
	dropped := session(t, c, api.SessionRequest{OnIdle: new(api.OnIdleDrop)})
	lasting := session(t, c, api.SessionRequest{IdleTimeoutS: new(0.0)})
	served := session(t, c, api.SessionRequest{})
	plain := session(t, c, api.SessionRequest{})
	for _, id := range []string{dropped, lasting, served, plain} {
		runOK(t, c, id, "x = 17")
	}
	s.openTerminal(t, served, "{}")
	hibernates(t, s, plain)
	// The others may not, but their copies of the interpreter are memory, too.
	s.attach(t, lasting, "after=0").awaits(t, func(h head, raw []byte) bool {
		return h.Type == "checkpoint_dropped" && strings.Contains(string(raw), `"reason":"server_memory","level":"files"`)
	})
	list, err := c.Checkpoints(within(t), lasting)
	if err != nil || len(list) == 0 || !strings.Contains(list[len(list)-1].Reason, "little memory left") {
		t.Errorf("the checkpoints are %+v (%v)", list, err)
	}
	for _, id := range []string{dropped, lasting, served} {
		info, err := c.Session(within(t), id)
		if err != nil || info.State != api.StateIdle {
			t.Errorf("session %s is %s (%v)", id, info.State, err)
		}
	}
	if got := result(t, c, plain, "x"); got != "17" {
		t.Errorf("x is %s after the kernel has woken", got)
	}
}

// A control group above the server bounds it and its kernels together.
func TestAMemoryLimitAboveTheServerIsWatched(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("SKIP: control groups are made by root")
	}
	dir := memoryGroup(t, 1280<<20)
	s := prepare(t, options{config: "memory_reserve: 500000000\n"})
	s.program = filepath.Join(t.TempDir(), "talaria")
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && exec %s \"$@\"\n", dir, binary)
	if err := os.WriteFile(s.program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s.launch(t)
	t.Cleanup(func() { s.stop(t) })
	c := s.Client()
	// Most of the memory cannot be saved: saving all of it takes longer on a busy machine than one variable may.
	fill := "import mmap; x = bytearray(20_000_000); held = mmap.mmap(-1, 230_000_000, mmap.MAP_PRIVATE)\nfor one in x, held: one[::4096] = b'1' * len(one[::4096])"
	first := session(t, c, api.SessionRequest{})
	runOK(t, c, first, fill)
	runOK(t, c, session(t, c, api.SessionRequest{}), fill)
	third := session(t, c, api.SessionRequest{})
	runOK(t, c, third, fill)
	hibernates(t, s, first)
	for _, id := range []string{third, first} {
		if got := result(t, c, id, "len(x), x[4096]"); got != "(20000000, 49)" {
			t.Errorf("x is %s", got)
		}
	}
}

// memoryGroup makes a control group with a limit of memory below this process's own, and removes it when the test has ended.
func memoryGroup(t *testing.T, bytes int64) string {
	t.Helper()
	var dir string
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	limit := "memory.limit_in_bytes"
	for line := range strings.Lines(string(own)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, path, _ := strings.Cut(rest, ":")
		if slices.Contains(strings.Split(names, ","), "memory") {
			dir = filepath.Join("/sys/fs/cgroup/memory", path)
			break
		}
	}
	if dir == "" {
		t.Skip("SKIP: the memory controller is not of version 1, whose groups can have processes and groups below them")
	}
	dir = filepath.Join(dir, "talaria-test-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("SKIP: no control group can be made: ", err)
	}
	t.Cleanup(func() {
		for range 100 { // the last process may leave it a moment after its death
			if err = os.Remove(dir); err == nil || os.IsNotExist(err) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error(err)
	})
	if err := os.WriteFile(filepath.Join(dir, limit), []byte(strconv.FormatInt(bytes, 10)), 0); err != nil {
		t.Fatal(err)
	}
	return dir
}
