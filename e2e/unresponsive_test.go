package e2e

import (
	"errors"
	"syscall"
	"testing"

	"talaria/api"
)

// A host that is stopped keeps its kernels: what needs them is refused with words until it goes on, and cells wait.
func TestAHostThatIsStoppedLosesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	first := run(t, c, id, "n = 1")
	host := s.host(t)
	if err := syscall.Kill(host.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(host.pid, syscall.SIGCONT) }()
	waiting := s.queue(t, id, "n += 1\nprint(n)")

	refused := func(what string, err error) {
		t.Helper()
		var told *api.Error
		if !errors.As(err, &told) || told.Code != api.CodeNotReady || told.Status != 503 {
			t.Errorf("%s: %v", what, err)
		}
	}
	for { // a question is answered within 200 ms, and the host may be noticed after that
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
