package e2b

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

// keepAlive is how long the stream of an execution may be silent.
const keepAlive = 5 * time.Second

func (h *Handler) codeInterpreter() map[string]func(*request) error {
	return map[string]func(*request) error{
		"POST /execute":               h.execute,
		"GET /contexts":               h.listContexts,
		"POST /contexts":              h.createContext,
		"POST /contexts/{id}/restart": h.restartContext,
		"DELETE /contexts/{id}":       h.deleteContext,
	}
}

// executeRequest is the body of POST execute.
type executeRequest struct {
	Code      *string           `json:"code"`
	ContextID string            `json:"context_id"`
	Language  string            `json:"language"`
	EnvVars   map[string]string `json:"env_vars"`
}

// execute runs a cell and answers with its events as lines of JSON. A client that goes away interrupts the cell: the SDK's
// time-outs are nothing else.
func (h *Handler) execute(q *request) error {
	var body executeRequest
	if err := q.read(&body); err != nil {
		return err
	}
	switch {
	case body.Code == nil:
		return api.Errorf(api.CodeInvalidRequest, "code is missing")
	case body.ContextID != "" && body.Language != "":
		return api.Errorf(api.CodeInvalidRequest, "give either context_id or language, not both")
	}
	sandbox, err := h.sandbox(q, api.RightRun)
	if err != nil {
		return err
	}
	defer sandbox.Release()
	where, err := h.context(q, sandbox, body.ContextID, body.Language)
	if err != nil {
		return err
	}
	defer where.session.Release()
	id, err := h.submit(q, where, *body.Code, body.EnvVars)
	if err != nil {
		return err
	}
	return h.stream(q, where.session, id)
}

// submit queues a cell, between two silent ones that set its environment variables and put back what they were. Nothing else
// that comes through this package is queued in between.
func (h *Handler) submit(q *request, where codeContext, code string, variables map[string]string) (id string, err error) {
	release, err := h.turns.take(q.Context(), place{q.caller.Owner, where.session.ID()})
	if err != nil {
		return "", err
	}
	defer release()
	if len(variables) == 0 {
		return where.submit(q.command(), where.cell(code), false)
	}
	mark := where.session.Serial() + time.Now().String()
	if _, err := where.submit(q.command(), setVariables(mark, variables), true); err != nil {
		return "", err
	}
	id, err = where.submit(q.command(), where.cell(code), false)
	_, restored := where.submit(q.command(), setVariables(mark, nil), true)
	return id, errors.Join(err, restored)
}

// submit queues a cell without a time-out if the operator allows that: the SDK has its own.
func (c codeContext) submit(ctx context.Context, code string, silent bool) (string, error) {
	none, no := 0.0, false
	req := api.ExecutionRequest{Code: &code, Silent: &silent, AllowStdin: &no, TimeoutS: &none}
	id, err := c.session.Submit(ctx, req, false)
	if known := new(api.Error); errors.As(err, &known) && known.Code == api.CodeLimitExceeded {
		req.TimeoutS = nil
		id, err = c.session.Submit(ctx, req, false)
	}
	return id, err
}

// variablesProgram sets environment variables for one cell. What they were is kept in the module sys: the variables of the cells
// stay as they are. What an interrupt has left behind is put back before others are set.
const variablesProgram = `
import os, sys
kept = vars(sys).setdefault("_e2b_environment", {})
for mark in list(kept):
    for name, value in kept.pop(mark).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
if new:
    kept[mine] = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
`

// setVariables returns a cell that sets the variables, or with none puts back what they were. Strings in JSON are strings in
// Python, too.
func setVariables(mark string, variables map[string]string) string {
	if variables == nil {
		variables = map[string]string{}
	}
	return "exec(" + transfer.Literal(variablesProgram) + `, {"mine": ` + transfer.Literal(mark) + `, "new": ` + transfer.Literal(variables) + "})"
}

