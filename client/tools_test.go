package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// lookup answers with its arguments, fails for "bad", and waits to be cancelled for "slow".
var lookup = client.ToolFunc{
	Tool: api.Tool{Name: "lookup", Idempotent: true},
	Call: func(ctx context.Context, call api.ToolRequest) (any, error) {
		switch text := string(call.Arguments); {
		case strings.Contains(text, "bad"):
			return nil, &api.ToolError{Code: "teapot", Message: "no"}
		case strings.Contains(text, "slow"):
			<-ctx.Done()
			return nil, errors.New("cancelled")
		}
		return json.RawMessage(call.Arguments), nil
	},
}

const deadline = `"deadline":"2099-01-01T00:00:00.000Z"`

func TestASocketCarriesOutCallsOfItsTools(t *testing.T) {
	answers := make(chan string, 8)
	_, c := sockets(t, 0, func(_ int, p peer) {
		p.until(func(f map[string]any) {
			p.say(`{"type":"reply","id":%q,"ok":true,"result":{"accepted":["lookup"],"rejected":[]}}`, f["id"])
			switch f["type"] {
			case "tools":
				if fmt.Sprint(f["tools"]) == "[]" {
					return
				}
				for id, arguments := range map[string]string{"1": `{"a":1}`, "2": `"bad"`, "3": `"slow"`} {
					p.say(`{"type":"tool_request","call_id":%q,"execution_id":"e","tool":"lookup","arguments":%s,`+deadline+`}`, id, arguments)
				}
				p.say(`{"type":"tool_cancel","call_id":"3","reason":"interrupted"}`)
			case "tool_result":
				answers <- fmt.Sprint(f["call_id"], f["result"], f["error"])
			}
		})
	})
	s := attach(t, c, client.AttachOptions{})
	served, err := s.ServeTools(t.Context(), "", lookup)
	must(t, err)
	got := map[string]bool{}
	for range 3 {
		got[<-answers] = true
	}
	for _, want := range []string{"1map[a:1] <nil>", "2<nil> map[code:teapot message:no]", "3<nil> map[message:cancelled]"} {
		if !got[want] {
			t.Errorf("no %s in %v", want, got)
		}
	}
	must(t, served.Close())
}

func TestAReconnectedSocketProvidesItsToolsAgain(t *testing.T) {
	registered := make(chan string, 4)
	_, c := sockets(t, 0, func(connection int, p peer) {
		p.until(func(f map[string]any) {
			p.say(`{"type":"reply","id":%q,"ok":true,"result":{"accepted":["lookup"],"rejected":[]}}`, f["id"])
			if f["type"] == "tools" {
				registered <- fmt.Sprint(connection, f["client_id"])
				if connection == 1 {
					p.close(1001, "shutting_down")
				}
			}
		})
	})
	s := attach(t, c, client.AttachOptions{Reconnect: true})
	served, err := s.ServeTools(t.Context(), "me", lookup)
	must(t, err)
	if first, second := <-registered, <-registered; first != "1me" || second != "2me" {
		t.Errorf("%s, then %s", first, second)
	}
	must(t, served.Close())
}

// TestCallsOverALostConnection has the server close the connection while a call of each kind is open.
func TestCallsOverALostConnection(t *testing.T) {
	frames := make(chan string, 16)
	_, c := sockets(t, 0, func(connection int, p peer) {
		p.until(func(f map[string]any) {
			if connection == 2 {
				frames <- fmt.Sprint(f["type"], f["call_id"])
			}
			p.say(`{"type":"reply","id":%q,"ok":true,"result":{"accepted":["again","once"],"rejected":[]}}`, f["id"])
			if f["type"] == "tools" && connection == 1 {
				for _, tool := range []string{"again", "once"} {
					p.say(`{"type":"tool_request","call_id":%q,"execution_id":"e","tool":%[1]q,"arguments":{},"deadline":"2099-01-01T00:00:00Z"}`, tool)
				}
			}
			if f["type"] == "ping" {
				p.close(1001, "shutting_down")
			}
		})
	})
	s := attach(t, c, client.AttachOptions{Reconnect: true})
	begun, cancelled := make(chan struct{}, 2), make(chan struct{})
	served, err := s.ServeTools(t.Context(), "me",
		client.ToolFunc{Tool: api.Tool{Name: "again", Idempotent: true}, Call: func(context.Context, api.ToolRequest) (any, error) {
			begun <- struct{}{}
			<-cancelled // the connection is lost
			return 1, nil
		}},
		client.ToolFunc{Tool: api.Tool{Name: "once"}, Call: func(ctx context.Context, _ api.ToolRequest) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			close(cancelled)
			return nil, ctx.Err()
		}})
	must(t, err)
	<-begun
	<-begun
	_, _ = s.Do(t.Context(), "ping", nil)
	if first, second := <-frames, <-frames; first != "tools<nil>" || second == "tools<nil>" {
		t.Errorf("the client sent %s, then %s; want its tools before any answer", first, second)
	}
	must(t, served.Close())
}

func TestARejectedToolIsAnError(t *testing.T) {
	_, c := sockets(t, 0, func(_ int, p peer) {
		p.until(func(f map[string]any) {
			p.say(`{"type":"reply","id":%q,"ok":true,"result":{"accepted":[],"rejected":[{"name":"lookup","reason":"too good"}]}}`, f["id"])
		})
	})
	if _, err := attach(t, c, client.AttachOptions{}).ServeTools(t.Context(), "", lookup); err == nil || !strings.Contains(err.Error(), "too good") {
		t.Error(err)
	}
}

func TestExecuteWithToolsAnswersPendingCalls(t *testing.T) {
	const pending = `{"id":"e","status":"running","pending_tool_calls":[{"call_id":"1","tool":"lookup","arguments":{"a":1}},` +
		`{"call_id":"2","tool":"lookup","arguments":"bad"}]}`
	s, c := serve(t, map[string]http.HandlerFunc{
		"POST /v1/sessions/s/executions": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, pending)
		},
		"POST /v1/sessions/s/executions/e/tool_results": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"id":"e","status":"ok","text":"done"}`)
		},
	})
	e, err := c.ExecuteWithTools(t.Context(), "s", api.ExecutionRequest{Code: new("lookup()")}, lookup)
	must(t, err)
	sent := `{"results":[{"call_id":"1","result":{"a":1}},{"call_id":"2","error":{"code":"teapot","message":"no"}}]}`
	if e.Text != "done" || !strings.Contains(strings.Join(s.seen, "\n"), sent) {
		t.Errorf("%+v after %s", e, s.seen)
	}
}
