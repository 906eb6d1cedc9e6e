package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/session"
)

// shortenBody cuts the only blob short, as a power failure may.
func shortenBody(t *testing.T, r *rig) {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(r.dir, "artifacts", "??", "*"))
	if err != nil || len(blobs) != 1 {
		t.Fatalf("the blobs are %q, %v", blobs, err)
	}
	if err := os.Truncate(blobs[0], 1000); err != nil {
		t.Fatal(err)
	}
}

// showsMuch returns a session with a cell that runs and has shown what goes to a blob.
func showsMuch(t *testing.T, r *rig) (s *session.Session, id string) {
	t.Helper()
	s = r.session(api.SessionRequest{ID: ptr("x")})
	id = submit(t, s, "print before\ndisplay 100000\nsleep")
	waitFor(t, s, id, "display_data")
	return s, id
}

func TestAPowerFailureThatCutsABodyShortEndsTheLogBeforeIt(t *testing.T) {
	r := scripted(t, nil)
	s, id := showsMuch(t, r)
	log := s.Journal().ID()
	r.boot = "another boot"
	r.crash()
	shortenBody(t, r)
	r.open()
	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	if s.Journal().ID() == log {
		t.Error("the log has the same id, though its end is another one")
	}
	got := shape(now(t, s))
	if !strings.HasSuffix(got, "stdout:before error finished:died:lost:host_crash died:host_crash:1 state:dead:host_crash") {
		t.Errorf("the log is %s", got)
	}
	if e := wait(t, s, id); e.Status != api.StatusDied || len(e.Outputs) == 0 {
		t.Errorf("the execution is %+v", e)
	}
}

// A file that has not changed is not read again, unless its blob is lost.
func TestACheckpointAfterAPowerFailureHasWhatEarlierOnesLost(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x")})
	execute(t, s, "print before")
	for _, name := range []string{"gone", "short", "fine"} {
		if _, _, err := s.Files().Put(t.Context(), name, strings.NewReader("contents of "+name)); err != nil {
			t.Fatal(err)
		}
	}
	take := func() api.Checkpoint {
		t.Helper()
		made, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Level: ptr(api.CheckpointFiles)})
		if err != nil || len(made.NotSaved) > 0 {
			t.Fatalf("%+v, %v", made, err)
		}
		return made
	}
	take()
	r.boot = "another boot"
	r.crash()
	blob := func(name string) string {
		digest := digestOf("contents of " + name)
		return filepath.Join(r.dir, "artifacts", digest[:2], digest[2:])
	}
	if err := errors.Join(os.Remove(blob("gone")), os.Truncate(blob("short"), 0)); err != nil {
		t.Fatal(err)
	}
	r.open()
	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	made := take()
	for _, name := range []string{"gone", "short", "fine"} {
		if err := s.Files().Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	done, err := s.Rollback(t.Context(), api.RollbackRequest{CheckpointID: &made.ID, What: ptr(api.RollbackFiles)})
	if err != nil || len(done.NotRestored) > 0 {
		t.Errorf("%+v, %v", done.NotRestored, err)
	}
}

