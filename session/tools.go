package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/session/remote"
	"talaria/session/settings"
	"talaria/session/toolspec"
	"talaria/session/transcript"
)

// maxKnown is how many names of tools that are gone a session remembers.
const maxKnown = 4 * toolspec.MaxTools

// ToolClient is a connected client that provides tools. Its methods must not wait.
type ToolClient interface {
	// Request hands over a call. The client answers it with [Tools.Answer].
	Request(api.ToolRequest)
	// Cancel tells the client that nobody waits for a call any more.
	Cancel(api.ToolCancel)
}

// Tools are the tools that the cells of a session may call, by provider, and the open calls. It is safe for concurrent use;
// nothing above mu changes.
type Tools struct {
	n         int64  // the number of the session
	sessionID string // as its owner calls it
	builtin   []string
	servers   []string // the MCP servers whose tools cells may call
	mounts    []api.Mount
	remote    RemoteTools
	host      Host
	grace     time.Duration // for a client with a client_id to come back
	journal   *Journal
	approvals *Approvals
	approving func() api.ApprovalMode
	running   func() *execution // the execution that runs, or nil
	ending    func() error      // why the session's goroutine has ended
	show      func(ctx context.Context, executionID string, list []remote.Display) error
	redact    *transcript.Redactor
	log       *slog.Logger

	mu        sync.Mutex // guards what follows; not held while the host is asked
	providers []*provider
	calls     map[string]*toolCall // open, by call_id
	known     map[string]bool      // names that were provided once; at most maxKnown
	handed    int                  // calls that a provider has
	waiting   []*toolCall          // until fewer are handed out
	changed   chan struct{}        // closed and replaced when calls of an execution's own client change

	closed bool

	ctx    context.Context // of messages to kernels; ends with the session
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// newTools returns the tools of a session that is being loaded. Its approvals exist already.
func newTools(s *Session, builtin []string) *Tools {
	ts := &Tools{
		n: s.n, sessionID: s.clientID, builtin: builtin, servers: s.servers, mounts: s.mounts, remote: s.m.cfg.Remote, host: s.m.cfg.Host,
		grace: cmp.Or(s.m.cfg.ToolGrace, api.ToolGraceS*time.Second), journal: s.journal, approvals: s.approvals, approving: s.approving,
		running: s.runningCell, ending: s.ending, show: s.showResult, redact: s.redact, log: s.log,
		calls: map[string]*toolCall{}, known: map[string]bool{}, changed: make(chan struct{}),
	}
	ts.ctx, ts.cancel = context.WithCancel(context.Background())
	return ts
}

// close stops the background work of calls. The next server takes over the open ones.
func (ts *Tools) close() {
	ts.cancel()
	ts.mu.Lock()
	for _, p := range ts.providers {
		if p.forget != nil {
			p.forget.Stop()
		}
	}
	for _, c := range ts.calls {
		c.stopTimer()
	}
	ts.closed = true
	ts.mu.Unlock()
	ts.tasks.Wait()
}

// inUse reports whether a client provides tools or may come back to do so, or a call is open.
func (ts *Tools) inUse() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.calls) > 0 || slices.ContainsFunc(ts.providers, func(p *provider) bool { return !p.lasting })
}

// provider is one connected client, or one that may come back, or the client of an execution, or the session's webhooks, or
// one of its MCP servers.
type provider struct {
	kind      api.ToolProvider
	client    ToolClient // nil if it is gone, or answers by HTTP
	clientID  string     // "": it cannot come back
	execution string     // the id of the one whose client it is
	lasting   bool       // it is there as long as the session
	server    string     // the name of the MCP server that it is
	listed    bool       // the server has been asked for its tools
	tools     map[string]*toolspec.Tool
	bytes     int
	forget    *time.Timer // runs while the client is gone
}

// Provide makes a connected client provide these tools from now on. A client_id that a client had whose socket
// closed takes its place, and gets its open idempotent calls again.
func (ts *Tools) Provide(client ToolClient, req api.ToolsRequest) (api.ToolsReply, error) {
	if req.ClientID != nil && !api.ValidID(*req.ClientID) {
		return api.ToolsReply{}, settings.InvalidID("client_id", *req.ClientID)
	}
	reply := api.ToolsReply{Accepted: []string{}, Rejected: []api.RejectedTool{}}
	reject := func(name string, reason error) {
		reply.Rejected = append(reply.Rejected, api.RejectedTool{Name: name, Reason: reason.Error()})
	}
	checked := map[string]*toolspec.Tool{}
	for _, t := range req.Tools {
		one, err := toolspec.NewForClient(t)
		if _, twice := checked[t.Name]; err == nil && twice {
			err = fmt.Errorf("its name is given twice")
		}
		if err != nil {
			reject(t.Name, err)
			continue
		}
		checked[t.Name] = one
	}
	after := ts.register(client, req, checked, &reply)
	slices.Sort(reply.Accepted)
	ts.carryOut(after)
	return reply, nil
}

