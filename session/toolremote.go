package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"talaria/api"
	"talaria/kernel/record"
	"talaria/session/mcpclient"
	"talaria/session/remote"
	"talaria/session/toolspec"
	"talaria/session/webhook"
	"talaria/store"
)

// serverTime is how long the list of tools waits for an MCP server that has to be connected to.
const serverTime = 30 * time.Second

// The ids of the server's own providers. No client can have one, since they are not valid ids.
const (
	webhookProvider = "/webhooks"
	serverProvider  = "/mcp/" // and the server's name
)

// RemoteTools are the providers of tools that an operator allows beside clients; nil stands for none. Their creator closes
// them, after the [Manager].
type RemoteTools struct {
	Webhooks *webhook.Caller
	Servers  *mcpclient.Servers
}

// addRemote adds the providers that a session has for as long as it lives. Before anybody else has the session.
func (ts *Tools) addRemote(row store.Session) {
	if len(row.Tools) > 0 {
		urls := map[string]string{}
		p := &provider{kind: api.ProviderWebhook, clientID: webhookProvider, lasting: true, tools: map[string]*toolspec.Tool{}}
		p.client = newRemoteClient(ts, func(ctx context.Context, call remote.Call) (remote.Result, error) {
			if ts.remote.Webhooks == nil {
				return remote.Result{}, remote.Failuref(remote.CodeUnavailable, "the server's operator no longer allows webhooks")
			}
			ctx, cancel := context.WithDeadline(ctx, call.Deadline)
			defer cancel()
			return ts.remote.Webhooks.Call(ctx, urls[call.Tool], call)
		})
		for _, t := range row.Tools {
			one, err := toolspec.New(t)
			if err != nil {
				ts.log.Error("a webhook of a session cannot be read; it was skipped", "tool", t.Name, "error", err)
				continue
			}
			urls[t.Name] = t.URL
			one.URL = "" // it may hold a secret, and nobody but its caller needs it
			p.tools[t.Name] = one
			ts.know(t.Name)
		}
		ts.providers = append(ts.providers, p)
	}
	for _, name := range row.MCPServers {
		p := &provider{kind: api.ProviderMCP, clientID: serverProvider + name, lasting: true, server: name, tools: map[string]*toolspec.Tool{}}
		p.client = newRemoteClient(ts, func(ctx context.Context, call remote.Call) (remote.Result, error) {
			if ts.remote.Servers == nil {
				return remote.Result{}, remote.Failuref(remote.CodeUnavailable, "the server's operator no longer configures MCP servers")
			}
			return ts.remote.Servers.Call(ctx, call)
		})
		ts.providers = append(ts.providers, p)
	}
}

// refresh asks the session's MCP servers for their tools, all at once. A server that cannot be reached keeps those
// that it had.
func (ts *Tools) refresh(ctx context.Context) {
	servers := ts.remote.Servers
	if len(ts.servers) == 0 || servers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	var wait sync.WaitGroup
	for _, name := range ts.servers {
		wait.Go(func() {
			list, err := servers.Tools(ctx, name)
			if err != nil {
				ts.log.Warn("list the tools of an MCP server", "mcp_server", name, "error", err)
				return
			}
			ts.setServer(name, list, ts.log.Warn)
		})
	}
	wait.Wait()
}

// setServer records the tools that an MCP server has now.
func (ts *Tools) setServer(name string, list []mcpclient.Tool, warn func(string, ...any)) {
	ts.mu.Lock()
	i := slices.IndexFunc(ts.providers, func(p *provider) bool { return p.server == name && p.lasting })
	if i < 0 {
		ts.mu.Unlock()
		return
	}
	p := ts.providers[i]
	before := p.tools
	ts.mu.Unlock()
	now := make(map[string]*toolspec.Tool, len(list))
	for _, t := range list { // a schema is compiled once, and without the lock
		described := api.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters, ReadOnly: t.ReadOnly, Idempotent: t.Idempotent}
		if old := before[t.Name]; old != nil && old.Same(described) {
			now[t.Name] = old
			continue
		}
		one, err := toolspec.New(described)
		if err != nil { // the server itself checks what its tools get
			warn("the schema of an MCP server's tool is not checked", "tool", t.Name, "error", err)
			described.Parameters = nil
			if one, err = toolspec.New(described); err != nil {
				continue
			}
		}
		now[t.Name] = one
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	p.tools, p.listed = now, true
	for name := range now {
		ts.know(name)
	}
}

// unlisted returns a tool of an MCP server whose tools this server has not asked for yet, by its name alone. mu is held.
func (ts *Tools) unlisted(name string) (*provider, *toolspec.Tool) {
	server, _, ok := strings.Cut(name, "__")
	if !ok {
		return nil, nil
	}
	i := slices.IndexFunc(ts.providers, func(p *provider) bool { return p.lasting && p.server == server && !p.listed })
	if i < 0 {
		return nil, nil
	}
	return ts.providers[i], &toolspec.Tool{Tool: api.Tool{Name: name}}
}

// remoteClient carries out the calls of a session's tools in other programs. It implements [ToolClient].
type remoteClient struct {
	tools *Tools
	call  func(context.Context, remote.Call) (remote.Result, error)

	mu   sync.Mutex // guards open
	open map[string]context.CancelFunc
}

