// Package e2b serves sessions to the SDKs of E2B: its control plane for sandboxes, its code interpreter, and envd's files,
// file system and processes. It translates between E2B's protocols and package session, where every sandbox and every context
// is an ordinary session; it keeps no queue, no log and no kernel of its own.
//
// The protocols are those of E2B's openapi.yaml (control plane and envd), of the code interpreter's server, and of envd's
// services filesystem.Filesystem and process.Process in the JSON codec of the Connect protocol.
package e2b

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

// Prefix is the path below which the protocols are served: E2B_API_URL and E2B_SANDBOX_URL end with it.
const Prefix = "/e2b"

// SignedFiles is where the SDK's signed URLs lead: it drops the path of E2B_SANDBOX_URL.
const SignedFiles = "/files"

// envdVersion is the version of envd whose API this is. The SDK chooses by it what it may use.
const envdVersion = "0.6.4"

// Config is what a Handler needs; all fields are required.
type Config struct {
	Sessions *session.Manager
	Version  string
	Log      *slog.Logger
	// Key makes the tokens of single sandboxes. Whoever has it can use every sandbox.
	Key []byte
	// Stall is how long a client may take no byte of an answer.
	Stall time.Duration
	// UntilDrain returns a context that also ends when the server shuts down.
	UntilDrain func(context.Context) (context.Context, context.CancelFunc)
	// Problem turns any error into one that a client may see.
	Problem func(ctx context.Context, err error, doing string) *api.Error
}

// Caller is the authenticated client of one request.
type Caller struct {
	Owner   string // of the sessions
	Session string // the only session that the caller may use; "": all of the owner's
	// Permit refuses what the caller may not do in Session. Without a right it refuses what only the owner may do.
	Permit func(api.Right) error
	// Attach counts the caller as a user of the session until detach is called.
	Attach func(*session.Session) (detach func())
	// Body reads the whole body, up to [api.MaxBody]. release must be called, in any case.
	Body func() (data []byte, release func(), err error)
	// Intake reads r to its end, within the bounds on what a caller may have in memory. release must be called, in any
	// case.
	Intake func(r io.Reader) (data []byte, release func(), err error)
}

// Handler serves the protocols. It is safe for concurrent use.
type Handler struct {
	Config
	mux      *http.ServeMux
	expiry   *expiry
	turns    turns // of queueing cells
	watchers watchers
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
	h := &Handler{Config: cfg, mux: http.NewServeMux(), expiry: newExpiry()}
	for _, group := range []struct {
		refuse func(*request, *api.Error)
		routes map[string]func(*request) error
	}{
		{refuseControl, h.controlPlane()},
		{refuseCode, h.codeInterpreter()},
		{refuseEnvd, h.envd()},
		{refuseRPC, h.services()},
	} {
		for pattern, handle := range group.routes {
			h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				q := r.Context().Value(requestKey{}).(*request)
				q.Request, q.w = r, w
				if err := handle(q); err != nil {
					group.refuse(q, h.Problem(r.Context(), err, pattern+" of E2B"))
				}
			})
		}
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, api.Errorf(api.CodeNotFound, "Talaria does not serve %s %s to E2B clients", r.Method, r.URL.Path))
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

// Refuse answers with an error that no handler of this package has seen. A sandbox that does not exist is 502, as E2B's proxy
// reports it: by that the SDK knows that a sandbox is over.
func Refuse(w http.ResponseWriter, problem *api.Error) {
	status := problem.Status
	if problem.Code == api.CodeSessionNotFound {
		status = http.StatusBadGateway
	}
	transfer.WriteJSON(w, status, map[string]any{"code": status, "message": problem.Detail})
}

func refuseControl(q *request, problem *api.Error) {
	transfer.WriteJSON(q.w, problem.Status, map[string]any{"code": problem.Status, "message": problem.Detail})
}

func refuseEnvd(q *request, problem *api.Error) {
	if problem.Code == api.CodeNotAFile { // envd has no 409 for files
		problem = api.Errorf(api.CodeInvalidRequest, "%s", problem.Detail)
	}
	Refuse(q.w, problem)
}

// refuseCode answers in plain text, which the SDK shows as it is.
func refuseCode(q *request, problem *api.Error) {
	status := problem.Status
	if problem.Code == api.CodeSessionNotFound {
		status = http.StatusBadGateway
	}
	q.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	q.w.WriteHeader(status)
	_, _ = q.w.Write([]byte(problem.Detail))
}

// answer writes v as JSON.
func (q *request) answer(status int, v any) error {
	transfer.WriteJSON(q.w, status, v)
	return nil
}

// nothing answers without a body.
func (q *request) nothing() error {
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// read decodes the body, which may be empty. SDKs send fields of many versions of E2B, so unknown ones are ignored.
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

// named returns the session of a sandbox, if the caller has the right to use it so. The caller of named releases it.
func (h *Handler) named(q *request, id string, right api.Right) (*session.Session, error) {
	if q.caller.Session != "" && q.caller.Session != id {
		return nil, errNoSandbox(id)
	}
	if err := q.caller.Permit(right); err != nil {
		return nil, err
	}
	s, err := h.Sessions.Get(q.caller.Owner, id)
	if hasCode(err, api.CodeSessionNotFound) {
		return nil, errNoSandbox(id)
	}
	if err == nil && s.IsBeside(nil) { // that of a context
		s.Release()
		return nil, errNoSandbox(id)
	}
	return s, err
}

func errNoSandbox(id string) error {
	return api.Errorf(api.CodeSessionNotFound, "you have no sandbox %.140q: it was killed, it expired, or it never existed", id)
}

// sandbox returns the session of the sandbox that a request for its envd or its code interpreter is about: the one in the
// header, in the first part of the host's name as PORT-ID, or the only one that the caller may use. The caller of sandbox
// releases it.
func (h *Handler) sandbox(q *request, right api.Right) (*session.Session, error) {
	id := q.Header.Get("E2b-Sandbox-Id")
	if label, _, dotted := strings.Cut(q.Host, "."); id == "" && dotted {
		if port, name, ok := strings.Cut(label, "-"); ok && strings.Trim(port, "0123456789") == "" {
			id = name
		}
	}
	if id == "" {
		id = q.caller.Session
	}
	if id == "" {
		return nil, api.Errorf(api.CodeInvalidRequest, "the request does not name a sandbox; send the header E2b-Sandbox-Id")
	}
	return h.named(q, id, right)
}
