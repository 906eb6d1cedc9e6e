package execd

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"talaria/api"
	"talaria/server/transfer"
)

// silence is how long a stream may send nothing; then it sends a ping.
const silence = 3 * time.Second

// The types of events.
const (
	typeInit     = "init"
	typeCount    = "execution_count"
	typeStdout   = "stdout"
	typeStderr   = "stderr"
	typeResult   = "result"
	typeError    = "error"
	typeComplete = "execution_complete"
	typePing     = "ping"
)

// event is a server-sent event. Like execd, this package sends its JSON and an empty line, without "data:" in front: some clients
// read nothing else.
type event struct {
	Type           string             `json:"type"`
	Text           string             `json:"text,omitzero"`
	ExecutionCount int64              `json:"execution_count,omitzero"`
	ExecutionTime  int64              `json:"execution_time,omitzero"` // in milliseconds
	Timestamp      int64              `json:"timestamp"`               // in milliseconds since 1970
	Results        map[string]api.Raw `json:"results,omitzero"`
	Error          *failure           `json:"error,omitzero"`
}

type failure struct {
	Ename     string   `json:"ename"`
	Evalue    string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// runRequest is the body of POST code.
type runRequest struct {
	Code    string       `json:"code"`
	Context contextModel `json:"context"`
}

// runCode runs a cell and answers with its events. A client that goes away interrupts the cell.
func (h *Handler) runCode(q *request) error {
	var body runRequest
	if err := q.read(&body); err != nil {
		return err
	}
	if body.Code == "" {
		return api.Errorf(api.CodeInvalidRequest, "code is missing")
	}
	where, err := h.context(q, body.Context)
	if err != nil {
		return err
	}
	defer where.Release()
	if body.Context.ID == "" && body.Context.CWD != "" {
		return api.Errorf(api.CodeInvalidRequest, "cwd is the working directory of a new context: send it to POST /code/context")
	}
	code, no := transfer.Cell(where.language, body.Code), false
	id, err := where.Submit(q.command(), api.ExecutionRequest{Code: &code, AllowStdin: &no}, false)
	if err != nil {
		return err
	}
	defer q.caller.Attach(where.Session)()
	ctx, cancel := h.UntilDrain(q.Context())
	defer cancel()
	out := h.stream(q)
	var t translation
	err = out.send(event{Type: typeInit, Text: joinID(where.ID(), id)})
	if err == nil {
		err = transfer.Relay(ctx, func(ctx context.Context) iter.Seq2[api.Event, error] {
			return where.Journal().ExecutionEvents(ctx, id, 0)
		}, silence, func(e api.Event) error {
			e, err := e.Decoded()
			if err != nil {
				return err
			}
			for _, line := range t.events(e) {
				if err := out.send(line); err != nil {
					return err
				}
			}
			return nil
		}, out.ping)
	}
	if q.Context().Err() != nil || errors.Is(err, transfer.ErrWrite) {
		return where.Interrupt(q.command(), id)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees that the stream was cut off
	}
	return nil
}

// events are an answer of events.
type events struct{ *transfer.Stream }

// stream begins an answer of events.
func (h *Handler) stream(q *request) events {
	head := q.w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-cache")
	head.Set("X-Accel-Buffering", "no")
	return events{transfer.NewStream(q.w, h.Stall)}
}

func (s events) send(e event) error {
	if e.Timestamp == 0 {
		e.Timestamp = time.Now().UnixMilli()
	}
	return s.SendJSON(e, "\n\n")
}

func (s events) ping() error { return s.send(event{Type: typePing, Text: "pong"}) }

// translation makes execd's events of the events of one execution.
type translation struct{ failed bool }

func (t *translation) events(e api.Event) []event {
	at := e.Time.UnixMilli()
	switch b := e.Body.(type) {
	case api.ExecutionStarted:
		if b.ExecutionCount != nil {
			return []event{{Type: typeCount, ExecutionCount: *b.ExecutionCount, Timestamp: at}}
		}
	case api.Stream:
		if b.Text != "" {
			return []event{{Type: b.Name, Text: b.Text, Timestamp: at}}
		}
	case api.DisplayData:
		return []event{{Type: typeResult, Results: results(b.Data), Timestamp: at}}
	case api.UpdateDisplayData:
		return []event{{Type: typeResult, Results: results(b.Data), Timestamp: at}}
	case api.ExecuteResult:
		return []event{{Type: typeResult, Results: results(b.Data), Timestamp: at}}
	case api.ErrorEvent:
		t.failed = true
		return []event{{Type: typeError, Error: &failure{b.Ename, b.Evalue, b.Traceback}, Timestamp: at}}
	case api.ExecutionFinished:
		return t.end(b.Execution, at)
	}
	return nil
}

// end returns how an execution ended. An error is the last event of one that failed, as in execd.
func (t *translation) end(e api.Execution, at int64) []event {
	switch {
	case t.failed:
		return nil
	case e.Status == api.StatusOK:
		var took int64
		if e.StartedAt != nil && e.FinishedAt != nil {
			took = e.FinishedAt.Sub(e.StartedAt.Time).Milliseconds()
		}
		return []event{{Type: typeComplete, ExecutionTime: max(took, 1), Timestamp: at}}
	}
	name, kept := "ExecutionAborted", "the variables are kept"
	if e.Status == api.StatusDied {
		name = "KernelDied"
	}
	if e.State == api.VariablesLost {
		kept = "the variables are lost, the files are kept"
	}
	return []event{{Type: typeError, Timestamp: at, Error: &failure{
		Ename: name, Evalue: string(e.Status) + ": " + e.Reason + "; " + kept, Traceback: []string{},
	}}}
}

// results are what a cell shows, by media type. Clients read text/plain as text.
func results(data api.MIMEBundle) map[string]api.Raw {
	all := make(map[string]api.Raw, len(data))
	for media, value := range data {
		if media == "text/plain" {
			media = "text"
		}
		all[media] = value
	}
	return all
}

// idMark is between the id of a session and the one of an execution or a command in it. No id of a session has it.
const idMark = "~"

// programMark is in front of the ids of commands.
const programMark = "p"

func joinID(session, inside string) string { return session + idMark + inside }

// interrupt ends an execution or a command by the id in its first event, or all executions of a context by its id.
func (h *Handler) interrupt(q *request) error {
	id := q.URL.Query().Get("id")
	if id == "" {
		return api.Errorf(api.CodeInvalidRequest, "id is missing in the query")
	}
	name, inside, _ := strings.Cut(id, idMark)
	s, err := h.named(q, name)
	if err != nil {
		return err
	}
	defer s.Release()
	if program, ok := strings.CutPrefix(inside, programMark); ok {
		err = s.Programs().SignalGroup(q.command(), program, sigterm)
	} else {
		if inside != "" { // an execution that never existed is an error
			if _, err := s.Executions().Get(q.Context(), inside); err != nil {
				return err
			}
		}
		err = s.Interrupt(q.command(), inside)
	}
	if err != nil {
		return err
	}
	return q.nothing()
}
