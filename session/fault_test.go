package session_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
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

// faultyHost fails where it is told to, once each time.
type faultyHost struct {
	session.Host
	mu       sync.Mutex // guards the fields below
	next, do error
	onNext   chan struct{} // closed when next has been set
}

var errFault = errors.New("the test breaks this")

func (h *faultyHost) fail(next, do error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next, h.do = next, do
	if next != nil {
		close(h.onNext)
	}
}

// failed reports whether what was to fail has failed.
func (h *faultyHost) failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next == nil && h.do == nil
}

func (h *faultyHost) Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error) {
	h.mu.Lock()
	broken := h.onNext
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-broken:
			cancel()
		case <-ctx.Done():
		}
	}()
	records, err := h.Host.Next(ctx, key, after)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && h.next != nil {
		err, h.next, h.onNext = h.next, nil, make(chan struct{})
	}
	return records, err
}

func (h *faultyHost) Do(ctx context.Context, key record.Key, c command.Command) (any, error) {
	h.mu.Lock()
	err := h.do
	h.do = nil
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return h.Host.Do(ctx, key, c)
}

// faulty returns a session whose host can be made to fail.
func faulty(t *testing.T, cell func(*kerneltest.Cell)) (*session.Session, *faultyHost) {
	host := &faultyHost{onNext: make(chan struct{})}
	r := newRig(t, cell, func(cfg *session.Config) {
		host.Host = cfg.Host
		cfg.Host = host
	})
	return r.session(api.SessionRequest{}), host
}

func echo(c *kerneltest.Cell) {
	switch c.Code {
	case "hang":
		c.Print("begun\n")
		c.Sleep()
	case "ask":
		if answer, ok := c.Input("? "); ok {
			c.Print(answer)
		}
	default:
		c.Print(c.Code)
	}
}

func TestAKernelWhoseRecordsCannotBeReadIsReplaced(t *testing.T) {
	s, host := faulty(t, echo)
	id := submit(t, s, "hang")
	until(t, s, 0, "stream")
	host.fail(errFault, nil)
	e := wait(t, s, id)
	if e.Status != api.StatusDied || e.Reason != "records_lost" || e.Text == "" {
		t.Errorf("the execution ended as %s, %q: %q", e.Status, e.Reason, e.Text)
	}
	if e := execute(t, s, "again"); e.Status != api.StatusOK || textAfterLoss(e, "the server could not read what the kernel reported") != "again" {
		t.Errorf("the next one: %s %q", e.Status, e.Text)
	}
}

func TestASessionWithoutRecordsCanBeResetAndDeleted(t *testing.T) {
	s, host := faulty(t, echo)
	execute(t, s, "1")
	host.fail(errFault, nil)
	eventually(t, host.failed) // otherwise the next kernel could be the one that fails
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Error(err)
	}
	if e := execute(t, s, "2"); e.Status != api.StatusOK {
		t.Errorf("after the reset: %s", e.Status)
	}
	host.fail(errFault, nil)
	eventually(t, host.failed) // otherwise the next kernel could be the one that fails
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Error(err)
	}
}

func TestACellThatTheKernelDoesNotTakeEndsAndTheNextOneRuns(t *testing.T) {
	s, host := faulty(t, echo)
	execute(t, s, "1")
	host.fail(nil, errFault)
	first := submit(t, s, "2")
	if e := wait(t, s, first); e.Status != api.StatusDied || e.Reason != "not_executing" {
		t.Errorf("the execution ended as %s, %q", e.Status, e.Reason)
	}
	if e := execute(t, s, "3"); e.Status != api.StatusOK || textAfterLoss(e, "the kernel stopped accepting cells") != "3" {
		t.Errorf("the next one: %s %q", e.Status, e.Text)
	}
}

func TestAQuestionStaysOpenWhenTheAnswerIsNotTaken(t *testing.T) {
	s, host := faulty(t, echo)
	defer s.Attach()()
	id := submit(t, s, "ask")
	until(t, s, 0, "input_request")
	host.fail(nil, errFault)
	if err := s.Input(t.Context(), api.InputRequest{Value: "a"}); !errors.Is(err, errFault) {
		t.Errorf("the answer that was not taken: %v", err)
	}
	if err := s.Input(t.Context(), api.InputRequest{Value: "b"}); err != nil {
		t.Error(err)
	}
	if e := wait(t, s, id); e.Status != api.StatusOK || e.Text == "" {
		t.Errorf("the cell: %s %q", e.Status, e.Text)
	}
	wantCode(t, s.Input(t.Context(), api.InputRequest{Value: "c"}), api.CodeNoInputPending, "")
}

