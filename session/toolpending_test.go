package session_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/session"
)

type testSession = session.Session

// again returns a session after its server was started again.
func again(r *rig) *testSession {
	s, err := r.Get("ann", "s")
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestAnExecutionWaitsForTheClientThatGaveItItsTools(t *testing.T) {
	r, h := toolRig(t, func(c *toolCell) {
		var calls sync.WaitGroup
		for i := range 8 {
			calls.Go(func() {
				a, _ := c.Call("mine", fmt.Sprintf(`{"n":%d}`, i))
				c.Print(string(a.Result))
			})
		}
		calls.Wait()
	})
	s := r.session(api.SessionRequest{ID: ptr("s")})
	withTools := func(req *api.ExecutionRequest) {
		req.Tools = []api.Tool{{Name: "mine"}, {Name: "__import__"}}
	}
	id := submit(t, s, "", withTools)
	pending := func(want int) (e api.Execution) {
		for e.Status != api.StatusOK && len(e.PendingToolCalls) < want {
			var err error
			if e, err = s.WaitForCalls(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		return e
	}
	e := pending(8)
	if len(e.RejectedTools) != 1 || e.RejectedTools[0].Name != "__import__" {
		t.Errorf("rejected %+v", e.RejectedTools)
	}
	var some, rest []api.ToolResult
	for i, c := range e.PendingToolCalls {
		result := api.ToolResult{CallID: c.CallID, Result: api.Raw(`"x"`)}
		if i < 3 {
			some = append(some, result)
		} else {
			rest = append(rest, result)
		}
	}
	if err := s.Tools().AnswerPending(id, some); err != nil {
		t.Fatal(err)
	}
	r.kill()
	r.open()
	s = again(r)
	if e = pending(5); len(e.PendingToolCalls) != 5 || e.ToolCalls != 8 {
		t.Fatalf("after the server was killed: %+v", e)
	}
	if err := s.Tools().AnswerPending(id, append(some, rest...)); code(err) != api.CodeNoCallPending { // the first three are late
		t.Error(err)
	}
	if e = wait(t, s, id); e.Text != strings.Repeat(`"x"`, 8) || e.ToolCalls != 8 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
	h.once(t)
	if list := s.Tools().List(t.Context()); len(list) != 5 {
		t.Errorf("the tools outlive their execution: %+v", list)
	}
}

func TestTheTimeOfACallStandsStillWhileAPersonIsAsked(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		if a, _ := c.Call("asking", "{}"); a.Error != nil {
			c.Print(a.Error.Code)
		} else {
			c.Print("answered")
		}
	})
	s := r.session(api.SessionRequest{})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "asking", TimeoutS: 1})
	for _, want := range []string{"answered", "timeout"} {
		id := submit(t, s, "")
		call := next(t, client.requests)
		resume, again := s.Tools().HoldDeadline(call.CallID), s.Tools().HoldDeadline(call.CallID)
		time.Sleep(time.Until(call.Deadline.Time) + 50*time.Millisecond) // the deadline passes while two people are asked
		resume()
		again()
		if want == "answered" {
			if err := s.Tools().Answer(client, api.ToolResult{CallID: call.CallID, Result: api.Raw("1")}); err != nil {
				t.Error(err)
			}
		}
		if e := wait(t, s, id); e.Text != want {
			t.Errorf("%q, want %q", e.Text, want)
		}
	}
}

func TestACallThatTakesTooLongEnds(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		a, _ := c.Call("slow", "{}")
		c.Print(a.Error.Code)
	})
	s := r.session(api.SessionRequest{})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "slow", TimeoutS: 0.01})
	if e := execute(t, s, ""); e.Text != "timeout" {
		t.Error(e.Text)
	}
	if c := next(t, client.cancels); c.Reason != "timeout" {
		t.Errorf("%+v", c)
	}
}

// TestASessionThatChoosesNoToolsHasNone is row P03, which asks for all tools instead: that would give a shell to a session
// for which somebody chose none. docs/tools.md says so.
func TestASessionThatChoosesNoToolsHasNone(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		a, _ := c.Call("terminal", `{"command":"id"}`)
		c.Print(fmt.Sprint(len(c.Tools()), " ", a.Error.Code))
	})
	if e := execute(t, r.session(api.SessionRequest{BuiltinTools: api.Raw(`[]`)}), ""); e.Text != "0 unavailable" {
		t.Errorf("the cell has %s", e.Text)
	}
}

