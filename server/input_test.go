package server_test

import (
	"bufio"
	"strings"
	"testing"

	"talaria/api"
)

func TestInputIsAnsweredOverEitherTransport(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	for i, answer := range []func(requestID string){
		func(id string) {
			if r := c.ask(`{"type":"input_reply","id":"r","value":"yes","request_id":"` + id + `"}`); r["ok"] != true {
				t.Errorf("reply %v", r)
			}
		},
		func(string) {
			h.want(h.do(request{method: "POST", path: "/v1/sessions/s/input", body: `{"value":"yes"}`}), 200, "")
		},
	} {
		c.write(`{"type":"execute","code":"ask"}`)
		asked := c.until(typed("input_request"))
		id := asked["request_id"].(string)
		pending := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body).PendingInput
		if pending == nil || pending.RequestID != id {
			t.Errorf("pending_input %v", pending)
		}
		wrong := h.do(request{method: "POST", path: "/v1/sessions/s/input", body: `{"value":"x","request_id":"other"}`})
		h.want(wrong, 409, "no_input_pending")
		answer(id)
		h.want(h.do(request{method: "POST", path: "/v1/sessions/s/input", body: `{"value":"x"}`}), 409, "no_input_pending")
		if i == 0 {
			c.until(typed("execution_finished"))
		}
	}
}

// A cell may ask only while a client is attached that can answer.
func TestInputNeedsSomebodyThere(t *testing.T) {
	h := start(t)
	h.session("s")
	const ask = `{"code":"ask","allow_stdin":true}`
	alone := h.do(request{method: "POST", path: "/v1/sessions/s/executions?wait_s=0", body: `{"id":"alone","code":"ask","allow_stdin":true}`})
	if alone.status != 202 && alone.status != 200 {
		t.Fatalf("status %d", alone.status)
	}
	ended := h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"alone","code":"ask"}`})
	h.want(ended, 200, "")
	if e := decode[api.Execution](t, ended.body); e.Error == nil || e.Error.Ename != "StdinNotImplementedError" {
		t.Errorf("asked with nobody there: %s", ended.body)
	}
	byDefault := h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"code":"ask"}`})
	h.want(byDefault, 200, "")
	if e := decode[api.Execution](t, byDefault.body); e.Status != "error" {
		t.Errorf("over HTTP stdin is not allowed by default: %s", byDefault.body)
	}
	for _, accept := range []string{"application/json", "application/x-ndjson"} {
		done := make(chan response)
		go func() {
			done <- h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: ask, header: map[string]string{"Accept": accept}})
		}()
		log, err := h.send(t.Context(), request{method: "GET", path: "/v1/sessions/s/events?after=0",
			header: map[string]string{"Accept": "application/x-ndjson"}})
		if err != nil {
			t.Fatal(err)
		}
		h.answerWhenAsked(bufio.NewScanner(log.Body))
		log.Body.Close()
		if r := <-done; r.status != 200 || !strings.Contains(string(r.body), "yes") {
			t.Errorf("%s: %d %s", accept, r.status, r.body)
		}
	}
}

// answerWhenAsked reads the log up to an open question, and answers it.
func (h *harness) answerWhenAsked(lines *bufio.Scanner) {
	h.Helper()
	for lines.Scan() {
		event := decode[map[string]any](h.T, lines.Bytes())
		if event["type"] != "input_request" {
			continue
		}
		if r := h.do(request{method: "POST", path: "/v1/sessions/s/input", body: `{"value":"yes"}`}); r.status == 200 {
			return
		}
	}
	h.Fatal("the log ended before a question")
}

func TestArtifactsAreServedByDigest(t *testing.T) {
	h := start(t)
	h.session("s")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"e","code":"write page.html <b>hi</b>"}`}), 200, "")
	list := decode[api.Page[api.SessionArtifact]](t, h.do(request{method: "GET", path: "/v1/sessions/s/artifacts"}).body)
	if len(list.Items) != 1 || list.Items[0].ExecutionID != "e" || list.Items[0].Change != "created" {
		t.Fatalf("artifacts %+v", list)
	}
	path := list.Items[0].URL
	r := h.do(request{method: "GET", path: path})
	h.want(r, 200, "")
	if string(r.body) != "<b>hi</b>" || r.header.Get("ETag") != `"`+list.Items[0].SHA256+`"` ||
		!strings.Contains(r.header.Get("Cache-Control"), "immutable") ||
		!strings.HasPrefix(r.header.Get("Content-Disposition"), "attachment") ||
		r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%q %v", r.body, r.header)
	}
	part := h.do(request{method: "GET", path: path, header: map[string]string{"Range": "bytes=3-4"}})
	if part.status != 206 || string(part.body) != "hi" {
		t.Errorf("range: %d %q", part.status, part.body)
	}
	h.put("page.html", "changed")
	if again := h.do(request{method: "GET", path: path}); string(again.body) != "<b>hi</b>" {
		t.Errorf("after a change: %q", again.body)
	}
	h.want(h.do(request{method: "GET", path: path, token: secondToken}), 404, "artifact_not_found")
	h.want(h.do(request{method: "GET", path: strings.ToUpper(path[:14]) + path[14:]}), 404, "")
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s"}), 204, "")
	h.want(h.do(request{method: "GET", path: path}), 404, "artifact_not_found")
}
