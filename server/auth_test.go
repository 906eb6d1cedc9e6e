package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"talaria/api"
)

func (h *harness) cookie() string {
	h.Helper()
	r := h.do(request{method: "POST", path: "/login", token: "-", body: "token=" + firstToken,
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}})
	if r.status != 303 || r.header.Get("Location") != "/" {
		h.Fatalf("login: %d %s", r.status, r.body)
	}
	cookie := r.header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, part) {
			h.Errorf("cookie %q lacks %s", cookie, part)
		}
	}
	if strings.Contains(cookie, "Secure") {
		h.Errorf("cookie %q is for TLS only", cookie)
	}
	pair, _, _ := strings.Cut(cookie, ";")
	return pair
}

func TestTokenDecidesWhoCalls(t *testing.T) {
	h := start(t)
	h.session("mine")
	cookie := h.cookie()
	query := "?token=" + url.QueryEscape(firstToken)
	for _, test := range []struct {
		name string
		request
		status int
	}{
		{"header", request{path: "/v1/sessions"}, 200},
		{"scheme in another case", request{path: "/v1/sessions", header: map[string]string{
			"Authorization": "bearer " + firstToken}}, 200},
		{"none", request{path: "/v1/sessions", token: "-"}, 401},
		{"wrong", request{path: "/v1/sessions", token: "wrong"}, 401},
		{"query", request{path: "/v1/sessions" + query, token: "-"}, 200},
		{"query on a POST", request{method: "POST", path: "/v1/sessions" + query, token: "-"}, 401},
		{"cookie", request{path: "/v1/sessions", token: "-", header: map[string]string{"Cookie": cookie}}, 200},
		{"wrong header, good cookie", request{path: "/v1/sessions", token: "wrong",
			header: map[string]string{"Cookie": cookie}}, 401},
		{"basic header, good query", request{path: "/v1/sessions" + query, token: "-",
			header: map[string]string{"Authorization": "Basic eDp5"}}, 401},
		{"other owner's session", request{path: "/v1/sessions/mine", token: secondToken}, 404},
		{"own session", request{path: "/v1/sessions/mine"}, 200},
		{"metrics of the first owner", request{path: "/metrics"}, 200},
		{"metrics of another", request{path: "/metrics", token: secondToken}, 403},
		{"stats of another", request{path: "/v1/stats", token: secondToken}, 403},
		{"metrics of nobody", request{path: "/metrics", token: "-"}, 401},
		{"description of nobody", request{path: "/openapi.json", token: "-"}, 401},
		{"health", request{path: "/healthz", token: "-"}, 200},
		{"readiness", request{path: "/readyz", token: "-"}, 200},
		{"page", request{path: "/", token: "-"}, 200},
		{"script", request{path: "/static/assets/app.js", token: "-"}, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.request
			if r.method == "" {
				r.method = "GET"
			}
			got := h.do(r)
			if got.status != test.status {
				t.Errorf("status %d, want %d: %s", got.status, test.status, got.body)
			}
			if test.status == 401 {
				h.want(got, 401, api.CodeUnauthorized)
			}
		})
	}
	if strings.Contains(h.log.String(), firstToken) {
		t.Error("the token is in the log")
	}
}

