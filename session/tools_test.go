package session_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/session"
)

// TestEachOfManyCallsGetsItsOwnAnswer holds row P19.
func TestEachOfManyCallsGetsItsOwnAnswer(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		var threads sync.WaitGroup
		for thread := range 10 {
			threads.Go(func() {
				for i := range 100 {
					want := fmt.Sprintf(`{"n":%d}`, thread*1000+i)
					if a, ok := c.Call("echo", want); !ok || string(a.Result) != want {
						c.Print(fmt.Sprintf("%s got %s %v %v\n", want, a.Result, a.Error, ok))
					}
				}
			})
		}
		threads.Wait()
	})
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: ptr(int64(1000))}})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "echo"})
	go func() {
		for req := range client.requests {
			go s.Tools().Answer(client, api.ToolResult{CallID: req.CallID, Result: req.Arguments})
		}
	}()
	e := execute(t, s, "")
	close(client.requests)
	if e.Text != "" || e.ToolCalls != 1000 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
}

func TestAtMost64CallsAreHandedOverAtOnce(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() { c.Call("slow", "{}") })
		}
		calls.Wait()
	})
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: ptr(int64(100))}})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "slow"})
	id := submit(t, s, "")
	var held []api.ToolRequest
	for range 64 {
		held = append(held, next(t, client.requests))
	}
	for seq := s.Journal().LastSeq(); strings.Count(shape(now(t, s)), "tool_call") < 100; seq = s.Journal().LastSeq() { // until all were taken
		until(t, s, seq, "tool_call")
	}
	if len(client.requests) > 0 {
		t.Error("a 65th call was handed over")
	}
	for range 100 {
		if len(held) == 0 {
			held = append(held, next(t, client.requests))
		}
		if err := s.Tools().Answer(client, api.ToolResult{CallID: held[0].CallID, Result: api.Raw("1")}); err != nil {
			t.Error(err)
		}
		held = held[1:]
	}
	if e := wait(t, s, id); e.ToolCalls != 100 {
		t.Errorf("%d calls", e.ToolCalls)
	}
}

// TestRefusedCallsAreFreeAndTheLimitIsNamed holds rows P13 and P14.
func TestRefusedCallsAreFreeAndTheLimitIsNamed(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		for _, call := range []string{"nothing", "echo", "echo", "echo"} {
			if a, _ := c.Call(call, `{"limit":"5"}`); a.Error != nil {
				c.Print(a.Error.Code + ": " + a.Error.Message + "\n")
			} else {
				c.Print(string(a.Result) + "\n")
			}
		}
		a, _ := c.Call("echo", `{"limit":"x"}`)
		c.Print(a.Error.Code + "\n")
	})
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: ptr(int64(2))}, BuiltinTools: api.Raw("false")})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "echo", Parameters: api.Raw(`{"type":"object","properties":{"limit":{"type":"integer"}}}`)})
	go func() {
		for req := range client.requests {
			s.Tools().Answer(client, api.ToolResult{CallID: req.CallID, Result: req.Arguments})
		}
	}()
	e := execute(t, s, "")
	close(client.requests)
	want := "unavailable: there is no tool nothing at the moment; available: echo\n{\"limit\":5}\n{\"limit\":5}\n" +
		"limit: this cell has reached limits.tool_calls (2); raise the limit, or make fewer calls\nlimit\n"
	if e.Text != want || e.ToolCalls != 2 {
		t.Errorf("%d calls\n%s\nwant\n%s", e.ToolCalls, e.Text, want)
	}
}

func TestArgumentsThatDoNotSatisfyTheSchemaNeverReachTheTool(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		a, _ := c.Call("echo", `{"limit":"x"}`)
		c.Print(a.Error.Code + ": " + a.Error.Message)
	})
	s := r.session(api.SessionRequest{})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "echo", Parameters: api.Raw(`{"type":"object","properties":{"limit":{"type":"integer"}}}`)})
	e := execute(t, s, "")
	if want := `invalid_arguments: echo: argument "limit": got string, want integer`; e.Text != want || e.ToolCalls != 0 || len(client.requests) > 0 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
}

func TestAnInterruptCancelsTheCallAndALaterAnswerIsRefused(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) { c.Call("slow", "{}") })
	s := r.session(api.SessionRequest{})
	client, other := newToolClient(), newToolClient()
	provide(t, s, client, "", api.Tool{Name: "slow"})
	id := submit(t, s, "")
	call := next(t, client.requests).CallID
	for _, forged := range []error{
		s.Tools().Answer(other, api.ToolResult{CallID: call, Result: api.Raw("1")}),
		s.Tools().Answer(client, api.ToolResult{CallID: "x", Result: api.Raw("1")}),
		s.Tools().AnswerPending(id, []api.ToolResult{{CallID: call, Result: api.Raw("1")}}),
	} {
		if code(forged) != api.CodeNoCallPending {
			t.Errorf("a forged answer: %v", forged)
		}
	}
	deep := api.Raw(strings.Repeat("[", 201) + strings.Repeat("]", 201))
	if err := s.Tools().Answer(client, api.ToolResult{CallID: call, Result: deep}); code(err) != api.CodePayloadTooLarge {
		t.Errorf("an answer that the kernel could not decode: %v", err)
	}
	if err := s.Interrupt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if c := next(t, client.cancels); c.CallID != call || c.Reason != "interrupted" {
		t.Errorf("%+v", c)
	}
	wait(t, s, id)
	if err := s.Tools().Answer(client, api.ToolResult{CallID: call, Result: api.Raw("1")}); code(err) != api.CodeNoCallPending {
		t.Errorf("a late answer: %v", err)
	}
	if got := shape(now(t, s)); !strings.Contains(got, "tool_call tool_result finished") {
		t.Error(got)
	}
}