// register registers validated tools, and returns the work to do once the lock is free.
func (ts *Tools) register(client ToolClient, req api.ToolsRequest, checked map[string]*toolspec.Tool, reply *api.ToolsReply) toolWork {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var work toolWork
	p := ts.of(client)
	if p == nil {
		p = &provider{kind: api.ProviderClient, client: client}
		if req.ClientID != nil {
			work = ts.succeed(p, *req.ClientID)
		}
		ts.providers = append(ts.providers, p)
	}
	if req.ClientID != nil {
		p.clientID = *req.ClientID
	}
	if p.tools == nil || req.Replace == nil || *req.Replace {
		p.tools, p.bytes = map[string]*toolspec.Tool{}, 0
	}
	count, size := ts.size()
	for _, name := range slices.Sorted(maps.Keys(checked)) {
		t := checked[name]
		if old := p.tools[name]; old != nil {
			count, size, p.bytes = count-1, size-old.Bytes, p.bytes-old.Bytes
		}
		if count+1 > toolspec.MaxTools || size+t.Bytes > toolspec.MaxBytes {
			delete(p.tools, name)
			reply.Rejected = append(reply.Rejected, api.RejectedTool{Name: name, Reason: fmt.Sprintf(
				"a session may have %d tools, with %d bytes of descriptions and schemas", toolspec.MaxTools, toolspec.MaxBytes)})
			continue
		}
		count, size, p.bytes = count+1, size+t.Bytes, p.bytes+t.Bytes
		p.tools[name] = t
		ts.know(name)
		reply.Accepted = append(reply.Accepted, name)
	}
	ts.requestMissing(p, &work)
	return work
}

// know remembers a name, so that cells learn that its tool is gone, not that it never existed. mu is held.
func (ts *Tools) know(name string) {
	if len(ts.known) < maxKnown {
		ts.known[name] = true
	}
}

// gone lists the names that were provided once and are in no list now.
func (ts *Tools) gone(list []api.ToolInfo) []string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	missing := maps.Clone(ts.known)
	for _, t := range list {
		delete(missing, t.Name)
	}
	return slices.Sorted(maps.Keys(missing))
}

// of returns the provider for a connected client, or nil. mu is held.
func (ts *Tools) of(client ToolClient) *provider {
	for _, p := range ts.providers {
		if p.client != nil && p.client == client {
			return p
		}
	}
	return nil
}

// succeed makes p the successor of the client with that id. mu is held.
func (ts *Tools) succeed(p *provider, clientID string) (work toolWork) {
	i := slices.IndexFunc(ts.providers, func(old *provider) bool { return old.clientID == clientID && clientID != "" })
	if i < 0 {
		return work
	}
	old := ts.providers[i]
	if old.forget != nil {
		old.forget.Stop()
	}
	ts.providers = slices.Delete(ts.providers, i, i+1)
	for _, c := range ts.calls {
		if c.provider != old {
			continue
		}
		if !c.tool.Idempotent {
			work.fail(c, goneFailure(c.name))
			continue
		}
		c.provider, c.missing = p, c.handed
	}
	ts.forgetLater(p)
	return work
}

// requestMissing requests the calls again that p took over, as far as it provides their tools by now: a program that has
// just started may provide one after the other. mu is held.
func (ts *Tools) requestMissing(p *provider, work *toolWork) {
	for _, c := range ts.calls {
		if c.provider == p && c.missing && p.tools[c.name] != nil {
			c.missing = false
			work.again = append(work.again, c)
		}
	}
}

// size counts the tools that clients provide, and their bytes. mu is held.
func (ts *Tools) size() (count, size int) {
	for _, p := range ts.providers {
		if !p.lasting {
			count, size = count+len(p.tools), size+p.bytes
		}
	}
	return count, size
}

