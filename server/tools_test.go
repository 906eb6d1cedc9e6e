package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"talaria/api"
)

func TestASocketProvidesToolsAndAnswersNothingThatItWasNotAsked(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	for _, step := range []struct{ frame, want string }{
		{`{"type":"tools","id":"1","tools":[{"name":"lookup","description":"d"},{"name":"__import__"}]}`, "map[accepted:[lookup] rejected:[map[name:__import__ reason:its name must begin with a letter]]]"},
		{`{"type":"tools","id":"2","tools":[{"name":"more"}],"replace":false}`, "map[accepted:[more] rejected:[]]"},
		{`{"type":"tool_result","id":"3","call_id":"x","result":1}`, "no_call_pending"},
		{`{"type":"tool_result","id":"4","call_id":"x"}`, "invalid_request"},
		{`{"type":"tool_progress","id":"5","call_id":"x","message":"m"}`, "no_call_pending"},
		{`{"type":"tools","id":"6"}`, "invalid_request"},
		{`{"type":"tools","id":"7","tools":[],"client_id":"a b"}`, "invalid_request"},
	} {
		if err := c.conn.WriteMessage(1, []byte(step.frame)); err != nil {
			t.Fatal(err)
		}
		reply := c.until(func(f map[string]any) bool { return f["type"] == "reply" })
		got := fmt.Sprint(reply["result"])
		if problem, ok := reply["error"].(map[string]any); ok {
			got = fmt.Sprint(problem["code"])
		}
		if got != step.want {
			t.Errorf("%s: %s, want %s", step.frame, got, step.want)
		}
	}
	list := decode[struct{ Items []api.ToolInfo }](t, h.do(request{method: "GET", path: "/v1/sessions/s/tools"}).body)
	var names []string
	for _, one := range list.Items {
		if one.Provider == api.ProviderClient {
			names = append(names, one.Name)
		}
	}
	if fmt.Sprint(names) != "[lookup more]" {
		t.Errorf("cells see %v", names)
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s/tool_calls"}), http.StatusOK, "")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions/none/tool_results", body: `{"results":[]}`}), 404, api.CodeExecutionNotFound)
}

func TestAnExhaustedBudgetIs429(t *testing.T) {
	h := start(t)
	h.want(h.do(request{method: "POST", path: "/v1/sessions", body: `{"id":"s","budgets":{"executions":1}}`}), http.StatusCreated, "")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"one","code":"print 1"}`}), http.StatusOK, "")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"code":"print 2"}`}),
		http.StatusTooManyRequests, api.CodeBudgetExhausted)
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"id":"one","code":"print 1"}`}), http.StatusOK, "")
}

func TestAVisitorByALinkProvidesNoToolsAndAnswersNoCalls(t *testing.T) {
	h := start(t)
	token, _ := h.shared("s")
	conn, _, err := h.dial("/v1/sessions/s/ws?token="+token, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{T: t, conn: conn}
	for _, frame := range []string{
		`{"type":"tools","id":"1","tools":[{"name":"lookup"}]}`, `{"type":"tool_result","id":"2","call_id":"x","result":1}`,
		`{"type":"tool_progress","id":"3","call_id":"x","message":"m"}`,
	} {
		if err := conn.WriteMessage(1, []byte(frame)); err != nil {
			t.Fatal(err)
		}
		reply := c.until(func(f map[string]any) bool { return f["type"] == "reply" })
		if problem, _ := reply["error"].(map[string]any); problem["code"] != string(api.CodeReadOnly) {
			t.Errorf("%s: %v", frame, reply)
		}
	}
}
