package session_test

import (
	"context"
	"testing"
	"time"

	"talaria/api"
	"talaria/session"
	"talaria/store"
)

func wantIdle(t *testing.T, s *session.Session) {
	t.Helper()
	eventually(t, func() bool { return s.Info(t.Context()).State == api.StateIdle })
}

func TestASessionIsIdleWhenTheCellBehindTheLastOneIsCancelled(t *testing.T) {
	r := newRig(t, echo, nil)
	s := r.session(api.SessionRequest{})
	defer s.Release()
	defer s.Attach()()
	first := submit(t, s, "ask")
	waitFor(t, s, first, "input_request")
	human := attended(t, s)
	if err := s.Update(t.Context(), api.SessionPatch{Approvals: ptr(api.ApprovalsAll)}); err != nil {
		t.Fatal(err)
	}
	second := submit(t, s, "2")
	if err := s.Input(t.Context(), api.InputRequest{Value: "go on"}); err != nil {
		t.Fatal(err)
	}
	human.asked()
	if err := s.Interrupt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if a, b := wait(t, s, first), wait(t, s, second); a.Status != api.StatusOK || b.Status != api.StatusCancelled {
		t.Errorf("the cells are %s and %s", a.Status, b.Status)
	}
	wantIdle(t, s)
}

// A client whose connection broke sends its request again, perhaps just when the cell ends.
func TestASessionIsIdleWhenACellIsSubmittedAgainAsItEnds(t *testing.T) {
	r := newRig(t, echo, nil)
	s := r.session(api.SessionRequest{})
	defer s.Release()
	cell := submit(t, s, "hang")
	until(t, s, 0, "stream")
	blocked, goOn := make(chan struct{}), make(chan struct{})
	go r.db.Do(context.Background(), store.Write{Apply: func(*store.Tx) error {
		close(blocked)
		<-goOn
		return nil
	}})
	<-blocked
	queued := r.Queued("ann")
	done := make(chan error, 2)
	go func() {
		_, err := s.Submit(context.Background(), api.ExecutionRequest{ID: &cell, Code: ptr("hang")}, true)
		done <- err
	}()
	eventually(t, func() bool { return r.Queued("ann") > queued })
	go func() { done <- s.Interrupt(context.Background(), cell) }()
	time.Sleep(200 * time.Millisecond) // the end of the cell is on its way to the log
	close(goOn)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wait(t, s, cell)
	wantIdle(t, s)
}
