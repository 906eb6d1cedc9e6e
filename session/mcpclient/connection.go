package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session/remote"
)

// Bounds of what a server may send.
const (
	maxMessage = 32 << 20 // bytes: a result of 16 MiB, and pictures
	maxTools   = 512
	maxSchema  = 64 << 10
)

// errForgotten is the error of a call that the server refused because it does not know the MCP session.
var errForgotten = errors.New("the MCP server does not know the session")

// connection is an initialised MCP session.
type connection struct {
	server    *server
	session   *mcp.ClientSession
	transport transport
	begun     time.Time

	ctx    context.Context // ends when the connection does
	cancel context.CancelFunc
	stale  chan struct{} // holds one when the list of tools changed

	mu       sync.Mutex // guards what follows
	tools    []Tool
	outdated bool                    // the server said that its tools changed
	names    map[string]string       // the server's own names, by Tool.Name
	progress map[string]func(string) // by token, which is ours: two kernels may have calls of one id
	open     map[*asker]bool         // the calls that wait for their results
	tokens   int
}

// transport is a way to a server.
type transport interface {
	mcp.Transport
	// gone is closed when the other end has ended; nil where nobody can tell.
	gone() <-chan struct{}
	// release ends the other end if it is ours, and frees what the transport holds. It waits.
	release()
	// forgotten reports whether the server no longer knows the session.
	forgotten() bool
	// diagnosis is what the other end said last, for the operator.
	diagnosis() string
}

// open connects to a server; ctx bounds that alone.
func open(ctx context.Context, s *server) (*connection, error) {
	c := &connection{server: s, stale: make(chan struct{}, 1), progress: map[string]func(string){}, open: map[*asker]bool{}}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	var err error
	if s.cfg.Command != "" {
		c.transport, err = startProcess(s.cfg)
	} else {
		c.transport = newHTTPTransport(s.cfg)
	}
	if err != nil {
		c.cancel()
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "talaria", Version: s.version}, &mcp.ClientOptions{
		Capabilities:       &mcp.ClientCapabilities{}, // no roots, no sampling; elicitation has a handler
		ElicitationHandler: c.elicit,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			c.mu.Lock()
			c.outdated = true
			c.mu.Unlock()
			select {
			case c.stale <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.news(r.Params) },
	})
	if c.session, err = client.Connect(ctx, c.transport, nil); err == nil {
		err = c.refresh(ctx)
	}
	if err != nil {
		c.end()
		return nil, c.diagnosed(err)
	}
	c.begun = time.Now()
	return c, nil
}

// run keeps the list of tools up to date until the connection ends, and releases what it holds.
func (c *connection) run() error {
	lost := make(chan error, 1)
	go func() { lost <- c.session.Wait() }()
	var why error
	for why == nil {
		select {
		case err := <-lost:
			lost <- err
			why = errors.Join(errors.New("the connection broke"), err)
		case <-c.transport.gone():
			why = errors.New("the program ended")
			select { // it may have answered before
			case err := <-lost:
				lost <- err
			case <-time.After(endGrace):
			}
		case <-c.ctx.Done():
			why = c.ctx.Err()
		case <-c.stale:
			c.list(c.ctx)
			c.server.changed(c.server.cfg.Name)
		}
	}
	c.end()
	<-lost
	return c.diagnosed(why)
}

// diagnosed adds what the other end said last, which is whole once the connection has ended.
func (c *connection) diagnosed(err error) error {
	if said := c.transport.diagnosis(); said != "" {
		return fmt.Errorf("%w; it wrote: %s", err, said)
	}
	return err
}

// end fails the open calls and releases everything. A program is ended at the same time as the session, which may wait
// for it.
func (c *connection) end() {
	c.cancel()
	released := make(chan struct{})
	go func() { defer close(released); c.transport.release() }()
	if c.session != nil {
		_ = c.session.Close() // there is nobody to tell
	}
	<-released
}

