package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"talaria/api"
	"talaria/session"
)

// TestTheSeamFromHistoryToLiveHasNeitherGapNorDuplicate lets readers begin everywhere while the log grows at full speed.
func TestTheSeamFromHistoryToLiveHasNeitherGapNorDuplicate(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	execute(t, s, "print first")
	const cells = 60
	var readers sync.WaitGroup
	begin := func(after int64) {
		readers.Go(func() {
			queued := false
			next := after + 1
			for e, err := range s.Journal().Events(context.Background(), after) {
				if err != nil {
					t.Error(err)
					return
				}
				if e.Seq != next {
					t.Errorf("after %d comes %d", next-1, e.Seq)
					return
				}
				next++
				if e.Body.EventType() == "execution_queued" && e.ExecutionID == "last" {
					d, err := e.Decoded() // others are not, since that takes most of the time of the test
					queued = err == nil && d.Body.(api.ExecutionQueued).Code == "print last"
				}
				if queued && e.Body.EventType() == "execution_finished" && e.ExecutionID == "last" {
					return
				}
			}
		})
	}
	for i := range cells {
		begin(0)
		begin(s.Journal().LastSeq())
		begin(s.Journal().LastSeq() / 2)
		submit(t, s, fmt.Sprintf("flood %d\nerr %d", 50+i, i))
	}
	submit(t, s, "print last", func(r *api.ExecutionRequest) { r.ID = ptr("last") })
	readers.Wait()
}

// TestNoReaderSeesAnEventBeforeItIsCommitted asks the database, on another connection, for each event as it arrives.
func TestNoReaderSeesAnEventBeforeItIsCommitted(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		n := int64(1) // the only session
		for e, err := range s.Journal().Events(context.Background(), 0) {
			if err != nil {
				t.Error(err)
				return
			}
			rows, err := r.db.Events(context.Background(), n, e.Seq-1, 1)
			if err != nil || len(rows) != 1 || rows[0].Seq != e.Seq {
				t.Errorf("event %d is not in the database when it is read: %v, %v", e.Seq, rows, err)
				return
			}
			if e.Body.EventType() == "execution_finished" && e.ExecutionID == "last" {
				return
			}
		}
	}()
	for i := range 40 {
		execute(t, s, fmt.Sprintf("flood 200\nerr %d\nwrite f%d x", i, i))
	}
	execute(t, s, "print x", func(r *api.ExecutionRequest) { r.ID = ptr("last") })
	<-done
}

func TestALiveReaderThatFallsBehindIsCutOffAndResumes(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.Defaults.OutputBytes = 64 << 20 })
	s := r.session(api.SessionRequest{})
	execute(t, s, "print x")
	finished := until(t, s, 0, "execution_finished")
	until(t, s, int64(len(finished)), "session_state") // idle: nothing more will come
	reader := s.Journal().Follow(s.Journal().LastSeq() - 1)
	var seen int64
	var ended error
	for e, err := range reader.Events(t.Context()) {
		if ended = err; err != nil {
			break
		}
		if seen == 0 { // the reader is live, and takes nothing more while 12 MB are logged
			execute(t, s, "megabytes 12")
			<-reader.Lagged()
		}
		seen = e.Seq
	}
	if !errors.Is(ended, session.ErrLagging) {
		t.Fatalf("the reader ended with %v", ended)
	}
	text := 0
	for e, err := range s.Journal().Events(t.Context(), seen) { // a replay at its own pace is never cut off
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != seen+1 {
			t.Fatalf("after %d comes %d", seen, e.Seq)
		}
		seen = e.Seq
		d, err := e.Decoded()
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := d.Body.(api.Stream); ok {
			text += len(b.Text)
		}
		if seen == s.Journal().LastSeq() {
			break
		}
	}
	if text != 12<<20 {
		t.Errorf("%d bytes were left to read", text)
	}
}

func TestABigDisplayBecomesAnArtifact(t *testing.T) {
	r := newRig(t, func(c *cell) {
		c.Display(map[string]any{"text/html": strings.Repeat("x", 17<<20), "text/plain": "small"})
	}, nil)
	s := r.session(api.SessionRequest{})
	e := execute(t, s, "x")
	out := e.Outputs[0]
	plain := string(out.Data["text/plain"])
	if out.Data["text/html"] != nil || !strings.Contains(plain, "small") || !strings.Contains(plain, "/v1/artifacts/") {
		t.Fatalf("%.300s", plain)
	}
	_, digest, _ := strings.Cut(plain, "/v1/artifacts/")
	f, mediaType, err := r.OpenArtifact(t.Context(), "ann", digest[:64])
	if got := read(t, f, err); len(got) != 17<<20 || mediaType != "text/html" {
		t.Errorf("%d bytes of %s", len(got), mediaType)
	}
}
