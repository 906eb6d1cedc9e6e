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

// A page that begins with the view at any position has everything when it adds the events that follow.
func TestTheViewOfEachPositionIsWhatItsEventsSay(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	run := func(id, code string) {
		t.Helper()
		wait(t, s, submit(t, s, code, func(req *api.ExecutionRequest) { req.ID = &id }))
	}
	run("a.raaaaaaaa", "print old\nresult 1")
	run("b", "print b\ndisplay 2\nfail later")
	wait(t, s, submit(t, s, "print silent", func(req *api.ExecutionRequest) { req.Silent = ptr(true) }))
	run("a.rbbbbbbbb", "print new\nerr loud\nresult 3")
	hangs := "c"
	submit(t, s, "print c\nhang", func(req *api.ExecutionRequest) { req.ID = &hangs })
	waitFor(t, s, hangs, "stream")

	shown := map[string]*api.Outputs{}
	status := map[string]api.ExecutionStatus{}
	var order []string // of cells
	last := map[string]string{}
	ended := 0
	for _, raw := range eventsThrough(t, s.Journal().Follow(0), s.Journal().LastSeq()) {
		event, err := raw.Decoded()
		if err != nil {
			t.Fatal(err)
		}
		switch body := event.Body.(type) {
		case api.ExecutionQueued:
			if body.Code != "print silent" {
				cell := api.CellOf(event.ExecutionID)
				order = append(slices.DeleteFunc(order, func(id string) bool { return id == cell }), cell)
				last[cell] = event.ExecutionID
			}
			shown[event.ExecutionID], status[event.ExecutionID] = new(api.Outputs), api.StatusQueued
		case api.ExecutionStarted:
			status[event.ExecutionID] = api.StatusRunning
		case api.ExecutionFinished:
			status[event.ExecutionID] = body.Execution.Status
			ended++
		default:
			if outputs := shown[event.ExecutionID]; outputs != nil {
				outputs.Add(event.Body)
			}
		}
		var got, want []string
		err = s.Notebook().View(t.Context(), event.Seq, func(doc api.Document) error {
			if doc.Revision != 0 {
				t.Errorf("the document is %+v", doc)
			}
			return nil
		}, func(e api.Execution) error {
			encoded, err := api.Marshal(e.Outputs)
			got = append(got, fmt.Sprintf("%s %s %t %s", e.ID, e.Status, e.FinishedAt != nil, encoded))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, cell := range order {
			id := last[cell]
			encoded, err := api.Marshal(shown[id].List())
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%s %s %t %s", id, status[id], status[id].Final(), encoded))
		}
		if !slices.Equal(got, want) {
			t.Errorf("at %d the view has %q, want %q", event.Seq, got, want)
		}
	}
	if ended != 4 || status[hangs] != api.StatusRunning {
		t.Errorf("%d cells have ended, and the last one is %s", ended, status[hangs])
	}
}