// The end of the database may be lost, although folders that were removed after it are gone.
func TestASessionWhoseDeletionAPowerFailureTookBackCanBeDeletedAgain(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x")})
	execute(t, s, "print before")
	r.boot = "another boot"
	r.crash()
	for _, folder := range matches(t, filepath.Join(r.dir, "sessions", "*")) {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	if _, err := r.Get("ann", "x"); err == nil {
		t.Error("a session without a folder is used")
	}
	if err := r.Delete(t.Context(), "ann", "x"); err != nil {
		t.Error(err)
	}
	if err := r.Delete(t.Context(), "ann", "x"); code(err) != api.CodeSessionNotFound {
		t.Errorf("it is deleted again: %v", err)
	}
	if e := execute(t, r.session(api.SessionRequest{ID: ptr("x")}), "print after"); e.Text != "after\n" {
		t.Errorf("the next session with its id says %q", e.Text)
	}
}

func TestTheServerStartsThoughABodyCannotBeRead(t *testing.T) {
	r := scripted(t, nil)
	_, id := showsMuch(t, r)
	r.kill()
	shortenBody(t, r)
	r.open()
	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Interrupt(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if e := execute(t, s, "print after"); e.Status != api.StatusOK || e.Text != "after\n" {
		t.Errorf("the next cell: %s %q", e.Status, e.Text)
	}
}

// Files of the cut end have rows of their own. One that stayed would be in the way of the next file at its place.
func TestASessionGoesOnAfterAPowerFailureThatCutFilesOff(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x")})
	lost := execute(t, s, "print before\ndisplay 100000\nfiles 30")
	if len(lost.Artifacts) != 30 {
		t.Fatalf("the cell made %d files", len(lost.Artifacts))
	}
	r.boot = "another boot"
	r.crash()
	for _, a := range lost.Artifacts {
		if err := os.RemoveAll(filepath.Join(r.dir, "artifacts", a.SHA256[:2])); err != nil {
			t.Fatal(err)
		}
	}
	shortenBody(t, r)
	r.open()
	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := s.Wait(soon, submit(t, s, "write new text"))
	if err != nil || e.Status != api.StatusOK || len(e.Artifacts) != 1 {
		r.sql(`DELETE FROM artifacts`) // so that the session can end
		t.Fatalf("the next cell is %s with %v, %v", e.Status, e.Artifacts, err)
	}
	now(t, s) // without gaps
	if again := wait(t, s, lost.ID); again.Status != api.StatusOK || len(again.Outputs) != 1 {
		t.Errorf("the cell whose end is lost is %s with %d outputs", again.Status, len(again.Outputs))
	}
}

func TestTheNextServerFinishesARollbackOfFilesThatTheEndOfOneCutOff(t *testing.T) {
	for _, kernel := range []string{"a kernel", "no kernel"} {
		t.Run(kernel, func(t *testing.T) {
			r := scripted(t, nil)
			s := r.session(api.SessionRequest{ID: ptr("x")})
			execute(t, s, "files 3000")
			c, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Level: ptr(api.CheckpointFiles)})
			if err != nil {
				t.Fatal(err)
			}
			files := filepath.Join(r.dir, "sessions", "*", "workspace", "file*")
			for _, name := range matches(t, files) {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			if kernel == "no kernel" {
				dead(t, s)
			}
			restoring := whenFolder(t, filepath.Dir(files), syscall.IN_CREATE)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = s.Rollback(context.Background(), api.RollbackRequest{CheckpointID: &c.ID, What: ptr(api.RollbackFiles)}) // it is cut off
			}()
			restoring()
			r.leave()
			<-ended
			r.open()
			if got := matches(t, files); len(got) != 3000 {
				t.Errorf("%d files are back", len(got))
			}
			s, err = r.Get("ann", "x")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			for _, e := range now(t, s) {
				if b, ok := e.Body.(api.RolledBack); ok && len(b.NotRestored) > 0 {
					t.Errorf("not restored: %+v", b.NotRestored)
				}
			}
			if events := shape(now(t, s)); strings.Count(events, "rolled_back") != 1 {
				t.Errorf("the log ends with %s", events[max(0, len(events)-200):])
			}
		})
	}
}

func matches(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestTheEndOfAServerThatMakesTheCheckpointBeforeACellLeavesBothToTheNext(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x")})
	execute(t, s, "noise large 64000000")
	copying := whenFolder(t, filepath.Join(r.dir, "artifacts", "tmp"), syscall.IN_CREATE)
	id := submit(t, s, "print on", func(req *api.ExecutionRequest) { req.Checkpoint = ptr(true) })
	copying()
	r.leave()
	r.open()
	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if e := wait(t, s, id); e.Status != api.StatusOK {
		t.Errorf("the cell is %s", e.Status)
	}
	if events := shape(now(t, s)); !strings.Contains(events, "checkpoint_created state:busy execution_started") {
		t.Errorf("the log ends with %s", events[max(0, len(events)-200):])
	}
}
