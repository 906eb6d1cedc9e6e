// Package execd serves clients of OpenSandbox's execd: code in contexts, shell commands, and interrupts, with their output as
// server-sent events. It translates between that API and package session, where every context is an ordinary session; it keeps
// no queue, no log and no kernel of its own.
//
// The API is the part of OpenSandbox's execd-api.yaml that its code interpreter and its commands use.
package execd

import (
	"context"
	"net/http"
	"strings"
	"time"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

// Prefix is the path below which the API is served.
const Prefix = "/execd"

// Config is what a Handler needs; all fields are required.
type Config struct {
	Sessions *session.Manager
	// Stall is how long a client may take no byte of an answer.
	Stall time.Duration
	// UntilDrain returns a context that also ends when the server shuts down.
	UntilDrain func(context.Context) (context.Context, context.CancelFunc)
	// Problem turns any error into one that a client may see.
	Problem func(ctx context.Context, err error, doing string) *api.Error
}

// Caller is the authenticated client of one request.
type Caller struct {
	Owner string // of the sessions
	// Attach counts the caller as a user of the session until detach is called.
	Attach func(*session.Session) (detach func())
	// Body reads the whole body, up to [api.MaxBody]. release must be called, in any case.
	Body func() (data []byte, release func(), err error)
}

// Handler serves the API. It is safe for concurrent use.
type Handler struct {
	Config
	mux *http.ServeMux
}

// request is one request on its way through a handler.
type request struct {
	*http.Request
	w      http.ResponseWriter
	caller Caller
}

type requestKey struct{}

// New returns a handler. It starts nothing.
func New(cfg Config) *Handler {
	h := &Handler{Config: cfg, mux: http.NewServeMux()}
	for pattern, handle := range map[string]func(*request) error{
		"GET /ping":                  (*request).nothing,
		"POST /code":                 h.runCode,
		"DELETE /code":               h.interrupt,
		"POST /code/context":         h.createContext,
		"GET /code/contexts":         h.listContexts,
		"DELETE /code/contexts":      h.deleteContexts,
		"GET /code/contexts/{id}":    h.getContext,
		"DELETE /code/contexts/{id}": h.deleteContext,
		"POST /command":              h.runCommand,
		"DELETE /command":            h.interrupt,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			q := r.Context().Value(requestKey{}).(*request)
			q.Request, q.w = r, w
			if err := handle(q); err != nil {
				Refuse(w, h.Problem(r.Context(), err, pattern+" of execd"))
			}
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, api.Errorf(api.CodeNotFound, "Talaria does not serve %s %s to execd clients; docs/execd.md lists what it serves", r.Method, r.URL.Path))
	})
	return h
}

// ServeHTTP answers one request. Its path may begin with Prefix.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, caller Caller) {
	inner := r.WithContext(context.WithValue(r.Context(), requestKey{}, &request{caller: caller}))
	at := *r.URL
	at.Path, at.RawPath = strings.TrimPrefix(at.Path, Prefix), strings.TrimPrefix(at.RawPath, Prefix)
	inner.URL = &at
	h.mux.ServeHTTP(w, inner)
}

// Open reports whether a request needs no token: clients look whether execd is up before they have one.
func Open(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path == Prefix+"/ping" }

// codes are the words of execd for the errors that its clients distinguish. All others keep ours.
var codes = map[api.Code]string{
	api.CodeInvalidRequest: "INVALID_REQUEST_BODY", api.CodeSessionNotFound: "CONTEXT_NOT_FOUND", api.CodeInternal: "RUNTIME_ERROR",
}

// Refuse answers with an error.
func Refuse(w http.ResponseWriter, problem *api.Error) {
	code, known := codes[problem.Code]
	if !known {
		code = strings.ToUpper(string(problem.Code))
	}
	transfer.WriteJSON(w, problem.Status, map[string]string{"code": code, "message": problem.Detail})
}

// answer writes v as JSON.
func (q *request) answer(v any) error {
	transfer.WriteJSON(q.w, http.StatusOK, v)
	return nil
}

// nothing answers without a body.
func (q *request) nothing() error {
	q.w.WriteHeader(http.StatusOK)
	return nil
}

// read decodes the body, which may be empty. Clients send fields of many versions, so unknown ones are ignored.
func (q *request) read(into any) error {
	data, release, err := q.caller.Body()
	defer release()
	if err != nil || len(data) == 0 {
		return err
	}
	return api.UnmarshalLoose(data, into)
}

// command returns the context for a change: a client that goes away stops nothing.
func (q *request) command() context.Context { return context.WithoutCancel(q.Context()) }
