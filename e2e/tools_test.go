package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// serveEcho provides a tool that returns its arguments, until the test ends.
func serveEcho(t *testing.T, c *client.Client, session string) {
	t.Helper()
	socket, err := c.Attach(within(t), session, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	served, err := socket.ServeTools(within(t), "", client.ToolFunc{
		Tool: api.Tool{Name: "echo", Parameters: api.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)},
		Call: func(_ context.Context, call api.ToolRequest) (any, error) {
			return json.RawMessage(call.Arguments), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { served.Close() })
}

// TestTenThreadsCallToolsAndEachGetsItsOwnAnswer is row P19 against a real kernel, with a client on a WebSocket.
func TestTenThreadsCallToolsAndEachGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: new(int64(1000))}})
	serveEcho(t, c, id)
	e, err := c.Execute(within(t), id, api.ExecutionRequest{Code: new(`
from concurrent.futures import ThreadPoolExecutor
from hermes_tools import echo
def calls(thread):
    return [echo(n=thread * 1000 + i)["n"] == thread * 1000 + i for i in range(100)]
with ThreadPoolExecutor(10) as pool:
    print(all(all(one) for one in pool.map(calls, range(10))))
`)})
	if err != nil || e.Text != "True\n" || e.ToolCalls != 1000 {
		t.Errorf("%s, %d calls: %s (%v)", e.Status, e.ToolCalls, e.Text, err)
	}
}

// TestAnHTTPClientAnswersPendingCalls runs a cell whose tool is carried out by the program that sent the cell.
func TestAnHTTPClientAnswersPendingCalls(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	e, err := c.ExecuteWithTools(within(t), id, api.ExecutionRequest{Code: new("from hermes_tools import lookup\nprint(lookup(city='oslo')['city'])")},
		client.ToolFunc{
			Tool: api.Tool{Name: "lookup", Parameters: api.Raw(`{"type":"object","properties":{"city":{"type":"string"}}}`)},
			Call: func(_ context.Context, call api.ToolRequest) (any, error) {
				return json.RawMessage(call.Arguments), nil
			},
		})
	if err != nil || e.Text != "oslo\n" || e.ToolCalls != 1 {
		t.Errorf("%s, %d calls: %s (%v)", e.Status, e.ToolCalls, e.Text, err)
	}
}

// TestAnInterruptAndAKilledServerEndOpenCallsOnce opens eight calls each time, and checks that the variables survive.
func TestAnInterruptAndAKilledServerEndOpenCallsOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	const code = `
from concurrent.futures import ThreadPoolExecutor
import hermes_tools
kept = 42
def call(_):
    try:
        return hermes_tools.slow()
    except hermes_tools.ProviderGone:
        return "gone"
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(call, range(8))))
`
	for _, kill := range []bool{false, true} {
		c := s.Client()
		socket, err := c.Attach(within(t), id, client.AttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		called := make(chan string, 64)
		_, err = socket.ServeTools(within(t), "", client.ToolFunc{Tool: api.Tool{Name: "slow"},
			Call: func(ctx context.Context, call api.ToolRequest) (any, error) {
				called <- call.CallID
				<-ctx.Done()
				return nil, ctx.Err()
			}})
		if err != nil {
			t.Fatal(err)
		}
		run, err := socket.Execute(within(t), api.ExecutionRequest{Code: new(code)})
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			<-called
		}
		want, text := api.StatusInterrupted, ""
		if kill {
			want, text = api.StatusOK, "['gone', 'gone', 'gone', 'gone', 'gone', 'gone', 'gone', 'gone']\n"
			s.Kill9()
			s.Restart(t)
			c = s.Client()
		} else if err := c.Interrupt(within(t), id, ""); err != nil {
			t.Fatal(err)
		}
		var e api.Execution
		for event, err := range c.ExecutionEvents(within(t), id, run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if last, ok := event.Body.(api.ExecutionFinished); ok {
				e = last.Execution
			}
		}
		if e.Status != want || e.ToolCalls != 8 || kill && e.Text != text || len(called) > 0 {
			t.Errorf("killed %v: %s, %d calls, %d called twice: %s", kill, e.Status, e.ToolCalls, len(called), e.Text)
		}
		runOK(t, c, id, "assert kept == 42")
	}
}