func newRemoteClient(ts *Tools, call func(context.Context, remote.Call) (remote.Result, error)) *remoteClient {
	return &remoteClient{tools: ts, call: call, open: map[string]context.CancelFunc{}}
}

// Request implements [ToolClient].
func (c *remoteClient) Request(r api.ToolRequest) {
	ctx, cancel := context.WithCancel(c.tools.ctx)
	c.mu.Lock()
	c.open[r.CallID] = cancel // before Cancel may be called
	c.mu.Unlock()
	c.tools.task(func(context.Context) {
		defer cancel()
		result, err := c.made(ctx, r)
		c.mu.Lock()
		delete(c.open, r.CallID)
		c.mu.Unlock()
		c.answer(ctx, r, result, err)
	})
}

// Cancel implements [ToolClient].
func (c *remoteClient) Cancel(r api.ToolCancel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.open[r.CallID]; cancel != nil {
		cancel()
	}
}

// made makes a call. Progress reaches the cell one message at a time; messages that arrive faster are dropped.
func (c *remoteClient) made(ctx context.Context, r api.ToolRequest) (remote.Result, error) {
	news := make(chan string, 1)
	var telling sync.WaitGroup
	telling.Go(func() {
		for message := range news {
			if err := c.tools.TellProgress(ctx, c, api.ToolProgress{CallID: r.CallID, Message: message}); err != nil {
				c.tools.log.Debug("pass on the progress of a tool call", "error", err) // nobody waits for it now
			}
		}
	})
	var mu sync.Mutex // guards the end of news: a provider may tell more after its answer
	ended := false
	result, err := c.call(ctx, remote.Call{
		ID: r.CallID, SessionID: c.tools.sessionID, ExecutionID: r.ExecutionID, Tool: r.Tool, Arguments: r.Arguments, Deadline: r.Deadline.Time,
		Progress: func(message string) {
			mu.Lock()
			defer mu.Unlock()
			if ended {
				return
			}
			select {
			case news <- message:
			default:
			}
		},
		Ask: func(ctx context.Context, question string) error {
			defer c.tools.holdDeadline(r.CallID)()
			return c.tools.askFor(ctx, r, question)
		},
	})
	mu.Lock()
	ended = true
	close(news)
	mu.Unlock()
	telling.Wait()
	return result, err
}

// answer gives the cell the outcome of a call.
func (c *remoteClient) answer(ctx context.Context, r api.ToolRequest, result remote.Result, err error) {
	ts := c.tools
	answer := api.ToolResult{CallID: r.CallID, Result: result.Value}
	if err != nil {
		failure := &api.ToolError{Code: codeToolError, Message: err.Error()}
		if known := new(remote.Failure); errors.As(err, &known) {
			failure.Code, failure.Message = known.Code, known.Message
		}
		if ctx.Err() != nil { // its cell no longer waits, or this server is ending
			return
		}
		answer.Result, answer.Error = nil, failure
	} else if answer.Result == nil {
		answer.Result = api.Raw("null")
	}
	if len(result.Displays) > 0 {
		if err := ts.show(ctx, r.ExecutionID, result.Displays); err != nil {
			ts.log.Warn("show the result of a tool", "tool", r.Tool, "error", err)
		}
	}
	err = ts.Answer(c, answer)
	if e := new(api.Error); errors.As(err, &e) && e.Code == api.CodePayloadTooLarge {
		err = ts.Answer(c, api.ToolResult{CallID: r.CallID, Error: &api.ToolError{Code: codeToolLimit, Message: e.Detail}})
	}
	if err != nil {
		ts.log.Debug("answer a tool call", "tool", r.Tool, "error", err) // nobody waits for it now
	}
}

// showResult shows pictures and sounds that a tool returned in the cell that called it, which still waits for the answer.
func (s *Session) showResult(ctx context.Context, executionID string, list []remote.Display) error {
	return s.do(ctx, func(own context.Context) error {
		t := s.translation(own)
		defer t.hold.Release()
		running := t.running(record.Record{ExecutionID: executionID})
		if running == nil {
			return nil // nobody waits for it now
		}
		for _, d := range list {
			t.showDisplay(running, record.Display{Data: bundleOf(d)})
		}
		if !s.mustCommit(own, t.c) {
			return ErrClosing
		}
		return nil
	})
}

// bundleOf returns a picture or a sound in nbformat's form; other content is only named.
func bundleOf(d remote.Display) map[string]json.RawMessage {
	text := func(v string) json.RawMessage { return json.RawMessage(api.Text(v)) }
	media, _, _ := strings.Cut(strings.ToLower(d.MediaType), ";")
	about := map[string]json.RawMessage{"text/plain": text(fmt.Sprintf("<%.80s, %d bytes>", media, len(d.Data)))}
	switch {
	case media == "image/svg+xml":
		about[media] = text(string(d.Data))
	case strings.HasPrefix(media, "image/"), strings.HasPrefix(media, "audio/"):
		about[media] = text(base64.StdEncoding.EncodeToString(d.Data))
	}
	return about
}
