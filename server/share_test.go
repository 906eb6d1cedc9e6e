package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"talaria/api"
)

// shared makes a session and a link to it, and returns the link's token and the share.
func (h *harness) shared(id string) (token string, share api.Share) {
	h.Helper()
	h.session(id)
	r := h.do(request{method: "POST", path: "/v1/sessions/" + id + "/shares"})
	h.want(r, 201, "")
	share = decode[api.Share](h.T, r.body)
	token, ok := strings.CutPrefix(share.URL, "/?token=")
	if !ok || share.ID == "" {
		h.Fatalf("the share is %s", r.body)
	}
	return token, share
}

// TestASharesTokenOnlyReads tries it on every route there is.
func TestASharesTokenOnlyReads(t *testing.T) {
	h := start(t)
	token, _ := h.shared("s")
	h.session("other")
	h.want(h.do(request{method: "PUT", path: "/v1/sessions/s/files/f.txt", body: "x", header: map[string]string{"Content-Type": "text/plain"}}), 201, "")
	readable := map[string]bool{
		"GET /v1/sessions/{id}": true, "GET /v1/sessions/{id}/executions": true, "GET /v1/sessions/{id}/executions/{eid}": true,
		"GET /v1/sessions/{id}/executions/{eid}/text": true, "GET /v1/sessions/{id}/executions/{eid}/render": true, "GET /v1/sessions/{id}/executions/{eid}/render/{sha256}": true,
		"GET /v1/sessions/{id}/events": true, "GET /v1/sessions/{id}/ws": true, "GET /v1/sessions/{id}/files": true,
		"GET /v1/sessions/{id}/files/{path}": true, "GET /v1/sessions/{id}/artifacts": true, "GET /v1/artifacts/{sha256}": true,
		"GET /v1/sessions/{id}/notebook": true, "GET /v1/sessions/{id}/document": true, "GET /v1/sessions/{id}/view": true,
		"POST /mcp": true, "DELETE /mcp": true, // each tool checks more
	}
	open := map[string]bool{
		"GET /": true, "POST /login": true, "POST /logout": true, "GET /healthz": true, "GET /readyz": true, "GET /static/{path}": true, "GET /sdk/{path}": true, "GET /sandbox/{frame}": true,
	}
	for _, route := range h.server.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if open[route] {
			continue
		}
		fill := func(id string) string {
			path := strings.NewReplacer("{id}", id, "{eid}", "e", "{sha256}", strings.Repeat("0", 64), "{tid}", "t", "{share}", "x",
				"{path}", "f.txt").Replace(path)
			if strings.HasSuffix(path, "/events") {
				path += "?follow=false"
			}
			return path
		}
		got := h.do(request{method: method, path: fill("s"), token: token})
		if readable[route] {
			if got.status == 403 || got.status == 401 {
				t.Errorf("%s: %d %s", route, got.status, got.body)
			}
		} else {
			h.want(got, 403, api.CodeReadOnly)
		}
		delete(readable, route)
		if strings.Contains(path, "{id}") {
			h.want(h.do(request{method: method, path: fill("other"), token: token}), 404, api.CodeSessionNotFound)
		}
	}
	if len(readable) > 0 {
		t.Errorf("there are no routes %v", readable)
	}
}

func TestASharesSocketTakesPingsOnlyAndEndsWithTheShare(t *testing.T) {
	h := start(t)
	token, share := h.shared("s")
	conn, _, err := h.dial("/v1/sessions/s/ws?after=0&token="+token, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"execute", "interrupt", "reset", "input_reply", "complete", "variables", "table", "checkpoint", "rollback", "tools"} {
		if err := conn.WriteJSON(map[string]string{"type": kind, "id": kind, "code": "1", "value": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.WriteJSON(map[string]string{"type": "ping", "id": "last"}); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for refused < 10 { // questions are answered beside the others
		_, data, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		var frame struct {
			Type, ID string
			OK       bool
			Error    api.Error
		}
		if err := json.Unmarshal(data, &frame); err != nil {
			t.Fatal(err)
		}
		if frame.Type != "reply" {
			continue
		}
		last := frame.ID == "last"
		if frame.OK != last || (!last && frame.Error.Code != api.CodeReadOnly) {
			t.Errorf("reply %s", data)
		}
		refused++
	}
	if list := h.do(request{method: "GET", path: "/v1/sessions/s/shares"}); strings.Contains(string(list.body), token) ||
		!strings.Contains(string(list.body), share.ID) {
		t.Errorf("the list is %s", list.body)
	}
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s/shares/" + share.ID}), 204, "")
	for err = nil; err == nil; {
		_, _, err = conn.ReadMessage()
	}
	if !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("the socket ended with %v", err)
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s", token: token}), 401, api.CodeUnauthorized)
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s/shares/" + share.ID}), 404, api.CodeNotFound)
}

func TestASharesLinkOpensThePage(t *testing.T) {
	h := start(t)
	token, _ := h.shared("s")
	first := h.do(request{method: "GET", path: "/?token=" + token, token: "-"})
	if first.status != 303 || first.header.Get("Location") != "/?session=s" {
		t.Fatalf("the link leads to %d %q", first.status, first.header.Get("Location"))
	}
	cookie, _, _ := strings.Cut(first.header.Get("Set-Cookie"), ";")
	page := h.do(request{method: "GET", path: "/?session=s", token: "-", header: map[string]string{"Cookie": cookie}})
	if !strings.Contains(string(page.body), `name="talaria-share" content="s"`) {
		t.Errorf("the page does not know that it is shared: %s", page.body)
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s", token: "-", header: map[string]string{"Cookie": cookie}}), 200, "")

	// An owner who follows their own link stays the owner; another owner sees what is shared, and their own sessions.
	both := h.cookie() + "; " + cookie
	own := h.do(request{method: "GET", path: "/?session=s", token: "-", header: map[string]string{"Cookie": both}})
	if !strings.Contains(string(own.body), `name="talaria-share" content=""`) {
		t.Error("the owner became a visitor")
	}
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/keep", token: "-",
		header: map[string]string{"Cookie": both, "Origin": h.url}}), 200, "")
	login := h.do(request{method: "GET", path: "/?token=" + secondToken, token: "-"})
	second, _, _ := strings.Cut(login.header.Get("Set-Cookie"), ";")
	mixed := map[string]string{"Cookie": second + "; " + cookie, "Origin": h.url}
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s", token: "-", header: mixed}), 200, "")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/keep", token: "-", header: mixed}), 403, api.CodeReadOnly)
	h.want(h.do(request{method: "POST", path: "/v1/sessions", token: "-", header: mixed}), 201, "")
}

func TestEverySocketHasTheGate(t *testing.T) {
	h := start(t)
	h.session("s")
	sockets := 0
	for _, route := range h.server.Routes() {
		path, ok := strings.CutPrefix(route, "GET ")
		if !ok || !strings.HasSuffix(path, "/ws") {
			continue
		}
		sockets++
		path = strings.NewReplacer("{id}", "s", "{tid}", "t").Replace(path)
		for name, header := range map[string]http.Header{
			"without a token": {}, "from another page": {"Authorization": {"Bearer " + firstToken}, "Origin": {"http://evil.example"}},
			"from a frame": {"Cookie": {h.cookie()}, "Origin": {"null"}},
		} {
			_, resp, err := h.dial(path, header)
			if err == nil || resp == nil || (resp.StatusCode != 401 && resp.StatusCode != 403) {
				t.Errorf("%s %s: %v", path, name, resp)
			}
		}
	}
	if sockets < 2 {
		t.Errorf("%d sockets found", sockets)
	}
}
