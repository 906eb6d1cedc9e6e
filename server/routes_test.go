package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"talaria/api"
)

func TestRequestsThatFailAreProblems(t *testing.T) {
	h := start(t)
	h.session("s")
	const one = "/v1/sessions/s"
	form := map[string]string{"Content-Type": "text/plain"}
	long := `{"code":"` + strings.Repeat("x", api.MaxBody) + `"}`
	for _, test := range []struct {
		name string
		request
		status int
		code   api.Code
	}{
		{"unknown path", request{path: "/nothing"}, 404, "not_found"},
		{"unknown path below v1", request{path: "/v1/nothing"}, 404, "not_found"},
		{"trailing slash", request{path: "/v1/sessions/"}, 404, ""},
		{"double slash", request{path: "//v1/sessions"}, 404, "not_found"},
		{"dots", request{path: "/v1/../v1/sessions"}, 404, "not_found"},
		{"escaped dots", request{path: "/%2e%2e/v1/sessions"}, 404, "not_found"},
		{"wrong method", request{method: "DELETE", path: "/v1/sessions"}, 405, "method_not_allowed"},
		{"wrong method on a session", request{method: "POST", path: one}, 405, "method_not_allowed"},
		{"no session", request{path: "/v1/sessions/none"}, 404, "session_not_found"},
		{"escaped slash in an id", request{path: "/v1/sessions/a%2Fb"}, 404, "session_not_found"},
		{"unknown field", request{method: "POST", path: "/v1/sessions", body: `{"nmae":"x"}`}, 400, "invalid_request"},
		{"field in another case", request{method: "POST", path: "/v1/sessions", body: `{"Name":"x"}`}, 400, "invalid_request"},
		{"field twice", request{method: "POST", path: "/v1/sessions", body: `{"name":"x","name":"y"}`}, 400, "invalid_request"},
		{"wrong type", request{method: "POST", path: "/v1/sessions", body: `{"name":1}`}, 400, "invalid_request"},
		{"trailing data", request{method: "POST", path: "/v1/sessions", body: `{} {}`}, 400, "invalid_request"},
		{"null", request{method: "POST", path: "/v1/sessions", body: `null`}, 400, "invalid_request"},
		{"array", request{method: "POST", path: "/v1/sessions", body: `[]`}, 400, "invalid_request"},
		{"half", request{method: "POST", path: "/v1/sessions", body: `{"name":`}, 400, "invalid_request"},
		{"invalid UTF-8", request{method: "POST", path: one + "/executions", body: "{\"code\":\"\xff\"}"}, 400, "invalid_request"},
		{"lone surrogate", request{method: "POST", path: one + "/executions", body: `{"code":"\ud800"}`}, 400, "invalid_request"},
		{"deep", request{method: "POST", path: one + "/executions", body: strings.Repeat("[", 100000)}, 400, "invalid_request"},
		{"no code", request{method: "POST", path: one + "/executions", body: `{}`}, 400, "invalid_request"},
		{"no body", request{method: "POST", path: one + "/executions", header: map[string]string{
			"Content-Type": "application/json"}}, 400, "invalid_request"},
		{"other type", request{method: "POST", path: "/v1/sessions", body: `{}`, header: form}, 415, "unsupported_media_type"},
		{"no type", request{method: "POST", path: "/v1/sessions", body: `{}`,
			header: map[string]string{"Content-Type": ""}}, 415, "unsupported_media_type"},
		{"other charset", request{method: "POST", path: "/v1/sessions", body: `{}`,
			header: map[string]string{"Content-Type": "application/json; charset=latin1"}}, 415, "unsupported_media_type"},
		{"too large", request{method: "POST", path: one + "/executions", body: long}, 413, "payload_too_large"},
		{"ids that differ", request{method: "PUT", path: one, body: `{"id":"other"}`}, 400, "invalid_request"},
		{"bad limit", request{path: "/v1/sessions?limit=0"}, 400, "invalid_request"},
		{"large limit", request{path: "/v1/sessions?limit=1001"}, 400, "invalid_request"},
		{"bad state", request{path: "/v1/sessions?state=sleeping"}, 400, "invalid_request"},
		{"bad query", request{path: "/v1/sessions?limit=%zz"}, 400, "invalid_request"},
		{"bad after", request{path: one + "/events?after=-1"}, 400, "invalid_request"},
		{"after beyond the log", request{path: one + "/events?after=999999"}, 400, "invalid_request"},
		{"bad Last-Event-ID", request{path: one + "/events", header: map[string]string{"Last-Event-ID": "x"}}, 400, "invalid_request"},
		{"other log", request{path: one + "/events?log_id=other"}, 409, "log_changed"},
		{"bad follow", request{path: one + "/events?follow=maybe"}, 400, "invalid_request"},
		{"events as a picture", request{path: one + "/events", header: map[string]string{"Accept": "image/png"}}, 406, "not_acceptable"},
		{"bad wait", request{method: "POST", path: one + "/executions?wait_s=-1", body: `{"code":"1"}`}, 400, "invalid_request"},
		{"wait that is not a number", request{method: "POST", path: one + "/executions?wait_s=NaN", body: `{"code":"1"}`}, 400, "invalid_request"},
		{"no execution", request{path: one + "/executions/none"}, 404, "execution_not_found"},
		{"socket without upgrade", request{path: one + "/ws"}, 400, "invalid_request"},
		{"input not asked", request{method: "POST", path: one + "/input", body: `{"value":"x"}`}, 409, "no_input_pending"},
		{"input without value", request{method: "POST", path: one + "/input", body: `{}`}, 400, "invalid_request"},
		{"no artifact", request{path: "/v1/artifacts/" + strings.Repeat("0", 64)}, 404, "artifact_not_found"},
		{"artifact that is not a digest", request{path: "/v1/artifacts/..%2f..%2fetc%2fpasswd"}, 404, "artifact_not_found"},
		{"packages", request{method: "POST", path: one + "/packages", body: `{"requirements":["x"]}`}, 403, "forbidden"},
		{"terminal of no height", request{method: "POST", path: one + "/terminals", body: `{"rows":0}`}, 400, "invalid_request"},
		{"terminal of another shell", request{method: "POST", path: one + "/terminals", body: `{"shell":"sh"}`}, 400, "invalid_request"},
		{"terminals of no session", request{path: "/v1/sessions/none/terminals"}, 404, "session_not_found"},
		{"batch of no items", request{method: "POST", path: "/v1/batch", body: `{"items":[]}`}, 400, "invalid_request"},
		{"batch with a field that does not exist", request{method: "POST", path: "/v1/batch", body: `{"items":[{"code":"1","branch":"s"}]}`}, 400, "invalid_request"},
		{"batch with a file that is no text", request{method: "POST", path: "/v1/batch", body: `{"items":[{"code":"1","files":{"a":1}}]}`}, 400, "invalid_request"},
		{"batch in no session", request{method: "POST", path: "/v1/batch", body: `{"items":[{"code":"1","session":"none"}]}`}, 404, "session_not_found"},
		{"no batch", request{path: "/v1/batch/none"}, 404, "batch_not_found"},
		{"events of no batch", request{path: "/v1/batch/none/events"}, 404, "batch_not_found"},
		{"cancel no batch", request{method: "DELETE", path: "/v1/batch/none"}, 404, "batch_not_found"},
		{"batches without a token", request{path: "/v1/batch", token: "-"}, 401, "unauthorized"},
		{"no terminal", request{method: "DELETE", path: one + "/terminals/t"}, 404, "terminal_not_found"},
		{"terminal without an upgrade", request{path: one + "/terminals/t/ws"}, 404, "terminal_not_found"},
		{"packages of no session", request{method: "POST", path: "/v1/sessions/none/packages"}, 404, "session_not_found"},
		{"packages without a token", request{method: "POST", path: one + "/packages", token: "-"}, 401, "unauthorized"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.request
			if r.method == "" {
				r.method = "GET"
			}
			got := h.do(r)
			(&harness{T: t}).want(got, test.status, test.code)
			if strings.Contains(string(got.body), "/tmp/") {
				t.Errorf("a path of the host: %s", got.body)
			}
		})
	}
}

