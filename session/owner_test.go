package session_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"talaria/api"
	"talaria/session"
)

// TestAnOwnerHasSoManySessionsAndKernels is row K05: at the limit a request is refused, and no kernel makes room for another.
func TestAnOwnerHasSoManySessionsAndKernels(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.OwnerSessions, c.OwnerKernels = 3, 2 })
	create := func(owner, id string) error {
		_, err := r.Create(t.Context(), owner, api.SessionRequest{ID: &id})
		return err
	}
	for _, id := range []string{"a", "b"} {
		if err := create("ann", id); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("ann", "c"); code(err) != api.CodeSessionLimit || !strings.Contains(err.Error(), "owner_kernels") {
		t.Errorf("a third kernel: %v", err)
	}
	if err := create("bob", "a"); err != nil {
		t.Errorf("another owner: %v", err)
	}
	a, err := r.Get("ann", "a")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, a, "exit 1") // its kernel ends
	if err := create("ann", "c"); err != nil {
		t.Fatalf("with one kernel less: %v", err)
	}
	if e := execute(t, a, "print x"); e.Status != api.StatusDied || !strings.Contains(e.Error.Evalue, "owner_kernels") {
		t.Errorf("a kernel that is started again: %+v", e)
	}
	if err := create("ann", "d"); code(err) != api.CodeSessionLimit || !strings.Contains(err.Error(), "owner_sessions") {
		t.Errorf("a fourth session: %v", err)
	}
	r.leave()
	r.open()
	if err := create("ann", "d"); code(err) != api.CodeSessionLimit {
		t.Errorf("under the next server: %v", err)
	}
	for _, id := range []string{"b", "c"} {
		if err := r.Delete(t.Context(), "ann", id); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("ann", "d"); err != nil {
		t.Errorf("after deletes: %v", err)
	}
	execute(t, mustGet(t, r, "a"), "print x")
}

// All owners together have so many kernels, however they come to start.
func TestAServerHasSoManyKernels(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.MaxSessions = 2 })
	create := func(owner, id string) error {
		_, err := r.Create(t.Context(), owner, api.SessionRequest{ID: &id})
		return err
	}
	if err := errors.Join(create("ann", "a"), create("bob", "b")); err != nil {
		t.Fatal(err)
	}
	if err := create("cat", "c"); code(err) != api.CodeSessionLimit || !strings.Contains(err.Error(), "max_sessions") {
		t.Errorf("a third kernel: %v", err)
	}
	execute(t, mustGet(t, r, "a"), "exit 1")
	if err := create("cat", "c"); err != nil {
		t.Fatalf("with one kernel less: %v", err)
	}
	if e := execute(t, mustGet(t, r, "a"), "print x"); e.Status != api.StatusDied || !strings.Contains(e.Error.Evalue, "max_sessions") {
		t.Errorf("a kernel that is started again: %+v", e)
	}
	if err := r.Delete(t.Context(), "cat", "c"); err != nil {
		t.Fatal(err)
	}
	if e := execute(t, mustGet(t, r, "a"), "print x"); e.Status != api.StatusOK {
		t.Errorf("after a delete: %+v", e)
	}
}

func TestKernelsThatStartTogetherAreCounted(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.OwnerKernels = 1 })
	var all []*session.Session
	for i := range 16 {
		s, err := r.Create(t.Context(), "ann", api.SessionRequest{ID: new(fmt.Sprint(i))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		execute(t, s, "exit 1")
		all = append(all, s)
	}
	var started atomic.Int64
	var asked sync.WaitGroup
	for _, s := range all {
		id := submit(t, s, "print x")
		asked.Go(func() {
			if e := wait(t, s, id); e.Status == api.StatusOK {
				started.Add(1)
			} else if !strings.Contains(e.Error.Evalue, "owner_kernels") {
				t.Errorf("%+v", e)
			}
		})
	}
	asked.Wait()
	if n := started.Load(); n != 1 {
		t.Errorf("%d kernels were started, although an owner may have 1", n)
	}
}

func mustGet(t *testing.T, r *rig, id string) *session.Session {
	t.Helper()
	s, err := r.Get("ann", id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheCodeThatWaitsIsBounded(t *testing.T) {
	r := scripted(t, nil)
	large := "print x\n" + strings.Repeat("#", 15<<20)
	send := func(s *session.Session) error {
		_, err := s.Submit(t.Context(), api.ExecutionRequest{Code: &large}, true)
		return err
	}
	blocked := func(id string) *session.Session {
		s := r.session(api.SessionRequest{ID: &id})
		submit(t, s, "sleep")
		return s
	}
	var all []*session.Session
	for _, id := range []string{"a", "b", "c", "d"} {
		s := blocked(id)
		all = append(all, s)
		for range 4 {
			if err := send(s); err != nil {
				t.Fatalf("session %s: %v", id, err)
			}
		}
		if err := send(s); code(err) != api.CodeQueueFull || !strings.Contains(err.Error(), "in this session") {
			t.Errorf("a fifth in one session: %v", err)
		}
	}
	e := blocked("e")
	if err := send(e); err != nil {
		t.Fatal(err)
	}
	if err := send(e); code(err) != api.CodeQueueFull || !strings.Contains(err.Error(), "in your sessions") {
		t.Errorf("past what an owner may have: %v", err)
	}
	if err := all[0].Interrupt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := send(e); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

func TestVariablesAreBounded(t *testing.T) {
	r := scripted(t, nil)
	_, err := r.Create(t.Context(), "ann", api.SessionRequest{Env: &map[string]string{"A": strings.Repeat("x", 600_000)},
		Secrets: &map[string]string{"B": strings.Repeat("y", 600_000)}})
	if code(err) != api.CodeInvalidRequest {
		t.Errorf("1.2 MB of variables: %v", err)
	}
}
