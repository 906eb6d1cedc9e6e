package server_test

import (
	"strings"
	"testing"

	"talaria/api"
	"talaria/server"
	"talaria/server/mcp"
)

// TestMCPHoldsPagesOff has the origins and the cookie of browsers.
func TestMCPHoldsPagesOff(t *testing.T) {
	h := start(t)
	send := func(header map[string]string) response {
		all := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
		for name, value := range header {
			all[name] = value
		}
		token := firstToken
		if all["Cookie"] != "" {
			token = "-"
		}
		return h.do(request{method: "POST", path: "/mcp", body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, token: token, header: all})
	}
	h.want(send(nil), 200, "")
	h.want(send(map[string]string{"Origin": "https://evil.example.org"}), 403, api.CodeOriginNotAllowed)
	allowed := send(map[string]string{"Origin": ownOrigin})
	h.want(allowed, 200, "")
	if allowed.header.Get("Access-Control-Allow-Origin") != ownOrigin || !strings.Contains(allowed.header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
		t.Errorf("an allowed page may not read the answer: %v", allowed.header)
	}
	login := h.do(request{method: "POST", path: "/login", body: "token=" + firstToken, token: "-",
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Origin": h.url}})
	cookie, _, _ := strings.Cut(login.header.Get("Set-Cookie"), ";")
	if cookie == "" {
		t.Fatalf("there is no login: %d %s", login.status, login.body)
	}
	h.want(send(map[string]string{"Cookie": cookie, "Origin": h.url}), 401, api.CodeUnauthorized)
}

func TestMCPCanBeSwitchedOff(t *testing.T) {
	h := startWith(t, server.Config{MCP: mcp.ToolsOff})
	h.want(h.do(request{method: "POST", path: "/mcp", body: "{}"}), 404, api.CodeNotFound)
}

// TestMCPAnnouncesNoChangesOfItsLists: it has no way to send them, and its lists are the same whatever sessions do.
func TestMCPAnnouncesNoChangesOfItsLists(t *testing.T) {
	h := start(t)
	ask := func(body string) string {
		t.Helper()
		r := h.do(request{method: "POST", path: "/mcp", body: body, header: map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		}})
		h.want(r, 200, "")
		return string(r.body)
	}
	about := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if !strings.Contains(about, `"tools":{`) || !strings.Contains(about, `"resources":{`) || strings.Contains(about, "listChanged") {
		t.Errorf("the capabilities are not those of fixed lists: %s", about)
	}
	h.want(h.do(request{method: "POST", path: "/v1/sessions", body: `{"id":"lists"}`}), 201, "")
	const tools, templates = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":3,"method":"resources/templates/list"}`
	before := ask(tools) + ask(templates)
	made := ask(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"write_file","arguments":{"session_id":"lists","path":"a.csv","text":"1"}}}`)
	if !strings.Contains(made, "a.csv") {
		t.Fatalf("no file was written: %s", made)
	}
	if after := ask(tools) + ask(templates); after != before || !strings.Contains(after, "execute_code") {
		t.Errorf("the lists changed:\n%s\n%s", before, after)
	}
}