func TestCallsOfAClientThatIsGoneEndOnce(t *testing.T) {
	r, h := toolRig(t, func(c *toolCell) {
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if a, _ := c.Call("work", "{}"); a.Error == nil || a.Error.Code != "provider_gone" {
					c.Print(fmt.Sprintf("%+v\n", a))
				}
			})
		}
		calls.Wait()
		if a, _ := c.Call("work", "{}"); a.Error == nil || a.Error.Code != "unavailable" {
			c.Print(fmt.Sprintf("afterwards %+v\n", a))
		}
	})
	s := r.session(api.SessionRequest{})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "work", Idempotent: true})
	id := submit(t, s, "")
	for range 8 {
		next(t, client.requests)
	}
	s.Tools().Withdraw(client)
	if e := wait(t, s, id); e.Text != "" || e.ToolCalls != 8 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
	h.once(t)
}

func TestANewCallToAClientThatIsAwayFails(t *testing.T) {
	away := make(chan bool)
	r, _ := toolRig(t, func(c *toolCell) {
		var calls sync.WaitGroup
		calls.Go(func() {
			if a, _ := c.Call("work", "{}"); a.Error != nil {
				c.Print(fmt.Sprintf("the first call: %+v\n", a.Error))
			}
		})
		<-away
		if a, _ := c.Call("work", "{}"); a.Error != nil {
			c.Print(a.Error.Code)
		}
		c.Print(" ")
		calls.Wait()
	})
	s := r.session(api.SessionRequest{})
	client := newToolClient()
	work := api.Tool{Name: "work", Idempotent: true}
	provide(t, s, client, "me", work)
	id := submit(t, s, "")
	next(t, client.requests)
	s.Tools().Withdraw(client)
	close(away)
	waitFor(t, s, id, "stream")
	back := newToolClient()
	provide(t, s, back, "me", work)
	call := next(t, back.requests)
	if err := s.Tools().Answer(back, api.ToolResult{CallID: call.CallID, Result: api.Raw("1")}); err != nil {
		t.Error(err)
	}
	if e := wait(t, s, id); e.Text != "provider_gone " || e.ToolCalls != 1 || len(back.requests) > 0 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
}

func TestTheCallsOfAClientThatStaysAwayEnd(t *testing.T) {
	host := newToolHost(func(c *toolCell) {
		for range 2 {
			if a, _ := c.Call("work", "{}"); a.Error != nil {
				c.Print(a.Error.Code + " ")
			}
		}
	})
	r := newRig(t, nil, func(cfg *session.Config) { cfg.Host, cfg.ToolGrace = host, 20*time.Millisecond })
	s := r.session(api.SessionRequest{})
	client := newToolClient()
	provide(t, s, client, "me", api.Tool{Name: "work", Idempotent: true})
	id := submit(t, s, "")
	next(t, client.requests)
	s.Tools().Withdraw(client)
	if e := wait(t, s, id); e.Text != "provider_gone unavailable " || e.ToolCalls != 1 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
	host.once(t)
}

func TestDeletingTheSessionCancelsItsCalls(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) { c.Call("slow", "{}") })
	s := r.session(api.SessionRequest{ID: ptr("s")})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "slow"})
	submit(t, s, "")
	call := next(t, client.requests).CallID
	if err := r.Delete(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	if c := next(t, client.cancels); c.CallID != call || c.Reason != "deleted" {
		t.Errorf("%+v", c)
	}
}

// once checks that each call got one answer.
func (h *toolHost) once(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, n := range h.answered {
		if n != 1 {
			t.Errorf("call %s got %d answers", id, n)
		}
	}
}

