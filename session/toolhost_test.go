package session_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"talaria/api"
	"talaria/session"
	"talaria/session/webhook"
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

// The code is also ours for calls that nobody waits for.
func TestAWebhookMayReportThatSomethingWasCancelled(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"error":{"code":"cancelled","message":"the order was cancelled"}}`)
	}))
	t.Cleanup(hook.Close)
	secrets, err := webhook.ParseSecrets("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	caller, err := webhook.New(webhook.Config{Prefixes: []string{hook.URL}, Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	r := newRig(t, func(c *cell) {
		c.CallTool("order", map[string]any{})
		c.Print(c.Answer().Error)
	}, func(cfg *session.Config) { cfg.Remote.Webhooks = caller })
	s := r.session(api.SessionRequest{Tools: &[]api.Tool{{Name: "order", URL: hook.URL + "/order", TimeoutS: 5}}})
	if e := wait(t, s, submit(t, s, "")); e.Text != "the order was cancelled" {
		t.Errorf("the cell got: %s", e.Text)
	}
}
