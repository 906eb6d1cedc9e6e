package session_test

import (
	"testing"

	"talaria/api"
)

// TestACallGoesThroughTheHost checks that the session and the host agree about calls.
func TestACallGoesThroughTheHost(t *testing.T) {
	r := newRig(t, func(c *cell) {
		c.AskTools()
		for _, spec := range c.Answer().Body.Tools {
			c.Print(spec.Name + " ")
		}
		c.CallTool("echo", map[string]any{"n": "1"})
		c.Print(string(c.Answer().Body.Result) + " ")
		c.CallTool("nothing", map[string]any{})
		c.Print(c.Answer().Error + " ")
		call := c.CallTool("terminal", map[string]any{"command": "true"})
		if c.Answer().Body.Run {
			c.EndTool(call, "teapot", "no")
		}
	}, nil)
	s := r.session(api.SessionRequest{BuiltinTools: api.Raw(`["terminal"]`)})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "echo", Parameters: api.Raw(`{"properties":{"n":{"type":"integer"}}}`)})
	id := submit(t, s, "")
	call := next(t, client.requests)
	if err := s.Tools().Answer(client, api.ToolResult{CallID: call.CallID, Result: call.Arguments}); err != nil {
		t.Error(err)
	}
	e := wait(t, s, id)
	if want := "echo terminal {\"n\":1} there is no tool nothing at the moment; available: echo, terminal "; e.Text != want || e.ToolCalls != 2 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
	audit, err := s.Tools().Calls(t.Context(), api.PageQuery{})
	if err != nil || len(audit.Items) != 2 || audit.Items[0].Status != "error" || audit.Items[0].Error.Code != "teapot" || audit.Items[1].Status != "ok" {
		t.Errorf("%+v (%v)", audit.Items, err)
	}
}
