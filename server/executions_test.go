package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"talaria/api"
)

// kinds returns the types of a stream's events in order.
func kinds(events []map[string]any) string {
	var list []string
	for _, e := range events {
		list = append(list, e["type"].(string))
	}
	return strings.Join(list, " ")
}

func ndjson(t *testing.T, body []byte) []map[string]any {
	t.Helper()
	var events []map[string]any
	for line := range strings.Lines(string(body)) {
		events = append(events, decode[map[string]any](t, []byte(line)))
	}
	return events
}

// sse reads an event stream and checks its form.
func sse(t *testing.T, body []byte) []map[string]any {
	t.Helper()
	var events []map[string]any
	for block := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		if strings.HasPrefix(block, ":") {
			continue
		}
		id, data, ok := strings.Cut(block, "\n")
		if !ok || !strings.HasPrefix(id, "id: ") || !strings.HasPrefix(data, "data: ") || strings.Contains(data, "\n") {
			t.Fatalf("not an event: %q", block)
		}
		event := decode[map[string]any](t, []byte(strings.TrimPrefix(data, "data: ")))
		if strings.TrimPrefix(id, "id: ") != strconv.Itoa(int(event["seq"].(float64))) {
			t.Errorf("%s is not seq %v", id, event["seq"])
		}
		events = append(events, event)
	}
	return events
}

