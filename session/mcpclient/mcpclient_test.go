package mcpclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session/mcpclient"
	"talaria/session/remote"
)

// rig is the servers of a test, with what they reported.
type rig struct {
	*mcpclient.Servers
	changed chan string
	log     *journal
}

type journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func open(t *testing.T, servers ...mcpclient.Server) *rig {
	t.Helper()
	r := &rig{changed: make(chan string, 100), log: &journal{}}
	var err error
	r.Servers, err = mcpclient.New(mcpclient.Config{
		Servers: servers, Version: "1.2.3", Changed: func(name string) { r.changed <- name }, Log: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// program is the test binary as an MCP server on standard input and output.
func program(t *testing.T, how string) mcpclient.Server {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return mcpclient.Server{Name: "stdio", Command: path, Env: []string{serveVariable + "=" + how, "API_KEY=of-the-operator"}}
}

// at is the test server at a URL, in both eras of the protocol.
func at(t *testing.T, options *mcp.StreamableHTTPOptions) (mcpclient.Server, *httptest.Server) {
	t.Helper()
	server := testServer()
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options))
	t.Cleanup(web.Close)
	return mcpclient.Server{Name: "web", URL: web.URL}, web
}

func (r *rig) try(ctx context.Context, tool, argument string) (remote.Result, error) {
	arguments, err := api.Marshal(echo{argument})
	if err != nil {
		return remote.Result{}, err
	}
	return r.Call(ctx, remote.Call{ID: "call-" + tool, Tool: tool, Arguments: arguments})
}

func codeOf(err error) string {
	var failure *remote.Failure
	if errors.As(err, &failure) {
		return failure.Code
	}
	return ""
}

func TestToolsOfServersAreListedAndCalledOverEveryTransport(t *testing.T) {
	stateful, _ := at(t, nil)
	stateless, _ := at(t, &mcp.StreamableHTTPOptions{Stateless: true})
	stateless.Name = "stateless"
	r := open(t, program(t, "serve"), stateful, stateless)
	if names := r.Names(); !slices.Equal(names, []string{"stdio", "web", "stateless"}) {
		t.Errorf("the servers are %v", names)
	}
	for _, server := range r.Names() {
		t.Run(server, func(t *testing.T) {
			tools, err := r.Tools(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(tools, func(one mcpclient.Tool) bool { return one.Name == server+"__echo" })
			if i < 0 || tools[i].Description != "does echo" || tools[i].Server != server || !tools[i].ReadOnly || tools[i].Idempotent ||
				!strings.Contains(string(tools[i].Parameters), `"text":{"type":"string"}`) {
				t.Errorf("the tools are %+v", tools)
			}
			for tool, want := range map[string]string{
				"echo":       `"hello"`,
				"two_lines":  `"a\nb"`, // two-lines is not a Python name
				"nothing":    `null`,
				"structured": `{"text":"hello"}`,
				"link":       `[{"type":"resource_link","uri":"file:///a","name":"a"}]`,
			} {
				result, err := r.try(t.Context(), server+"__"+tool, "hello")
				var got, wanted any
				if err != nil || api.Unmarshal(result.Value, &got) != nil || api.Unmarshal([]byte(want), &wanted) != nil ||
					!slices.Equal(canonical(got), canonical(wanted)) {
					t.Errorf("%s returns %s, %v; want %s", tool, result.Value, err, want)
				}
			}
			result, err := r.try(t.Context(), server+"__picture", "")
			if err != nil || string(result.Value) != `"a chart"` || len(result.Displays) != 1 ||
				result.Displays[0].MediaType != "image/png" || !bytes.Equal(result.Displays[0].Data, pixel) {
				t.Errorf("a picture is %+v, %v", result, err)
			}
			for tool, want := range map[string]struct{ code, says string }{
				"fail":    {"tool_error", "the disk is on fire"},
				"unknown": {"unavailable", "has no tool"},
				"big":     {"limit", "16777216 bytes"},
			} {
				_, err := r.try(t.Context(), server+"__"+tool, "")
				if codeOf(err) != want.code || !strings.Contains(err.Error(), want.says) {
					t.Errorf("%s fails with %.300v", tool, err)
				}
			}
			if _, err := r.try(t.Context(), server+"__input", ""); codeOf(err) != "input_required" || !strings.Contains(err.Error(), "elicitation") {
				t.Errorf("a tool that needs input: %v", err)
			}
			if _, err := r.Call(t.Context(), remote.Call{ID: "x", Tool: server + "__echo", Arguments: api.Raw(`{"text": 5}`)}); codeOf(err) != "tool_error" {
				t.Errorf("wrong arguments: %v", err)
			}
		})
	}
	if _, err := r.try(t.Context(), "other__echo", ""); codeOf(err) != remote.CodeUnavailable {
		t.Errorf("a server that is not configured: %v", err)
	}
}

func canonical(v any) []byte {
	b, _ := api.Marshal(v)
	return b
}

func TestEverybodySharesOneConnectionAndCallsRunAtOnce(t *testing.T) {
	r := open(t, program(t, "serve"))
	var calls sync.WaitGroup
	pids := make(chan string, 64)
	for range 64 {
		calls.Go(func() {
			result, err := r.try(t.Context(), "stdio__process", "")
			if err != nil {
				t.Error(err)
			}
			pid, _, _ := strings.Cut(string(result.Value), " ")
			pids <- pid
		})
	}
	calls.Wait()
	close(pids)
	first := <-pids
	for pid := range pids {
		if pid != first {
			t.Fatalf("calls were answered by the processes %s and %s", first, pid)
		}
	}
}

func TestAProgramGetsNoVariablesOfThisProcess(t *testing.T) {
	t.Setenv("TALARIA_TOKEN", "secret-of-the-server")
	r := open(t, program(t, "serve"))
	result, err := r.try(t.Context(), "stdio__process", "")
	if err != nil || strings.Contains(string(result.Value), "secret-of-the-server") {
		t.Errorf("its environment is %s, %v", result.Value, err)
	}
	if !strings.Contains(string(result.Value), "API_KEY=of-the-operator") || !strings.Contains(string(result.Value), "PATH=") {
		t.Errorf("its environment lacks PATH or a configured variable: %s", result.Value)
	}
}

func TestAChangedListIsFetchedAgain(t *testing.T) {
	stateful, _ := at(t, nil)
	stateless, _ := at(t, &mcp.StreamableHTTPOptions{Stateless: true})
	stateless.Name = "stateless"
	r := open(t, program(t, "serve"), stateful)
	for _, server := range r.Names() {
		before, err := r.Tools(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		if name := <-r.changed; name != server {
			t.Errorf("%s was told to have changed when %s was connected to", name, server)
		}
		if _, err := r.try(t.Context(), server+"__grow", "added"); err != nil {
			t.Fatal(err)
		}
		if name := <-r.changed; name != server {
			t.Errorf("%s was told to have changed", name)
		}
		after, err := r.Tools(t.Context(), server)
		if err != nil || len(after) != len(before)+1 {
			t.Errorf("%s has %d tools, then %d, %v", server, len(before), len(after), err)
		}
		if result, err := r.try(t.Context(), server+"__added", ""); err != nil || string(result.Value) != `"new"` {
			t.Errorf("the new tool returns %s, %v", result.Value, err)
		}
	}
}

func TestProgressReachesTheCallThatItIsAbout(t *testing.T) {
	r := open(t, program(t, "serve"))
	ctx, cancel := context.WithCancel(t.Context())
	news := make(chan string, 2)
	var calls sync.WaitGroup
	for _, id := range []string{"one", "two"} { // of two kernels, which may use the same id
		arguments, _ := api.Marshal(echo{"/dev/null"})
		calls.Go(func() {
			r.Call(ctx, remote.Call{ID: "same", Tool: "stdio__wait", Arguments: arguments, Progress: func(message string) { news <- id + message }})
		})
	}
	got := []string{<-news, <-news}
	slices.Sort(got)
	if !slices.Equal(got, []string{"onewaiting", "twowaiting"}) {
		t.Errorf("the calls were told %q", got)
	}
	cancel()
	calls.Wait()
}

// endable is a context that ends with an error of its own, and not before the test says so.
type endable struct {
	context.Context
	ended chan struct{}
	err   error
}

func (c endable) Done() <-chan struct{} { return c.ended }

func (c endable) Err() error {
	select {
	case <-c.ended:
		return c.err
	default:
		return nil
	}
}

func TestACallThatNobodyWaitsForIsCancelledAtTheServer(t *testing.T) {
	stateful, _ := at(t, nil)
	r := open(t, program(t, "serve"), stateful)
	for _, server := range r.Names() {
		for _, c := range []struct {
			code string
			err  error
		}{
			{remote.CodeCancelled, context.Canceled},
			{remote.CodeTimeout, context.DeadlineExceeded},
		} {
			folder := t.TempDir()
			mark := filepath.Join(folder, "mark")
			if err := syscall.Mkfifo(mark, 0o600); err != nil { // reading it waits for the server
				t.Fatal(err)
			}
			reader, err := os.OpenFile(mark, os.O_RDWR|syscall.O_NONBLOCK, 0) // also to write, so that it has no end before the server opens it
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if _, err := r.Tools(t.Context(), server); err != nil {
				t.Fatal(err)
			}
			ctx := endable{t.Context(), make(chan struct{}), c.err}
			arguments, _ := api.Marshal(echo{mark})
			_, err = r.Call(ctx, remote.Call{ID: "w", Tool: server + "__wait", Arguments: arguments, Progress: func(string) { close(ctx.ended) }})
			if codeOf(err) != c.code {
				t.Errorf("%s: %v, want %s", server, err, c.code)
			}
			if err := reader.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			said := make([]byte, 64)
			if n, err := reader.Read(said); err != nil || string(said[:n]) != "cancelled" {
				t.Errorf("%s noticed %q, %v", server, said[:n], err)
			}
			if _, err := r.try(t.Context(), server+"__echo", "x"); err != nil {
				t.Errorf("the connection did not survive: %v", err)
			}
		}
	}
}

func TestAServerThatDiesFailsItsCallsAndIsStartedAgain(t *testing.T) {
	r := open(t, program(t, "serve"))
	var waiting sync.WaitGroup
	if _, err := r.Tools(t.Context(), "stdio"); err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{}, 8)
	for i := range 8 {
		waiting.Go(func() {
			_, err := r.Call(t.Context(), remote.Call{ID: "w" + strconv.Itoa(i), Tool: "stdio__wait", Arguments: api.Raw(`{"text":"/dev/null"}`),
				Progress: func(string) { begun <- struct{}{} }})
			if codeOf(err) != remote.CodeProviderGone {
				t.Errorf("a call of a server that dies: %v", err)
			}
		})
	}
	for range 8 {
		<-begun
	}
	if _, err := r.try(t.Context(), "stdio__die", ""); codeOf(err) != remote.CodeProviderGone {
		t.Errorf("the call that it dies of: %v", err)
	}
	if result, err := r.try(t.Context(), "stdio__echo", "again"); err != nil || string(result.Value) != `"again"` {
		t.Errorf("the next call: %s, %v", result.Value, err)
	}
	waiting.Wait()
	<-r.changed
	<-r.changed
	if log := r.log.String(); !strings.Contains(log, "last words") || strings.Contains(log, "of-the-operator") {
		t.Errorf("the log has %q", log)
	}
}

func TestAServerThatDoesNotStartIsNotTriedAllTheTime(t *testing.T) {
	r := open(t, program(t, "refuse"), mcpclient.Server{Name: "missing", Command: "/nonexistent/program"})
	for _, server := range r.Names() {
		for _, says := range []string{"the server's log says why", "the server's log says why", "the next attempt is possible in"} {
			_, err := r.Tools(t.Context(), server)
			if codeOf(err) != remote.CodeUnavailable || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", server, err, says)
			}
			if strings.Contains(err.Error(), "fault") || strings.Contains(err.Error(), "nonexistent") {
				t.Errorf("a cell is told the operator's affairs: %v", err)
			}
		}
	}
	if log := r.log.String(); !strings.Contains(log, "a fault of the server") || !strings.Contains(log, "/nonexistent/program") {
		t.Errorf("the log has %q", log)
	}
}

func TestCloseEndsProgramsThatDoNotWantToAndFailsOpenCalls(t *testing.T) {
	r := open(t, program(t, "stubborn"))
	result, err := r.try(t.Context(), "stdio__process", "")
	if err != nil {
		t.Fatal(err)
	}
	number, _, _ := strings.Cut(strings.Trim(string(result.Value), `"`), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	failed, begun := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := r.Call(t.Context(), remote.Call{ID: "w", Tool: "stdio__wait", Arguments: api.Raw(`{"text":"/dev/null"}`),
			Progress: func(string) { close(begun) }})
		failed <- err
	}()
	<-begun
	r.Close()
	if err := <-failed; codeOf(err) != remote.CodeProviderGone {
		t.Errorf("the open call: %v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the program is still there: %v", err)
	}
	if _, err := r.try(t.Context(), "stdio__echo", ""); codeOf(err) != remote.CodeUnavailable {
		t.Errorf("a call after the end: %v", err)
	}
	r.Close()
}

func TestCloseEndsWhatAProgramStarted(t *testing.T) {
	server := program(t, "serve")
	held := filepath.Join(t.TempDir(), "held") // by a process that the program started
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	server.Args = []string{"-c", `sleep 1000 > "$1" & exec "$0"`, server.Command, held}
	server.Command = "/bin/sh"
	r := open(t, server)
	if _, err := r.Tools(t.Context(), "stdio"); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(held)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	r.Close()
	if err := reader.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(reader); err != nil {
		t.Errorf("the process is still there: %v", err)
	}
}

func TestHeadersGoToTheServerAndNotToWhereItRedirects(t *testing.T) {
	var leaked, unauthorised atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	defer elsewhere.Close()
	inner := testServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return inner }, nil)
	var redirecting atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-operator" {
			unauthorised.Add(1)
		}
		if redirecting.Load() {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	r := open(t, mcpclient.Server{Name: "web", URL: web.URL, Header: http.Header{"Authorization": {"Bearer of-the-operator"}}})
	if result, err := r.try(t.Context(), "web__echo", "x"); err != nil || string(result.Value) != `"x"` {
		t.Fatalf("%s, %v", result.Value, err)
	}
	redirecting.Store(true)
	if _, err := r.try(t.Context(), "web__echo", "x"); err == nil {
		t.Error("a redirect was followed")
	}
	redirecting.Store(false)
	if n := leaked.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
	if n := unauthorised.Load(); n != 0 {
		t.Errorf("%d requests lacked the header", n)
	}
	r.Close()
}

