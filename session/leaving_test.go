package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
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

func TestAServerStartsThoughAKernelHasDiedBeforeItHadItsVariables(t *testing.T) {
	r, host, s, _, _ := saving(t, nil)
	if _, err := s.Hibernate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 { // more than the attempts that code in the variables has
		loads, died := make(chan record.Key), make(chan struct{})
		host.onLoad(func(key record.Key) { loads <- key; <-died })
		woken := make(chan error, 1)
		go func() {
			_, err := s.Wake(context.Background())
			woken <- err
		}()
		key := <-loads
		host.onLoad(nil)
		go r.kill()
		if err := r.host.Stop(t.Context(), key, "memory_limit"); err != nil {
			t.Fatal(err)
		}
		<-r.Closing()
		close(died)
		if err := <-woken; err == nil {
			t.Error("the session has a kernel, says the server that has ended")
		}
		r.kill()
		r.open()
		var err error
		if s, err = r.Get("ann", s.ID()); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return s.Info(t.Context()).State == api.StateHibernated })
	}
	wantVariables(t, api.StateHibernated, s)
}

func TestWhyAKernelDiedThatWasToLoadVariablesIsTold(t *testing.T) {
	r, host, s, _, _ := saving(t, nil)
	if _, err := s.Hibernate(t.Context()); err != nil {
		t.Fatal(err)
	}
	host.onLoad(func(key record.Key) {
		host.onLoad(nil)
		if err := r.host.Stop(context.Background(), key, "memory_limit"); err != nil {
			t.Error(err)
		}
	})
	if e := execute(t, s, "1"); e.Status != api.StatusDied || e.State != api.VariablesKept {
		t.Errorf("the cell is %s, and its variables %s", e.Status, e.State)
	}
	eventually(t, func() bool { return strings.Contains(shape(now(t, s)), "died:memory_limit:1") })
	if info := s.Info(t.Context()); info.State != api.StateHibernated || info.Reason != "start_failed" {
		t.Errorf("the session is %s, %q", info.State, info.Reason)
	}
	if e := execute(t, s, "1"); e.Status != api.StatusOK || e.Generation != 1 {
		t.Errorf("the next cell is %s in generation %d", e.Status, e.Generation)
	}
}

// endingHost ends kernels as its test says.
type endingHost struct {
	session.Host

	mu   sync.Mutex // guards end
	stop func(ctx context.Context, key record.Key, reason string) error
}

func (h *endingHost) onStop(do func(ctx context.Context, key record.Key, reason string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = do
}

func (h *endingHost) Stop(ctx context.Context, key record.Key, reason string) error {
	h.mu.Lock()
	stop := h.stop
	h.mu.Unlock()
	if stop != nil {
		return stop(ctx, key, reason)
	}
	return h.Host.Stop(ctx, key, reason)
}

// notEnding returns a session whose variables are saved, with a kernel that a reset ends and nothing else, though not as a reset.
func notEnding(t *testing.T) (*endingHost, *session.Session) {
	h := new(endingHost)
	_, _, s, _, _ := saving(t, func(cfg *session.Config) { h.Host, cfg.Host = cfg.Host, h })
	if _, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Level: ptr(api.CheckpointFiles)}); err != nil {
		t.Fatal(err)
	}
	h.onStop(func(ctx context.Context, key record.Key, reason string) error {
		if reason == "reset" {
			return h.Host.Stop(ctx, key, "hibernated")
		}
		if key.Session == s.Serial() {
			return command.ErrUnresponsive
		}
		return h.Host.Stop(ctx, key, reason)
	})
	if _, err := s.Hibernate(t.Context()); !errors.Is(err, command.ErrUnresponsive) {
		t.Fatalf("the session hibernates: %v", err)
	}
	return h, s
}

func TestAKernelWhoseVariablesAreSavedIsUsedForNothing(t *testing.T) {
	h, s := notEnding(t)
	for what, use := range map[string]func() error{
		"a checkpoint": func() error { _, err := s.Checkpoint(t.Context(), api.CheckpointRequest{}); return err },
		"a fork":       func() error { _, err := s.Fork(t.Context(), api.ForkRequest{}); return err },
		"a rollback": func() error {
			all, err := s.Checkpoints(t.Context())
			if err != nil || len(all) == 0 {
				t.Fatal(all, err)
			}
			_, err = s.Rollback(t.Context(), api.RollbackRequest{CheckpointID: &all[0].ID, What: ptr(api.RollbackFiles)})
			return err
		},
		"a kernel": func() error { _, err := s.Wake(t.Context()); return err },
	} {
		if err := use(); !errors.Is(err, command.ErrUnresponsive) {
			t.Errorf("%s: %v", what, err)
		}
	}
	h.onStop(nil)
	if _, err := s.Hibernate(t.Context()); err != nil {
		t.Error(err)
	}
	wantVariables(t, api.StateHibernated, s)
}

