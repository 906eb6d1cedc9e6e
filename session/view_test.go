package session_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"talaria/api"
	"talaria/session"
)

// eventsThrough reads a sequence up to a position.
func eventsThrough(t *testing.T, r *session.Reader, last int64) (list []api.Event) {
	t.Helper()
	for event, err := range r.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if list = append(list, event); event.Seq >= last {
			break
		}
	}
	return list
}

func hasText(e api.Event) bool {
	encoded, err := api.Marshal(e)
	return err == nil && bytes.Contains(encoded, []byte(`"text":`))
}

func TestAViewLacksOnlyTheOutputsOfReplacedExecutions(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	run := func(id, code string) {
		t.Helper()
		wait(t, s, submit(t, s, code, func(req *api.ExecutionRequest) { req.ID = &id }))
	}
	for i := range 300 { // more than one query reads
		run(fmt.Sprintf("c-%d.raaaaa%03d", i%2, i), fmt.Sprintf("print %d\ndisplay 9\nresult %d", i, i))
	}
	run("alone", "print alone")
	through := s.Journal().LastSeq()
	run("c-0.rbbbbbbbb", "fail later")

	last := s.Journal().LastSeq()
	whole := eventsThrough(t, s.Journal().Follow(0), last)
	seen := eventsThrough(t, s.Journal().View(0, through), last)
	kept := map[string]bool{"c-0.raaaaa298": true, "c-1.raaaaa299": true, "alone": true, "c-0.rbbbbbbbb": true}
	want := slices.DeleteFunc(slices.Clone(whole), func(e api.Event) bool {
		shows := slices.Contains([]string{"stream", "display_data", "execute_result"}, e.Body.EventType())
		return shows && !kept[e.ExecutionID] && e.Seq != through
	})
	if len(seen) >= len(whole)-800 || len(seen) != len(want) {
		t.Fatalf("the view has %d events of %d, want %d", len(seen), len(whole), len(want))
	}
	for i := range want {
		if seen[i].Seq != want[i].Seq || seen[i].Body.EventType() != want[i].Body.EventType() {
			t.Fatalf("event %d of the view is %d, want %d", i, seen[i].Seq, want[i].Seq)
		}
		if want[i].Body.EventType() != "execution_finished" {
			continue
		}
		if has := hasText(want[i]); !has {
			t.Fatalf("event %d of the log has no text", want[i].Seq)
		}
		if has := hasText(seen[i]); has != (seen[i].Seq > through) {
			t.Errorf("event %d of the view has a text: %v", seen[i].Seq, has)
		}
	}
}