func TestAServerThatIsBusyOrDownIsUnavailableAndABrokenConnectionIsGone(t *testing.T) {
	server := testServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	var refuse atomic.Pointer[http.HandlerFunc]
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := refuse.Load(); f != nil {
			(*f)(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	r := open(t, mcpclient.Server{Name: "web", URL: web.URL})
	for what, c := range map[string]struct {
		code   string
		refuse http.HandlerFunc
	}{
		"busy":     {remote.CodeUnavailable, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }},
		"limited":  {remote.CodeUnavailable, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }},
		"a proxy":  {remote.CodeProviderGone, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }},
		"breaking": {remote.CodeProviderGone, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		refuse.Store(nil)
		if result, err := r.try(t.Context(), "web__echo", "x"); err != nil || string(result.Value) != `"x"` {
			t.Fatalf("before %s: %s, %v", what, result.Value, err)
		}
		refuse.Store(&c.refuse)
		if _, err := r.try(t.Context(), "web__echo", "x"); codeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuse.Store(nil)
	if _, err := r.try(t.Context(), "web__echo", "x"); err != nil {
		t.Fatal(err)
	}
	web.CloseClientConnections()
	web.Listener.Close()
	_, err := r.try(t.Context(), "web__echo", "x")
	for codeOf(err) == remote.CodeProviderGone { // a kept connection, which turns out to be closed
		_, err = r.try(t.Context(), "web__echo", "x")
	}
	if codeOf(err) != remote.CodeUnavailable {
		t.Errorf("down: %v", err)
	}
	r.Close()
}

// A server that restarted answers 404 to a session that it does not know, as the specification has it.
func TestASessionThatTheServerForgotIsReplacedWithoutFailingTheCall(t *testing.T) {
	var current atomic.Pointer[http.Handler]
	release := make(chan struct{})
	restarted := func() {
		server := testServer()
		mcp.AddTool(server, &mcp.Tool{Name: "held"}, func(ctx context.Context, r *mcp.CallToolRequest, _ echo) (*mcp.CallToolResult, any, error) {
			note(ctx, r, "held")
			<-release
			return nil, nil, nil
		})
		t.Cleanup(func() {
			for one := range server.Sessions() {
				one.Close()
			}
		})
		var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		current.Store(&handler)
	}
	restarted()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*current.Load()).ServeHTTP(w, r) }))
	defer web.Close()
	defer close(release)
	r := open(t, mcpclient.Server{Name: "web", URL: web.URL})
	for range 3 {
		if result, err := r.try(t.Context(), "web__echo", "x"); err != nil || string(result.Value) != `"x"` {
			t.Fatalf("%s, %v", result.Value, err)
		}
		// A call that the old one had may have been made, and is not made again.
		begun, failed := make(chan struct{}, 2), make(chan error, 1)
		go func() {
			_, err := r.Call(t.Context(), remote.Call{ID: "w", Tool: "web__held", Arguments: api.Raw(`{"text":""}`),
				Progress: func(string) { begun <- struct{}{} }})
			failed <- err
		}()
		<-begun
		restarted()
		if result, err := r.try(t.Context(), "web__echo", "x"); err != nil || string(result.Value) != `"x"` {
			t.Fatalf("%s, %v", result.Value, err)
		}
		if err := <-failed; codeOf(err) != remote.CodeProviderGone || len(begun) != 0 {
			t.Errorf("the call that the old server had: %v", err)
		}
	}
	r.Close()
}

