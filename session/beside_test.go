package session_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/session"
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
