package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"talaria/api"
)

const (
	// bridgeRequests bounds the messages that are under way at once; further ones wait.
	bridgeRequests = 64
	// bridgeGrace is how long requests may still be answered after the end of the standard input.
	bridgeGrace = 2 * time.Second
	// headerVersion is the first version of the protocol that repeats a message's method and name in headers.
	headerVersion = "2026-07-28"
)

// bridge passes the messages of a client on standard input to a server's /mcp, and its answers back. It understands as
// much of them as the headers of HTTP need.
type bridge struct {
	session string // that is meant where a call names none; "": one for this bridge
	name    string // of the client's session, for the server
	find    func(context.Context) (*connection, error)
	client  *http.Client
	running chan struct{} // a place for each message under way

	finding sync.Mutex // held while a server is looked for
	mu      sync.Mutex // guards all below
	server  *connection
	out     io.Writer
	version string // of the protocol, once it is known
}

// newBridge returns a bridge to a server; find is called for another when that one does not answer any more.
func newBridge(server *connection, find func(context.Context) (*connection, error), session string, out io.Writer) *bridge {
	return &bridge{
		server: server, find: find, session: session, name: "stdio-" + rand.Text(), out: out,
		client: &http.Client{Transport: &http.Transport{}}, running: make(chan struct{}, bridgeRequests),
	}
}

// rpcMessage is what the bridge reads of a message.
type rpcMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
	Result struct {
		Version string `json:"protocolVersion"`
	} `json:"result"`
}

// run passes messages on until in or ctx ends.
func (b *bridge) run(ctx context.Context, in io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines, failed := readMessages(ctx, in)
	var under sync.WaitGroup
	defer under.Wait()
	for {
		select {
		case line, more := <-lines:
			if !more {
				return b.finish(ctx, stop, &under, <-failed)
			}
			select {
			case b.running <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			under.Go(func() {
				defer func() { <-b.running }()
				b.pass(ctx, line)
			})
		case <-ctx.Done():
			return nil
		}
	}
}

// finish waits a moment for the last answers, so that a script may end its input with its last message.
func (b *bridge) finish(ctx context.Context, stop context.CancelFunc, under *sync.WaitGroup, err error) error {
	late := time.AfterFunc(bridgeGrace, stop)
	defer late.Stop()
	under.Wait()
	return err
}

// readMessages reads a message from each line. The error channel has one value once the lines have ended.
func readMessages(ctx context.Context, in io.Reader) (<-chan []byte, <-chan error) {
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() { // it may stay in a read when ctx ends: the program ends then
		defer close(lines)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, api.MaxBody)
		for scanner.Scan() {
			line := bytes.TrimSpace(scanner.Bytes())
			if len(line) == 0 {
				continue
			}
			select {
			case lines <- bytes.Clone(line):
			case <-ctx.Done():
				failed <- nil
				return
			}
		}
		err := scanner.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a message is longer than the limit of %d bytes", api.MaxBody)
		}
		failed <- err
	}()
	return lines, failed
}

// pass sends one message and writes what the server answers.
func (b *bridge) pass(ctx context.Context, line []byte) {
	var m rpcMessage
	if err := json.Unmarshal(line, &m); err != nil {
		b.fail(nil, -32700, "this is not a JSON-RPC message: "+err.Error())
		return
	}
	if err := b.exchange(ctx, line, m); err != nil && ctx.Err() == nil && len(m.ID) > 0 {
		b.fail(m.ID, -32603, err.Error())
	}
}

func (b *bridge) exchange(ctx context.Context, line []byte, m rpcMessage) error {
	resp, err := b.send(ctx, line, m)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusAccepted:
		return nil
	case media == "text/event-stream":
		return b.events(resp.Body)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if media == "application/json" && json.Valid(body) {
		return b.write(body)
	}
	return refusal(resp, body)
}

// send sends a message. If no server listens any more, it is sent to the next one: nobody has seen it.
func (b *bridge) send(ctx context.Context, line []byte, m rpcMessage) (*http.Response, error) {
	server := b.current()
	resp, err := b.post(ctx, server, line, m)
	if errors.Is(err, syscall.ECONNREFUSED) {
		if server, err = b.next(ctx, server); err != nil {
			return nil, err
		}
		resp, err = b.post(ctx, server, line, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; get_execution shows what became of a run", reached(server.url, err))
	}
	return resp, nil
}

func (b *bridge) current() *connection { b.mu.Lock(); defer b.mu.Unlock(); return b.server }

// next is the server to use when one is gone.
func (b *bridge) next(ctx context.Context, gone *connection) (*connection, error) {
	b.finding.Lock()
	defer b.finding.Unlock()
	if server := b.current(); server != gone {
		return server, nil
	}
	server, err := b.find(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server = server
	return server, nil
}

func (b *bridge) post(ctx context.Context, server *connection, line []byte, m rpcMessage) (*http.Response, error) {
	address := server.url + "/mcp"
	if b.session != "" {
		address += "?session=" + b.session
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(line))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+server.token)
	b.head(req.Header, m)
	return b.client.Do(req)
}

// refusal is the error of an answer that is not a message.
func refusal(resp *http.Response, body []byte) error {
	var problem api.Error
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errors.New("the server has no /mcp: it is older than this program, or its configuration has mcp: off")
	case json.Unmarshal(body, &problem) == nil && problem.Detail != "":
		return errors.New(problem.Detail)
	}
	return fmt.Errorf("the server answered %s: %.200s", resp.Status, bytes.TrimSpace(body))
}

// head sets the headers that the protocol wants beside a message.
func (b *bridge) head(h http.Header, m rpcMessage) {
	b.mu.Lock()
	if m.Params.Meta.Version != "" {
		b.version = m.Params.Meta.Version
	}
	version := b.version
	b.mu.Unlock()
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("Mcp-Session-Id", b.name)
	if version == "" || m.Method == "initialize" {
		return
	}
	h.Set("Mcp-Protocol-Version", version)
	if version >= headerVersion {
		h.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI; name != "" { // a message has one of them
			h.Set("Mcp-Name", name)
		}
	}
}

// events writes each message of an event stream.
func (b *bridge) events(r io.Reader) error {
	var data bytes.Buffer
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		line = bytes.TrimRight(line, "\r\n")
		switch value, ok := bytes.CutPrefix(line, []byte("data:")); {
		case ok:
			data.Write(bytes.TrimPrefix(value, []byte(" ")))
		case len(line) == 0 && data.Len() > 0:
			if err := b.write(data.Bytes()); err != nil {
				return err
			}
			data.Reset()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the server's answer was cut off (%w); get_execution shows what became of a run", err)
		}
	}
}

// write writes a message on a line of its own. The answer to initialize says which version the client speaks.
func (b *bridge) write(message []byte) error {
	var m rpcMessage
	_ = json.Unmarshal(message, &m)
	line := append(bytes.ReplaceAll(bytes.TrimSpace(message), []byte("\n"), nil), '\n')
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.Result.Version != "" {
		b.version = m.Result.Version
	}
	_, err := b.out.Write(line)
	return err
}

// fail answers a message with an error.
func (b *bridge) fail(id json.RawMessage, code int, text string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	quoted, _ := json.Marshal(strings.ToValidUTF8(text, "\uFFFD")) // a string always encodes
	_ = b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, quoted))
}
