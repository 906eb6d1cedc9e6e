package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// log serves a log of n events as NDJSON; each may break it off.
func serveLog(n int64, each func(connection int, seq int64)) http.HandlerFunc {
	connection := 0
	return func(w http.ResponseWriter, r *http.Request) {
		connection++
		after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		if err != nil || r.Header.Get("Accept") != "application/x-ndjson" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for seq := after + 1; seq <= n; seq++ {
			_, _ = io.WriteString(w, line(seq)+"\n")
			if each != nil {
				each(connection, seq)
			}
		}
	}
}

func collect(t *testing.T, events iter.Seq2[api.Event, error], stopAt int64) (seqs []int64, err error) {
	t.Helper()
	for e, err := range events {
		if err != nil {
			return seqs, err
		}
		if s, ok := e.Body.(api.Stream); ok && s.Text != fmt.Sprintf("line %d\n", e.Seq) {
			t.Errorf("event %d holds %q", e.Seq, s.Text)
		}
		seqs = append(seqs, e.Seq)
		if e.Seq == stopAt {
			break
		}
	}
	return seqs, nil
}

func wantSeqs(t *testing.T, got []int64, from, to int64) {
	t.Helper()
	if int64(len(got)) != to-from+1 {
		t.Fatalf("%d events, want %d to %d: %v", len(got), from, to, got)
	}
	for i, seq := range got {
		if seq != from+int64(i) {
			t.Fatalf("event %d at the place of %d", seq, from+int64(i))
		}
	}
}

func TestEventsGoOnAfterEachCutWithoutGapOrDuplicate(t *testing.T) {
	s, c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s/events": func(w http.ResponseWriter, r *http.Request) {
			serveLog(100, func(_ int, seq int64) {
				w.(http.Flusher).Flush()
				switch {
				case seq%20 == 0: // breaks between two events
					hangUp()
				case seq%7 == 0: // breaks within the next one
					_, _ = io.WriteString(w, line(seq + 1)[:40])
					w.(http.Flusher).Flush()
					hangUp()
				}
			})(w, r)
		},
	})
	seqs, err := collect(t, c.Events(t.Context(), "s", client.EventsQuery{After: 3, LogID: "log"}), 100)
	must(t, err)
	wantSeqs(t, seqs, 4, 100)
	seen := s.requests()
	if len(seen) < 15 || seen[0] != "GET /v1/sessions/s/events?after=3&log_id=log" ||
		seen[1] != "GET /v1/sessions/s/events?after=7&log_id=log" {
		t.Errorf("requests: %q", seen)
	}
}

func TestPastEventsEndAtThePresentAlsoAfterACut(t *testing.T) {
	s, c := serve(t, map[string]http.HandlerFunc{})
	s.answers["GET /v1/sessions/s/events"] = serveLog(10, func(connection int, seq int64) {
		if connection == 1 && seq == 4 {
			hangUp()
		}
	})
	seqs, err := collect(t, c.Events(t.Context(), "s", client.EventsQuery{Past: true}), -1)
	must(t, err)
	wantSeqs(t, seqs, 1, 10)
	for _, r := range s.requests() {
		if !strings.Contains(r, "follow=false") {
			t.Errorf("request %q follows", r)
		}
	}
}

func TestLiveEventsAreTakenUpAgainWhenTheServerEndsTheStream(t *testing.T) {
	length := int64(0)
	_, c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s/events": func(w http.ResponseWriter, r *http.Request) {
			length += 5 // then the server is shutting down, and the next one comes
			serveLog(length, nil)(w, r)
		},
	})
	seqs, err := collect(t, c.Events(t.Context(), "s", client.EventsQuery{}), 20)
	must(t, err)
	wantSeqs(t, seqs, 1, 20)
}

func TestEventsEndWithWhatNoFurtherAttemptWouldChange(t *testing.T) {
	for name, test := range map[string]struct {
		later http.HandlerFunc // the answer to the second request
		want  error
	}{
		"deleted":     {refusal(api.CodeSessionNotFound, "gone"), api.Errorf(api.CodeSessionNotFound, "")},
		"log changed": {refusal(api.CodeLogChanged, "new log"), api.Errorf(api.CodeLogChanged, "")},
		"gap":         {answer(200, "application/x-ndjson", line(7)+"\n"), client.ErrGap},
	} {
		t.Run(name, func(t *testing.T) {
			first := true
			_, c := serve(t, map[string]http.HandlerFunc{
				"GET /v1/sessions/s/events": func(w http.ResponseWriter, r *http.Request) {
					if first {
						first = false
						serveLog(5, nil)(w, r)
					} else {
						test.later(w, r)
					}
				},
			})
			seqs, err := collect(t, c.Events(t.Context(), "s", client.EventsQuery{}), -1)
			wantSeqs(t, seqs, 1, 5)
			if !errors.Is(err, test.want) {
				t.Errorf("ended with %v, want %v", err, test.want)
			}
		})
	}
}

