package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"talaria/api"
)

// ToolFunc is a tool and the function that carries its calls out. Call returns the result for the cell, any value that
// encodes as JSON; an [*api.ToolError] or another error becomes a ToolError in the cell. It may be called from several
// goroutines at once. Its context ends when the call is cancelled.
type ToolFunc struct {
	api.Tool
	Call func(ctx context.Context, call api.ToolRequest) (any, error)
}

// ToolServer carries out the calls of a socket's tools. Close ends it.
type ToolServer struct {
	socket  *Socket
	request api.ToolsRequest
	byName  map[string]ToolFunc

	ctx    context.Context
	cancel context.CancelFunc
	run    sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	calls      map[string]openCall
	losses     int           // of connections
	registered chan struct{} // closed once the current connection has the tools, or is lost as well
	closed     bool
}

// openCall is a call that is being carried out.
type openCall struct {
	cancel   context.CancelFunc
	survives bool // the loss of the connection
}

// ServeTools provides tools to the session's cells through this socket, until Close or the end of the socket. With a
// clientID, calls of idempotent tools survive a lost connection if the socket reconnects. If the server rejects one of
// the tools, it returns an error and provides none. ctx bounds the registration. A socket serves tools only once.
func (s *Socket) ServeTools(ctx context.Context, clientID string, tools ...ToolFunc) (*ToolServer, error) {
	server := &ToolServer{socket: s, byName: map[string]ToolFunc{}, calls: map[string]openCall{}, registered: make(chan struct{})}
	close(server.registered)
	server.request.Tools = []api.Tool{}
	for _, t := range tools {
		server.request.Tools = append(server.request.Tools, t.Tool)
		server.byName[t.Name] = t
	}
	if clientID != "" {
		server.request.ClientID = &clientID
	}
	server.ctx, server.cancel = context.WithCancel(s.ctx)
	s.mu.Lock()
	if s.tools != nil {
		s.mu.Unlock()
		return nil, errors.New("this socket already serves tools")
	}
	s.tools = server
	s.mu.Unlock()
	reply, err := server.register(ctx)
	if err == nil && len(reply.Rejected) > 0 {
		err = fmt.Errorf("tool %q was rejected: %s", reply.Rejected[0].Name, reply.Rejected[0].Reason)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

func (t *ToolServer) register(ctx context.Context) (reply api.ToolsReply, err error) {
	raw, err := t.socket.Do(ctx, "tools", t.request)
	if err == nil {
		err = json.Unmarshal(raw, &reply)
	}
	return reply, err
}

// Close withdraws the tools, cancels the calls, and waits until none is running. It is idempotent.
func (t *ToolServer) Close() error {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	t.mu.Unlock()
	var err error
	if first {
		ctx, stop := context.WithTimeout(t.ctx, writeTimeout)
		defer stop()
		_, err = t.socket.Do(ctx, "tools", api.ToolsRequest{Tools: []api.Tool{}, ClientID: t.request.ClientID})
		t.socket.mu.Lock()
		t.socket.tools = nil
		t.socket.mu.Unlock()
	}
	t.cancel()
	t.run.Wait()
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrClosed) || errors.Is(err, ErrDisconnected) {
		return nil // the server knows by itself
	}
	return err
}

// lost cancels the calls that the server does not request again on the next connection.
func (t *ToolServer) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.losses++
	t.registered = make(chan struct{})
	for _, c := range t.calls {
		if !c.survives {
			c.cancel()
		}
	}
}

// reconnected registers the tools again, since a new connection provides none.
func (t *ToolServer) reconnected() {
	t.mu.Lock()
	registered := t.registered
	t.mu.Unlock()
	t.start(func() {
		_, _ = t.register(t.ctx) // another loss of the connection leads here again
		close(registered)
	})
}

// awaitRegistered waits until the connection has the tools: no call belongs to it before. It returns how many connections
// were lost until then.
func (t *ToolServer) awaitRegistered() (losses int, err error) {
	for {
		t.mu.Lock()
		losses, registered := t.losses, t.registered
		t.mu.Unlock()
		select {
		case <-registered:
			if !t.lostSince(losses) {
				return losses, nil
			}
		case <-t.ctx.Done():
			return 0, context.Cause(t.ctx)
		}
	}
}

func (t *ToolServer) lostSince(losses int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.losses != losses
}

// survives reports whether the server requests the calls of a tool again on the next connection.
func (t *ToolServer) survives(tool string) bool {
	return t.byName[tool].Idempotent && t.request.ClientID != nil && t.socket.opt.Reconnect
}

// start runs f unless the server is closed.
func (t *ToolServer) start(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.run.Go(f)
	}
}

