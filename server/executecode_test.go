package server_test

import (
	"strings"
	"testing"

	"talaria/api"
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
	later := h.do(request{method: "POST", path: path + "?format=execute_code&wait_s=0", body: `{"code":"1"}`})
	if later.status != 202 || decode[api.Execution](t, later.body).Status.Final() {
		t.Errorf("without waiting: %d %s", later.status, later.body)
	}
}

// TestWhatAModelSendsByMistakeIsAnsweredWithTheArgumentToUse holds P45.
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