func TestAServerThatIsNotThereIsSaidAtOnceAndOneThatWentAwayAfterTheOutage(t *testing.T) {
	c := client.New("http://127.0.0.1:1", token)
	for _, err := range c.Events(t.Context(), "s", client.EventsQuery{}) {
		if err == nil {
			t.Error("an event came")
		}
	}
	_, c = serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s/events": serveLog(3, nil),
	})
	c.Outage = 1 // nanosecond
	seqs, err := collect(t, c.Events(t.Context(), "s", client.EventsQuery{}), -1)
	wantSeqs(t, seqs, 1, 3)
	if err == nil || !strings.Contains(err.Error(), "gave up") {
		t.Errorf("ended with %v", err)
	}
}

func TestEventsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s/events": func(w http.ResponseWriter, r *http.Request) {
			serveLog(2, nil)(w, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	})
	var last error
	for e, err := range c.Events(ctx, "s", client.EventsQuery{}) {
		if last = err; e.Seq == 2 {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("ended with %v", last)
	}
}

func TestAStreamedExecutionIsPostedOnceAndTakenUpAgainByItsID(t *testing.T) {
	s, c := serve(t, map[string]http.HandlerFunc{
		"POST /v1/sessions/s/executions": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, line(11)+"\n\n"+line(13)+"\n") // 12 belongs to another execution
			w.(http.Flusher).Flush()
			hangUp()
		},
		"GET /v1/sessions/s/executions/e1": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("after") != "13" {
				t.Errorf("taken up at %s", r.URL)
			}
			fmt.Fprintf(w, line(14)+"\n"+finished+"\n", 15)
			w.(http.Flusher).Flush()
			<-r.Context().Done() // the client leaves by itself
		},
	})
	req := api.ExecutionRequest{ID: pointer("e1"), Code: pointer("1")}
	var got []int64
	var end api.ExecutionFinished
	for e, err := range c.ExecuteStream(t.Context(), "s", req) {
		must(t, err)
		got = append(got, e.Seq)
		end, _ = e.Body.(api.ExecutionFinished)
	}
	if fmt.Sprint(got) != "[11 13 14 15]" || end.Execution.Status != api.StatusOK {
		t.Errorf("events %v, end %+v", got, end)
	}
	if seen := s.requests(); len(seen) != 2 || seen[0] != `POST /v1/sessions/s/executions {"id":"e1","code":"1"}` {
		t.Errorf("requests: %q", seen)
	}
}

func TestAStreamedExecutionThatBreaksBeforeItsFirstEventIsPostedAgainWithTheSameID(t *testing.T) {
	first := true
	s, c := serve(t, map[string]http.HandlerFunc{
		"POST /v1/sessions/s/executions": func(w http.ResponseWriter, _ *http.Request) {
			if first {
				first = false
				hangUp()
			}
			fmt.Fprintf(w, finished+"\n", 1)
		},
	})
	seqs, err := collect(t, c.ExecuteStream(t.Context(), "s", api.ExecutionRequest{Code: pointer("1")}), -1)
	must(t, err)
	wantSeqs(t, seqs, 1, 1)
	if seen := s.requests(); len(seen) != 2 || seen[0] != seen[1] || !strings.Contains(seen[0], `"id":"`) {
		t.Errorf("requests: %q", seen)
	}
}

func TestARefusedStreamIsAnAPIErrorAtOnce(t *testing.T) {
	s, c := serve(t, map[string]http.HandlerFunc{
		"POST /v1/sessions/s/executions":   refusal(api.CodeKernelStart, "no kernel"),
		"GET /v1/sessions/s/executions/e9": refusal(api.CodeExecutionNotFound, "no such execution"),
	})
	_, err := collect(t, c.ExecuteStream(t.Context(), "s", api.ExecutionRequest{Code: pointer("1")}), -1)
	if !errors.Is(err, api.Errorf(api.CodeKernelStart, "")) {
		t.Errorf("got %v", err)
	}
	_, err = collect(t, c.ExecutionEvents(t.Context(), "s", "e9", 0), -1)
	if !errors.Is(err, api.Errorf(api.CodeExecutionNotFound, "")) {
		t.Errorf("got %v", err)
	}
	if seen := s.requests(); len(seen) != 2 {
		t.Errorf("requests: %q", seen)
	}
}

func TestAnEventOfAnUnknownTypeIsKeptAndABigOneFits(t *testing.T) {
	big := strings.Repeat("x", 20<<20)
	_, c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s/events": answer(200, "application/x-ndjson",
			`{"seq":1,"time":"2026-01-02T03:04:05.678Z","type":"of_tomorrow","more":[1]}`+"\n"+
				`{"seq":2,"time":"2026-01-02T03:04:05.678Z","type":"stream","name":"stdout","text":"`+big+`"}`+"\n"),
	})
	var got []api.Event
	for e, err := range c.Events(t.Context(), "s", client.EventsQuery{Past: true}) {
		must(t, err)
		got = append(got, e)
	}
	if len(got) != 2 {
		t.Fatalf("%d events", len(got))
	}
	raw, ok := got[0].Body.(api.RawEvent)
	if !ok || raw.Type != "of_tomorrow" || !strings.Contains(string(raw.JSON), "more") {
		t.Errorf("unknown event: %+v", got[0])
	}
	if s, ok := got[1].Body.(api.Stream); !ok || len(s.Text) != len(big) {
		t.Error("big event came back changed")
	}
}