// take handles a frame about tools, and reports whether it was one. It does not wait.
func (t *ToolServer) take(kind string, frame []byte) bool {
	switch kind {
	case "tool_request":
		var call api.ToolRequest
		if json.Unmarshal(frame, &call) == nil {
			t.begin(call)
		}
	case "tool_cancel":
		var c api.ToolCancel
		if json.Unmarshal(frame, &c) == nil {
			t.mu.Lock()
			if call, ok := t.calls[c.CallID]; ok {
				call.cancel()
			}
			t.mu.Unlock()
		}
	default:
		return false
	}
	return true
}

// begin carries out a call, unless it is still under way from before the connection was lost.
func (t *ToolServer) begin(call api.ToolRequest) {
	t.mu.Lock()
	_, running := t.calls[call.CallID]
	ctx, cancel := context.WithDeadline(t.ctx, call.Deadline.Time)
	if !running && !t.closed {
		t.calls[call.CallID] = openCall{cancel, t.survives(call.Tool)}
	}
	t.mu.Unlock()
	if running {
		cancel()
		return
	}
	t.start(func() {
		defer func() {
			cancel()
			t.mu.Lock()
			delete(t.calls, call.CallID)
			t.mu.Unlock()
		}()
		t.answer(ctx, call)
	})
}

// answer carries a call out, and sends its result. If the connection is lost, it sends it on the next one if the call
// survives.
func (t *ToolServer) answer(ctx context.Context, call api.ToolRequest) {
	result := callTool(ctx, t.byName[call.Tool], call)
	for {
		losses, err := t.awaitRegistered()
		if err != nil {
			return
		}
		_, err = t.socket.Do(t.ctx, "tool_result", result)
		if err == nil || !t.survives(call.Tool) || !t.lostSince(losses) {
			return // the server has the answer, or nobody waits for it
		}
	}
}

// callTool carries a call out.
func callTool(ctx context.Context, tool ToolFunc, call api.ToolRequest) api.ToolResult {
	result := api.ToolResult{CallID: call.CallID}
	var value any
	err := fmt.Errorf("there is no tool %q here", call.Tool)
	if tool.Call != nil {
		value, err = tool.Call(ctx, call)
	}
	if err == nil {
		result.Result, err = api.Marshal(value)
	}
	if err != nil {
		result.Result, result.Error = nil, &api.ToolError{Message: err.Error()}
		if known := new(api.ToolError); errors.As(err, &known) {
			result.Error = known
		}
	}
	return result
}

// Tools lists the tools that the session's cells see, by name.
func (c *Client) Tools(ctx context.Context, session string) ([]api.ToolInfo, error) {
	list, err := get[struct {
		Items []api.ToolInfo `json:"items"`
	}](ctx, c, path("sessions", session, "tools"), nil)
	return list.Items, err
}

// ToolCalls lists the session's tool calls, newest first.
func (c *Client) ToolCalls(ctx context.Context, session string, p api.PageQuery) (api.Page[api.ToolCallRecord], error) {
	return get[api.Page[api.ToolCallRecord]](ctx, c, path("sessions", session, "tool_calls"), pageQuery(p))
}

// AnswerToolCalls answers calls of an execution's own tools, and waits like Execute: for its end, or for more calls in
// PendingToolCalls.
func (c *Client) AnswerToolCalls(
	ctx context.Context, session, execution string, results []api.ToolResult,
) (api.Execution, error) {
	var e api.Execution
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "executions", execution, "tool_results"), nil,
		api.ToolResults{Results: results}, &e)
	return e, err
}

// ExecuteWithTools is Execute for a cell that may call these functions, which run here.
func (c *Client) ExecuteWithTools(
	ctx context.Context, session string, req api.ExecutionRequest, tools ...ToolFunc,
) (api.Execution, error) {
	byName := map[string]ToolFunc{}
	for _, t := range tools {
		req.Tools = append(req.Tools, t.Tool)
		byName[t.Name] = t
	}
	e, err := c.Execute(ctx, session, req)
	for err == nil && !e.Status.Final() && len(e.PendingToolCalls) > 0 {
		results := make([]api.ToolResult, len(e.PendingToolCalls))
		var calls sync.WaitGroup
		for i, p := range e.PendingToolCalls {
			calls.Go(func() {
				results[i] = callTool(ctx, byName[p.Tool], api.ToolRequest{
					Type: "tool_request", CallID: p.CallID, ExecutionID: e.ID, Tool: p.Tool, Arguments: p.Arguments,
				})
			})
		}
		calls.Wait()
		e, err = c.AnswerToolCalls(ctx, session, e.ID, results)
	}
	return e, err
}