func TestExecutionAnswersAsAccepted(t *testing.T) {
	h := start(t)
	h.session("s")
	const whole = "execution_queued execution_started stream execution_finished"
	for i, test := range []struct{ accept, want string }{
		{"", "application/json"},
		{"*/*", "application/json"},
		{"application/json", "application/json"},
		{"application/*", "application/json"},
		{"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "application/json"},
		{"text/event-stream", "text/event-stream"},
		{"text/event-stream, */*;q=0.1", "text/event-stream"},
		{"text/event-stream, */*", "text/event-stream"},
		{"text/*", "text/event-stream"},
		{"application/x-ndjson", "application/x-ndjson"},
		{"application/json;q=0.5, application/x-ndjson", "application/x-ndjson"},
		{"application/x-ndjson;q=0, application/json;q=0.1", "application/json"},
	} {
		t.Run(test.accept, func(t *testing.T) {
			body := fmt.Sprintf(`{"id":"e%d","code":"hello"}`, i)
			r := h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: body,
				header: map[string]string{"Accept": test.accept}})
			if r.status != 200 || r.header.Get("Content-Type") != test.want {
				t.Fatalf("%d %s, want %s: %s", r.status, r.header.Get("Content-Type"), test.want, r.body)
			}
			switch test.want {
			case "application/json":
				if e := decode[api.Execution](t, r.body); e.Status != "ok" || e.Code != "hello" {
					t.Errorf("execution %s", r.body)
				}
				return
			case "text/event-stream":
				if got := sse(t, r.body); kinds(got) != whole {
					t.Errorf("events %s", kinds(got))
				}
			default:
				if got := ndjson(t, r.body); kinds(got) != whole {
					t.Errorf("events %s", kinds(got))
				}
			}
			if r.header.Get("Cache-Control") != "no-store" || r.header.Get("X-Accel-Buffering") != "no" {
				t.Errorf("header %v", r.header)
			}
		})
	}
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"code":"1"}`,
		header: map[string]string{"Accept": "image/png"}}), 406, "not_acceptable")
}

func TestExecutionStreamsFromTheStartForTheSameID(t *testing.T) {
	h := start(t)
	h.session("s")
	post := func(accept string) response {
		return h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"one","code":"hello"}`,
			header: map[string]string{"Accept": accept}})
	}
	h.want(post("application/json"), 200, "")
	first, second := post("application/x-ndjson"), post("application/x-ndjson")
	if string(first.body) != string(second.body) || len(first.body) == 0 {
		t.Errorf("another stream:\n%s\n%s", first.body, second.body)
	}
	get := h.do(request{method: "GET", path: "/v1/sessions/s/executions/one",
		header: map[string]string{"Accept": "application/x-ndjson"}})
	if string(get.body) != string(first.body) {
		t.Errorf("GET differs:\n%s\n%s", get.body, first.body)
	}
	events := ndjson(t, first.body)
	after := strconv.Itoa(int(events[1]["seq"].(float64)))
	for _, r := range []request{
		{path: "/v1/sessions/s/executions/one?after=" + after},
		{path: "/v1/sessions/s/executions/one?after=0", header: map[string]string{"Last-Event-ID": after}},
	} {
		r.method = "GET"
		if r.header == nil {
			r.header = map[string]string{}
		}
		r.header["Accept"] = "text/event-stream"
		if got := sse(t, h.do(r).body); kinds(got) != "stream execution_finished" {
			t.Errorf("after %s: %s", after, kinds(got))
		}
	}
	last := strconv.Itoa(int(events[len(events)-1]["seq"].(float64)))
	end := h.do(request{method: "GET", path: "/v1/sessions/s/executions/one?after=" + last,
		header: map[string]string{"Accept": "application/x-ndjson"}})
	if end.status != 200 || len(end.body) != 0 {
		t.Errorf("after the last event: %d %s", end.status, end.body)
	}
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"one","code":"other"}`}),
		409, "execution_conflict")
}

func TestWaitIsBounded(t *testing.T) {
	h := start(t)
	h.session("s")
	post := func(id, wait string) response {
		return h.do(request{method: "POST", path: "/v1/sessions/s/executions?wait_s=" + wait,
			body: `{"id":"` + id + `","code":"hang"}`})
	}
	for _, wait := range []string{"0", "0.05", "5e-2"} {
		r := post("one", wait)
		h.want(r, 202, "")
		if e := decode[api.Execution](t, r.body); e.ID != "one" || e.Status.Final() {
			t.Errorf("wait_s=%s: %s", wait, r.body)
		}
	}
	done := make(chan response)
	go func() { done <- post("one", "1e300") }()
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/interrupt"}), 202, "")
	r := <-done
	h.want(r, 200, "")
	if e := decode[api.Execution](t, r.body); e.Status != "interrupted" {
		t.Errorf("status %s", e.Status)
	}
	h.want(post("one", "0"), 200, "")
}

func TestClientThatGoesAwayStopsNothing(t *testing.T) {
	h := start(t)
	h.session("s")
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := h.send(ctx, request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"one","code":"hang"}`,
		header: map[string]string{"Accept": "application/x-ndjson"}})
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "execution_started") {
			break
		}
	}
	cancel()
	resp.Body.Close()
	r := h.do(request{method: "GET", path: "/v1/sessions/s/executions/one"})
	if e := decode[api.Execution](t, r.body); e.Status != "running" {
		t.Errorf("status %s", e.Status)
	}
	h.do(request{method: "POST", path: "/v1/sessions/s/interrupt", body: `{"execution_id":"one"}`})
}

