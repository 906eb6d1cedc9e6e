// Package jupyter serves sessions to clients of Jupyter: its REST API for kernels, kernel specifications, sessions and contents,
// and its kernel messages over a WebSocket. It translates between Jupyter's protocol and package session, where every kernel is an
// ordinary session; it keeps no queue, no log and no kernel of its own.
//
// The protocol is described in jupyter_server's documents "REST API" and "WebSocket kernel wire protocols", and of jupyter_client's
// "Messaging in Jupyter", version 5.3.
package jupyter

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"talaria/api"
	"talaria/api/kernelwire"
	"talaria/session"
)

// Prefix is the path below which the protocol is served: a client's base URL ends with it.
const Prefix = "/jupyter"

// Config is what a Handler needs; all fields but Places are required.
type Config struct {
	Sessions *session.Manager
	// Environments are the Pythons that kernels may run, the default first.
	Environments []api.EnvironmentInfo
	Version      string
	Log          *slog.Logger
	Places       *Places // where clients stopped; nil: not kept for the next server
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
	// Upgrade makes the request a WebSocket that speaks one of the subprotocols, or none. If it fails, it returns an error, or
	// nil where it has answered already.
	Upgrade func(subprotocols ...string) (Socket, error)
	// Send answers with a file, or the part of it that the request's headers ask for. A browser saves it instead of showing it if
	// attached is set, and always what it could run.
	Send func(file *os.File, as api.File, attached bool) error
	// Attach counts the caller as a user of the session until detach is called.
	Attach func(*session.Session) (detach func())
}

// Handler serves the protocol. It is safe for concurrent use.
type Handler struct {
	Config
	mux     *http.ServeMux
	started time.Time
	kernels kernels
}

// request is one request on its way through a handler.
type request struct {
	*http.Request
	w      http.ResponseWriter
	caller Caller
	body   []byte
}

type requestKey struct{}

// New returns a handler. It starts nothing.
func New(cfg Config) *Handler {
	h := &Handler{Config: cfg, mux: http.NewServeMux(), started: time.Now(), kernels: kernels{places: cfg.Places}}
	for pattern, handle := range map[string]func(*request) error{
		"GET /api":                         h.getVersion,
		"GET /api/status":                  h.getStatus,
		"GET /api/me":                      h.getMe,
		"GET /api/events/subscribe":        h.serveEvents,
		"GET /api/nbconvert":               h.listFormats,
		"GET /api/kernelspecs":             h.listSpecs,
		"GET /api/kernelspecs/{name}":      h.getSpec,
		"GET /api/kernels":                 h.listKernels,
		"POST /api/kernels":                h.createKernel,
		"GET /api/kernels/{id}":            h.getKernel,
		"DELETE /api/kernels/{id}":         h.deleteKernel,
		"POST /api/kernels/{id}/interrupt": h.interruptKernel,
		"POST /api/kernels/{id}/restart":   h.restartKernel,
		"GET /api/kernels/{id}/channels":   h.serveChannels,
		"GET /api/sessions":                h.listSessions,
		"POST /api/sessions":               h.createSession,
		"GET /api/sessions/{id}":           h.getSession,
		"PATCH /api/sessions/{id}":         h.patchSession,
		"DELETE /api/sessions/{id}":        h.deleteSession,
		"/api/contents":                    h.serveContents,
		"/api/contents/{path...}":          h.serveContents,
		"GET /files":                       h.getFile,
		"GET /files/{path...}":             h.getFile,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			q := r.Context().Value(requestKey{}).(*request)
			q.Request, q.w = r, w
			if err := handle(q); err != nil {
				Refuse(w, h.Problem(r.Context(), err, pattern+" of Jupyter"))
			}
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, api.Errorf(api.CodeNotFound, "Talaria does not serve %s %s", r.Method, Prefix+r.URL.Path))
	})
	return h
}

// ServeHTTP answers one request, whose path begins with Prefix. body is the request's whole body.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, caller Caller, body []byte) {
	q := &request{caller: caller, body: body}
	inner := r.WithContext(context.WithValue(r.Context(), requestKey{}, q))
	at := *r.URL
	at.Path, at.RawPath = strings.TrimPrefix(at.Path, Prefix), strings.TrimPrefix(at.RawPath, Prefix)
	if at.Path != "/" { // clients differ about a slash at the end
		at.Path, at.RawPath = strings.TrimSuffix(at.Path, "/"), strings.TrimSuffix(at.RawPath, "/")
	}
	if escaped := at.EscapedPath(); path.Clean(escaped) != escaped { // the multiplexer would redirect to a path without Prefix
		Refuse(w, api.Errorf(api.CodePathOutside, "the path %.200q has a part that is empty, \".\" or \"..\"; leave it out", r.URL.Path))
		return
	}
	inner.URL = &at
	h.mux.ServeHTTP(w, inner)
}