func TestProblemNamesTheField(t *testing.T) {
	h := start(t)
	for body, field := range map[string]string{
		`{"nmae":"x"}`:                         "nmae",
		`{"limits":{"memory":1}}`:              "limits.memory",
		`{"limits":{"memory_bytes":"a"}}`:      "limits.memory_bytes",
		`{"name":"x","metadata":{"a":1}}`:      "metadata.a",
		`{"name":"x","name":"y"}`:              "name",
		`{"idle_timeout_s":true}`:              "idle_timeout_s",
		`{"network":{"mode":"none","allw":1}}`: "network.allw",
	} {
		r := h.do(request{method: "POST", path: "/v1/sessions", body: body})
		h.want(r, 400, api.CodeInvalidRequest)
		if detail := decode[api.Error](t, r.body).Detail; !strings.Contains(detail, field) {
			t.Errorf("%s: %q does not name %s", body, detail, field)
		}
	}
}

func TestMethodNotAllowedNamesTheMethods(t *testing.T) {
	h := start(t)
	r := h.do(request{method: "DELETE", path: "/v1/sessions"})
	for _, method := range []string{"GET", "HEAD", "POST"} {
		if !strings.Contains(r.header.Get("Allow"), method) {
			t.Errorf("Allow is %q", r.header.Get("Allow"))
		}
	}
}

func TestUnknownQueryKeysAreIgnored(t *testing.T) {
	h := start(t)
	h.want(h.do(request{method: "GET", path: "/v1/sessions?sort=up&x"}), 200, "")
}

func TestColonInAnIDMayBeEscaped(t *testing.T) {
	h := start(t)
	h.session("chat:7")
	for _, path := range []string{"/v1/sessions/chat:7", "/v1/sessions/chat%3A7", "/v1/sessions/chat%3a7"} {
		r := h.do(request{method: "GET", path: path})
		h.want(r, 200, "")
		if got := decode[api.Session](t, r.body).ID; got != "chat:7" {
			t.Errorf("%s is session %q", path, got)
		}
	}
}