func TestCreateEndsWhenTheServerDoes(t *testing.T) {
	r := newRig(t, echo, nil)
	for range 20 {
		m, ended := r.Manager, make(chan struct{})
		begun := make(chan struct{}, 1)
		go func() {
			defer close(ended)
			for {
				if _, err := m.Create(t.Context(), "ann", api.SessionRequest{}); err != nil {
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		}()
		<-begun
		r.leave()
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Fatal("Create hangs after the server has ended")
		}
		r.open()
	}
}

// logLine is a log that closes seen at its first line with that text.
type logLine struct {
	io.Writer
	text string
	once sync.Once
	seen chan struct{}
}

func (l *logLine) Write(p []byte) (int, error) {
	if strings.Contains(string(p), l.text) {
		l.once.Do(func() { close(l.seen) })
	}
	return l.Writer.Write(p)
}

// unwritable returns a rig whose database refuses that change once broken is called, and what is closed when the log says so.
func unwritable(t *testing.T, change string) (r *rig, broken func(), told <-chan struct{}) {
	log := &logLine{Writer: t.Output(), text: "the test breaks this", seen: make(chan struct{})}
	r = newRig(t, echo, func(cfg *session.Config) { cfg.Log = slog.New(slog.NewTextHandler(log, nil)) })
	return r, func() {
		r.sql(`CREATE TRIGGER broken BEFORE ` + change + ` BEGIN SELECT RAISE(ABORT, 'the test breaks this'); END`)
	}, log.seen
}

func TestADeleteThatCannotBeWrittenIsRepeated(t *testing.T) {
	r, broken, told := unwritable(t, `UPDATE OF owner ON sessions`)
	s := r.session(api.SessionRequest{ID: ptr("s")})
	defer s.Release()
	execute(t, s, "1")
	broken()
	deleted := make(chan error, 1)
	go func() { deleted <- r.Delete(context.Background(), "ann", "s") }()
	select {
	case <-told:
	case err := <-deleted:
		t.Errorf("the delete: %v", err)
		deleted <- r.Delete(t.Context(), "ann", "s")
	}
	r.sql(`DROP TRIGGER broken`)
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	if _, err := r.Get("ann", "s"); !errors.Is(err, session.ErrDeleted) {
		t.Errorf("the session afterwards: %v", err)
	}
}

func TestAnInterruptThatCannotBeWrittenIsRepeated(t *testing.T) {
	r, broken, told := unwritable(t, `UPDATE OF finished_at ON executions WHEN new.status = 'cancelled'`)
	s := r.session(api.SessionRequest{})
	defer s.Release()
	first := submit(t, s, "hang")
	until(t, s, 0, "stream")
	second, third := submit(t, s, "2"), submit(t, s, "3")
	broken()
	interrupted := make(chan error, 1)
	go func() { interrupted <- s.Interrupt(context.Background(), "") }()
	select {
	case <-told:
	case err := <-interrupted:
		t.Fatalf("the interrupt: %v", err)
	}
	r.sql(`DROP TRIGGER broken`)
	if err := <-interrupted; err != nil {
		t.Error(err)
	}
	for id, want := range map[string]api.ExecutionStatus{first: api.StatusInterrupted, second: api.StatusCancelled, third: api.StatusCancelled} {
		if e := wait(t, s, id); e.Status != want {
			t.Errorf("%q ended as %s", e.Code, e.Status)
		}
	}
	if e := execute(t, s, "4"); e.Status != api.StatusOK {
		t.Errorf("the next one: %s", e.Status)
	}
}

func TestASessionOutlivesItsEnvironment(t *testing.T) {
	gone := false
	r := newRig(t, echo, func(cfg *session.Config) {
		if gone {
			cfg.Environments = cfg.Environments[:1]
		}
	})
	s := r.session(api.SessionRequest{ID: ptr("s"), Environment: ptr("other")})
	if e := execute(t, s, "1"); e.Status != api.StatusOK {
		t.Fatalf("before: %s", e.Status)
	}
	r.crash()
	gone = true
	r.open()
	list, err := r.List(t.Context(), "ann", session.Filter{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Environment != "other" {
		t.Errorf("the list: %+v, %v", list, err)
	}
	if s, err = r.Get("ann", "s"); err != nil {
		t.Fatal(err)
	}
	e := execute(t, s, "2")
	if e.Status != api.StatusDied || e.Reason != "start_failed" || e.Error == nil ||
		!strings.Contains(e.Error.Evalue, `the environment "other" is no longer in the server's configuration`) {
		t.Errorf("a cell: %s, %q, %+v", e.Status, e.Reason, e.Error)
	}
	if err := r.Delete(t.Context(), "ann", "s"); err != nil {
		t.Error(err)
	}
}
