package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

// call is one raw request to a server. The zero value of a field leaves it out.
type call struct {
	method, path string // path exactly as it is sent
	body         string
	kind         string // Content-Type; default: JSON if there is a body
	token        string // "-": none; default: the first owner's
	header       map[string]string
}

// answer is a raw response, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// plain is an HTTP client that follows no redirects and leaves the bytes unchanged.
var plain = &http.Client{
	Transport:     &http.Transport{DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// open sends a request and returns when the head of the answer has arrived.
func (s *Server) open(ctx context.Context, c call) (*http.Response, error) {
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, s.URL, body)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(c.path, "?")
	req.URL.Opaque = "//" + req.URL.Host + path
	req.URL.RawQuery = query
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.kind != "" {
		req.Header.Set("Content-Type", c.kind)
	}
	switch c.token {
	case "":
		req.Header.Set("Authorization", "Bearer "+s.Token)
	case "-":
	default:
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	return plain.Do(req)
}

// tryDo sends a request and reads the answer.
func (s *Server) tryDo(ctx context.Context, c call) (answer, error) {
	res, err := s.open(ctx, c)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, body}, err
}

// do sends a request that must be answered.
func (s *Server) do(t *testing.T, c call) answer {
	t.Helper()
	a, err := s.tryDo(within(t), c)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	return a
}

// want checks a status, and for a problem its code and shape. It returns the answer.
func (s *Server) want(t *testing.T, c call, status int, code api.Code) answer {
	t.Helper()
	a := s.do(t, c)
	what := fmt.Sprintf("%s %.120s %.80s", c.method, c.path, c.body)
	if a.status != status {
		t.Errorf("%s: %d %.300s, want %d %s", what, a.status, a.body, status, code)
		return a
	}
	if code == "" {
		return a
	}
	checkProblem(t, what, a, status, code)
	return a
}

func checkProblem(t *testing.T, what string, a answer, status int, code api.Code) {
	t.Helper()
	var p struct {
		Type, Title, Detail *string
		Code                api.Code
		Status              int
	}
	if err := json.Unmarshal(a.body, &p); err != nil || p.Code != code || p.Status != status ||
		p.Type == nil || p.Title == nil || p.Detail == nil {
		t.Errorf("%s: no problem %s with type, title, status and detail: %s", what, code, a.body)
	}
	if kind := a.header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("%s: the problem is %s", what, kind)
	}
	if bytes.Contains(a.body, []byte("/tmp/")) || bytes.Contains(a.body, []byte("goroutine ")) {
		t.Errorf("%s: the problem leaks a path or a stack: %s", what, a.body)
	}
}

// head is what all events have in common.
type head struct {
	Seq         int64  `json:"seq"`
	Type        string `json:"type"`
	ExecutionID string `json:"execution_id"`
}

// line is one event, with its original bytes.
type line struct {
	head
	raw []byte
}

func newLine(raw []byte) (line, error) {
	l := line{raw: bytes.Clone(raw)}
	err := json.Unmarshal(raw, &l.head)
	return l, err
}

// lines yields the events of a streaming answer, in either format. The sequence ends with the answer, with yield, or
// with an error.
func lines(body io.Reader, yield func(line) bool) error {
	for in := bufio.NewReaderSize(body, 1<<16); ; {
		raw, err := in.ReadBytes('\n')
		if err != nil {
			return err // also for an incomplete last line
		}
		raw = bytes.TrimSuffix(raw, []byte("\n"))
		if data, isSSE := bytes.CutPrefix(raw, []byte("data: ")); isSSE {
			raw = data
		} else if !bytes.HasPrefix(raw, []byte("{")) {
			continue // an id, a comment, or the end of an event
		}
		l, err := newLine(raw)
		if err != nil {
			return fmt.Errorf("event %.100q: %w", raw, err)
		}
		if !yield(l) {
			return nil
		}
	}
}

