package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
