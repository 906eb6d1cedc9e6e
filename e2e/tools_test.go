package e2e

import (
	"context"
	"encoding/json"
	"testing"

	"talaria/api"
	"talaria/client"
)

// TestTenThreadsCallToolsAndEachGetsItsOwnAnswer is row P19 against a real kernel, with a client on a WebSocket.
func TestTenThreadsCallToolsAndEachGetsItsOwnAnswer(t *testing.T) {
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: new(int64(1000))}})
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	served, err := socket.ServeTools(within(t), "", client.ToolFunc{
		Tool: api.Tool{Name: "echo", Parameters: api.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)},
		Call: func(_ context.Context, call api.ToolRequest) (any, error) {
			return json.RawMessage(call.Arguments), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
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

// TestAnHTTPClientAnswersPendingCalls runs a cell whose tool is carried out by the program that sent it.
func TestAnHTTPClientAnswersPendingCalls(t *testing.T) {
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

// TestAnInterruptAndAKilledServerEndOpenCallsOnce has eight calls open each time, and finds the variables afterwards.
func TestAnInterruptAndAKilledServerEndOpenCallsOnce(t *testing.T) {
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
