package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/namespace"
	"talaria/kernel/python"
	"talaria/kernel/record"
	"talaria/kernel/sandbox"
	"talaria/session"
)

// hookedHost has a function carry commands out, if there is one.
type hookedHost struct {
	session.Host
	mu   sync.Mutex // guards hook
	hook doer
}

type doer func(ctx context.Context, key record.Key, c command.Command) (any, error)

func (h *hookedHost) on(hook doer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = hook
}

func (h *hookedHost) Do(ctx context.Context, key record.Key, c command.Command) (any, error) {
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	if hook == nil {
		hook = h.Host.Do
	}
	return hook(ctx, key, c)
}

// newSandboxRig returns a manager over a host with real sandboxes.
func newSandboxRig(t *testing.T) (*rig, *hookedHost) {
	t.Helper()
	r := &rig{t: t, dir: kerneltest.StateDir(t), boot: "boot"}
	env, _, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Engine: python.EngineStdlib})
	if err != nil {
		t.Fatal(err)
	}
	backend, err := namespace.New(sandbox.Config{
		Root: filepath.Join(r.dir, "sessions"), LibDir: filepath.Join(r.dir, "lib"), CacheDir: filepath.Join(r.dir, "fonts"),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.host = host.NewHost(host.HostConfig{Backend: backend, SpoolDir: filepath.Join(r.dir, "spool")})
	hooked := &hookedHost{Host: r.host}
	r.tweak = func(cfg *session.Config) {
		cfg.Host, cfg.Environments = hooked, []kernel.Environment{env}
		if os.Geteuid() == 0 {
			cfg.UIDBase = 1_900_080_000
		}
	}
	r.open()
	t.Cleanup(func() {
		r.close()
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, hooked
}

// twoStates leaves a session with n == 2 and a checkpoint at which n was 1.
func twoStates(t *testing.T, r *rig) (*session.Session, api.Checkpoint) {
	t.Helper()
	s := r.session(api.SessionRequest{})
	if e := execute(t, s, "n = 1"); e.Status != api.StatusOK {
		t.Fatalf("a cell ended with %s: %s", e.Status, e.Text)
	}
	c, err := s.Checkpoint(t.Context(), api.CheckpointRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Level != api.CheckpointLive {
		t.Skipf("SKIP: no live checkpoints here: %s", c.Reason)
	}
	execute(t, s, "n = 2")
	return s, c
}

func wantN(t *testing.T, s *session.Session, want string) {
	t.Helper()
	e := execute(t, s, "print(n)")
	if e.Status != api.StatusOK || strings.TrimSpace(e.Text) != want {
		t.Errorf("n is %q (%s), want %s", e.Text, e.Status, want)
	}
}

func goBackTo(t *testing.T, s *session.Session, id string) error {
	t.Helper()
	_, err := s.Rollback(t.Context(), api.RollbackRequest{CheckpointID: &id})
	return err
}

func TestTheInterpreterGoesOnAfterARollbackThatFails(t *testing.T) {
	for name, fault := range map[string]func(h *hookedHost, ctx context.Context, key record.Key, c command.Command) (any, error){
		"its answer is lost": func(h *hookedHost, ctx context.Context, key record.Key, c command.Command) (any, error) {
			reply, err := h.Host.Do(ctx, key, c)
			if _, ok := c.(command.StepAside); ok && err == nil {
				err = errFault
			}
			return reply, err
		},
		"the copy has ended": func(h *hookedHost, ctx context.Context, key record.Key, c command.Command) (any, error) {
			if wake, ok := c.(command.WakeCopy); ok {
				if _, err := h.Host.Do(ctx, key, command.DropCopy(wake)); err != nil {
					return nil, err
				}
			}
			return h.Host.Do(ctx, key, c)
		},
		"the copy is not woken": func(h *hookedHost, ctx context.Context, key record.Key, c command.Command) (any, error) {
			if _, ok := c.(command.WakeCopy); ok {
				return nil, errFault
			}
			return h.Host.Do(ctx, key, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, host := newSandboxRig(t)
			s, c := twoStates(t, r)
			stepped := false
			host.on(func(ctx context.Context, key record.Key, cmd command.Command) (any, error) {
				if _, ok := cmd.(command.StepAside); ok {
					stepped = true
				}
				return fault(host, ctx, key, cmd)
			})
			if err := goBackTo(t, s, c.ID); err == nil || !stepped {
				t.Fatalf("the rollback returned %v, and the interpreter was asked to step aside: %t", err, stepped)
			}
			host.on(nil)
			list, err := s.Interpreter().Variables(t.Context())
			for errors.Is(err, api.Errorf(api.CodeKernelBusy, "")) { // on a busy machine it resumes only after the time for an answer
				list, err = s.Interpreter().Variables(t.Context())
			}
			if err != nil || list.Total != 1 {
				t.Errorf("the variables are %+v, %v", list, err)
			}
			wantN(t, s, "2")
			execute(t, s, "n = 3")
			undone := false
			for _, row := range checkpointsOf(t, s) {
				if row.Undo {
					undone = true
					if err := goBackTo(t, s, row.ID); err != nil || row.Level != api.CheckpointLive {
						t.Errorf("back to the state before the rollback (%s): %v", row.Level, err)
					}
					wantN(t, s, "2")
				}
			}
			if undone == (name == "its answer is lost") {
				t.Errorf("there is a checkpoint of the state before: %t", undone)
			}
		})
	}
}

func TestTheNextServerFinishesWhatFollowsSteppingAside(t *testing.T) {
	for name, last := range map[string]func(command.Command) bool{
		"before the rollback is recorded": func(c command.Command) bool { _, ok := c.(command.StepAside); return ok },
		"before the copy is woken":        func(c command.Command) bool { _, ok := c.(command.WakeCopy); return ok },
	} {
		t.Run(name, func(t *testing.T) {
			r, host := newSandboxRig(t)
			s, c := twoStates(t, r)
			reached, killed := make(chan struct{}), make(chan struct{})
			host.on(func(ctx context.Context, key record.Key, c command.Command) (any, error) {
				if !last(c) {
					return host.Host.Do(ctx, key, c)
				}
				var reply any
				var err error
				if _, ok := c.(command.StepAside); ok {
					reply, err = host.Host.Do(ctx, key, c)
				} else {
					err = errFault
				}
				close(reached)
				<-killed
				return reply, errors.Join(err, errFault)
			})
			failed := make(chan error, 1)
			go func() { failed <- goBackTo(t, s, c.ID) }()
			<-reached
			r.db.Close()
			host.on(nil)
			close(killed)
			if err := <-failed; err == nil {
				t.Fatal("the rollback of a killed server succeeded")
			}
			r.Manager.Close(context.Background())
			r.open()
			s, err := r.Get("ann", s.ID())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			if name == "before the rollback is recorded" {
				wantN(t, s, "2")
				return
			}
			wantN(t, s, "1")
			for _, row := range checkpointsOf(t, s) {
				if row.Undo {
					if err := goBackTo(t, s, row.ID); err != nil || row.Level != api.CheckpointLive {
						t.Errorf("back to the state before the rollback (%s): %v", row.Level, err)
					}
					wantN(t, s, "2")
					return
				}
			}
			t.Error("there is no checkpoint of the state before the rollback")
		})
	}
}

func TestACellHasAnInterpreterThatSteppedAsideGoOn(t *testing.T) {
	r, host := newSandboxRig(t)
	s, c := twoStates(t, r)
	host.on(func(ctx context.Context, key record.Key, c command.Command) (any, error) {
		switch c.(type) {
		case command.WakeCopy, command.Resume:
			return nil, errFault
		}
		return host.Host.Do(ctx, key, c)
	})
	if err := goBackTo(t, s, c.ID); err == nil {
		t.Fatal("the rollback succeeded")
	}
	host.on(nil)
	wantN(t, s, "2")
	for _, row := range checkpointsOf(t, s) {
		if row.Undo && (row.Level != api.CheckpointFiles || !strings.Contains(row.Reason, "failed")) {
			t.Errorf("the checkpoint of the state before is %s: %s", row.Level, row.Reason)
		}
	}
}

func checkpointsOf(t *testing.T, s *session.Session) []api.Checkpoint {
	t.Helper()
	list, err := s.Checkpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The end of a server leaves less time for saving than a hibernation, and the kernel has to know: it gives up what takes too long
// instead of all.
func TestAKernelKnowsHowLongItMaySaveAtTheEnd(t *testing.T) {
	r, host := newSandboxRig(t)
	s := r.session(api.SessionRequest{OnIdle: new(api.OnIdleHibernate)})
	execute(t, s, "n = 1")
	var seconds []float64
	host.on(func(ctx context.Context, key record.Key, cmd command.Command) (any, error) {
		if save, ok := cmd.(command.SaveVariables); ok {
			seconds = append(seconds, save.Seconds)
		}
		return host.Host.Do(ctx, key, cmd)
	})
	ending, cancel := context.WithTimeout(t.Context(), 20*time.Second) // 15 of them are for saving, and four fifths of these the kernel's
	defer cancel()
	if err := r.Manager.Shutdown(ending); err != nil {
		t.Error(err)
	}
	if len(seconds) != 1 || seconds[0] <= 4 || seconds[0] > 12 {
		t.Errorf("it may save for %v s", seconds)
	}
}