// list returns the tools. It asks for them if they changed since they were last listed.
func (c *connection) list(ctx context.Context) []Tool {
	c.mu.Lock()
	outdated := c.outdated
	c.outdated = false
	c.mu.Unlock()
	if outdated {
		if err := c.refresh(ctx); err != nil {
			c.server.log.Warn("list the tools of an MCP server", "error", err)
			c.mu.Lock()
			c.outdated = true
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tools
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_]`)

// refresh asks for the list of tools.
func (c *connection) refresh(ctx context.Context) error {
	var tools []Tool
	names := map[string]string{}
	for t, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		if len(tools) == maxTools {
			c.server.log.Warn("an MCP server has too many tools; the rest is left out", "most", maxTools)
			break
		}
		schema, err := api.Marshal(t.InputSchema)
		name := c.server.cfg.Name + separator + notInNames.ReplaceAllString(t.Name, "_")
		if err != nil || len(schema) > maxSchema || names[name] != "" {
			c.server.log.Warn("a tool of an MCP server is left out: its schema is too large or its name taken", "tool", name)
			continue
		}
		one := Tool{Name: name, Server: c.server.cfg.Name, Description: t.Description, Parameters: schema}
		if a := t.Annotations; a != nil {
			one.ReadOnly, one.Idempotent = a.ReadOnlyHint, a.IdempotentHint
		}
		names[name] = t.Name
		tools = append(tools, one)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tools, c.names = tools, names
	return nil
}

// call calls a tool. The error is errForgotten or a [remote.Failure].
func (c *connection) call(ctx context.Context, call remote.Call) (remote.Result, error) {
	var none remote.Result
	c.mu.Lock()
	name, ok := c.names[call.Tool]
	c.mu.Unlock()
	if !ok {
		return none, remote.Failuref(remote.CodeUnavailable, "the MCP server %s has no tool %s", c.server.cfg.Name, call.Tool)
	}
	params := &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(call.Arguments)}
	if call.Progress != nil {
		token := c.listen(call.Progress)
		defer c.ignore(token)
		params.SetProgressToken(token)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	ctx, done := c.track(ctx, call)
	defer done()
	made := &trip{}
	answer, err := c.session.CallTool(context.WithValue(ctx, tripKey{}, made), params)
	if err != nil {
		return none, c.failure(ctx, made, err)
	}
	return resultOf(answer)
}

// failure is what a call without a result ended with.
func (c *connection) failure(ctx context.Context, made *trip, err error) error {
	name := c.server.cfg.Name
	gone := remote.Failuref(remote.CodeProviderGone, "the connection to the MCP server %s broke before it answered", name)
	switch {
	case made.forgotten.Load():
		return errForgotten
	case c.ctx.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed) || c.server.cfg.Command != "" && isBrokenPipe(err):
		c.server.lose(c)
		c.cancel()
		return gone
	case ctx.Err() != nil:
		return ended(ctx, name)
	case errors.As(err, new(*jsonrpc.Error)): // below
	case strings.Contains(err.Error(), "multi-round-trip: "): // the SDK has no error value for it
		return remote.Failuref("input_required", "the MCP server %s asks for input (elicitation) that it was not given", name)
	}
	if reported := new(jsonrpc.Error); errors.As(err, &reported) && !isTransportError(err, reported) {
		return remote.ReportedFailure(remote.CodeToolError, reported.Message)
	}
	c.server.log.Warn("call a tool of an MCP server", "error", err)
	if c.server.cfg.URL != "" && made.notMade() {
		return remote.Failuref(remote.CodeUnavailable, "the MCP server %s cannot be reached, or is busy", name)
	}
	return gone
}

// isBrokenPipe reports whether a call failed because a pipe to a program has ended.
func isBrokenPipe(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE},
		func(one error) bool { return errors.Is(err, one) })
}

// listen has the notes of a call passed on, and returns the token that the call must have.
func (c *connection) listen(tell func(string)) (token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens++
	token = strconv.Itoa(c.tokens)
	c.progress[token] = tell
	return token
}

func (c *connection) ignore(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.progress, token)
}

// news passes a progress note on to the call that it is about.
func (c *connection) news(p *mcp.ProgressNotificationParams) {
	token, ok := p.ProgressToken.(string)
	c.mu.Lock()
	tell := c.progress[token]
	c.mu.Unlock()
	if !ok || tell == nil {
		return
	}
	message := strings.ToValidUTF8(p.Message, "\uFFFD")
	if message == "" {
		message = fmt.Sprintf("%g", p.Progress)
		if p.Total > 0 {
			message = fmt.Sprintf("%g of %g", p.Progress, p.Total)
		}
	}
	tell(message)
}
