package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel/kerneltest"
	"talaria/session"
	"talaria/session/processes"
)

// soon bounds what takes no time unless sessions wait for each other.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func beside(t *testing.T, main *session.Session) *session.Session {
	t.Helper()
	s, err := main.CreateBeside(t.Context(), session.BesideRequest{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

// A session beside another one can be found before its creation returns, though it takes some attempts to use it that early.
func TestASessionBesideAnotherOneIsUsedWhileItIsCreated(t *testing.T) {
	r := newRig(t, echo, nil)
	main := r.session(api.SessionRequest{})
	if _, err := main.Wake(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		var using sync.WaitGroup
		for range 4 {
			using.Go(func() {
				for {
					list, err := main.Beside(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if len(list) == 0 {
						continue
					}
					if _, err := list[0].Wake(soon(t)); err != nil {
						t.Error(err)
					}
					list[0].Release()
					return
				}
			})
		}
		stuck := time.AfterFunc(time.Minute, func() { panic("the session waits for the one beside it, which waits for the session") })
		s, err := main.CreateBeside(t.Context(), session.BesideRequest{})
		if err != nil {
			t.Fatal(err)
		}
		using.Wait()
		stuck.Stop()
		s.Release()
		if err := r.Delete(t.Context(), "ann", s.ID()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASessionWhoseKernelCannotStartForOthersHasNone(t *testing.T) {
	r := newRig(t, echo, nil)
	r.fake.Shell = kerneltest.Lines
	main := r.saved(api.SessionRequest{Approvals: ptr(api.ApprovalsAll)})
	user := attended(t, main)
	waiting := submit(t, main, "1")
	question := user.asked()
	r.fake.CreateErr = errors.New("no sandbox")
	var other *session.Session
	for _, need := range []struct {
		what string
		use  func() error
	}{
		{"a new session beside it", func() error {
			other = beside(t, main)
			return second(other.Wake(t.Context())) // after its own attempt
		}},
		{"a session beside it", func() error { return second(other.Wake(t.Context())) }},
		{"a terminal", func() error { return second(main.Terminals().Open(t.Context(), api.TerminalRequest{})) }},
		{"a program", func() error {
			return second(main.Programs().Start(t.Context(), processes.Request{Args: []string{"true"}}))
		}},
	} {
		if err := need.use(); code(err) != api.CodeKernelStart {
			t.Errorf("%s: %v", need.what, err)
		}
		if info := main.Info(t.Context()); info.State != api.StateHibernated || info.Reason != "start_failed" {
			t.Errorf("after %s the session is %s, %q", need.what, info.State, info.Reason)
		}
	}
	r.fake.CreateErr = nil
	user.decide(question.ApprovalID, api.DecisionOnce)
	if e := wait(t, main, waiting); e.Status != api.StatusOK || e.Text != "1" {
		t.Errorf("the cell that waited for an answer is %s, %q", e.Status, e.Text)
	}
}
