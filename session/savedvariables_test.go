package session_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
	"talaria/session"
	"talaria/store"
)

// saved returns a session of a fresh server that has no kernel, but saved variables, and which create makes.
func (r *rig) saved(create api.SessionRequest) *session.Session {
	r.t.Helper()
	s := r.session(create)
	id := s.ID()
	if _, err := s.Wake(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	s.Release()
	r.crash()
	db, err := store.Open(r.t.Context(), r.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	n, _, err := db.FindSession(r.t.Context(), "ann", id)
	if err != nil {
		r.t.Fatal(err)
	}
	err = db.Do(r.t.Context(), store.Write{Apply: func(tx *store.Tx) error {
		return tx.UpdateSaved(n, []byte(`{"digest":"0","check":"0","bytes":1,"execution_count":1,"not_saved":[]}`), "")
	}})
	if err := errors.Join(err, db.Close()); err != nil {
		r.t.Fatal(err)
	}
	r.open()
	return r.find(id)
}

func (r *rig) find(id string) *session.Session {
	r.t.Helper()
	s, err := r.Get("ann", id)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Release)
	return s
}

func TestCellsThatWaitForAKernelThatCannotStartKeepSavedVariables(t *testing.T) {
	r := newRig(t, echo, nil)
	s := r.saved(api.SessionRequest{})
	starting, fail := make(chan struct{}, 2), make(chan struct{})
	r.fake.OnCreate = func(context.Context) { starting <- struct{}{}; <-fail }
	r.fake.CreateErr = errors.New("no sandbox")
	first := submit(t, s, "1")
	<-starting
	waiting := submit(t, s, "2")
	close(fail)
	if e := wait(t, s, first); e.Status != api.StatusDied || e.State != api.VariablesKept {
		t.Errorf("the first cell is %s, and its variables are %s", e.Status, e.State)
	}
	if e := wait(t, s, waiting); e.Status != api.StatusCancelled || e.Reason != "start_failed" || e.State != api.VariablesKept {
		t.Errorf("the waiting cell is %s, %q, and its variables are %s", e.Status, e.Reason, e.State)
	}
	if info := s.Info(t.Context()); info.State != api.StateHibernated || info.Reason != "start_failed" {
		t.Errorf("the session is %s, %q", info.State, info.Reason)
	}
	r.fake.CreateErr = nil
	if e := execute(t, s, "3"); e.Status != api.StatusOK {
		t.Errorf("the next cell is %s", e.Status)
	}
}

func TestCellsThatWaitForAnApprovalKeepSavedVariablesUnlessThoseGo(t *testing.T) {
	for _, test := range []struct {
		reason string
		end    func(r *rig, s *session.Session)
		want   api.VariablesState
	}{
		{"server_shutdown", func(r *rig, _ *session.Session) { r.close(); r.open() }, api.VariablesKept},
		{"reset", func(r *rig, s *session.Session) {
			if err := s.Reset(r.t.Context(), api.ResetRequest{}); err != nil {
				r.t.Error(err)
			}
		}, api.VariablesLost},
	} {
		t.Run(test.reason, func(t *testing.T) {
			r := newRig(t, echo, nil)
			s := r.saved(api.SessionRequest{Approvals: ptr(api.ApprovalsAll)})
			defer s.Approvals().Attach()()
			id := submit(t, s, "1")
			until(t, s, 0, "approval_request")
			test.end(r, s)
			e, err := r.find(s.ID()).Executions().Get(t.Context(), id)
			if err != nil || e.Status != api.StatusCancelled || e.Reason != test.reason || e.State != test.want {
				t.Errorf("the cell is %s, %q, and its variables are %s: %v", e.Status, e.Reason, e.State, err)
			}
		})
	}
}

// fullHost fails to save variables the first time, as a runner does in a full workspace.
type fullHost struct {
	savingHost
	filled bool // by then
}

func (h *fullHost) Do(ctx context.Context, key record.Key, c command.Command) (any, error) {
	if _, ok := c.(command.SaveVariables); ok {
		filler := filepath.Join(h.dir, "filler")
		if !h.filled {
			h.filled = true
			return command.SavedVariables{Reason: "No space left on device"}, os.WriteFile(filler, make([]byte, 15<<19), 0o600)
		}
		if err := os.Remove(filler); err != nil {
			return nil, err
		}
	}
	return h.savingHost.Do(ctx, key, c)
}

func TestAnIdleKernelStaysWhileItsWorkspaceIsFull(t *testing.T) {
	host := new(fullHost)
	r := newRig(t, echo, func(cfg *session.Config) {
		kerneltest.SmallDisk(t, cfg.SessionsDir, 8<<20)
		host.Host, host.dir = cfg.Host, cfg.SessionsDir
		cfg.Host, cfg.OnIdle, cfg.DiskReserve = host, api.OnIdleHibernate, 1
	})
	s := r.session(api.SessionRequest{})
	execute(t, s, "1")
	if err := s.Update(t.Context(), api.SessionPatch{IdleTimeoutS: ptr(0.01)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return s.Info(t.Context()).State == api.StateHibernated })
	wantVariables(t, api.StateHibernated, s)
}

func TestSavedVariablesThatAKernelHasAreRemoved(t *testing.T) {
	host := new(savingHost)
	r := newRig(t, echo, func(cfg *session.Config) { host.Host, host.dir, cfg.Host = cfg.Host, cfg.SessionsDir, host })
	s := r.session(api.SessionRequest{})
	execute(t, s, "1")
	if _, err := s.Hibernate(t.Context()); err != nil {
		t.Fatal(err)
	}
	blobs, digest := r.blobs(), digestOf("variables of "+s.Serial())
	if blobs.Size(digest) < 0 {
		t.Fatal("they are not saved")
	}
	if _, err := s.Wake(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return blobs.Size(digest) < 0 })
}

