package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"talaria/api"
	"talaria/server"
	"talaria/session"
	"talaria/session/packages"
)

func TestAnExecutionIsAnsweredAsTheResultOfATool(t *testing.T) {
	h := start(t)
	h.session("s")
	const path = "/v1/sessions/s/executions"
	r := h.do(request{method: "POST", path: path + "?format=execute_code", body: `{"id":"one","code":"hello"}`})
	h.want(r, 200, "")
	got := decode[api.ExecuteCodeResult](t, r.body)
	if got.Status != "success" || got.ExecutionID != "one" || got.SessionID != "s" || got.Kernel.ExecutionCount != 1 {
		t.Errorf("the result is %s", r.body)
	}
	for _, key := range []string{`"status":`, `"output":`, `"tool_calls_made":`, `"duration_seconds":`} {
		if !strings.Contains(string(r.body), key) {
			t.Errorf("%s lacks %s", r.body, key)
		}
	}
	again := h.do(request{method: "GET", path: path + "/one?format=execute_code"})
	if string(again.body) != string(r.body) {
		t.Errorf("GET answers %s, POST %s", again.body, r.body)
	}
	h.want(h.do(request{method: "POST", path: path + "?format=other", body: `{"code":"1"}`}), 400, api.CodeInvalidRequest)
	later := h.do(request{method: "POST", path: path + "?format=execute_code&wait_s=0", body: `{"code":"hang"}`})
	if later.status != 202 || decode[api.Execution](t, later.body).Status.Final() {
		t.Errorf("without waiting: %d %s", later.status, later.body)
	}
}

// TestTheToolIsDescribedInThreeDialects covers P60 and P61.
func TestTheToolIsDescribedInThreeDialects(t *testing.T) {
	h := start(t)
	h.session("s")
	get := func(query string) map[string]any {
		r := h.do(request{method: "GET", path: "/v1/tools/execute_code" + query})
		h.want(r, 200, "")
		return decode[map[string]any](t, r.body)
	}
	openai, _ := get("")["function"].(map[string]any)
	anthropic, mcp := get("?dialect=anthropic"), get("?dialect=mcp&session=s")
	for dialect, one := range map[string]struct{ tool, parameters any }{
		"openai": {openai, openai["parameters"]}, "anthropic": {anthropic, anthropic["input_schema"]}, "mcp": {mcp, mcp["inputSchema"]},
	} {
		tool, _ := one.tool.(map[string]any)
		schema, _ := one.parameters.(map[string]any)
		if tool["name"] != "execute_code" || fmt.Sprint(schema["required"]) != "[code]" {
			t.Errorf("%s: %v", dialect, tool)
		}
		text := fmt.Sprint(tool["description"])
		for _, part := range []string{
			"from hermes_tools import terminal\n", "\n- read_file(path, offset=1, limit=500): Read", "\n- terminal(command, timeout=None, workdir=None): Run",
			"retry(function, max_attempts=3, delay=2)", "50 tool calls", "three or more", "300 s", "There is no network",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: the description lacks %q: %s", dialect, part, text)
			}
		}
	}

	h.do(request{method: "PUT", path: "/v1/sessions/none", body: `{"builtin_tools":false}`})
	none, _ := get("?session=none")["function"].(map[string]any)
	if text := fmt.Sprint(none["description"]); strings.Contains(text, "hermes_tools") {
		t.Errorf("without tools the description is %s", text)
	}
	c := h.attach("/v1/sessions/none/ws")
	c.ask(`{"type":"tools","id":"t","tools":[{"name":"zeta"},{"name":"alpha","description":"First.\nMore.","parameters":{"type":"object","properties":{"b":{"default":true},"a":{"type":"string"}},"required":["a"]}},{"name":"web_search"}]}`)
	offered, _ := get("?session=none")["function"].(map[string]any)
	text := fmt.Sprint(offered["description"])
	if !strings.Contains(text, "import web_search\n- alpha(a, b=True): First.\n- web_search(") {
		t.Errorf("with tools of a client the description is %s", text)
	}
	h.want(h.do(request{method: "PUT", path: "/v1/sessions/endless", body: `{"limits":{"execution_timeout_s":0}}`}), 201, "")
	endless := get("?dialect=mcp&session=endless")
	if text := fmt.Sprint(endless["description"]); strings.Contains(text, "for each run") || !strings.Contains(text, "Limits: 2048 MiB") {
		t.Errorf("without a timeout: %q", text)
	}
	h.want(h.do(request{method: "GET", path: "/v1/tools/execute_code?dialect=other"}), 400, api.CodeInvalidRequest)
	h.want(h.do(request{method: "GET", path: "/v1/tools/execute_code?session=other"}), 404, api.CodeSessionNotFound)
}

func TestToolsMentionPackagesIfSessionsMayInstallThem(t *testing.T) {
	descriptions := func(change func(*session.Config)) string {
		h := startWith(t, server.Config{}, change)
		tool := h.do(request{method: "GET", path: "/v1/tools/execute_code"})
		h.want(tool, 200, "")
		list := h.do(request{method: "POST", path: "/mcp", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header: map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		}})
		h.want(list, 200, "")
		return string(tool.body) + string(list.body)
	}
	const words, installer = "%pip install", "install_packages"
	index := func(c *session.Config) {
		c.Packages.Index = func(context.Context) (packages.Index, error) { return nil, errors.New("not in this test") }
	}
	if text := descriptions(index); strings.Count(text, words) != 2 || !strings.Contains(text, installer) {
		t.Errorf("with packages: %s", text)
	}
	if text := descriptions(func(c *session.Config) { index(c); c.Packages.Off = "the operator says so" }); strings.Contains(text, words) || strings.Contains(text, installer) {
		t.Errorf("without packages: %s", text)
	}
}

// TestWhatAModelSendsByMistakeIsAnsweredWithTheArgumentToUse covers P45.
func TestWhatAModelSendsByMistakeIsAnsweredWithTheArgumentToUse(t *testing.T) {
	h := start(t)
	h.session("s")
	for _, body := range []string{`{}`, `{"code":" \n"}`, `{"code":["print(1)"]}`, `{"command":"ls"}`} {
		r := h.do(request{method: "POST", path: "/v1/sessions/s/executions?format=execute_code", body: body})
		h.want(r, 400, api.CodeInvalidRequest)
		if !strings.Contains(string(r.body), `the string \"code\"`) {
			t.Errorf("%s is answered with %s", body, r.body)
		}
	}
}
