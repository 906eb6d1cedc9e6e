package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"talaria/api"
)

// batch creates a job from the JSON of its items.
func (h *harness) batch(items string) api.Batch {
	h.Helper()
	r := h.do(request{method: "POST", path: "/v1/batch", body: `{"items":[` + items + `]}`})
	h.want(r, 202, "")
	made := decode[api.Batch](h.T, r.body)
	if got := r.header.Get("Location"); got != "/v1/batch/"+made.ID {
		h.Errorf("Location is %q", got)
	}
	return made
}

// ndjson reads a batch's events to the end of the stream.
func (h *harness) ndjson(path string) (list []api.BatchEvent) {
	h.Helper()
	r := h.do(request{method: "GET", path: path, header: map[string]string{"Accept": "application/x-ndjson"}})
	h.want(r, 200, "")
	for line := range bytes.Lines(r.body) {
		list = append(list, decode[api.BatchEvent](h.T, line))
	}
	return list
}

func TestABatchIsFollowedToItsEndAndResumed(t *testing.T) {
	h := start(t)
	h.session("s")
	made := h.batch(`{"session":"s","code":"one"},{"code":"two"}`)
	all := h.ndjson("/v1/batch/" + made.ID + "/events")
	if len(all) != 7 || all[0].Status != api.BatchQueued || all[6].Status != api.BatchDone {
		t.Fatalf("the events are %+v", all)
	}
	if rest := h.ndjson(fmt.Sprintf("/v1/batch/%s/events?after=5&follow=false", made.ID)); len(rest) != 2 || rest[0].Seq != 6 {
		t.Errorf("after 5 come %+v", rest)
	}
	resp, err := h.send(t.Context(), request{method: "GET", path: "/v1/batch/" + made.ID + "/events", header: map[string]string{"Last-Event-ID": "6"}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var lines []string
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		lines = append(lines, in.Text())
	}
	if len(lines) != 3 || lines[0] != "id: 7" || !strings.HasPrefix(lines[1], `data: {"seq":7,`) || !strings.Contains(lines[1], `"type":"job","status":"done"`) {
		t.Errorf("as an event stream: %q", lines)
	}
	got := decode[api.Batch](t, h.do(request{path: "/v1/batch/" + made.ID, method: "GET"}).body)
	if got.Status != api.BatchDone || len(got.Items) != 2 || got.Items[0].Execution.Text != "one\n" || got.Items[1].Execution.Text != "two\n" {
		t.Errorf("the batch is %+v", got)
	}
	h.want(h.do(request{method: "GET", path: "/v1/batch/" + made.ID + "/events?after=8"}), 400, api.CodeInvalidRequest)
}

func TestBatchesBelongToTheirOwnerAndAreListedInPages(t *testing.T) {
	h := start(t)
	var ids []string
	for range 3 {
		made := h.batch(`{"code":"x"}`)
		h.ndjson("/v1/batch/" + made.ID + "/events")
		ids = append(ids, made.ID)
	}
	one := "/v1/batch/" + ids[0]
	for _, r := range []request{{method: "GET", path: one}, {method: "DELETE", path: one}, {method: "GET", path: one + "/events"}} {
		r.token = secondToken
		h.want(h.do(r), 404, api.CodeBatchNotFound)
	}
	var seen []string
	for path := "/v1/batch?limit=2"; path != ""; {
		page := decode[api.Page[api.Batch]](t, h.do(request{method: "GET", path: path}).body)
		for _, b := range page.Items {
			if seen = append(seen, b.ID); b.Items != nil {
				t.Errorf("a list has items: %+v", b)
			}
		}
		if path = ""; page.NextCursor != "" {
			path = "/v1/batch?limit=2&cursor=" + page.NextCursor
		}
	}
	if len(seen) != 3 || seen[0] != ids[2] || seen[2] != ids[0] {
		t.Errorf("listed are %v of %v", seen, ids)
	}
	if others := decode[api.Page[api.Batch]](t, h.do(request{method: "GET", path: "/v1/batch", token: secondToken}).body); len(others.Items) > 0 {
		t.Errorf("another owner sees %+v", others.Items)
	}
}

func TestDeleteCancelsABatch(t *testing.T) {
	h := start(t)
	made := h.batch(`{"code":"hang"},{"code":"hang"},{"code":"never"}`)
	r := h.do(request{method: "DELETE", path: "/v1/batch/" + made.ID})
	h.want(r, 200, "")
	if got := decode[api.Batch](t, r.body); got.Status != api.BatchCancelled || got.Reason != api.BatchReasonRequest || got.Items[2].Status != api.StatusCancelled {
		t.Errorf("the batch is %+v", got)
	}
}

func TestAShutdownEndsTheEventsOfABatch(t *testing.T) {
	h := start(t)
	made := h.batch(`{"code":"hang"}`)
	resp, err := h.send(t.Context(), request{method: "GET", path: "/v1/batch/" + made.ID + "/events"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	if !in.Scan() {
		t.Fatal(in.Err())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := h.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	for in.Scan() {
	}
	if err := in.Err(); err != nil {
		t.Errorf("the stream was broken off: %v", err)
	}
}