// loadless returns a session that hibernates, and a host that fails to load variables until it is told to.
func loadless(t *testing.T) (*rig, *session.Session, *loadlessHost) {
	host := &loadlessHost{err: errors.New("no answer")}
	r := newRig(t, echo, func(cfg *session.Config) {
		host.Host, host.dir, cfg.Host = cfg.Host, cfg.SessionsDir, host
	})
	s := r.session(api.SessionRequest{})
	execute(t, s, "1")
	if _, err := s.Hibernate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, s, host
}

type loadlessHost struct {
	savingHost
	err error
}

func (h *loadlessHost) Do(ctx context.Context, key record.Key, c command.Command) (any, error) {
	if _, ok := c.(command.LoadVariables); ok && h.err != nil {
		return nil, h.err
	}
	return h.savingHost.Do(ctx, key, c)
}

// wantFailedStart checks that loading the variables fails, and that they stay.
func wantFailedStart(t *testing.T, s *session.Session) {
	t.Helper()
	if e := execute(t, s, "1"); e.Status != api.StatusDied || e.State != api.VariablesKept {
		t.Errorf("the cell is %s, and its variables %s", e.Status, e.State)
	}
	if info := s.Info(t.Context()); info.State != api.StateHibernated || info.Reason != "start_failed" {
		t.Errorf("the session is %s, %q", info.State, info.Reason)
	}
}

// wantLoaded checks that the next cell has the variables of a session that hibernates.
func wantLoaded(t *testing.T, s *session.Session) {
	t.Helper()
	if e := execute(t, s, "1"); e.Status != api.StatusOK || e.Generation != 1 {
		t.Errorf("the cell is %s in generation %d", e.Status, e.Generation)
	}
	if got := shape(now(t, s)); strings.Contains(got, "reset:") || !strings.Contains(got, "kernel_woken") {
		t.Errorf("the log is %s", got)
	}
}

func TestVariablesWhoseLoadingFailsAreLoadedOnceMore(t *testing.T) {
	_, s, host := loadless(t)
	wantFailedStart(t, s)
	host.err = nil
	wantLoaded(t, s)
	if _, err := s.Hibernate(t.Context()); err != nil {
		t.Fatal(err)
	}
	host.err = errors.New("no answer")
	wantFailedStart(t, s)
	woken, err := s.Wake(t.Context())
	if err != nil || len(woken.NotRestored) != 1 || woken.NotRestored[0].Name != "all variables" {
		t.Errorf("it wakes with %+v: %v", woken.NotRestored, err)
	}
}

func TestForksAndRollbacksHaveAttemptsOfTheirOwn(t *testing.T) {
	r, s, host := loadless(t)
	wantFailedStart(t, s)
	point, err := s.Checkpoint(t.Context(), api.CheckpointRequest{})
	if err != nil || point.Level != api.CheckpointSaved {
		t.Fatalf("the checkpoint is %+v: %v", point, err)
	}
	made, err := s.Fork(t.Context(), api.ForkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	fork := r.find(made.Items[0].Session.ID)
	wantFailedStart(t, fork)
	if _, err := s.Rollback(t.Context(), api.RollbackRequest{CheckpointID: &point.ID}); err == nil {
		t.Error("a rollback has given the variables up")
	}
	host.err = nil
	wantLoaded(t, s)
	wantLoaded(t, fork)
}
