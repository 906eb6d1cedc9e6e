package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/client"
)

// The protocol's versions: the last with sessions, and the first without.
const (
	olderMCP = "2025-11-25"
	newerMCP = "2026-07-28"
)

// toolResult is what a tool of /mcp returned, as any client decodes it.
type toolResult struct {
	IsError bool `json:"isError"`
	Content []struct {
		Type, Text, URI, MIMEType string
		Data                      []byte
	} `json:"content"`
	Structured struct {
		SessionID   string `json:"session_id"`
		ExecutionID string `json:"execution_id"`
		Status      string `json:"status"`
		Output      string `json:"output"`
		Text        string `json:"text"`
		Kernel      struct {
			StateReset bool `json:"state_reset"`
		} `json:"kernel"`
		Files []struct {
			Path string `json:"path"`
		} `json:"files"`
		Sessions []struct {
			SessionID string `json:"session_id"`
		} `json:"sessions"`
	} `json:"structuredContent"`
}

func (r toolResult) text() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// of are the parts of one type, such as "image".
func (r toolResult) of(kind string) (n int, uris []string) {
	for _, c := range r.Content {
		if c.Type == kind {
			n++
			uris = append(uris, c.URI)
		}
	}
	return n, uris
}

// toolCaller calls a tool of /mcp.
type toolCaller func(ctx context.Context, name string, arguments map[string]any) (toolResult, error)

// called is a call that must succeed.
func (c toolCaller) called(t *testing.T, name string, arguments map[string]any) toolResult {
	t.Helper()
	r, err := c(within(t), name, arguments)
	if err != nil || r.IsError {
		t.Fatalf("%s: %v %s", name, err, r.text())
	}
	return r
}

// refused is a call that must fail, and returns why.
func (c toolCaller) refused(t *testing.T, name string, arguments map[string]any) string {
	t.Helper()
	r, err := c(within(t), name, arguments)
	if err != nil || !r.IsError {
		t.Fatalf("%s succeeded, or broke the protocol: %v %s", name, err, r.text())
	}
	return r.text()
}

// withToken sends a token with each request.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// goMCP is a client of the SDK for Go; progress may be nil.
func goMCP(t *testing.T, transport mcp.Transport, version string, progress func(string)) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if progress != nil {
				progress(r.Params.Message)
			}
		},
	})
	session, err := c.Connect(within(t), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the server speaks version %s, not %s", got, version)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func overHTTP(address, token string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: address, HTTPClient: &http.Client{Transport: withToken(token)}}
}

// calling calls tools with the SDK for Go, asking for progress.
func calling(session *mcp.ClientSession) toolCaller {
	return func(ctx context.Context, name string, arguments map[string]any) (r toolResult, err error) {
		params := &mcp.CallToolParams{Name: name, Arguments: arguments}
		params.SetProgressToken(client.NewID())
		result, err := session.CallTool(ctx, params)
		if err != nil {
			return r, err
		}
		data, err := json.Marshal(result)
		return r, errors.Join(err, json.Unmarshal(data, &r))
	}
}

// onStdio runs talaria mcp.
func onStdio(t *testing.T, s *Server, args ...string) mcp.Transport {
	t.Helper()
	cmd := s.command(context.Background(), append([]string{"mcp", "--state-dir", s.StateDir}, args...)...)
	cmd.Stderr = t.Output()
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: ending}
}

// installNode installs the packages for Node that the lock file of a folder names, unless they are there.
func installNode(t *testing.T, dir string) {
	t.Helper()
	needsNode(t)
	once, _ := installed.LoadOrStore(dir, new(sync.Once))
	once.(*sync.Once).Do(func() {
		if _, err := os.Stat(dir + "/node_modules/.package-lock.json"); err == nil {
			return
		}
		install := exec.Command("npm", "ci", "--no-audit", "--no-fund")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Errorf("npm ci: %v: %s", err, out)
		}
	})
}

var installed sync.Map // a *sync.Once for each folder

// nodeMCP calls tools with the SDK for JavaScript under Node.
func nodeMCP(t *testing.T, address, token string) toolCaller {
	t.Helper()
	installNode(t, "testdata/mcp")
	cmd := exec.Command("node", "testdata/mcp/client.mjs", address, token)
	cmd.Stderr = t.Output()
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	n := &nodeClient{in: in, waiting: map[int]chan nodeAnswer{}}
	ended := make(chan struct{})
	go func() { defer close(ended); n.read(out) }()
	t.Cleanup(func() {
		in.Close()
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("node ended with %v", err)
		}
	})
	return n.call
}

type nodeClient struct {
	mu      sync.Mutex // guards all below
	in      io.Writer
	last    int
	waiting map[int]chan nodeAnswer
}

type nodeAnswer struct {
	ID       int             `json:"id"`
	Result   json.RawMessage `json:"result"`
	Error    string          `json:"error"`
	Progress json.RawMessage `json:"progress"`
}

func (n *nodeClient) read(out io.Reader) {
	for d := json.NewDecoder(bufio.NewReader(out)); ; {
		var a nodeAnswer
		if d.Decode(&a) != nil {
			break
		}
		if a.Progress != nil {
			continue
		}
		n.mu.Lock()
		n.waiting[a.ID] <- a
		n.mu.Unlock()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.waiting {
		select {
		case w <- nodeAnswer{Error: "node has ended"}:
		default: // it has its answer
		}
	}
}

// call calls a tool; the argument "timeout" is the client's own, in milliseconds.
func (n *nodeClient) call(ctx context.Context, name string, arguments map[string]any) (r toolResult, err error) {
	answer := make(chan nodeAnswer, 1)
	n.mu.Lock()
	n.last++
	n.waiting[n.last] = answer
	message := map[string]any{"id": n.last, "name": name, "arguments": arguments}
	if timeout, ok := arguments["timeout"]; ok {
		delete(arguments, "timeout")
		message["timeout"] = timeout
	}
	err = json.NewEncoder(n.in).Encode(message)
	n.mu.Unlock()
	if err != nil {
		return r, err
	}
	select {
	case a := <-answer:
		if a.Error != "" {
			return r, errors.New(a.Error)
		}
		return r, json.Unmarshal(a.Result, &r)
	case <-ctx.Done():
		return r, ctx.Err()
	}
}

// toolCalled waits until a cell of the session calls a tool of that name. What is begun runs once the session is watched.
func toolCalled(t *testing.T, c *client.Client, session, tool string, begin func()) {
	t.Helper()
	socket, err := c.Attach(within(t), session, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	begin()
	for event, err := range socket.Events(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := event.Body.(api.ToolCalled); ok && b.Tool == tool {
			return
		}
	}
	t.Fatalf("no cell called %s", tool)
}

// cellStarted waits until a cell of the session starts. What is begun runs once the session is watched.
func cellStarted(t *testing.T, c *client.Client, session string, begin func()) {
	t.Helper()
	socket, err := c.Attach(within(t), session, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	begin()
	for event, err := range socket.Events(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if printed, ok := event.Body.(api.Stream); ok && strings.Contains(printed.Text, "before") {
			return
		}
	}
	t.Fatal("no cell started")
}
