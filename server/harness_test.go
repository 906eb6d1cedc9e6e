package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/server"
	"talaria/session"
)

const (
	firstToken  = "token-of-the-first-owner"
	secondToken = "token-of-the-second"
	ownOrigin   = "https://chat.example.org"
)

// patience bounds every wait of a test; it is never reached if all is well.
const patience = 2 * time.Minute

// tokens holds the tokens of two owners, which a test can revoke.
type tokens struct {
	mu      sync.Mutex // guards the fields below
	owners  map[string]string
	logins  map[string]string // tokens
	revoked int64
	used    map[string]time.Time
}

func newTokens() *tokens {
	return &tokens{owners: map[string]string{firstToken: "first", secondToken: "second"}, logins: map[string]string{}, used: map[string]time.Time{}}
}

func (t *tokens) Owner(_ context.Context, token string) (string, bool, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	owner, ok := t.owners[token]
	return owner, owner == "first", ok
}

func (t *tokens) Login(_ context.Context, token string, _ time.Time) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	login := rand.Text()
	t.logins[login] = token
	return login, nil
}

func (t *tokens) LoginOwner(ctx context.Context, login string) (string, bool, bool) {
	t.mu.Lock()
	token := t.logins[login]
	t.mu.Unlock()
	return t.Owner(ctx, token)
}

func (t *tokens) Logout(_ context.Context, login string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.logins, login)
	t.revoked++
	return nil
}

func (t *tokens) Revocations(context.Context) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revoked, nil
}

func (t *tokens) OwnedTokens(_ context.Context, owner string) ([]api.OwnedToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []api.OwnedToken{}
	for token, of := range t.owners {
		if of == owner {
			list = append(list, ownedToken(token, t.used[token]))
		}
	}
	return list, nil
}

func ownedToken(token string, used time.Time) api.OwnedToken {
	one := api.OwnedToken{ID: "id-of-" + token}
	if !used.IsZero() {
		at := api.Millis(used.UnixMilli())
		one.LastUsedAt = &at
	}
	return one
}

func (t *tokens) NoteUses(_ context.Context, uses map[string]time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.Copy(t.used, uses)
	return nil
}

func (t *tokens) RevokeOwned(_ context.Context, owner, id string) (bool, error) {
	token := strings.TrimPrefix(id, "id-of-")
	t.mu.Lock()
	of, ok := t.owners[token]
	t.mu.Unlock()
	if !ok || of != owner {
		return false, nil
	}
	t.revoke(token)
	return true, nil
}

// revoke invalidates a token, as another process would.
func (t *tokens) revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.owners, token)
	t.revoked++
}

// harness is a server with real sessions, whose kernels are scripted; see newSessions.
type harness struct {
	*testing.T
	url    string
	dir    string // the server's state
	server *server.Server
	tokens *tokens
	log    *logBuffer
	client *http.Client
}

type logBuffer struct {
	mu   sync.Mutex // guards buf
	buf  bytes.Buffer
	more *sync.Cond // there is more in buf
}

func newLogBuffer() *logBuffer {
	b := &logBuffer{}
	b.more = sync.NewCond(&b.mu)
	return b
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.more.Broadcast()
	return b.buf.Write(p)
}

// answered waits until a request for a route has succeeded.
func (h *harness) answered(route string) {
	h.Helper()
	late := time.AfterFunc(patience, h.log.more.Broadcast)
	defer late.Stop()
	end := time.Now().Add(patience)
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	for !strings.Contains(h.log.buf.String(), "msg=request method=GET route="+route+" status=200 ") {
		if time.Now().After(end) {
			h.Fatalf("no request for %s has ended", route)
		}
		h.log.more.Wait()
	}
}

func (b *logBuffer) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.buf.String() }

func start(t *testing.T) *harness {
	t.Helper()
	return startWith(t, server.Config{})
}

// startWith starts a server with the settings of cfg in addition to the usual ones, and with what change does to those of its sessions.
func startWith(t *testing.T, cfg server.Config, change ...func(*session.Config)) *harness {
	t.Helper()
	logs, tokens, dir := newLogBuffer(), newTokens(), t.TempDir()
	cfg.Sessions, cfg.Batches = newSessions(t, dir, change...)
	cfg.Tokens, cfg.Origins, cfg.Version = tokens, []string{ownOrigin}, "test"
	cfg.Log = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		ending, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ending); err != nil {
			t.Errorf("shut down: %v", err)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
		for line := range strings.Lines(logs.String()) {
			if t.Failed() && strings.Contains(line, "level=ERROR") {
				t.Log(line)
			}
		}
	})
	transport := &http.Transport{DialContext: dialSmall}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &harness{
		T: t, url: "http://" + listener.Addr().String(), dir: dir, server: s, tokens: tokens, log: logs, client: client,
	}
}

