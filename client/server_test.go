package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"talaria/api"
	"talaria/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "s3cret"

// script is a server that answers each "METHOD /path" as it is told, and records the requests.
type script struct {
	t       *testing.T
	url     string
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	seen    []string // "METHOD /path?query body"
}

func serve(t *testing.T, answers map[string]http.HandlerFunc) (*script, *client.Client) {
	t.Helper()
	s := &script{t: t, answers: answers}
	server := httptest.NewServer(s)
	s.url = server.URL
	c := client.New(server.URL+"/", token)
	t.Cleanup(func() {
		c.HTTP.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return s, c
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Authorization"); got != "Bearer "+token {
		s.t.Errorf("%s %s with authorization %q", r.Method, r.URL, got)
	}
	body := ""
	if r.Header.Get("Upgrade") == "" {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
	}
	s.mu.Lock()
	s.seen = append(s.seen, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+body))
	s.mu.Unlock()
	answer, ok := s.answers[r.Method+" "+r.URL.EscapedPath()]
	if !ok {
		s.t.Errorf("unexpected %s %s", r.Method, r.URL.EscapedPath())
		w.WriteHeader(http.StatusTeapot)
		return
	}
	answer(w, r)
}

// requests returns the requests so far.
func (s *script) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// answer is a fixed answer.
func answer(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if body != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func refusal(code api.Code, detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := api.Errorf(code, "%s", detail)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(e.Status)
		_ = json.NewEncoder(w).Encode(e)
	}
}

// hangUp breaks the connection without another word.
func hangUp() { panic(http.ErrAbortHandler) }

// line returns an event of the log in its wire format.
func line(seq int64) string {
	return fmt.Sprintf(`{"seq":%d,"time":"2026-01-02T03:04:05.678Z","type":"stream","execution_id":"e1",`+
		`"name":"stdout","text":"line %d\n"}`, seq, seq)
}

const finished = `{"seq":%d,"time":"2026-01-02T03:04:05.678Z","type":"execution_finished","execution_id":"e1",` +
	`"execution":{"id":"e1","status":"ok","state":"kept","added_later":1}}`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pointer[T any](v T) *T { return &v }