func TestPageShowsTheFormUntilTheTokenIsKnown(t *testing.T) {
	h := start(t)
	form := h.do(request{method: "GET", path: "/", token: "-"})
	if !strings.Contains(string(form.body), `action="/login"`) {
		t.Errorf("no form: %s", form.body)
	}
	page := h.do(request{method: "GET", path: "/", token: "-", header: map[string]string{"Cookie": h.cookie()}})
	if strings.Contains(string(page.body), `action="/login"`) || page.status != 200 {
		t.Errorf("still the form, status %d", page.status)
	}
	wrong := h.do(request{method: "POST", path: "/login", token: "-", body: "token=wrong",
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}})
	if wrong.status != 401 || !strings.Contains(string(wrong.body), `action="/login"`) || wrong.header.Get("Set-Cookie") != "" {
		t.Errorf("wrong token: %d %s", wrong.status, wrong.body)
	}
	first := h.do(request{method: "GET", path: "/?token=" + firstToken, token: "-"})
	if first.status != 303 || first.header.Get("Location") != "/" || first.header.Get("Set-Cookie") == "" {
		t.Errorf("first visit: %d to %q", first.status, first.header.Get("Location"))
	}
	stale := h.do(request{method: "GET", path: "/?token=stale", token: "-"})
	if stale.status != 401 || stale.header.Get("Set-Cookie") != "" {
		t.Errorf("stale token: %d", stale.status)
	}
	other := h.do(request{method: "POST", path: "/login", token: "-", body: "token=" + firstToken, header: map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Origin": "null", "Sec-Fetch-Site": "cross-site"}})
	h.want(other, 403, api.CodeOriginNotAllowed)
}

func TestCookieNeedsTheOriginToChangeThings(t *testing.T) {
	h := start(t)
	cookie := h.cookie()
	for _, test := range []struct {
		origin string
		status int
	}{
		{h.url, 201},
		{strings.ToUpper(h.url), 201},
		{ownOrigin, 201},
		{"", 403},
		{"null", 403},
		{"http://evil.example", 403},
		{h.url + ".evil.example", 403},
		{"https://chat.example.org.evil.example", 403},
		{strings.Replace(h.url, "http:", "https:", 1), 403},
	} {
		t.Run("from "+test.origin, func(t *testing.T) {
			r := h.do(request{method: "POST", path: "/v1/sessions", token: "-",
				header: map[string]string{"Cookie": cookie, "Origin": test.origin}})
			if r.status != test.status {
				t.Fatalf("status %d, want %d: %s", r.status, test.status, r.body)
			}
			if test.status == 403 {
				h.want(r, 403, api.CodeOriginNotAllowed)
			}
		})
	}
	r := h.do(request{method: "POST", path: "/v1/sessions", header: map[string]string{"Origin": "http://evil.example"}})
	h.want(r, 201, "") // a header is not sent by accident
}

func TestSocketHasOneGate(t *testing.T) {
	h := start(t)
	h.session("s")
	cookie := h.cookie()
	bearer := "Bearer " + firstToken
	terminal := h.terminal() + "/ws"
	for _, test := range []struct {
		name   string
		path   string
		header http.Header
		status int
	}{
		{"header", "/v1/sessions/s/ws", http.Header{"Authorization": {bearer}}, 101},
		{"query", "/v1/sessions/s/ws?token=" + firstToken, nil, 101},
		{"cookie and own origin", "/v1/sessions/s/ws", http.Header{"Cookie": {cookie}, "Origin": {h.url}}, 101},
		{"configured origin", "/v1/sessions/s/ws?token=" + firstToken, http.Header{"Origin": {ownOrigin}}, 101},
		{"no token", "/v1/sessions/s/ws", nil, 401},
		{"wrong header", "/v1/sessions/s/ws?token=" + firstToken, http.Header{"Authorization": {"Bearer x"}}, 401},
		{"foreign origin", "/v1/sessions/s/ws", http.Header{"Authorization": {bearer}, "Origin": {"http://evil.example"}}, 403},
		{"null origin", "/v1/sessions/s/ws", http.Header{"Cookie": {cookie}, "Origin": {"null"}}, 403},
		{"no session", "/v1/sessions/none/ws", http.Header{"Authorization": {bearer}}, 404},
		{"bad after", "/v1/sessions/s/ws?after=x", http.Header{"Authorization": {bearer}}, 400},
		{"after beyond the log", "/v1/sessions/s/ws?after=999999", http.Header{"Authorization": {bearer}}, 400},
		{"other log", "/v1/sessions/s/ws?log_id=other", http.Header{"Authorization": {bearer}}, 409},
		{"terminal", terminal, http.Header{"Authorization": {bearer}}, 101},
		{"terminal, cookie and own origin", terminal, http.Header{"Cookie": {cookie}, "Origin": {h.url}}, 101},
		{"terminal, no token", terminal, nil, 401},
		{"terminal, foreign origin", terminal, http.Header{"Authorization": {bearer}, "Origin": {"http://evil.example"}}, 403},
		{"terminal, null origin", terminal, http.Header{"Cookie": {cookie}, "Origin": {"null"}}, 403},
		{"terminal, bad after", terminal + "?after=x", http.Header{"Authorization": {bearer}}, 400},
		{"no terminal", "/v1/sessions/s/terminals/t/ws", http.Header{"Authorization": {bearer}}, 404},
		{"terminal of no session", "/v1/sessions/none/terminals/1-1/ws", http.Header{"Authorization": {bearer}}, 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, resp, err := h.dial(test.path, test.header)
			if resp == nil {
				t.Fatal(err)
			}
			if resp.StatusCode != test.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, test.status)
			}
			if test.status != 101 && resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("Content-Type %q", resp.Header.Get("Content-Type"))
			}
			if test.status == 101 && conn.Subprotocol() != "talaria.v1" {
				t.Errorf("subprotocol %q", conn.Subprotocol())
			}
		})
	}
}

func TestConfiguredOriginsGetCORS(t *testing.T) {
	h := start(t)
	preflight := func(origin string) response {
		return h.do(request{method: "OPTIONS", path: "/v1/sessions/x/files/a", token: "-", header: map[string]string{
			"Origin": origin, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}})
	}
	good := preflight(ownOrigin)
	if good.status != 204 || good.header.Get("Access-Control-Allow-Origin") != ownOrigin ||
		!strings.Contains(good.header.Get("Access-Control-Allow-Methods"), "PUT") ||
		!strings.Contains(good.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %d %v", good.status, good.header)
	}
	if bad := preflight("http://evil.example"); bad.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign preflight: %v", bad.header)
	}
	r := h.do(request{method: "GET", path: "/v1/sessions", header: map[string]string{"Origin": ownOrigin}})
	for _, name := range []string{"Location", "ETag"} {
		if !strings.Contains(r.header.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("%s is not exposed: %v", name, r.header)
		}
	}
	if own := h.do(request{method: "GET", path: "/healthz", token: "-"}); decode[map[string]string](t, own.body)["version"] == "" {
		t.Errorf("/healthz has no version: %s", own.body)
	}
	outside := h.do(request{method: "GET", path: "/healthz", header: map[string]string{"Origin": ownOrigin}})
	if outside.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("CORS outside of /v1")
	}
}