// dialSmall connects with a small receive buffer, since otherwise the system would buffer everything that a test sends
// to a slow reader.
func dialSmall(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetReadBuffer(64 << 10)
}

// request is one request; "" stands for a part that is not given.
type request struct {
	method, path, body string
	token              string // default: the first owner's; "-" for none
	header             map[string]string
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func (h *harness) do(r request) response {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	resp, err := h.send(ctx, r)
	if err != nil {
		h.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		h.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, body}
}

func (h *harness) send(ctx context.Context, r request) (*http.Response, error) {
	h.Helper()
	req, err := http.NewRequestWithContext(ctx, r.method, h.url+r.path, strings.NewReader(r.body))
	if err != nil {
		h.Fatal(err)
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	switch r.token {
	case "":
		req.Header.Set("Authorization", "Bearer "+firstToken)
	case "-":
	default:
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, value := range r.header {
		if value == "" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	return h.client.Do(req)
}

func (h *harness) session(id string) {
	h.Helper()
	r := h.do(request{method: "PUT", path: "/v1/sessions/" + id})
	if r.status != 201 && r.status != 200 {
		h.Fatalf("session %s: %d %s", id, r.status, r.body)
	}
}

// want checks the status and, for a problem, its form and code.
func (h *harness) want(r response, status int, code api.Code) {
	h.Helper()
	if r.status != status {
		h.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	if code == "" {
		return
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		h.Errorf("Content-Type of a problem is %q", got)
	}
	problem := decode[api.Error](h.T, r.body)
	if problem.Code != code || problem.Status != status || problem.Type == "" || problem.Title == "" || problem.Detail == "" {
		h.Errorf("problem is %s, want code %s", r.body, code)
	}
}

func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("decode %q: %v", data, err)
	}
	return v
}

// attach opens a WebSocket and reads its hello.
func (h *harness) attach(path string) *client {
	h.Helper()
	conn, resp, err := h.dial(path, http.Header{"Authorization": {"Bearer " + firstToken}})
	if err != nil {
		h.Fatalf("dial: %v %v", err, resp)
	}
	c := &client{T: h.T, conn: conn}
	if hello := c.next(); hello["type"] != "hello" || hello["protocol"] != 1.0 {
		h.Fatalf("first frame is %v", hello)
	}
	return c
}

func (h *harness) dial(path string, header http.Header) (*websocket.Conn, *http.Response, error) {
	dialer := websocket.Dialer{Subprotocols: []string{"talaria.v1"}, HandshakeTimeout: patience, NetDialContext: dialSmall}
	conn, resp, err := dialer.Dial("ws"+strings.TrimPrefix(h.url, "http")+path, header)
	if conn != nil {
		h.Cleanup(func() { conn.Close() })
	}
	return conn, resp, err
}

type client struct {
	*testing.T
	conn *websocket.Conn
	kept []map[string]any // events that came before a reply
}

// next returns the next frame that nobody took.
func (c *client) next() map[string]any {
	c.Helper()
	if len(c.kept) > 0 {
		f := c.kept[0]
		c.kept = c.kept[1:]
		return f
	}
	return c.read()
}

func (c *client) read() map[string]any {
	c.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.Fatal(err)
	}
	kind, data, err := c.conn.ReadMessage()
	if err != nil {
		c.Fatalf("read a frame: %v", err)
	}
	if kind != websocket.TextMessage {
		c.Fatalf("frame of kind %d", kind)
	}
	return decode[map[string]any](c.T, data)
}

// until reads frames up to the first that fits.
func (c *client) until(fits func(map[string]any) bool) map[string]any {
	c.Helper()
	for {
		if f := c.next(); fits(f) {
			return f
		}
	}
}

func (c *client) write(frame string) {
	c.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		c.Fatal(err)
	}
}

// ask sends a frame and returns its reply; events that come before it are kept for next.
func (c *client) ask(frame string) map[string]any {
	c.Helper()
	c.write(frame)
	for {
		f := c.read()
		if f["type"] == "reply" {
			return f
		}
		c.kept = append(c.kept, f)
	}
}

// closed reads to the end of the socket.
func (c *client) closed() *websocket.CloseError {
	c.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.Fatal(err)
	}
	for {
		_, _, err := c.conn.ReadMessage()
		if err == nil {
			continue
		}
		if closed, ok := err.(*websocket.CloseError); ok {
			return closed
		}
		c.Fatalf("the socket ended with %v", err)
	}
}

func typed(kind string) func(map[string]any) bool {
	return func(f map[string]any) bool { return f["type"] == kind }
}