func TestAClientThatComesBackGetsItsIdempotentCallsAgain(t *testing.T) {
	for name, interlude := range map[string]func(*rig, *toolClient, **testSession){
		"after its socket closed":      func(_ *rig, c *toolClient, s **testSession) { (*s).Tools().Withdraw(c) },
		"after the server was killed":  func(r *rig, _ *toolClient, s **testSession) { r.kill(); r.open(); *s = again(r) },
		"after the server was stopped": func(r *rig, _ *toolClient, s **testSession) { r.leave(); r.open(); *s = again(r) },
	} {
		t.Run(name, func(t *testing.T) {
			r, h := toolRig(t, func(c *toolCell) {
				var calls sync.WaitGroup
				for _, tool := range []string{"safe", "once"} {
					for i := range 4 {
						calls.Go(func() {
							a, _ := c.Call(tool, fmt.Sprintf(`{"n":%d}`, i))
							if a.Error != nil {
								c.Print(tool + " " + a.Error.Code + "\n")
							} else {
								c.Print(tool + " " + string(a.Result) + "\n")
							}
						})
					}
				}
				calls.Wait()
			})
			s := r.session(api.SessionRequest{ID: ptr("s")})
			client := newToolClient()
			tools := []api.Tool{{Name: "safe", Idempotent: true}, {Name: "once"}}
			provide(t, s, client, "me", tools...)
			id := submit(t, s, "")
			for range 8 {
				next(t, client.requests)
			}
			interlude(r, client, &s)
			back := newToolClient()
			provide(t, s, back, "me", tools...)
			for range 4 {
				req := next(t, back.requests)
				if req.Tool != "safe" {
					t.Errorf("%s was called twice", req.Tool)
				}
				if err := s.Tools().Answer(back, api.ToolResult{CallID: req.CallID, Result: req.Arguments}); err != nil {
					t.Error(err)
				}
			}
			e := wait(t, s, id)
			lines := strings.Split(strings.TrimSpace(e.Text), "\n")
			slices.Sort(lines)
			want := `[once provider_gone once provider_gone once provider_gone once provider_gone safe {"n":0} safe {"n":1} safe {"n":2} safe {"n":3}]`
			if fmt.Sprint(lines) != want || e.ToolCalls != 8 {
				t.Errorf("%d calls: %v", e.ToolCalls, lines)
			}
			h.once(t)
			audit, err := s.Tools().Calls(t.Context(), api.PageQuery{})
			if err != nil || len(audit.Items) != 8 || slices.ContainsFunc(audit.Items, func(c api.ToolCallRecord) bool { return c.Status == "open" }) {
				t.Errorf("%+v (%v)", audit, err)
			}
		})
	}
}

// TestASuccessorGetsTheCallsOfEachToolOnceItProvidesIt has a program start again that registers one tool after the other.
func TestASuccessorGetsTheCallsOfEachToolOnceItProvidesIt(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		a, _ := c.Call("second", `{"n":1}`)
		c.Print(string(a.Result))
	})
	s := r.session(api.SessionRequest{})
	client := newToolClient()
	second := api.Tool{Name: "second", Idempotent: true}
	provide(t, s, client, "me", second)
	id := submit(t, s, "")
	first := next(t, client.requests)
	s.Tools().Withdraw(client)
	back := newToolClient()
	provide(t, s, back, "me", api.Tool{Name: "first"})
	if len(back.requests) > 0 {
		t.Errorf("the successor is asked for a tool that it does not provide: %+v", <-back.requests)
	}
	provide(t, s, back, "me", api.Tool{Name: "first"}, second)
	provide(t, s, back, "me", second)
	if again := next(t, back.requests); again.CallID != first.CallID {
		t.Errorf("the successor got the call %s, want %s", again.CallID, first.CallID)
	}
	if len(back.requests) > 0 {
		t.Errorf("the successor got a call twice: %+v", <-back.requests)
	}
	if err := s.Tools().Answer(back, api.ToolResult{CallID: first.CallID, Result: first.Arguments}); err != nil {
		t.Error(err)
	}
	if e := wait(t, s, id); e.Text != `{"n":1}` {
		t.Errorf("the cell got %s", e.Text)
	}
}

func TestABudgetOfToolCallsIsOfAllCells(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		for range 2 {
			if a, _ := c.Call("echo", `{}`); a.Error != nil {
				c.Print(a.Error.Code + ": " + a.Error.Message + "\n")
			}
		}
	})
	s := r.session(api.SessionRequest{Budgets: &api.BudgetsRequest{ToolCalls: ptr(int64(3))}, BuiltinTools: api.Raw("false")})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "echo"})
	go func() {
		for req := range client.requests {
			s.Tools().Answer(client, api.ToolResult{CallID: req.CallID, Result: req.Arguments})
		}
	}()
	defer close(client.requests)
	if e := execute(t, s, "one"); e.ToolCalls != 2 || e.Text != "" {
		t.Errorf("the first cell made %d calls: %s", e.ToolCalls, e.Text)
	}
	want := "limit: the session has used up its budget of 3 tool calls (budgets.tool_calls)\n"
	if e := execute(t, s, "two"); e.ToolCalls != 1 || e.Text != want {
		t.Errorf("the second cell made %d calls: %s", e.ToolCalls, e.Text)
	}
	if left := s.Info(t.Context()).Budgets.ToolCalls; left == nil || *left != (api.BudgetLeft[int64]{Limit: 3}) {
		t.Errorf("left is %+v", left)
	}
}