// stream answers with the events of an execution until it has ended.
func (h *Handler) stream(q *request, s *session.Session, id string) error {
	defer h.caller(q, s)()
	ctx, cancel := h.UntilDrain(q.Context())
	defer cancel()
	q.w.Header().Set("Content-Type", "application/x-ndjson")
	q.w.Header().Set("Cache-Control", "no-store")
	q.w.Header().Set("X-Accel-Buffering", "no")
	out := transfer.NewStream(q.w, h.Stall)
	out.Flush() // a failure shows with the first line
	err := relay(ctx, out, func(ctx context.Context) iter.Seq2[api.Event, error] { return s.Journal().ExecutionEvents(ctx, id, 0) })
	if q.Context().Err() != nil || errors.Is(err, transfer.ErrWrite) {
		return s.Interrupt(q.command(), id)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees that the stream was cut off
	}
	return nil
}

// relay sends the events of an execution as lines, and one that says nothing after each keepAlive without any.
func relay(ctx context.Context, out *transfer.Stream, events func(context.Context) iter.Seq2[api.Event, error]) error {
	var t translation
	return transfer.Relay(ctx, events, keepAlive, func(event api.Event) error {
		event, err := event.Decoded()
		if err != nil {
			return err
		}
		for _, line := range t.lines(event) {
			if err := out.SendJSON(line, "\n"); err != nil {
				return err
			}
		}
		return nil
	}, func() error { return out.SendJSON(object{"type": "keepalive"}, "\n") })
}

// caller counts the client as a user of the session.
func (h *Handler) caller(q *request, s *session.Session) (detach func()) { return q.caller.Attach(s) }

// object is one line of an answer, or one message.
type object map[string]any

// translation makes E2B's lines of the events of one execution.
type translation struct{ failed bool }

func (t *translation) lines(e api.Event) []object {
	switch b := e.Body.(type) {
	case api.ExecutionStarted:
		if b.ExecutionCount != nil {
			return []object{{"type": "number_of_executions", "execution_count": *b.ExecutionCount}}
		}
	case api.Stream:
		return []object{{"type": b.Name, "text": b.Text, "timestamp": date(e.Time.Time)}}
	case api.DisplayData:
		return []object{result(b.Data, false)}
	case api.UpdateDisplayData: // the SDK ignores types that it does not know
		return []object{{"type": "update_display_data", "data": b.Data, "display_id": b.DisplayID}}
	case api.ExecuteResult:
		return []object{result(b.Data, true)}
	case api.ErrorEvent:
		t.failed = true
		return []object{failure(b.Ename, b.Evalue, traceback(b.Traceback))}
	case api.ExecutionFinished:
		end := object{"type": "end_of_execution"}
		if b.Execution.Status == api.StatusOK || t.failed {
			return []object{end}
		}
		name, value := unreported(b.Execution)
		return []object{failure(name, value, ""), end}
	}
	return nil
}

func failure(name, value, traceback string) object {
	return object{"type": "error", "name": name, "value": value, "traceback": traceback}
}

// traceback joins the lines. E2B's server puts nothing in between, and relies on IPython's lines.
func traceback(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line)
		if i < len(lines)-1 && !strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// unreported names the end of an execution that raised nothing in Python, as E2B's server does where it has a word for it.
func unreported(e api.Execution) (name, value string) {
	kept := "; the variables are kept"
	if e.State == api.VariablesLost {
		kept = "; the variables are lost, the files are kept"
	}
	switch {
	case e.Status == api.StatusDied && e.Reason == "reset":
		return "ContextRestarting", "the context was restarted" + kept
	case e.Status == api.StatusDied:
		return "UnexpectedEndOfExecution", "the kernel ended: " + e.Reason + kept
	case e.Status == api.StatusCancelled:
		return "ExecutionAborted", "the execution never started: " + e.Reason + kept
	}
	return "ExecutionAborted", string(e.Status) + ": " + e.Reason + kept
}
