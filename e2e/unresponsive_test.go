package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/api"
)

// A stopped host keeps its kernels: requests that need them are refused with an explanation until it continues, and
// cells wait.
func TestAHostThatIsStoppedLosesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	first := run(t, c, id, "n = 1")
	host := s.host(t)
	stopProcess(t, host.pid)
	defer func() { _ = syscall.Kill(host.pid, syscall.SIGCONT) }()
	waiting := s.queue(t, id, "n += 1\nprint(n)")

	refused := func(what string, err error) {
		t.Helper()
		var told *api.Error
		if !errors.As(err, &told) || told.Code != api.CodeNotReady || told.Status != 503 {
			t.Errorf("%s: %v", what, err)
		}
	}
	for { // a question is answered within 200 ms, and the host may be noticed only after that
		_, err := c.Variables(within(t), id)
		if told := (*api.Error)(nil); errors.As(err, &told) && told.Code == api.CodeKernelBusy {
			continue
		}
		refused("a question", err)
		break
	}
	_, err := c.CreateSession(within(t), api.SessionRequest{})
	refused("a session", err)
	_, err = c.ResetSession(within(t), id, api.ResetRequest{})
	refused("a reset", err)
	refused("a deletion", c.DeleteSession(within(t), id))
	if e, err := c.Execution(within(t), id, first.ID); err != nil || e.Status != api.StatusOK {
		t.Errorf("an execution of before: %+v, %v", e.Status, err)
	}
	if e, err := c.Execution(within(t), id, waiting); err != nil || e.Status != api.StatusQueued {
		t.Errorf("the cell that waits: %s, %v", e.Status, err)
	}
	interrupted := s.queue(t, id, "print('never')")
	if err := c.Interrupt(within(t), id, interrupted); err != nil {
		t.Errorf("an interrupt: %v", err)
	}

	if err := syscall.Kill(host.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	e := s.ended(t, id, waiting)
	if e.Status != api.StatusOK || printed(e) != "2\n" || e.Generation != 1 {
		t.Errorf("the cell that waited: %s, %q, generation %d", e.Status, printed(e), e.Generation)
	}
	wantEnd(t, s.ended(t, id, interrupted), api.StatusCancelled, "interrupted", api.VariablesKept)
	if got := runOK(t, c, id, "print(n)"); got != "2\n" {
		t.Errorf("the variable is %q", got)
	}
}

// stopProcess stops a process, and returns when each of its threads has stopped: on a busy machine the others continue
// until the one that takes the signal is scheduled.
func stopProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for ctx := within(t); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("the threads of process %d: %v", pid, err)
		}
		if !slices.ContainsFunc(threads, func(path string) bool {
			status, err := os.ReadFile(path)
			return err != nil || !strings.Contains(string(status), "\nState:\tT")
		}) {
			return
		}
	}
	t.Fatalf("process %d did not stop", pid)
}
