package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/session"
)

// toolHost is a host whose cells are Go functions that call tools. Its kernels outlive the server.
type toolHost struct {
	cell func(*toolCell)

	mu       sync.Mutex // guards what follows
	more     *sync.Cond
	kernels  map[record.Key]*toolKernel
	answered map[string]int // answers to calls, by id
	progress []string
}

type toolKernel struct {
	key     record.Key
	records []record.Record
	given   string
	asks    map[string]*toolAsk
	serial  int
	stopped bool
}

type toolAsk struct {
	kind      record.AskKind
	execution string
	answer    chan any // an AnswerTool or AnswerTools; closed where none comes
}

// toolCell is a cell that runs.
type toolCell struct {
	host   *toolHost
	kernel *toolKernel
	id     string
	code   string
}

func newToolHost(cell func(*toolCell)) *toolHost {
	h := &toolHost{cell: cell, kernels: map[record.Key]*toolKernel{}, answered: map[string]int{}}
	h.more = sync.NewCond(&h.mu)
	return h
}

// toolRig is a rig whose kernels call tools.
func toolRig(t *testing.T, cell func(*toolCell)) (*rig, *toolHost) {
	h := newToolHost(cell)
	return newRig(t, nil, func(cfg *session.Config) { cfg.Host = h }), h
}

func (h *toolHost) add(k *toolKernel, execution string, body record.Body) {
	k.records = append(k.records, record.Record{
		Key: k.key, KSeq: uint64(len(k.records) + 1), Time: time.Now(), ExecutionID: execution, Body: body,
	})
	h.more.Broadcast()
}

// Call calls a tool and waits. ok is false where the call was interrupted.
func (c *toolCell) Call(tool, arguments string) (command.AnswerTool, bool) {
	answer, ok := <-c.ask(record.ToolCall{Tool: tool, Arguments: json.RawMessage(arguments)})
	a, _ := answer.(command.AnswerTool)
	return a, ok
}

// Tools asks which tools there are.
func (c *toolCell) Tools() []command.ToolSpec {
	answer := <-c.ask(record.ToolsRequest{})
	return answer.(command.AnswerTools).Tools
}

func (c *toolCell) ask(body record.AskBody) chan any {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	c.kernel.serial++
	id, a := fmt.Sprintf("%s-%d", c.id, c.kernel.serial), &toolAsk{body.Kind(), c.id, make(chan any, 1)}
	c.kernel.asks[id] = a
	c.host.add(c.kernel, c.id, record.Asked{ID: id, Body: body})
	return a.answer
}

func (c *toolCell) Print(text string) {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	c.host.add(c.kernel, c.id, record.Stream{Name: "stdout", Text: text})
}

func (h *toolHost) Start(_ context.Context, key record.Key, _ kernel.Environment, _ kernel.Spec) (command.KernelInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kernels[key] = &toolKernel{key: key, asks: map[string]*toolAsk{}}
	return command.KernelInfo{Started: time.Now(), Engine: "stdlib"}, nil
}

func (h *toolHost) Do(_ context.Context, key record.Key, c command.Command) (any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.kernels[key]
	if k == nil || k.stopped {
		return nil, command.ErrNoKernel
	}
	switch c := c.(type) {
	case command.Execution:
		k.given = c.ID
		h.add(k, c.ID, record.Started{})
		go h.run(&toolCell{h, k, c.ID, c.Code})
	case command.Interrupt:
		h.closeAsks(k, c.ExecutionID, "interrupted")
	case command.AnswerTools:
		return nil, h.answer(k, c.RequestID, record.AskTools, c)
	case command.AnswerTool:
		return nil, h.answer(k, c.RequestID, record.AskTool, c)
	case command.ToolProgress:
		if k.asks[c.RequestID] == nil {
			return nil, command.ErrNoCallPending
		}
		h.progress = append(h.progress, c.Message)
	case command.ReadUsage:
		return kernel.Usage{}, nil
	}
	return nil, nil
}

func (h *toolHost) run(c *toolCell) {
	h.cell(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !c.kernel.stopped {
		h.add(c.kernel, c.id, record.Finished{Status: record.OK})
	}
}

func (h *toolHost) answer(k *toolKernel, id string, kind record.AskKind, answer any) error {
	a := k.asks[id]
	if a == nil || a.kind != kind {
		return command.ErrNoCallPending
	}
	delete(k.asks, id)
	if kind == record.AskTool {
		h.answered[id]++
	}
	h.add(k, a.execution, record.AskClosed{Kind: kind, ID: id, How: "answered"})
	a.answer <- answer
	return nil
}

func (h *toolHost) closeAsks(k *toolKernel, execution, how string) {
	for id, a := range k.asks {
		if execution == "" || a.execution == execution {
			delete(k.asks, id)
			h.add(k, a.execution, record.AskClosed{Kind: a.kind, ID: id, How: how})
			close(a.answer)
		}
	}
}

func (h *toolHost) Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error) {
	defer context.AfterFunc(ctx, h.more.Broadcast)()
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.kernels[key]
	for k != nil && uint64(len(k.records)) <= after && ctx.Err() == nil {
		h.more.Wait()
	}
	if k == nil || ctx.Err() != nil {
		return nil, command.ErrHostClosed
	}
	return append([]record.Record(nil), k.records[after:]...), nil
}

func (h *toolHost) Ack(record.Key, uint64) {}

func (h *toolHost) Stop(_ context.Context, key record.Key, reason string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.kernels[key]; k != nil && !k.stopped {
		h.closeAsks(k, "", "interrupted")
		k.stopped = true
		h.add(k, k.given, record.Died{Reason: reason})
	}
	return nil
}

func (h *toolHost) Attach(_ context.Context, key record.Key) (command.Attachment, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.kernels[key]
	if k == nil || k.stopped {
		return command.Attachment{}, command.ErrNoKernel
	}
	a := command.Attachment{Last: uint64(len(k.records)), Given: k.given}
	for id, one := range k.asks {
		a.Asks = append(a.Asks, command.OpenAsk{Kind: one.kind, ID: id})
	}
	return a, nil
}

func (h *toolHost) Kernels(context.Context) (keys []record.Key, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.kernels {
		keys = append(keys, key)
	}
	return keys, nil
}

func (h *toolHost) Usages(context.Context, []record.Key) ([]command.KernelUsage, error) {
	return nil, nil
}

func (h *toolHost) Sweep(context.Context, []kernel.Handle) error { return nil }

// toolClient is a connected client. Its requests and cancels wait in channels.
type toolClient struct {
	requests chan api.ToolRequest
	cancels  chan api.ToolCancel
}

func newToolClient() *toolClient {
	return &toolClient{make(chan api.ToolRequest, 4096), make(chan api.ToolCancel, 4096)}
}

func (c *toolClient) Request(r api.ToolRequest) { c.requests <- r }
func (c *toolClient) Cancel(r api.ToolCancel)   { c.cancels <- r }

func next[T any](t *testing.T, from chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// provide registers tools of a client.
func provide(t *testing.T, s *session.Session, c *toolClient, clientID string, tools ...api.Tool) {
	t.Helper()
	req := api.ToolsRequest{Tools: tools}
	if clientID != "" {
		req.ClientID = &clientID
	}
	reply, err := s.Tools().Provide(c, req)
	if err != nil || len(reply.Rejected) > 0 {
		t.Fatalf("%+v (%v)", reply, err)
	}
}
