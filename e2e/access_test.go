package e2e

import (
	"net/http"
	"strings"
	"testing"

	"talaria/api"
)

func TestWhatIsOpenAndWhatIsNot(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	open := func(method, path string) call { return call{method: method, path: path, token: "-"} }
	s.want(t, open("GET", "/healthz"), 200, "")
	s.want(t, open("GET", "/readyz"), 200, "")
	s.want(t, open("HEAD", "/healthz"), 200, "")
	if a := s.want(t, open("GET", "/"), 200, ""); !strings.Contains(string(a.body), `action="/login"`) && !strings.Contains(string(a.body), "login") {
		t.Errorf("without a token the page is %.300s", a.body)
	}
	s.want(t, open("GET", "/v1/sessions"), 401, api.CodeUnauthorized)
	s.want(t, open("GET", "/v1/sessions?token="+s.Token), 200, "")
	a := s.want(t, call{method: "GET", path: "/openapi.json"}, 200, "")
	description := decode[struct {
		OpenAPI string
		Paths   map[string]any
	}](t, string(a.body))
	if !strings.HasPrefix(description.OpenAPI, "3.1") || description.Paths["/v1/sessions/{id}/executions"] == nil {
		t.Errorf("the description is of %s with %d paths", description.OpenAPI, len(description.Paths))
	}
	if a := s.want(t, call{method: "GET", path: "/metrics"}, 200, ""); !strings.Contains(string(a.body), "# TYPE ") {
		t.Errorf("metrics: %.300s", a.body)
	}
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "sum(range(2_000_000))")
	stats, err := s.Client().Stats(within(t))
	if err != nil || stats.Isolation.Tier == "" || stats.Kernels != 1 || stats.Sessions[api.StateIdle] != 1 ||
		stats.MemoryBytes == 0 || stats.CPUSeconds == 0 {
		t.Errorf("stats: %+v (%v)", stats, err)
	}
	if m := stats.Machine; m.CPUs < 1 || m.MemoryBytes < m.MemoryAvailableBytes || m.MemoryAvailableBytes <= 0 ||
		m.DiskBytes < m.DiskAvailableBytes || m.DiskAvailableBytes <= 0 {
		t.Errorf("the machine is %+v", m)
	}
}

func TestTheCookieAndItsOrigin(t *testing.T) {
	t.Parallel()
	s := start(t, options{args: []string{"--origins", "https://chat.example.org"}})
	a := s.want(t, call{method: "POST", path: "/login", body: "token=wrong", kind: "application/x-www-form-urlencoded", token: "-",
		header: map[string]string{"Origin": s.URL}}, 401, "")
	if a.header.Get("Set-Cookie") != "" {
		t.Error("a wrong token gets a cookie")
	}
	a = s.do(t, call{method: "POST", path: "/login", body: "token=" + s.Token, kind: "application/x-www-form-urlencoded", token: "-",
		header: map[string]string{"Origin": s.URL}})
	cookies := (&http.Response{Header: a.header}).Cookies()
	if a.status != 303 || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("login: %d %v", a.status, a.header)
	}
	cookie := cookies[0].Name + "=" + cookies[0].Value
	if a := s.want(t, call{method: "GET", path: "/?token=" + s.Token, token: "-"}, 303, ""); a.header.Get("Set-Cookie") == "" || strings.Contains(a.header.Get("Location"), s.Token) {
		t.Errorf("GET /?token=: %v", a.header)
	}
	with := func(method, origin string) call {
		c := call{method: method, path: "/v1/sessions", token: "-", header: map[string]string{"Cookie": cookie}}
		if method == "POST" {
			c.body = "{}"
		}
		if origin != "" {
			c.header["Origin"] = origin
		}
		return c
	}
	s.want(t, with("GET", ""), 200, "")
	s.want(t, with("POST", ""), 403, api.CodeOriginNotAllowed)
	s.want(t, with("POST", "https://evil.example.org"), 403, api.CodeOriginNotAllowed)
	s.want(t, with("POST", "null"), 403, api.CodeOriginNotAllowed)
	s.want(t, with("POST", s.URL), 201, "")
	s.want(t, with("POST", "https://chat.example.org"), 201, "")

	preflight := call{method: "OPTIONS", path: "/v1/sessions", token: "-", header: map[string]string{
		"Origin": "https://chat.example.org", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}}
	a = s.do(t, preflight)
	if a.status/100 != 2 || a.header.Get("Access-Control-Allow-Origin") != "https://chat.example.org" {
		t.Errorf("preflight: %d %v", a.status, a.header)
	}
	a = s.want(t, call{method: "POST", path: "/v1/sessions", body: "{}", header: map[string]string{"Origin": "https://chat.example.org"}}, 201, "")
	if exposed := strings.ToLower(a.header.Get("Access-Control-Expose-Headers")); !strings.Contains(exposed, "location") || !strings.Contains(exposed, "etag") {
		t.Errorf("exposed: %q", exposed)
	}
	preflight.header["Origin"] = "https://evil.example.org"
	if a := s.do(t, preflight); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight of another origin: %v", a.header)
	}

	id := session(t, s.Client(), api.SessionRequest{})
	upgrade := func(origin string) call {
		h := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
		if origin != "" {
			h["Origin"] = origin
		}
		return call{method: "GET", path: "/v1/sessions/" + id + "/ws", header: h}
	}
	s.want(t, upgrade("https://evil.example.org"), 403, api.CodeOriginNotAllowed)
	for _, origin := range []string{"", s.URL, "https://chat.example.org"} {
		res, err := s.open(within(t), upgrade(origin))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 101 || res.Header.Get("Sec-WebSocket-Protocol") != "" {
			t.Errorf("an upgrade from %q: %d %v", origin, res.StatusCode, res.Header)
		}
	}
}