func TestCreateAnswersWithLocation(t *testing.T) {
	h := start(t)
	r := h.do(request{method: "POST", path: "/v1/sessions", body: `{"id":"a:b","name":"n"}`,
		header: map[string]string{"Content-Type": "Application/JSON; charset=UTF-8"}})
	h.want(r, 201, "")
	again := h.do(request{method: "GET", path: r.header.Get("Location")})
	h.want(again, 200, "")
	if decode[api.Session](t, again.body).ID != "a:b" {
		t.Errorf("Location %q", r.header.Get("Location"))
	}
	h.want(h.do(request{method: "POST", path: "/v1/sessions", body: `{"id":"a:b"}`}), 409, "session_exists")
	h.want(h.do(request{method: "PUT", path: "/v1/sessions/a:b", body: `{"id":"a:b"}`}), 200, "")
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/a:b"}), 204, "")
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/a:b"}), 404, "session_not_found")
}

func TestEveryAnswerHasSecurityHeaders(t *testing.T) {
	h := start(t)
	for _, path := range []string{"/", "/static/assets/app.js", "/nothing", "/v1/sessions", "/healthz"} {
		r := h.do(request{method: "GET", path: path})
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if csp := r.header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy is %q", path, csp)
		}
	}
}

func TestMetricsHaveRoutesAndNoIDs(t *testing.T) {
	h := start(t)
	h.session("a-name-of-its-own")
	h.do(request{method: "GET", path: "/v1/sessions/a-name-of-its-own"})
	h.do(request{method: "GET", path: "/nothing-at-all"})
	body := string(h.do(request{method: "GET", path: "/metrics"}).body)
	if strings.Contains(body, "a-name-of-its-own") || strings.Contains(body, "nothing-at-all") {
		t.Error("an id is a label")
	}
	for _, want := range []string{
		`talaria_http_requests_total{method="GET",route="/v1/sessions/{id}",status="200"} 1`,
		`talaria_http_requests_total{method="GET",route="none",status="404"} 1`,
		`talaria_sessions{state="idle"}`, `talaria_batch_items{state="waiting"} 0`, "talaria_kernels ", "talaria_sockets 0", "go_goroutines", "process_cpu",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestTheCountOfExecutionsDoesNotFall(t *testing.T) {
	h := start(t)
	h.session("s")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"code":"x"}`}), 200, "")
	for _, deleted := range []bool{false, true} {
		if deleted {
			h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s"}), 204, "")
		}
		if body := h.do(request{method: "GET", path: "/metrics"}).body; !strings.Contains(string(body), "talaria_executions_total 1\n") {
			t.Errorf("deleted %v: the metrics do not say that one execution has ended", deleted)
		}
	}
}

func TestRawRequestsAreNotRedirected(t *testing.T) {
	h := start(t)
	h.session("s")
	for path, want := range map[string]string{
		"/v1/sessions/s/files/../../x":         "403",
		"/v1/sessions/s/files/%2e%2e/x":        "403",
		"/v1/sessions/s/files/a/%2E%2e%2fx":    "403",
		"/v1/sessions/s/files//etc/passwd":     "403",
		"/v1/sessions/s/files/%2Fetc%2Fpasswd": "403",
		"/v1/sessions/s/files/":                "403",
		"/v1/sessions/s/files/a%00b":           "403",
		"/v1/sessions/s/files/%252e%252e":      "404",
		"/v1/sessions/s/../s":                  "404",
		"*":                                    "404",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, firstToken)
		line, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if !strings.HasPrefix(line, "HTTP/1.1 "+want) {
			t.Errorf("%s: %q, want %s", path, line, want)
		}
	}
}

func TestDescriptionHasEveryRoute(t *testing.T) {
	h := start(t)
	r := h.do(request{method: "GET", path: "/openapi.json"})
	h.want(r, 200, "")
	var spec struct {
		OpenAPI    string
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(r.body, &spec); err != nil {
		t.Fatal(err)
	}
	if spec.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q", spec.OpenAPI)
	}
	described := map[string]bool{}
	for path, operations := range spec.Paths {
		for method := range operations {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	served := map[string]bool{}
	for _, route := range h.server.Routes() {
		served[route] = true
		if !described[route] {
			t.Errorf("%s is not described", route)
		}
	}
	for route := range described {
		if !served[route] {
			t.Errorf("%s is described but not there", route)
		}
	}
	text := string(r.body)
	for _, want := range []string{"text/event-stream", "application/x-ndjson", "application/problem+json",
		"/v1/sessions/{id}/files/{path}", `"Problem"`, `"Session"`, `"Execution"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	for name := range spec.Components.Schemas {
		if !strings.Contains(text, `"#/components/schemas/`+name+`"`) {
			t.Errorf("schema %s is used by nothing", name)
		}
	}
}
