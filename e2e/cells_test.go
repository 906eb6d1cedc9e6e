package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// session makes a session and returns its id.
func session(t *testing.T, c *client.Client, req api.SessionRequest) string {
	t.Helper()
	made, err := c.CreateSession(within(t), req)
	if err != nil {
		t.Fatalf("make a session: %v", err)
	}
	return made.ID
}

// run runs a cell to its end, whatever that is.
func run(t *testing.T, c *client.Client, session, code string) api.Execution {
	t.Helper()
	return runWith(t, c, session, api.ExecutionRequest{Code: &code})
}

func runWith(t *testing.T, c *client.Client, session string, req api.ExecutionRequest) api.Execution {
	t.Helper()
	e, err := c.Execute(within(t), session, req)
	if err != nil {
		t.Fatalf("run %.80q: %v", *req.Code, err)
	}
	if !e.Status.Final() {
		t.Fatalf("run %.80q: came back %s", *req.Code, e.Status)
	}
	return e
}

// runOK runs a cell that must succeed, and returns its stdout.
func runOK(t *testing.T, c *client.Client, session, code string) string {
	t.Helper()
	e := run(t, c, session, code)
	if e.Status != api.StatusOK || e.State != api.VariablesKept {
		t.Fatalf("run %.80q: %s %s %s\n%.2000s", code, e.Status, e.Reason, e.State, e.Text)
	}
	return printed(e)
}

// printed returns the stdout of an execution.
func printed(e api.Execution) string { return streamText(e, "stdout") }

func streamText(e api.Execution, name string) string {
	var text strings.Builder
	for _, o := range e.Outputs {
		if o.OutputType == "stream" && o.Name == name {
			text.WriteString(o.Text)
		}
	}
	return text.String()
}

// wantEnd checks how an execution ended: its status, its reason and the state of the variables.
func wantEnd(t *testing.T, e api.Execution, status api.ExecutionStatus, reason string, state api.VariablesState) {
	t.Helper()
	if e.Status != status || e.Reason != reason || e.State != state {
		t.Errorf("%.60q ended %s %q %s, want %s %q %s\n%.1000s",
			e.Code, e.Status, e.Reason, e.State, status, reason, state, e.Text)
	}
}

// wantCode checks that a call was refused with a code.
func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	var refusal *api.Error
	if !errors.As(err, &refusal) || refusal.Code != code {
		t.Errorf("refused with %v, want %s", err, code)
	}
}

// past returns the log of a session up to now.
func past(t *testing.T, c *client.Client, session string) []api.Event {
	t.Helper()
	return collect(t, c.Events(within(t), session, client.EventsQuery{Past: true}))
}

// collect reads all events of a sequence, which must be in order without gaps if it is a log.
func collect(t *testing.T, events iter.Seq2[api.Event, error]) []api.Event {
	t.Helper()
	var list []api.Event
	for e, err := range events {
		if err != nil {
			t.Fatalf("after %d events: %v", len(list), err)
		}
		list = append(list, e)
	}
	return list
}

// until reads events up to and including the first one that fits.
func until(t *testing.T, next func(context.Context) (api.Event, error), fits func(api.Event) bool) []api.Event {
	t.Helper()
	ctx := within(t)
	var list []api.Event
	for {
		e, err := next(ctx)
		if err != nil {
			t.Fatalf("wait for an event, after %d others: %v", len(list), err)
		}
		list = append(list, e)
		if fits(e) {
			return list
		}
	}
}

// finished matches the end of an execution; an empty id means any.
func finished(id string) func(api.Event) bool {
	return func(e api.Event) bool {
		_, ok := e.Body.(api.ExecutionFinished)
		return ok && (id == "" || e.ExecutionID == id)
	}
}

// of returns the events' bodies of one type.
func of[T api.EventBody](events []api.Event) []T {
	var list []T
	for _, e := range events {
		if body, ok := e.Body.(T); ok {
			list = append(list, body)
		}
	}
	return list
}

// stdout returns what events of an execution printed; an empty id means any.
func stdout(events []api.Event, id string) string {
	var text strings.Builder
	for _, e := range events {
		if s, ok := e.Body.(api.Stream); ok && s.Name == "stdout" && (id == "" || e.ExecutionID == id) {
			text.WriteString(s.Text)
		}
	}
	return text.String()
}

// decode reads JSON that a cell or the server wrote.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decode %.200q: %v", text, err)
	}
	return v
}

// text returns the string that a MIME bundle has for a type.
func text(t *testing.T, bundle api.MIMEBundle, mime string) string {
	t.Helper()
	raw, ok := bundle[mime]
	if !ok {
		t.Fatalf("no %s in the bundle", mime)
	}
	return decode[string](t, string(raw))
}

// sessionsAll selects all sessions.
var sessionsAll = client.SessionFilter{}
