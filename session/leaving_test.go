package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"talaria/api"
	"talaria/session"
)

// leaving returns a rig with one session, whose variables are saved while its kernel does not end.
func leaving(t *testing.T) (r *rig, held *stopHost, s *session.Session) {
	held = &stopHost{waits: make(chan struct{}), goesOn: make(chan error)}
	r, _, s, _, _ = saving(t, func(cfg *session.Config) {
		if held.Host == nil {
			held.Host = cfg.Host
		}
		cfg.Host = held
	})
	return r, held, s
}

func TestVariablesThatAreSavedSurviveAnEndOfTheServer(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*rig)
		dies bool // the kernel, before the next server starts
	}{
		{"a crash, and the kernel dies", (*rig).kill, true},
		{"a crash, and the kernel lives", (*rig).kill, false},
		{"a clean end, and the kernel dies", (*rig).leave, true},
		{"a clean end, and the kernel lives", (*rig).leave, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, held, s := leaving(t)
			held.waitIn(s)
			hibernated := make(chan error, 1)
			go func() {
				_, err := s.Hibernate(context.Background())
				hibernated <- err
			}()
			<-held.waits
			c.end(r)
			if err := <-hibernated; err == nil {
				t.Error("the session hibernates, says the server that has ended")
			}
			if c.dies {
				keys, err := r.host.Kernels(t.Context())
				if err != nil || len(keys) == 0 {
					t.Fatal(keys, err)
				}
				held.goesOn <- nil
				for _, key := range keys {
					if err := r.host.Stop(t.Context(), key, "hibernated"); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				defer func() { held.goesOn <- nil }()
			}
			r.open()
			again, err := r.Get("ann", s.ID())
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return again.Info(t.Context()).State == api.StateHibernated })
			wantVariables(t, api.StateHibernated, again)
		})
	}
}

func TestAKernelWhoseVariablesAreSavedRunsNoCell(t *testing.T) {
	_, held, s := leaving(t)
	held.waitIn(s)
	hibernated := make(chan error, 1)
	go func() {
		_, err := s.Hibernate(context.Background())
		hibernated <- err
	}()
	<-held.waits
	cell := submit(t, s, "1")
	fault := errors.New("no answer")
	held.goesOn <- fault
	if err := <-hibernated; !errors.Is(err, fault) {
		t.Errorf("the session hibernates: %v", err)
	}
	if e := wait(t, s, cell); e.Status != api.StatusOK || e.Generation != 1 {
		t.Errorf("the cell that came meanwhile is %s in generation %d", e.Status, e.Generation)
	}
	if events := shape(now(t, s)); !strings.Contains(events, "kernel_woken") {
		t.Errorf("the cell ran in the kernel that was to end: %s", events)
	}
}

func TestARollbackToSavedVariablesSurvivesAnEndOfTheServer(t *testing.T) {
	for name, end := range map[string]func(*rig){"a crash": (*rig).kill, "a clean end": (*rig).leave} {
		t.Run(name, func(t *testing.T) {
			r, held, s := leaving(t)
			made, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Level: ptr(api.CheckpointSaved)})
			if err != nil {
				t.Fatal(err)
			}
			held.waitIn(s)
			back := make(chan error, 1)
			go func() {
				_, err := s.Rollback(context.Background(), api.RollbackRequest{CheckpointID: &made.ID})
				back <- err
			}()
			<-held.waits
			end(r)
			if err := <-back; err == nil {
				t.Error("the session is rolled back, says the server that has ended")
			}
			held.goesOn <- nil
			r.open()
			again, err := r.Get("ann", s.ID())
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return again.Info(t.Context()).State == api.StateHibernated })
			wantVariables(t, api.StateHibernated, again)
			if events := shape(now(t, again)); strings.Count(events, "rolled_back") != 1 {
				t.Errorf("the log is %s", events)
			}
		})
	}
}
