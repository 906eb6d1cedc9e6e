package session_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
	"talaria/session"
)

// olderHost is a host that does not know terminals.
type olderHost struct{ session.Host }

func (h olderHost) Do(ctx context.Context, key record.Key, c command.Command) (any, error) {
	if c.Spec().Since > 1 {
		return nil, command.ErrTooOld
	}
	return h.Host.Do(ctx, key, c)
}

func wantCode(t *testing.T, err error, code api.Code, words string) {
	t.Helper()
	var problem *api.Error
	if !errors.As(err, &problem) || problem.Code != code || !strings.Contains(problem.Detail, words) {
		t.Errorf("%v, want %s with %q", err, code, words)
	}
}

func TestAKernelOfAnOlderHostHasNoTerminals(t *testing.T) {
	r := newRig(t, func(*kerneltest.Cell) {}, func(cfg *session.Config) { cfg.Host = olderHost{cfg.Host} })
	s := r.session(api.SessionRequest{})
	_, opened := s.Terminals().Open(t.Context(), api.TerminalRequest{})
	_, listed := s.Terminals().List(t.Context())
	for _, err := range []error{opened, listed, s.Terminals().Has(t.Context(), "1-1"), s.Terminals().Close(t.Context(), "1-1")} {
		wantCode(t, err, api.CodeNotImplemented, "reset the session")
	}
}

// shown reads a terminal from its beginning until wanted has come, or to the end if wanted is "".
func shown(t *testing.T, s *session.Session, id, wanted string) (all string, last command.TerminalOutput) {
	t.Helper()
	for !last.Ended && (wanted == "" || !strings.Contains(all, wanted)) {
		var err error
		if last, err = s.Terminals().Read(t.Context(), id, int64(len(all))); err != nil {
			t.Fatal(err)
		}
		all += string(last.Data)
	}
	return all, last
}

func TestATerminalStartsAKernelAndTypingIsUse(t *testing.T) {
	r := newRig(t, func(c *kerneltest.Cell) { c.Exit(7) }, nil)
	r.fake.Shell = kerneltest.Lines
	s := r.session(api.SessionRequest{})
	execute(t, s, "the kernel ends")
	made, err := s.Terminals().Open(t.Context(), api.TerminalRequest{})
	if err != nil || made.ID != "2-1" {
		t.Fatalf("%+v, %v", made, err)
	}
	for i := range 2 {
		before := s.Info(t.Context()).LastActiveAt
		for !time.Now().After(before.Add(time.Millisecond)) { // what is used later is at another time
		}
		if err := s.Terminals().Write(t.Context(), made.ID, []byte("a\n")); err != nil {
			t.Fatal(err)
		}
		if after := s.Info(t.Context()); after.State != api.StateIdle || !after.LastActiveAt.After(before.Time) {
			t.Errorf("typing %d: %s, last active at %v and before at %v", i, after.State, after.LastActiveAt, before)
		}
	}
	shown(t, s, made.ID, "[a]\r\n")
	if err := s.Terminals().Write(t.Context(), made.ID, []byte("exit 4\n")); err != nil {
		t.Fatal(err)
	}
	if _, last := shown(t, s, made.ID, ""); last.Code != 4 {
		t.Errorf("it ended with %d", last.Code)
	}
	if out, err := s.Terminals().Read(t.Context(), "1-1", 5); err != nil || !out.Ended || out.Code != 137 || out.Offset != 5 {
		t.Errorf("of a kernel that has gone: %+v, %v", out, err)
	}
	wantCode(t, s.Terminals().Write(t.Context(), "1-1", []byte("a")), api.CodeTerminalNotFound, `"1-1"`)
}

func TestALargePasteIsTypedInOrderAsTheShellReads(t *testing.T) {
	const line = "a line of a paste\n"
	r := newRig(t, func(*kerneltest.Cell) {}, nil)
	begin := make(chan struct{})
	r.fake.Shell = func(ctx context.Context, terminal *os.File) int {
		select {
		case <-begin: // until then, the terminal fills up
		case <-ctx.Done():
		}
		return kerneltest.Lines(ctx, terminal)
	}
	s := r.session(api.SessionRequest{})
	made, err := s.Terminals().Open(t.Context(), api.TerminalRequest{})
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Terminals().Write(cancelled, made.ID, []byte(strings.Repeat(line, 50_000))); !errors.Is(err, context.Canceled) {
		t.Errorf("a paste that is given up: %v", err)
	}
	close(begin)
	if err := s.Terminals().Write(t.Context(), made.ID, []byte("\n"+strings.Repeat(line, 20_000)+"exit 0\n")); err != nil {
		t.Fatal(err)
	}
	last := command.TerminalOutput{}
	var tail string
	for at := int64(0); !last.Ended; at = last.Offset + int64(len(last.Data)) {
		if last, err = s.Terminals().Read(t.Context(), made.ID, at); err != nil {
			t.Fatal(err)
		}
		tail += string(last.Data)
	}
	if n := strings.Count(tail, "[a line of a paste]"); n < 20_000 || last.Code != 0 {
		t.Errorf("%d lines came, and it ended with %d", n, last.Code)
	}
}