func TestShutdownAnswersWhoWaits(t *testing.T) {
	h := start(t)
	h.session("s")
	socket := h.attach("/v1/sessions/s/ws")
	done := make(chan response)
	go func() {
		done <- h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"one","code":"hang"}`})
	}()
	socket.until(typed("execution_started"))
	streams := make(chan response)
	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		resp, err := h.send(t.Context(), request{method: "GET", path: "/v1/sessions/s/events?after=0",
			header: map[string]string{"Accept": accept}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer resp.Body.Close()
			var body strings.Builder
			_, err := fmt.Fprint(&body, readAll(resp))
			if err != nil {
				t.Error(err)
			}
			streams <- response{status: resp.StatusCode, body: []byte(body.String())}
		}()
	}
	h.server.Drain()
	r := <-done
	h.want(r, 202, "")
	if e := decode[api.Execution](t, r.body); e.ID != "one" || e.Status != "running" {
		t.Errorf("execution %s", r.body)
	}
	for range 2 {
		if r := <-streams; r.status != 200 {
			t.Errorf("stream ended with %d", r.status)
		}
	}
	if closed := socket.closed(); closed.Code != 1001 {
		t.Errorf("socket closed with %v", closed)
	}
	h.want(h.do(request{method: "GET", path: "/readyz"}), 503, "shutting_down")
	_, resp, err := h.dial("/v1/sessions/s/ws", http.Header{"Authorization": {"Bearer " + firstToken}})
	if err == nil || resp == nil || resp.StatusCode != 503 {
		t.Errorf("a socket after the shutdown: %v", resp)
	}
}

func readAll(resp *http.Response) string {
	var all strings.Builder
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
	}
	return all.String()
}

func TestEventsAreTheSameOnEveryTransport(t *testing.T) {
	h := start(t)
	h.session("s")
	for _, code := range []string{"one", "two", "big 20"} {
		body, _ := json.Marshal(map[string]string{"code": code})
		h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: string(body)}), 200, "")
	}
	last := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body).LastSeq
	lines := h.do(request{method: "GET", path: "/v1/sessions/s/events?follow=false&after=0",
		header: map[string]string{"Accept": "application/x-ndjson"}}).body
	events := ndjson(t, lines)
	if int64(len(events)) != last {
		t.Fatalf("%d events, last_seq %d", len(events), last)
	}
	for i, e := range events {
		if int(e["seq"].(float64)) != i+1 {
			t.Fatalf("event %d has seq %v", i+1, e["seq"])
		}
	}
	stream := h.do(request{method: "GET", path: "/v1/sessions/s/events?follow=false",
		header: map[string]string{"Accept": "text/event-stream"}}).body
	var data strings.Builder
	for line := range strings.Lines(string(stream)) {
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			data.WriteString(rest)
		}
	}
	if data.String() != string(lines) {
		t.Error("SSE and NDJSON differ")
	}
	socket := h.attach("/v1/sessions/s/ws?after=0")
	var frames strings.Builder
	for range last {
		_, frame, err := socket.conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		frames.Write(append(frame, '\n'))
	}
	if frames.String() != string(lines) {
		t.Error("WebSocket and NDJSON differ")
	}
	if end := h.do(request{method: "GET", path: fmt.Sprintf("/v1/sessions/s/events?follow=false&after=%d", last)}); end.status != 200 || len(end.body) != 0 {
		t.Errorf("at the end: %d %s", end.status, end.body)
	}
	h.want(h.do(request{method: "HEAD", path: "/v1/sessions/s/events"}), 200, "")
}

func TestEventsFollowLive(t *testing.T) {
	h := start(t)
	h.session("s")
	resp, err := h.send(t.Context(), request{method: "GET", path: "/v1/sessions/s/events"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions?wait_s=0", body: `{"code":"hello"}`}), 202, "")
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"type":"execution_finished"`) {
			return
		}
	}
	t.Error("the stream ended")
}

func TestLaggingStreamsAreBrokenOff(t *testing.T) {
	h := start(t)
	for id, accept := range map[string]string{"a": "text/event-stream", "b": "application/x-ndjson"} {
		h.session(id)
		resp, err := h.send(t.Context(), request{method: "GET", path: "/v1/sessions/" + id + "/events?after=0",
			header: map[string]string{"Accept": accept}})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		slow := bufio.NewReader(resp.Body)
		for range 2 { // the reader of the second cell is live
			h.want(h.do(request{method: "POST", path: "/v1/sessions/" + id + "/executions", body: `{"code":"x"}`}), 200, "")
			for line := ""; !strings.Contains(line, `"type":"execution_finished"`); {
				if line, err = slow.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.want(h.do(request{method: "POST", path: "/v1/sessions/" + id + "/executions", body: `{"code":"big 256"}`}), 200, "")
		if _, err := io.Copy(io.Discard, slow); err == nil {
			t.Errorf("%s ended as if it were whole", accept)
		}
	}
}
