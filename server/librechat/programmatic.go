package librechat

import (
	"context"
	"encoding/base64"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"talaria/api"
)

// maxToken bounds a continuation token, which has the names of tools.
const maxToken = 64 << 10

// tool is a tool of the client, which code may call.
type tool struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Parameters  api.Raw `json:"parameters"` // a JSON Schema
}

// toolResult is the client's answer to a call.
type toolResult struct {
	CallID       string  `json:"call_id"`
	Result       api.Raw `json:"result"`
	IsError      bool    `json:"is_error"`
	ErrorMessage string  `json:"error_message"`
}

// toolCall is a call that the client has to carry out.
type toolCall struct {
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Input api.Raw `json:"input"`
}

// progress is the answer to a program that has ended: with statusCompleted or statusError.
type progress struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"` // in the words that the client passes on
	result
}

const (
	statusCalls     = "tool_call_required"
	statusCompleted = "completed"
	statusError     = "error"
)

// continuation is what a continuation token says: it names a program that waits, which its session keeps, so that a client can go on
// after a restart of the server, too. It allows nothing: the client's own credential does.
type continuation struct {
	Session      string            `json:"s"`
	Execution    string            `json:"e"`
	Names        map[string]string `json:"n,omitempty"` // of tools, by their names in Python where those are others
	TimeoutMS    int64             `json:"t,omitempty"` // of each part of the program between calls
	Conversation bool              `json:"c,omitempty"`
	Status       string            `json:"r,omitempty"`
}

