// Package librechat serves the code interpreter API of LibreChat: code in many languages, programs that call the client's tools,
// and files. It translates between that API and package session, where every conversation and every store of uploads is an
// ordinary session; it keeps no queue, no log and no kernel of its own. Compiled languages run in package run, without a session.
//
// The API is the one that LibreChat and its library @librechat/agents call.
package librechat

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

// Prefix is the path below which the API is served: LIBRECHAT_CODE_BASEURL is Prefix and "/v1", or Prefix, a token and "/v1".
const Prefix = "/librechat"

// retryAfter is when a client may try again that is over a limit, in seconds.
const retryAfter = 10

// Runs runs programs without a session. [run.Manager] is one.
type Runs interface {
	Run(ctx context.Context, owner string, r api.RunRequest) (api.RunResult, error)
}

// Config is what a Handler needs. All fields but Runs are required.
type Config struct {
	Sessions *session.Manager
	Runs     Runs // nil: compiled languages are not offered
	// UntilDrain returns a context that also ends when the server shuts down.
	UntilDrain func(context.Context) (context.Context, context.CancelFunc)
	// Problem turns any error into one that a client may see.
	Problem func(ctx context.Context, err error, doing string) *api.Error
}

// Caller is the authenticated client of one request.
type Caller struct {
	Owner  string // of the sessions
	Shared string // owner of the files that the users of a tenant share; the same as Owner for a client with a Talaria token
	// Body reads the whole body, up to [api.MaxBody]. release must be called, in any case.
	Body func() (data []byte, release func(), err error)
}

// Handler serves the API. It is safe for concurrent use.
type Handler struct {
	Config
	mux  *http.ServeMux
	argv chan struct{} // holds a value while a request queues a cell between those that set its arguments

	mu      sync.Mutex                              // guards the fields below
	waiting map[requestName]context.CancelCauseFunc // programs that a client waits for and can cancel
	swept   map[string]string                       // where the next sweep of an owner's sessions begins
	brought map[copyKey]brought                     // the uploads that files of sessions were copied from
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
	h := &Handler{Config: cfg, mux: http.NewServeMux(), argv: make(chan struct{}, 1), waiting: map[requestName]context.CancelCauseFunc{}, swept: map[string]string{}, brought: map[copyKey]brought{}}
	for pattern, handle := range map[string]func(*request) error{
		"GET /v1/health":                            h.health,
		"POST /v1/exec":                             h.exec,
		"POST /v1/exec/programmatic":                h.programmatic,
		"POST /v1/exec/programmatic/cancel":         h.cancel,
		"POST /v1/upload":                           h.upload,
		"POST /v1/upload/batch":                     h.uploadBatch,
		"GET /v1/files/{session}":                   h.listFiles,
		"DELETE /v1/files/{session}/{file}":         h.deleteFile,
		"GET /v1/sessions/{session}/objects/{file}": h.statFile,
		"GET /v1/download/{session}/{file}":         h.download,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			q := r.Context().Value(requestKey{}).(*request)
			q.Request, q.w = r, w
			if err := handle(q); err != nil {
				Refuse(w, h.Problem(r.Context(), err, pattern+" of LibreChat"))
			}
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, api.Errorf(api.CodeNotFound, "Talaria does not serve %s %s to LibreChat; its base URL ends with /v1", r.Method, r.URL.Path))
	})
	return h
}

// Split returns the token in a path, or "", and the path of the API, which begins with /v1.
func Split(path string) (token, rest string) {
	rest = strings.TrimPrefix(path, Prefix)
	first, more, ok := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	if first != "v1" && ok && (more == "v1" || strings.HasPrefix(more, "v1/")) {
		return first, "/" + more
	}
	return "", rest
}

// Open reports whether a request needs no token.
func Open(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == Prefix+"/v1/health"
}

// ServeHTTP answers one request. Its path may begin with Prefix and a token.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, caller Caller) {
	inner := r.WithContext(context.WithValue(r.Context(), requestKey{}, &request{caller: caller}))
	at := *r.URL
	_, at.Path = Split(at.Path)
	at.RawPath = ""
	inner.URL = &at
	h.mux.ServeHTTP(w, inner)
}

// Refuse answers with an error. The client shows a model only what it knows: the status, and that and for how long the rate is
// limited.
func Refuse(w http.ResponseWriter, problem *api.Error) {
	body := map[string]any{"error": problem.Detail, "code": problem.Code, "message": problem.Detail}
	if problem.Status == http.StatusTooManyRequests {
		seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if err != nil {
			seconds = retryAfter
		}
		body["error"], body["retry_after_seconds"] = "rate_limited", seconds
	}
	transfer.WriteJSON(w, problem.Status, body)
}

// answer writes v as JSON.
func (q *request) answer(v any) error {
	transfer.WriteJSON(q.w, http.StatusOK, v)
	return nil
}

// command returns the context for a change: a client that goes away stops nothing.
func (q *request) command() context.Context { return context.WithoutCancel(q.Context()) }

// unsupported answers that the client asked for what this server will never do, in a form that the client tells its model.
func (q *request) unsupported(what string) error {
	transfer.WriteJSON(q.w, http.StatusUnprocessableEntity, map[string]any{"error": "unsupported_capability", "code": "unsupported_capability", "message": what})
	return nil
}

func (h *Handler) health(q *request) error { return q.answer(map[string]string{"status": "ok"}) }