// stream reads events of a path in one format until yield has enough.
func (s *Server) stream(ctx context.Context, path, format string, yield func(line) bool) error {
	res, err := s.open(ctx, call{method: "GET", path: path, header: map[string]string{"Accept": format}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		return fmt.Errorf("%s: %d %s", path, res.StatusCode, body)
	}
	return lines(res.Body, yield)
}

const (
	ndjson = "application/x-ndjson"
	sse    = "text/event-stream"
)

// log returns a session's whole log up to now, as raw lines, which must be complete.
func (s *Server) log(t *testing.T, session string) []line {
	t.Helper()
	var list []line
	err := s.stream(within(t), "/v1/sessions/"+session+"/events?follow=false", ndjson, func(l line) bool {
		list = append(list, l)
		return true
	})
	if err != io.EOF {
		t.Fatalf("read the log: %v", err)
	}
	for i, l := range list {
		if l.Seq != int64(i)+1 {
			t.Fatalf("event %d of the log has seq %d", i+1, l.Seq)
		}
	}
	return list
}

// sameLog checks that events match the log's, from a position on and without a gap.
func sameLog(t *testing.T, who string, got, log []line) {
	t.Helper()
	if len(got) == 0 {
		t.Errorf("%s got no event", who)
		return
	}
	for i, l := range got {
		if l.Seq != got[0].Seq+int64(i) {
			t.Errorf("%s got seq %d after %d", who, l.Seq, got[max(0, i-1)].Seq)
			return
		}
		if l.Seq > int64(len(log)) || !bytes.Equal(l.raw, log[l.Seq-1].raw) {
			t.Errorf("%s got other bytes for seq %d: %.200s", who, l.Seq, l.raw)
			return
		}
	}
}

// rawSocket is a WebSocket without the client library. One goroutine may read and one may write.
type rawSocket struct {
	*websocket.Conn
}

// dial opens a WebSocket; query may be "".
func (s *Server) dial(ctx context.Context, session, query string) (*rawSocket, *http.Response, error) {
	dialer := websocket.Dialer{Subprotocols: []string{api.Subprotocol}, HandshakeTimeout: startup}
	target := "ws" + strings.TrimPrefix(s.URL, "http") + "/v1/sessions/" + url.PathEscape(session) + "/ws?" + query
	conn, res, err := dialer.DialContext(ctx, target, http.Header{"Authorization": {"Bearer " + s.Token}})
	if err != nil {
		return nil, res, err
	}
	return &rawSocket{conn}, res, nil
}

// attach opens a WebSocket, which is closed at the end of the test, and reads its hello.
func (s *Server) attach(t *testing.T, session, query string) *rawSocket {
	t.Helper()
	k, res, err := s.dial(within(t), session, query)
	if err != nil {
		t.Fatalf("attach: %v (%v)", err, res)
	}
	t.Cleanup(func() { k.Close() })
	hello := k.next(t)
	if kind := decode[head](t, string(hello)).Type; kind != "hello" {
		t.Fatalf("the first frame is %.200s", hello)
	}
	return k
}

// next returns the next frame.
func (k *rawSocket) next(t *testing.T) []byte {
	t.Helper()
	_ = k.SetReadDeadline(time.Now().Add(patience)) // fails with the read
	_, data, err := k.ReadMessage()
	if err != nil {
		t.Fatalf("read a frame: %v", err)
	}
	return data
}

// awaits reads frames until one fits, and returns that frame.
func (k *rawSocket) awaits(t *testing.T, fits func(head, []byte) bool) []byte {
	t.Helper()
	for {
		data := k.next(t)
		if fits(decode[head](t, string(data)), data) {
			return data
		}
	}
}

// awaitType reads frames until one of that type.
func (k *rawSocket) awaitType(t *testing.T, kind string) []byte {
	t.Helper()
	return k.awaits(t, func(h head, _ []byte) bool { return h.Type == kind })
}

func (k *rawSocket) say(t *testing.T, frame string) {
	t.Helper()
	if err := k.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		t.Fatalf("send %.100q: %v", frame, err)
	}
}

type reply struct {
	ID     any
	OK     bool
	Result json.RawMessage
	Error  *api.Error
}

// reply sends a frame and waits for the reply.
func (k *rawSocket) reply(t *testing.T, frame string) reply {
	t.Helper()
	k.say(t, frame)
	return decode[reply](t, string(k.awaitType(t, "reply")))
}

// untilClose reads to the end and returns the close code, 0 if the connection was cut.
func (k *rawSocket) untilClose(t *testing.T) (code int, reason string) {
	t.Helper()
	_ = k.SetReadDeadline(time.Now().Add(patience))
	for {
		_, _, err := k.ReadMessage()
		if closed, ok := err.(*websocket.CloseError); ok {
			return closed.Code, closed.Text
		}
		if late, ok := err.(net.Error); ok && late.Timeout() {
			t.Fatal("the socket was not closed")
		}
		if err != nil {
			return 0, err.Error()
		}
	}
}

// cut drops the connection without a word.
func (k *rawSocket) cut() {
	if tcp, ok := k.NetConn().(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = k.NetConn().Close()
}

// gather reads a socket's events until one fits or the socket ends.
func (k *rawSocket) gather(fits func(line) bool) (list []line, err error) {
	_ = k.SetReadDeadline(time.Now().Add(patience))
	for {
		_, data, err := k.ReadMessage()
		if err != nil {
			return list, err
		}
		l, err := newLine(data)
		if err != nil {
			return list, err
		}
		if l.Seq == 0 {
			continue // hello, a reply
		}
		list = append(list, l)
		if fits(l) {
			return list, nil
		}
	}
}

func ends(execution string) func(line) bool {
	return func(l line) bool { return l.Type == "execution_finished" && l.ExecutionID == execution }
}

// seqs returns the positions of events.
func seqs(list []line) []int64 {
	return slices.Collect(func(yield func(int64) bool) {
		for _, l := range list {
			if !yield(l.Seq) {
				return
			}
		}
	})
}
