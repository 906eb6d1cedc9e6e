package gatewaytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Model is a fake of an OpenAI-compatible chat completions endpoint with scripted answers. It refuses what real ones refuse. All
// methods are safe for concurrent use.
type Model struct {
	URL string // the base URL

	server *httptest.Server
	key    string

	mu       sync.Mutex // guards what follows
	script   []ModelAnswer
	requests [][]ModelMessage
	held     chan struct{} // closed when a request arrives that gets no answer; nil for none
}

// ModelAnswer is one answer: a text, calls of execute_code, or a raw body with a status.
type ModelAnswer struct {
	Text   string
	Code   []string
	Status int // with Body
	Body   string
}

// ModelMessage is one message of a request.
type ModelMessage struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

// NewModel starts a fake that wants this key.
func NewModel(key string) *Model {
	m := &Model{key: key}
	m.server = httptest.NewServer(m)
	m.URL = m.server.URL + "/v1"
	return m
}

// Close ends the server.
func (m *Model) Close() { m.server.Close() }

// Script adds answers.
func (m *Model) Script(answers ...ModelAnswer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script, answers...)
}

// Hold has the next request wait until whoever sent it is gone. The result is closed when it arrives.
func (m *Model) Hold() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = make(chan struct{})
	return m.held
}

// Requests returns the messages of each request that was not refused.
func (m *Model) Requests() [][]ModelMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([][]ModelMessage(nil), m.requests...)
}

// ServeHTTP answers chat completions.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": fmt.Sprintf(format, args...)}})
	}
	if r.URL.Path != "/v1/chat/completions" {
		refuse(http.StatusNotFound, "unknown path %s", r.URL.Path)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+m.key {
		refuse(http.StatusUnauthorized, "wrong key: %s", r.Header.Get("Authorization"))
		return
	}
	var q struct {
		Model    string            `json:"model"`
		Messages []ModelMessage    `json:"messages"`
		Tools    []json.RawMessage `json:"tools"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Model == "" || len(q.Tools) == 0 {
		refuse(http.StatusBadRequest, "not a request with a model and tools")
		return
	}
	if why := checkConversation(q.Messages); why != "" {
		refuse(http.StatusBadRequest, "%s", why)
		return
	}
	m.mu.Lock()
	if held := m.held; held != nil {
		m.held = nil
		m.mu.Unlock()
		close(held)
		<-r.Context().Done()
		return
	}
	defer m.mu.Unlock()
	m.requests = append(m.requests, q.Messages)
	if len(m.script) == 0 {
		refuse(http.StatusInternalServerError, "the script is used up")
		return
	}
	a := m.script[0]
	m.script = m.script[1:]
	w.Header().Set("Content-Type", "application/json")
	if a.Status != 0 {
		w.WriteHeader(a.Status)
		_, _ = w.Write([]byte(a.Body))
		return
	}
	message := map[string]any{"role": "assistant", "content": a.Text}
	var calls []any
	for i, code := range a.Code {
		arguments, _ := json.Marshal(map[string]string{"code": code})
		calls = append(calls, map[string]any{
			"id": fmt.Sprintf("call_%d_%d", len(m.requests), i), "type": "function",
			"function": map[string]any{"name": "execute_code", "arguments": string(arguments)},
		})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message, "finish_reason": "stop"}}})
}

// checkConversation says what real endpoints refuse, "" for nothing.
func checkConversation(messages []ModelMessage) string {
	if len(messages) < 2 || messages[0].Role != "system" {
		return "the first message must be the system's"
	}
	open := map[string]bool{}
	for i, m := range messages[1:] {
		switch m.Role {
		case "tool":
			if !open[m.ToolCallID] {
				return fmt.Sprintf("message %d answers no call", i+1)
			}
			delete(open, m.ToolCallID)
			continue
		case "user", "assistant":
		default:
			return fmt.Sprintf("message %d has the role %q", i+1, m.Role)
		}
		if len(open) > 0 {
			return fmt.Sprintf("before message %d, calls were not answered", i+1)
		}
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return "calls were not answered"
	}
	return ""
}