// TestBuiltinToolsRunInsideAndCount holds row P01: a cell sees the enabled tools only, in the order of their names.
func TestBuiltinToolsRunInsideAndCount(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		for _, spec := range c.Tools() {
			c.Print(spec.Name + " ")
		}
		for _, call := range [][2]string{
			{"read_file", `{"path":"a","limit":"5"}`}, {"read_file", `{}`}, {"patch", `{}`},
		} {
			a, _ := c.Call(call[0], call[1])
			c.Print(fmt.Sprint(a.Run, " ", string(a.Result), " ", a.Error != nil, "\n"))
		}
	})
	s := r.session(api.SessionRequest{BuiltinTools: api.Raw(`["terminal","read_file"]`)})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "alpha"})
	e := execute(t, s, "")
	want := "alpha read_file terminal true {\"limit\":5,\"path\":\"a\"} false\nfalse  true\nfalse  true\n"
	if e.Text != want || e.ToolCalls != 1 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
	if _, err := r.Create(t.Context(), "ann", api.SessionRequest{BuiltinTools: api.Raw(`["sudo"]`)}); code(err) != api.CodeInvalidRequest {
		t.Error(err)
	}
}

// TestTheAuditHasEachCall holds row P17.
func TestTheAuditHasEachCall(t *testing.T) {
	h := newToolHost(func(c *toolCell) {
		c.Call("echo", `{"key":"hunter2hunter2","other":"ghp_0123456789abcdefghijABCDEFGHIJ012345"}`)
		c.Call("echo", `{"long":"`+strings.Repeat("x", 5000)+`"}`)
	})
	r := newRig(t, nil, func(cfg *session.Config) { cfg.Host, cfg.RedactKnown = h, true })
	s := r.session(api.SessionRequest{Secrets: &map[string]string{"KEY": "hunter2hunter2"}})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "echo"})
	go func() {
		for req := range client.requests {
			s.Tools().Answer(client, api.ToolResult{CallID: req.CallID, Error: &api.ToolError{Message: "no"}})
		}
	}()
	id := execute(t, s, "").ID
	close(client.requests)
	first, err := s.Tools().Calls(t.Context(), api.PageQuery{Limit: 1})
	if err != nil || len(first.Items) != 1 || first.NextCursor == "" || first.Items[0].Arguments != nil {
		t.Fatalf("%+v (%v)", first, err)
	}
	second, err := s.Tools().Calls(t.Context(), api.PageQuery{Limit: 1, Cursor: first.NextCursor})
	if err != nil || len(second.Items) != 1 || second.NextCursor != "" {
		t.Fatalf("%+v (%v)", second, err)
	}
	c := second.Items[0]
	if string(c.Arguments) != `{"key":"[redacted]","other":"[redacted]"}` || c.Status != "error" || c.Error.Code != "tool_error" || c.ExecutionID != id ||
		c.Provider != api.ProviderClient || c.DurationMS == nil {
		t.Errorf("%+v", c)
	}
}

func TestACellLearnsThatAToolIsGone(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		for _, spec := range c.Tools() {
			c.Print(fmt.Sprint(spec.Name, " ", spec.Gone, " "))
		}
	})
	s := r.session(api.SessionRequest{BuiltinTools: api.Raw("false")})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "old"}, api.Tool{Name: "kept"})
	provide(t, s, client, "", api.Tool{Name: "kept"})
	if e := execute(t, s, ""); e.Text != "kept false old true " {
		t.Error(e.Text)
	}
}

func TestABadToolIsRejectedAlone(t *testing.T) {
	r, _ := toolRig(t, func(*toolCell) {})
	s := r.session(api.SessionRequest{})
	reply, err := s.Tools().Provide(newToolClient(), api.ToolsRequest{Tools: []api.Tool{
		{Name: "good"}, {Name: "__import__"}, {Name: "lambda"}, {Name: "retry"}, {Name: "a b"}, {Name: ""}, {Name: "ünicode"}, {Name: "good"},
		{Name: "schema", Parameters: api.Raw(`{"type":"objekt"}`)}, {Name: "outside", Parameters: api.Raw(`{"$ref":"file:///etc/passwd"}`)},
		{Name: "patient", TimeoutS: -1},
	}})
	if err != nil || fmt.Sprint(reply.Accepted) != "[good]" || len(reply.Rejected) != 10 {
		t.Errorf("%+v (%v)", reply, err)
	}
}
