package session_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
	"talaria/session"
)

// stoppedHost can be stopped: what is asked of it then fails, but for cells, which wait until it goes on.
type stoppedHost struct {
	session.Host
	mu      sync.Mutex // guards what follows
	goesOn  chan struct{}
	waiting chan struct{} // has room for the cells that wait
}

func (h *stoppedHost) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.goesOn = make(chan struct{})
}

func (h *stoppedHost) stopped() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.goesOn
}

func (h *stoppedHost) goOn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.goesOn)
	h.goesOn = nil
}

func (h *stoppedHost) Do(ctx context.Context, key record.Key, c command.Command) (any, error) {
	if stopped := h.stopped(); stopped != nil {
		if !c.Spec().Waits {
			return nil, command.ErrUnresponsive
		}
		h.waiting <- struct{}{}
		select {
		case <-stopped:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return h.Host.Do(ctx, key, c)
}

func (h *stoppedHost) Ready(context.Context) error {
	if h.stopped() != nil {
		return command.ErrUnresponsive
	}
	return nil
}

func (h *stoppedHost) Stop(ctx context.Context, key record.Key, reason string) error {
	if h.stopped() != nil {
		return command.ErrUnresponsive
	}
	return h.Host.Stop(ctx, key, reason)
}

func stoppable(t *testing.T, cell func(*kerneltest.Cell)) (*rig, *stoppedHost) {
	host := &stoppedHost{waiting: make(chan struct{}, 8)}
	r := newRig(t, cell, func(cfg *session.Config) {
		host.Host = cfg.Host
		cfg.Host = host
	})
	return r, host
}

func TestACellWaitsForAHostThatIsStoppedAndHoldsUpNothingElse(t *testing.T) {
	r, host := stoppable(t, echo)
	s := r.session(api.SessionRequest{ID: ptr("s")})
	execute(t, s, "1")
	host.stop()
	id := submit(t, s, "2")
	<-host.waiting
	for what, err := range map[string]error{
		"a question": second(s.Interpreter().Variables(t.Context())),
		"a reset":    s.Reset(t.Context(), api.ResetRequest{}),
		"a deletion": r.Delete(t.Context(), "ann", "s"),
		"a session":  second(r.Create(t.Context(), "ann", api.SessionRequest{})),
	} {
		if code(err) != api.CodeNotReady {
			t.Errorf("%s: %v", what, err)
		}
	}
	if e, err := s.Executions().Get(t.Context(), id); err != nil || e.Status != api.StatusQueued {
		t.Errorf("the cell is %s, %v", e.Status, err)
	}
	host.goOn()
	if e := wait(t, s, id); e.Status != api.StatusOK || e.Text != "2" || e.Generation != 1 {
		t.Errorf("the cell ended %s %q in generation %d", e.Status, e.Text, e.Generation)
	}
}

func TestAnInterruptOfACellThatWaitsForItsHostIsNotLost(t *testing.T) {
	r, host := stoppable(t, echo)
	s := r.session(api.SessionRequest{})
	execute(t, s, "1")
	host.stop()
	id := submit(t, s, "hang")
	<-host.waiting
	if err := s.Interrupt(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	host.goOn()
	if e := wait(t, s, id); e.Status != api.StatusInterrupted {
		t.Errorf("the cell ended %s %q", e.Status, e.Reason)
	}
}

func TestACellThatNeedsAKernelWaitsForAHostThatIsStopped(t *testing.T) {
	r, host := stoppable(t, echo)
	s := r.session(api.SessionRequest{})
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, generation := range []int64{2, 3} {
		host.stop()
		id := submit(t, s, "again")
		if generation == 3 { // its kernel dies while it is given the cell
			<-host.waiting
			if err := host.Host.Stop(t.Context(), keyOf(t, r), "exit:1"); err != nil {
				t.Fatal(err)
			}
			until(t, s, 0, "kernel_died")
		} else {
			<-host.waiting
		}
		host.goOn()
		e := wait(t, s, id)
		if generation == 3 {
			e.Text = textAfterLoss(e, "Python exited with status 1")
		}
		if e.Status != api.StatusOK || e.Text != "again" || e.Generation != generation {
			t.Errorf("the cell ended %s %q in generation %d, want %d", e.Status, e.Text, e.Generation, generation)
		}
		runs++
	}
	for _, e := range executions(t, s) {
		if e.Status == api.StatusOK {
			runs--
		}
	}
	if runs != 0 {
		t.Errorf("%d executions are missing", runs)
	}
}

func keyOf(t *testing.T, r *rig) record.Key {
	keys, err := r.host.Kernels(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("the kernels are %v, %v", keys, err)
	}
	return keys[0]
}

func second[T any](_ T, err error) error { return err }

// An interrupt that the host does not take says so, and ends what waited: it was taken from the queue.
func TestAnInterruptThatTheHostDoesNotTakeCancelsWhatWaits(t *testing.T) {
	r, host := stoppable(t, echo)
	s := r.session(api.SessionRequest{})
	execute(t, s, "1")
	running := submit(t, s, "hang")
	waiting := submit(t, s, "2")
	for !s.HasGiven() { // before that, the interrupt waits for the host
		time.Sleep(time.Millisecond)
	}
	host.stop()
	if err := s.Interrupt(t.Context(), ""); !errors.Is(err, command.ErrUnresponsive) {
		t.Errorf("the interrupt: %v", err)
	}
	if e := wait(t, s, waiting); e.Status != api.StatusCancelled || e.Reason != "interrupted" {
		t.Errorf("what waited ended %s %s", e.Status, e.Reason)
	}
	host.goOn()
	if err := s.Interrupt(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if e := wait(t, s, running); e.Status != api.StatusInterrupted {
		t.Errorf("the running one ended %s %s", e.Status, e.Reason)
	}
}

// hostless cannot start kernels.
type hostless struct{ session.Host }

func (hostless) Ready(context.Context) error { return errors.New("start a host: no memory") }

func TestNothingIsMadeWhereNoKernelCanBeStarted(t *testing.T) {
	r := newRig(t, echo, func(cfg *session.Config) { cfg.Host = hostless{cfg.Host} })
	if _, err := r.Create(t.Context(), "ann", api.SessionRequest{ID: ptr("s")}); code(err) != api.CodeNotReady || strings.Contains(err.Error(), "no memory") {
		t.Errorf("a session: %v", err)
	}
	if page, err := r.List(t.Context(), "ann", session.Filter{}); err != nil || len(page.Items) != 0 {
		t.Errorf("there is %+v, %v", page.Items, err)
	}
}
