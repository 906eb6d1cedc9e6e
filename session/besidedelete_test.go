package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/session"
	"talaria/store"
)

// stopHost has the next call of Stop for one session wait, and then fail with an error if that is not nil.
type stopHost struct {
	session.Host
	waits  chan struct{} // closed when the call waits
	goesOn chan error

	mu sync.Mutex // guards the field below
	of string     // the session; "": none
}

func (h *stopHost) Stop(ctx context.Context, key record.Key, reason string) error {
	h.mu.Lock()
	waits := h.of == key.Session
	if waits {
		h.of = ""
	}
	h.mu.Unlock()
	if waits {
		close(h.waits)
		if err := <-h.goesOn; err != nil {
			return err
		}
	}
	return h.Host.Stop(ctx, key, reason)
}

// waitIn has the next call of Stop for that session wait.
func (h *stopHost) waitIn(s *session.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of = s.Serial()
}

func stopping(t *testing.T) (*rig, *stopHost) {
	h := &stopHost{waits: make(chan struct{}), goesOn: make(chan error)}
	r := scripted(t, func(cfg *session.Config) {
		if h.Host == nil {
			h.Host = cfg.Host
		}
		cfg.Host = h
	})
	return r, h
}

// contextOf creates a session beside main, whose kernel has started.
func contextOf(t *testing.T, main *session.Session) *session.Session {
	t.Helper()
	s, err := main.CreateBeside(t.Context(), session.BesideRequest{Name: "beside"})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, s, "print 1")
	return s
}

// shortly waits for what may never happen.
func shortly(done <-chan error) (err error, happened bool) {
	select {
	case err := <-done:
		return err, true
	case <-time.After(300 * time.Millisecond):
		return nil, false
	}
}

func TestADeleteWaitsForThatOfASessionBesideIt(t *testing.T) {
	for name, fault := range map[string]error{"which succeeds": nil, "which fails": command.ErrUnresponsive} {
		t.Run(name, func(t *testing.T) {
			r, h := stopping(t)
			main := r.session(api.SessionRequest{ID: ptr("main")})
			defer main.Release()
			beside := contextOf(t, main)
			h.waitIn(beside)
			one, both := make(chan error, 1), make(chan error, 1)
			go func() { one <- r.Delete(context.Background(), "ann", beside.ID()) }()
			<-h.waits
			go func() { both <- r.Delete(context.Background(), "ann", "main") }()
			if err, ended := shortly(both); ended {
				t.Errorf("the main session is deleted before the one beside it (%v)", err)
				both <- err
			}
			h.goesOn <- fault
			if err := <-one; !errors.Is(err, fault) {
				t.Errorf("the first delete: %v", err)
			}
			if err := <-both; err != nil {
				t.Errorf("the delete of the main session: %v", err)
			}
			for _, id := range []string{"main", beside.ID()} {
				if _, err := r.Get("ann", id); !errors.Is(err, session.ErrDeleted) {
					t.Errorf("session %q afterwards: %v", id, err)
				}
			}
		})
	}
}

func TestAServerForgetsASessionWhoseMainOneIsGone(t *testing.T) {
	r := scripted(t, nil)
	main, other := r.session(api.SessionRequest{ID: ptr("main")}), r.session(api.SessionRequest{ID: ptr("other")})
	beside, kept := contextOf(t, main), contextOf(t, other)
	n, _, err := r.db.FindSession(t.Context(), "ann", "main")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.db.Do(t.Context(), store.Write{Apply: func(tx *store.Tx) error { return tx.DisownSession(n) }}); err != nil {
		t.Fatal(err)
	}
	r.kill()
	r.open()
	if _, err := r.Get("ann", beside.ID()); !errors.Is(err, session.ErrDeleted) {
		t.Errorf("the session beside one that is gone: %v", err)
	}
	again := get(t, r, kept.ID())
	defer again.Release()
	if e := execute(t, again, "print 2"); e.Text != "2\n" {
		t.Errorf("another one prints %q", e.Text)
	}
	if rows, err := r.db.AllSessions(t.Context()); err != nil || len(rows) != 2 {
		t.Errorf("there are %d sessions (%v)", len(rows), err)
	}
}

func TestASessionThatIsDeletedStartsNoKernel(t *testing.T) {
	r, h := stopping(t)
	s := r.session(api.SessionRequest{ID: ptr("s")})
	defer s.Release()
	execute(t, s, "print 1")
	h.waitIn(s)
	deleted, woken := make(chan error, 1), make(chan error, 20)
	go func() { deleted <- r.Delete(context.Background(), "ann", "s") }()
	<-h.waits
	for range cap(woken) {
		go func() {
			_, err := s.Wake(context.Background())
			woken <- err
		}()
	}
	shortly(deleted) // it waits; meanwhile those come
	h.goesOn <- nil
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	for range cap(woken) {
		if err := <-woken; !errors.Is(err, session.ErrDeleted) {
			t.Fatalf("a wake during the delete: %v", err)
		}
	}
}
