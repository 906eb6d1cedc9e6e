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