func (c continuation) token() string {
	text, err := api.Marshal(c)
	if err != nil { // strings always encode
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeContinuation(token string) (c continuation, err error) {
	invalid := api.Errorf(api.CodeInvalidRequest, "\"continuation_token\" was not issued by this server; run the code again")
	if len(token) > maxToken {
		return c, invalid
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || api.Unmarshal(text, &c) != nil || !api.ValidID(c.Session) || !api.ValidID(c.Execution) || c.TimeoutMS < 0 {
		return c, invalid
	}
	return c, nil
}

// programmatic runs code that calls the client's tools, or goes on with it once the client has carried calls out.
func (h *Handler) programmatic(q *request) error {
	if q.refused() {
		return nil
	}
	r, err := q.read()
	switch {
	case err != nil:
		return err
	case r.ContinuationToken != "":
		return h.goOn(q, r)
	case r.Lang != "" && r.Lang != "py":
		return q.unsupported("Talaria calls tools from Python code only")
	}
	tools, names, err := pythonTools(r.Tools)
	if err != nil {
		return err
	}
	w, err := h.workplace(q, r)
	if err != nil {
		return err
	}
	defer w.Release()
	if err := h.bring(q, w, r.Files); err != nil {
		return err
	}
	// The tools live as long as the execution, so the cell itself imports them.
	code := importing(tools) + *r.Code
	id, err := w.submit(q.command(), api.ExecutionRequest{Code: &code, Tools: tools}, 0)
	if err != nil {
		return err
	}
	return h.round(q, w, continuation{
		Session: w.ID(), Execution: id, Names: names, TimeoutMS: r.timeout().Milliseconds(), Conversation: w.conversation, Status: w.status,
	})
}

// importing returns a line that makes the tools awaitable functions.
func importing(tools []api.Tool) string {
	if len(tools) == 0 {
		return ""
	}
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return "from hermes_tools.aio import " + strings.Join(names, ", ") + "\n"
}

// pythonTools gives tools names of Python. names has those that had others.
func pythonTools(list []tool) (tools []api.Tool, names map[string]string, err error) {
	names = map[string]string{}
	seen := map[string]bool{}
	for _, t := range list {
		name := pythonName(t.Name)
		if name == "" || seen[name] {
			return nil, nil, api.Errorf(api.CodeInvalidRequest, "the name of tool %.100q is empty in Python, or the same as another tool's", t.Name)
		}
		if seen[name] = true; name != t.Name {
			names[name] = t.Name
		}
		one := api.Tool{Name: name, Description: t.Description}
		if text := string(t.Parameters); text != "" && text != "null" {
			one.Parameters = t.Parameters
		}
		tools = append(tools, one)
	}
	return tools, names, nil
}

var (
	separator = regexp.MustCompile(`[-\s]`)
	notName   = regexp.MustCompile(`[^a-zA-Z0-9_]`)
	keywords  = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
		global if import in is lambda nonlocal not or pass raise return try while with yield`)
)

// pythonName is how code calls a tool. LibreChat tells its models the same rules.
func pythonName(name string) string {
	name = notName.ReplaceAllString(separator.ReplaceAllString(name, "_"), "")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	if slices.Contains(keywords, name) {
		name += "_tool"
	}
	return name
}

// goOn gives a program the results of its calls. Results that it has already are those of a request that is made again.
func (h *Handler) goOn(q *request, r execRequest) error {
	c, err := decodeContinuation(r.ContinuationToken)
	if err != nil {
		return err
	}
	s, err := h.Sessions.Get(q.caller.Owner, c.Session)
	if err != nil {
		return err
	}
	w := &workplace{Session: s, conversation: c.Conversation, status: c.Status}
	defer w.Release()
	if _, err := w.Executions().Get(q.Context(), c.Execution); err != nil {
		return err
	}
	var results []api.ToolResult
	for _, one := range r.ToolResults {
		result := api.ToolResult{CallID: one.CallID, Result: one.Result}
		switch {
		case one.IsError:
			result.Result, result.Error = nil, &api.ToolError{Message: one.ErrorMessage}
		case len(one.Result) == 0:
			result.Result = api.Raw("null")
		}
		results = append(results, result)
	}
	err = w.Tools().AnswerPending(c.Execution, results)
	if known := new(api.Error); err != nil && !(errors.As(err, &known) && known.Code == api.CodeNoCallPending) {
		return err
	}
	return h.round(q, w, c)
}

// requestName names a request that its client can cancel.
type requestName struct{ owner, id string }

var errCancelled = errors.New("the client has cancelled the program")

// cancellable returns a context that [Handler.cancel] ends, if the client has named the request. end must be called.
func (h *Handler) cancellable(q *request, parent context.Context) (ctx context.Context, end func()) {
	ctx, stop := context.WithCancelCause(parent)
	name := requestName{q.caller.Owner, q.Header.Get("X-LibreChat-Code-Request-ID")}
	if name.id == "" {
		return ctx, func() { stop(nil) }
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[name] != nil { // another request has the name
		return ctx, func() { stop(nil) }
	}
	h.waiting[name] = stop
	return ctx, func() {
		h.mu.Lock()
		delete(h.waiting, name)
		h.mu.Unlock()
		stop(nil)
	}
}

// cancel interrupts the program that the named request waits for.
func (h *Handler) cancel(q *request) error {
	data, release, err := q.caller.Body()
	defer release()
	if err != nil {
		return err
	}
	var body struct {
		RequestID string `json:"request_id"`
	}
	if err := api.UnmarshalLoose(data, &body); err != nil {
		return err
	}
	h.mu.Lock()
	stop := h.waiting[requestName{q.caller.Owner, body.RequestID}]
	h.mu.Unlock()
	if stop != nil {
		stop(errCancelled)
	}
	return q.answer(map[string]bool{"cancelled": stop != nil})
}

// round answers when a program has ended, or waits for the client.
func (h *Handler) round(q *request, w *workplace, c continuation) error {
	drain, cancel := h.UntilDrain(q.Context())
	defer cancel()
	ctx, end := h.cancellable(q, drain)
	defer end()
	if c.TimeoutMS > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(c.TimeoutMS)*time.Millisecond)
		defer stop()
	}
	e, err := w.WaitForCalls(ctx, c.Execution)
	if cause := context.Cause(ctx); err != nil && drain.Err() == nil && (errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, errCancelled)) {
		if err := w.Interrupt(q.command(), c.Execution); err != nil {
			return err
		}
		if e, err = w.Wait(drain, c.Execution); err == nil && e.Status == api.StatusInterrupted && errors.Is(cause, context.DeadlineExceeded) {
			e.Status = api.StatusTimeout
		}
	}
	if err != nil {
		return h.left(drain, q, w, c.Execution, err)
	}
	for _, t := range e.RejectedTools {
		w.notes += "the tool " + t.Name + " is not available: " + t.Reason + "\n"
	}
	if !e.Status.Final() {
		return q.answer(waiting(w, c, e))
	}
	r, err := w.result(q.command(), e)
	if err != nil {
		return err
	}
	p := progress{Status: statusCompleted, result: r}
	if e.Status != api.StatusOK && e.Status != api.StatusError {
		p.Status, p.Error = statusError, "Execution failed or timed out"
	}
	switch {
	case e.Status == api.StatusTimeout:
		p.Error = "Time limit exceeded"
	case e.Status == api.StatusDied && outOfMemory(e):
		p.Error = "Out of memory"
	}
	return q.answer(p)
}

// waiting is the answer while calls wait for the client.
func waiting(w *workplace, c continuation, e api.Execution) any {
	calls := []toolCall{}
	for _, p := range e.PendingToolCalls {
		name := p.Tool
		if original := c.Names[name]; original != "" {
			name = original
		}
		calls = append(calls, toolCall{ID: p.CallID, Name: name, Input: p.Arguments})
	}
	return map[string]any{"status": statusCalls, "continuation_token": c.token(), "session_id": w.ID(), "tool_calls": calls}
}