// Refuse answers with an error as a Jupyter Server does. Its clients take 403 for a missing login.
func Refuse(w http.ResponseWriter, problem *api.Error) {
	status := problem.Status
	answer := map[string]any{"message": problem.Detail, "reason": nil}
	if problem.Code == api.CodeUnauthorized {
		status = http.StatusForbidden
		answer["message"] = "Forbidden: " + problem.Detail
	}
	writeJSON(w, status, answer)
}

// RefusePassword answers a login with a wrong password.
func RefusePassword(w http.ResponseWriter) {
	writeJSON(w, http.StatusUnauthorized, map[string]any{"message": "Invalid credentials: the password is a Talaria token", "reason": nil})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // models of strings, numbers and their maps always encode
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// answer writes v as JSON.
func (q *request) answer(status int, v any) error {
	writeJSON(q.w, status, v)
	return nil
}

// read decodes the body, which may be empty. Clients send fields of many versions of Jupyter, so unknown ones are ignored.
func (q *request) read(into any) error {
	if len(q.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(q.body, into); err != nil {
		return api.Errorf(api.CodeInvalidRequest, "the body is not the expected JSON: %v", err)
	}
	return nil
}

// command returns the context for a change: a client that goes away stops nothing.
func (q *request) command() context.Context { return context.WithoutCancel(q.Context()) }

// session returns the session of a kernel, if the caller has the right to use it so. The caller of session releases it.
func (h *Handler) session(q *request, kernel string, right api.Right) (*session.Session, error) {
	id, ok := kernelwire.SessionID(kernel)
	if !ok || q.caller.Session != "" && id != q.caller.Session {
		return nil, errNoKernel(kernel)
	}
	if err := q.caller.Permit(right); err != nil {
		return nil, err
	}
	s, err := h.Sessions.Get(q.caller.Owner, id)
	if err != nil {
		return nil, errNoKernel(kernel)
	}
	return s, nil
}

func errNoKernel(id string) error {
	return api.Errorf(api.CodeSessionNotFound, "Kernel does not exist: %.140s", id)
}

func (h *Handler) getVersion(q *request) error {
	return q.answer(http.StatusOK, map[string]string{"version": serverVersion})
}

// serverVersion is the version of Jupyter Server whose API this is.
const serverVersion = "2.14.0"

func (h *Handler) getStatus(q *request) error {
	models, err := h.models(q)
	if err != nil {
		return err
	}
	last, connections := h.started, 0
	for _, m := range models {
		connections += m.Connections
		if m.at.After(last) {
			last = m.at
		}
	}
	return q.answer(http.StatusOK, map[string]any{
		"started": date(h.started), "last_activity": date(last), "connections": connections, "kernels": len(models),
	})
}

// getMe answers who the caller is.
func (h *Handler) getMe(q *request) error {
	name := q.caller.Owner
	initials := strings.ToUpper(name[:min(len(name), 1)])
	return q.answer(http.StatusOK, map[string]any{
		"identity":    map[string]any{"username": name, "name": name, "display_name": name, "initials": initials, "avatar_url": nil, "color": nil},
		"permissions": map[string]any{},
	})
}

// listFormats answers to which formats the server converts notebooks: to none. JupyterLab takes a refusal for a fault.
func (h *Handler) listFormats(q *request) error {
	return q.answer(http.StatusOK, map[string]any{})
}

// serveEvents is GET api/events/subscribe, on which a Jupyter Server reports what happens in it. Talaria reports nothing there, but
// without it JupyterLab tries to connect for ever.
func (h *Handler) serveEvents(q *request) error {
	socket, err := q.caller.Upgrade()
	if socket == nil {
		return err
	}
	ctx, end := h.UntilDrain(q.Context())
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			_, _, release, err := socket.Read(ctx)
			if err != nil {
				cancel(errGone)
				return
			}
			release() // an event of the client, which nobody waits for
		}
	})
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ping.C:
			if socket.Ping("") != nil {
				cancel(errGone)
			}
		}
	}
	if errors.Is(context.Cause(ctx), errGone) {
		socket.Close(0, "")
	} else {
		socket.Close(closeRestart, "the server is restarting, or the token was revoked")
	}
	reading.Wait()
	return nil
}

// dateLayout has six digits after the point: some clients parse no other form.
const dateLayout = "2006-01-02T15:04:05.000000Z"

func date(t time.Time) string { return t.UTC().Format(dateLayout) }