func TestAResetOfAKernelWhoseVariablesAreSavedCancelsWhatWaits(t *testing.T) {
	h, s := notEnding(t)
	cell := submit(t, s, "1")
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	h.onStop(nil)
	if e := wait(t, s, cell); e.Status != api.StatusCancelled || e.Reason != "reset" {
		t.Errorf("the cell that waited is %s, %q", e.Status, e.Reason)
	}
	if events := shape(now(t, s)); !strings.Contains(events, "reset:reset:2") {
		t.Errorf("the log is %s", events)
	}
	if e := execute(t, s, "1"); e.Status != api.StatusOK || e.Generation != 2 {
		t.Errorf("the next cell is %s in generation %d", e.Status, e.Generation)
	}
}

func TestTheEndOfAServerThatSavesTheVariablesOfAnIdleKernelLosesNone(t *testing.T) {
	h := new(hookedHost)
	r, _, _, s, _ := saving(t, func(cfg *session.Config) {
		if h.Host == nil {
			h.Host = cfg.Host
		}
		cfg.Host = h
	})
	begun := make(chan struct{})
	h.on(func(ctx context.Context, key record.Key, c command.Command) (any, error) {
		if _, ok := c.(command.SaveVariables); !ok {
			return h.Host.Do(ctx, key, c)
		}
		close(begun)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	if err := s.Update(t.Context(), api.SessionPatch{IdleTimeoutS: ptr(0.05)}); err != nil {
		t.Fatal(err)
	}
	<-begun
	r.leave()
	h.on(nil)
	r.open()
	again, err := r.Get("ann", s.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	eventually(t, func() bool {
		state := again.Info(t.Context()).State
		return state == api.StateHibernated || state == api.StateDead
	})
	wantVariables(t, api.StateHibernated, again)
}

func TestAForkKeepsTheVariablesOfASessionThatIsDeletedMeanwhile(t *testing.T) {
	r, _, _, _, _ := saving(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("parent")})
	defer s.Release()
	execute(t, s, "1")
	for i := range 2000 { // so that the fork takes a while
		name := filepath.Join(r.dir, "sessions", s.Serial(), "workspace", strconv.Itoa(i))
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Hibernate(t.Context()); err != nil {
		t.Fatal(err)
	}
	filling := whenFolder(t, filepath.Join(r.dir, "sessions"), syscall.IN_CREATE)
	forked := make(chan api.ForkReply, 1)
	go func() {
		reply, err := s.Fork(context.Background(), api.ForkRequest{})
		if err != nil {
			t.Error(err)
		}
		forked <- reply
	}()
	filling()
	if err := r.Delete(t.Context(), "ann", "parent"); err != nil {
		t.Fatal(err)
	}
	reply := <-forked
	if len(reply.Items) != 1 || reply.Items[0].Session == nil {
		t.Fatalf("the forks are %+v", reply.Items)
	}
	woken, err := r.find(reply.Items[0].Session.ID).Wake(t.Context())
	if err != nil || len(woken.NotRestored) > 0 {
		t.Errorf("the fork lacks %+v, %v", woken.NotRestored, err)
	}
}

func TestASessionWhoseDeletionFailsGoesOn(t *testing.T) {
	h := new(endingHost)
	r := newRig(t, echo, func(cfg *session.Config) { h.Host, cfg.Host = cfg.Host, h })
	s := r.session(api.SessionRequest{ID: ptr("x")})
	defer s.Release()
	defer s.Attach()()
	// fails has a deletion fail after something was done meanwhile.
	fails := func(meanwhile func()) {
		t.Helper()
		stopping, goOn := make(chan struct{}), make(chan struct{})
		h.onStop(func(context.Context, record.Key, string) error {
			close(stopping)
			<-goOn
			return command.ErrUnresponsive
		})
		deleted := make(chan error, 1)
		go func() { deleted <- r.Delete(context.Background(), "ann", "x") }()
		<-stopping
		meanwhile()
		close(goOn)
		if err := <-deleted; !errors.Is(err, command.ErrUnresponsive) {
			t.Fatalf("the deletion: %v", err)
		}
		h.onStop(nil)
	}
	first := submit(t, s, "ask")
	waitFor(t, s, first, "input_request")
	second := submit(t, s, "2")
	fails(func() {
		if err := s.Input(t.Context(), api.InputRequest{Value: "1"}); err != nil {
			t.Fatal(err)
		}
		wait(t, s, first)
	})
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if e, err := s.Wait(soon, second); err != nil || e.Status != api.StatusOK {
		t.Fatalf("the cell that waited is %s, %v", e.Status, err)
	}
	if err := s.Update(t.Context(), api.SessionPatch{IdleTimeoutS: ptr(1.0)}); err != nil {
		t.Fatal(err)
	}
	fails(func() {
		if err := s.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	eventually(t, func() bool { return s.Info(t.Context()).Reason == "idle_timeout" })
}
