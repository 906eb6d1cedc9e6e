// Package mcp serves sessions to clients of the Model Context Protocol. It translates between the protocol's tools,
// resources and prompts and package session; it keeps no session, no queue and no log of its own.
//
// Every request stands alone, in both eras of the protocol: what a client of the older era calls its session is only a
// name from which the default Python session is derived, so any number of them costs nothing and a restart of the server ends
// none.
package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session"
)

// Which tools are offered.
const (
	ToolsAll   = "all"
	ToolsBasic = "basic" // running code and exchanging files, for models with little context
	ToolsOff   = "off"   // no /mcp at all
)

// Config is what a Handler needs; all fields are required.
type Config struct {
	Sessions *session.Manager
	Version  string
	Log      *slog.Logger
	Tools    string // ToolsAll or ToolsBasic
	// ExecuteCode is the description of the tool execute_code for a model.
	ExecuteCode string
	// UntilDrain returns a context that also ends when the server shuts down.
	UntilDrain func(context.Context) (context.Context, context.CancelFunc)
	// Problem turns any error into one that a client may see.
	Problem func(ctx context.Context, err error, doing string) *api.Error
}

// Caller is the authenticated client of one request.
type Caller struct {
	Key     string // names the caller among all others
	Owner   string // of the sessions
	Session string // the only session that the caller may use; "": all of the owner's
	Default string // the session that is meant where a call names none; "": derived from the client's own session
	// Permit refuses what the caller may not do in Session. Without a right it refuses what only the owner may do.
	Permit func(api.Right) error
}

// Handler serves the protocol. It is safe for concurrent use.
type Handler struct {
	Config
	stream *sdk.StreamableHTTPHandler
	open   openRequests
}

// instructions tell a model how the tools belong together.
const instructions = "Persistent Python sessions: variables, imports and files are kept between calls. " +
	"Call execute_code; omit session_id to use your own session. " +
	"If a call returns status \"running\", the code is still running: call get_execution with its execution_id to wait for it. " +
	"Files are exchanged with write_file and read_file, or as resources."

// New returns a handler. It starts nothing.
func New(cfg Config) *Handler {
	h := &Handler{Config: cfg}
	server := sdk.NewServer(&sdk.Implementation{Name: "talaria", Title: "Talaria", Version: cfg.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}, Prompts: &sdk.PromptCapabilities{}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	server.AddReceivingMiddleware(h.checkCode)
	h.addTools(server)
	h.addResources(server)
	addPrompt(server)
	h.stream = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: api.MaxBody,
		DisableLocalhostProtection: true, // the caller checks Origin, and every request needs a token
	})
	return h
}

const (
	sessionHeader  = "Mcp-Session-Id"
	versionHeader  = "Mcp-Protocol-Version"
	maxSessionName = 256
)

// ServeHTTP answers one message. The request's context ends when the client goes away, which stops the wait for a cell and
// never the cell. body is the request's whole body.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, caller Caller, body []byte) {
	if r.Method == http.MethodDelete { // the end of a session of the older era: nothing is kept for it
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		refuse(w, "batches are not supported; send one message in each request")
		return
	}
	var m message
	_ = json.Unmarshal(body, &m) // a body that is not a message is refused by the library
	name := r.Header.Get(sessionHeader)
	if len(name) > maxSessionName {
		refuse(w, "the header Mcp-Session-Id is longer than 256 characters")
		return
	}
	if m.Method == "initialize" && name == "" {
		name = rand.Text()
		w.Header().Set(sessionHeader, name)
	}
	q := &request{handler: h, caller: caller, client: name}
	var end context.CancelFunc
	q.ctx, end = h.UntilDrain(r.Context())
	defer end()
	if m.Method == "notifications/cancelled" {
		h.open.cancel(q.key(m.Params.RequestID), m.Params.Reason)
	}
	if name != "" && len(m.ID) > 0 {
		var leave func()
		q.ctx, q.open, leave = h.open.enter(q.ctx, q.key(m.ID))
		defer leave()
	}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, q))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	h.stream.ServeHTTP(w, r)
}

// refuse answers a message that cannot be understood as JSON-RPC does.
func refuse(w http.ResponseWriter, why string) {
	text, _ := json.Marshal(why) // a string always encodes
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":` + string(text) + `}}`))
}