func TestNewRefusesServersThatAreNotWhole(t *testing.T) {
	for what, s := range map[string]mcpclient.Server{
		"no name":              {Command: "a"},
		"a name with a hyphen": {Name: "a-b", Command: "a"},
		"a name with __":       {Name: "a__b", Command: "a"},
		"a long name":          {Name: strings.Repeat("a", 33), Command: "a"},
		"nothing":              {Name: "a"},
		"both":                 {Name: "a", Command: "a", URL: "https://example.com/"},
		"headers of a command": {Name: "a", Command: "a", Header: http.Header{"A": {"b"}}},
		"args of a url":        {Name: "a", URL: "https://example.com/", Args: []string{"a"}},
		"a variable":           {Name: "a", Command: "a", Env: []string{"A"}},
		"another scheme":       {Name: "a", URL: "ftp://example.com/"},
		"credentials":          {Name: "a", URL: "https://a:b@example.com/"},
	} {
		if _, err := mcpclient.New(mcpclient.Config{Servers: []mcpclient.Server{s}, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	twice := mcpclient.Server{Name: "a", Command: "a"}
	if _, err := mcpclient.New(mcpclient.Config{Servers: []mcpclient.Server{twice, twice}, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a name is accepted twice")
	}
}

func BenchmarkCall(b *testing.B) {
	path, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	servers, err := mcpclient.New(mcpclient.Config{
		Servers: []mcpclient.Server{{Name: "stdio", Command: path, Env: []string{serveVariable + "=serve"}}}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer servers.Close()
	if _, err := servers.Tools(b.Context(), "stdio"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := servers.Call(b.Context(), remote.Call{ID: "b", Tool: "stdio__echo", Arguments: api.Raw(`{"text":"x"}`)}); err != nil {
			b.Fatal(err)
		}
	}
}