// TestAHostileCellGetsErrorsFromItsToolsAndNobodyElseNotices tries the abuses of calls that a cell may attempt.
func TestAHostileCellGetsErrorsFromItsToolsAndNobodyElseNotices(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	many := "3000"
	if os.Getenv("E2E_ALL") != "" {
		many = "10000"
	}
	limits := &api.LimitsRequest{ToolCalls: new(int64(10_000)), MemoryBytes: new(int64(1 << 30))}
	id, other := session(t, c, api.SessionRequest{Limits: limits}), session(t, c, api.SessionRequest{})
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	served, err := socket.ServeTools(within(t), "",
		client.ToolFunc{Tool: api.Tool{Name: "echo"}, Call: func(_ context.Context, call api.ToolRequest) (any, error) { return call.CallID, nil }},
		client.ToolFunc{Tool: api.Tool{Name: "shout", Parameters: api.Raw(`{"type":"object","properties":{"__import__":{},"class":{},"a b":{}}}`)},
			Call: func(_ context.Context, call api.ToolRequest) (any, error) {
				return json.RawMessage(call.Arguments), nil
			}})
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	for _, step := range []struct{ what, code, want string }{
		{"arguments of 100 MiB", `
import hermes_tools
for call in (hermes_tools.shout, lambda text: hermes_tools.echo(text=text)):
    try: call("x" * (100 << 20))
    except hermes_tools.ToolLimit as e: print(type(e).__name__)`, "ToolLimit\nToolLimit\n"},
		{"names of arguments that are not identifiers", `
import inspect
print(list(inspect.signature(hermes_tools.shout).parameters), sorted(hermes_tools.shout(1, 2, 3).items()))`,
			"['import_', 'class_', 'a_b'] [('__import__', 1), ('a b', 3), ('class', 2)]\n"},
		{"many at once", `
import asyncio
async def many():
    calls = [hermes_tools.aio.echo() for _ in range(` + many + `)]
    return await asyncio.gather(*calls, return_exceptions=True)
ended = await many()
answers = [e for e in ended if isinstance(e, str)]
print(len(set(answers)) == len(answers) > 0, {type(e).__name__ for e in ended} <= {"str", "ToolLimit"}, len(ended))`, "True True " + many + "\n"},
		{"a fork", `
import os
pid = os.fork()
if not pid:
    try:
        hermes_tools.echo()
        os._exit(1)
    except BaseException:
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`, "0\n"},
		{"a thread after the end of its cell", `
import threading
over, seen = threading.Event(), []
def late():
    over.wait()
    try: seen.append(hermes_tools.echo())
    except Exception as e: seen.append(type(e).__name__)
thread = threading.Thread(target=late)
thread.start()`, ""},
		{"what it got", `over.set(); thread.join(); print(seen)`, "['ToolError']\n"},
	} {
		if got := runOK(t, c, id, step.code); got != step.want {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
	if got := runOK(t, c, other, "print('calm')"); got != "calm\n" {
		t.Errorf("the other session printed %q", got)
	}
}

// TestAForgedCallIsNobodyElses has a cell write frames of calls, and of their ends, for executions that are not its own.
func TestAForgedCallIsNobodyElses(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id, other := session(t, c, api.SessionRequest{}), session(t, c, api.SessionRequest{})
	ended := run(t, c, id, "print('ended')")
	serve := func(id string, calls chan api.ToolRequest, answers chan string) {
		socket, err := c.Attach(within(t), id, client.AttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { socket.Close() })
		_, err = socket.ServeTools(within(t), "", client.ToolFunc{Tool: api.Tool{Name: "echo"},
			Call: func(_ context.Context, call api.ToolRequest) (any, error) {
				calls <- call
				return <-answers, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
	}
	forged, called, answers := make(chan api.ToolRequest, 4096), make(chan api.ToolRequest, 4096), make(chan string)
	closed := make(chan string)
	close(closed)
	serve(id, forged, closed)
	serve(other, called, answers)
	victim := s.queue(t, other, "import hermes_tools; print(hermes_tools.echo())")
	call := <-called

	// Each frame is sent in two ways. The second call is another one if the first has ended by then.
	const forgeries = 2
	forger := client.NewID()
	code := fmt.Sprintf(`%s
frames = []
for execution in %q, %q, "nobody", %q:
    frames.append('{"type":"ask","id":"%%s","ask":"forged-%%s","kind":"tool","body":{"tool":"echo","arguments":{"by":"%%s"}}}' %% ((execution,) * 3))
    frames.append('{"type":"tool_end","id":"%%s","ask":%q,"ok":false,"code":"forged","duration_ms":1}' %% execution)
    frames.append('{"type":"tool_end","id":"%%s","ask":"forged-%%s","ok":false,"code":"forged","duration_ms":1}' %% (execution, execution))
frames.append('{"type":"ask_end","ask":%q}')
forge(*[b'\n' + frame.encode() + b'\n' for frame in frames])`, forge, ended.ID, victim, forger, call.CallID, call.CallID)
	e := runWith(t, c, id, api.ExecutionRequest{ID: &forger, Code: &code, TimeoutS: new(30.0)})
	runOK(t, c, id, "print('calm')")
	answers <- "real"
	for _, event := range collect(t, c.ExecutionEvents(within(t), other, victim, 0)) {
		got, ok := event.Body.(api.ExecutionFinished)
		if ok && (got.Execution.Text != "real\n" || got.Execution.ToolCalls != 1 || len(called) > 0) {
			t.Errorf("the victim made %d calls, and %d more came: %s", got.Execution.ToolCalls, len(called), got.Execution.Text)
		}
	}
	for session, want := range map[string]string{id: forger, other: victim} {
		audit, err := c.ToolCalls(within(t), session, api.PageQuery{})
		if err != nil {
			t.Fatal(err)
		}
		most := 1
		if session == id {
			most = forgeries
		}
		strange := slices.ContainsFunc(audit.Items, func(call api.ToolCallRecord) bool { return call.ExecutionID != want })
		if len(audit.Items) < 1 || len(audit.Items) > most || strange || session == other && audit.Items[0].Status != "ok" {
			t.Errorf("the audit of session %s is %+v", session, audit.Items)
		}
	}
	for len(forged) > 0 {
		if one := <-forged; one.ExecutionID != forger || strings.Contains(string(one.Arguments), ended.ID) {
			t.Errorf("a forged call reached its provider: %+v", one)
		}
	}
	if e.ToolCalls < 1 || e.ToolCalls > forgeries { // those in its own name, which show that its frames arrive
		t.Errorf("the forger made %d calls", e.ToolCalls)
	}
}

// TestAnExecutionSaysWhetherItIsRefundable also asks the next server.
func TestAnExecutionSaysWhetherItIsRefundable(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "packages:\n  index: http://127.0.0.1:9/simple/\n"})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	serveEcho(t, c, id)
	wants := map[string]bool{}
	for code, want := range map[string]bool{
		"open('a', 'w').write('text')": true,
		"1 / 0":                        true,
		"from hermes_tools import read_file, terminal, write_file; write_file('b', 'x'); terminal('cat b'); read_file('b')": true,
		"from hermes_tools import echo; echo(n=1)": false,
		"%pip install no-such-package":             false,
	} {
		e := run(t, c, id, code)
		if e.Refundable != want {
			t.Errorf("%s: refundable is %v", code, e.Refundable)
		}
		if r := executeCode(t, s, id, api.ExecutionRequest{ID: &e.ID, Code: &code}); r.Refundable != want {
			t.Errorf("%s: refundable is %v for a model", code, r.Refundable)
		}
		wants[e.ID] = want
	}
	s.Kill9()
	s.Restart(t)
	for e, want := range wants {
		if got, err := s.Client().Execution(within(t), id, e); err != nil || got.Refundable != want {
			t.Errorf("under the next server: %s: refundable is %v (%v)", got.Code, got.Refundable, err)
		}
	}
}