// Withdraw removes the tools of a client whose socket has closed: at once, or after a while if it has a client_id
// and may come back. Its open calls end, but for idempotent ones of a client that may come back.
func (ts *Tools) Withdraw(client ToolClient) {
	ts.mu.Lock()
	p := ts.of(client)
	if p == nil {
		ts.mu.Unlock()
		return
	}
	p.client = nil
	if p.forget != nil {
		p.forget.Stop()
	}
	if p.clientID != "" {
		ts.forgetLater(p)
	}
	work := ts.abandon(p, func(c *toolCall) bool { return p.clientID == "" || !c.tool.Idempotent })
	if p.clientID == "" {
		ts.remove(p)
	}
	ts.mu.Unlock()
	ts.carryOut(work)
}

// forgetLater gives the client of p time to come back, or to provide its tools again. mu is held.
func (ts *Tools) forgetLater(p *provider) {
	p.forget = time.AfterFunc(ts.grace, func() { ts.forget(p) })
}

// forget ends the calls of a client that has not come back, or has come back without their tools.
func (ts *Tools) forget(p *provider) {
	ts.mu.Lock()
	if !slices.Contains(ts.providers, p) {
		ts.mu.Unlock()
		return
	}
	back := p.client != nil
	if !back {
		ts.remove(p)
	}
	work := ts.abandon(p, func(c *toolCall) bool { return !back || c.missing })
	ts.mu.Unlock()
	ts.carryOut(work)
}

// remove forgets a provider. mu is held.
func (ts *Tools) remove(p *provider) {
	if p.forget != nil {
		p.forget.Stop()
	}
	ts.providers = slices.DeleteFunc(ts.providers, func(one *provider) bool { return one == p })
}

// abandon ends the calls of a provider that is gone. mu is held.
func (ts *Tools) abandon(p *provider, which func(*toolCall) bool) (work toolWork) {
	for _, c := range ts.calls {
		if c.provider == p && which(c) {
			work.fail(c, goneFailure(c.name))
		}
	}
	return work
}

func goneFailure(name string) *api.ToolError {
	return &api.ToolError{Code: codeProviderGone, Message: fmt.Sprintf("the provider of %s has disconnected", name)}
}

// find returns the tool of that name that a cell calls: of the execution's own client, else of the client that came
// last. mu is held.
func (ts *Tools) find(name, execution string) (*provider, *toolspec.Tool) {
	var found *provider
	for _, p := range slices.Backward(ts.providers) {
		switch {
		case p.tools[name] == nil || p.execution != "" && p.execution != execution:
		case p.execution != "":
			return p, p.tools[name]
		case found == nil:
			found = p
		}
	}
	if found != nil {
		return found, found.tools[name]
	}
	return nil, nil
}

// list returns the tools that the cell of an execution sees, by name.
func (ts *Tools) list(execution string) []api.ToolInfo {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	all := map[string]api.ToolInfo{}
	for _, name := range ts.builtin {
		all[name] = api.ToolInfo{
			Tool: toolspec.Builtin(name).Tool, Provider: api.ProviderBuiltin, Available: true,
		}
	}
	for _, p := range ts.providers {
		for name := range p.tools {
			if p, t := ts.find(name, execution); p != nil {
				all[name] = api.ToolInfo{Tool: t.Tool, Provider: p.kind, Server: p.server, Available: p.client != nil || p.execution != ""}
			}
		}
	}
	list := make([]api.ToolInfo, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// List lists the tools that cells see, by name, and in the execution that runs those of its own client. It asks MCP servers
// for theirs, which ctx bounds.
func (ts *Tools) List(ctx context.Context) []api.ToolInfo {
	ts.refresh(ctx)
	running := ""
	if r := ts.running(); r != nil {
		running = r.row.ID
	}
	return ts.list(running)
}

// tell answers a kernel's question about the available tools.
func (ts *Tools) tell(ctx context.Context, key record.Key, executionID, ask string) {
	ts.refresh(ctx)
	answer := command.AnswerTools{RequestID: ask, Tools: []command.ToolSpec{}}
	list := ts.list(executionID)
	for _, t := range list {
		answer.Tools = append(answer.Tools, command.ToolSpec{
			Name: t.Name, Description: t.Description, Server: t.Server, Parameters: json.RawMessage(t.Parameters),
			Builtin: t.Provider == api.ProviderBuiltin,
		})
	}
	for _, name := range ts.gone(list) {
		answer.Tools = append(answer.Tools, command.ToolSpec{Name: name, Gone: true})
	}
	err := insist(ctx, func() error { return command.Tell(ctx, ts.host, key, answer) })
	if err != nil {
		ts.log.Debug("tell a kernel its tools", "error", err) // nobody waits for it now
	}
}
