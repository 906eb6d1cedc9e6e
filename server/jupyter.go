package server

import (
	"context"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/server/jupyter"
	"talaria/session"
)

// jupyterFront is how clients of Jupyter authenticate and are answered. Only the version of the API and the login are open.
var jupyterFront = &front{
	name: "jupyter", prefix: jupyter.Prefix,
	scheme: "token",
	open: func(r *http.Request) bool {
		get := r.Method == http.MethodGet
		return get && strings.TrimSuffix(r.URL.Path, "/") == jupyter.Prefix+"/api" || (get || r.Method == http.MethodPost) && r.URL.Path == jupyterLogin
	},
	refuse: jupyter.Refuse,
	cookie: jupyterCookie,
}

func (s *Server) newJupyter(places *jupyter.Places) *jupyter.Handler {
	return jupyter.New(jupyter.Config{
		Sessions: s.sessions, Version: s.version, Log: s.log, UntilDrain: s.untilDrain, Problem: s.problem,
		Environments: s.sessions.Environments(), Places: places,
	})
}

func (s *Server) jupyterRoutes() []route {
	if s.jupyter == nil {
		return nil
	}
	const all = jupyter.Prefix + "/{path}"
	var routes []route
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		d := doc{
			id: strings.ToLower(method) + "Jupyter", summary: "Jupyter's API, for Jupyter clients",
			body: optional(jsonOf[struct{}]()), answers: answers{200: jsonOf[struct{}]()},
		}
		if method == http.MethodGet {
			d.body = content{}
		}
		routes = append(routes, route{method: method, path: all, handle: s.serveJupyter, doc: d, front: jupyterFront}.readable())
	}
	return routes
}

// serveJupyter answers a request. What its caller may do with a session is checked for each.
func (s *Server) serveJupyter(c *call) error {
	if c.front.open(c.Request) {
		if c.Request.URL.Path == jupyterLogin {
			return s.loginJupyter(c)
		}
		s.jupyter.ServeHTTP(c.Writer, c.Request, jupyter.Caller{}, nil)
		return nil
	}
	var body []byte
	if c.Request.Method != http.MethodGet {
		data, release, err := c.wholeBody()
		defer release()
		if err != nil {
			return err
		}
		body = data
	}
	s.giveFilePass(c)
	s.jupyter.ServeHTTP(c.Writer, c.Request, jupyter.Caller{
		Owner: c.owner, Session: c.visited(), Permit: c.permit, Attach: func(sess *session.Session) func() { return c.attach(sess) },
		Upgrade: func(subprotocols ...string) (jupyter.Socket, error) { return s.jupyterSocket(c, subprotocols...) },
		Send:    func(file *os.File, as api.File, attached bool) error { return sendFile(c, file, as, attached) },
	}, body)
	return nil
}

// frontSocket is the WebSocket of a client of another protocol. It implements [jupyter.Socket].
type frontSocket struct {
	*peer
	leave func()
	ended chan struct{} // closed when reading has ended

	readErr error // valid once ended is closed
}

// jupyterSocket makes the request a WebSocket. Without one the answer is the error, or was given already.
func (s *Server) jupyterSocket(c *call, subprotocols ...string) (jupyter.Socket, error) {
	peer, leave, err := s.upgrade(c, subprotocols...)
	if peer == nil {
		return nil, err
	}
	return &frontSocket{peer: peer, leave: leave, ended: make(chan struct{})}, nil
}

func (f *frontSocket) Subprotocol() string { return f.conn.Subprotocol() }

func (f *frontSocket) Read(ctx context.Context) (binary bool, data []byte, release func(), err error) {
	one, err := f.peer.read(ctx)
	if err != nil {
		f.readErr = err
		close(f.ended)
	}
	return one.kind == websocket.BinaryMessage, one.data, one.release, err
}

func (f *frontSocket) Write(binary bool, data []byte) error {
	kind := websocket.TextMessage
	if binary {
		kind = websocket.BinaryMessage
	}
	return f.conn.WriteMessage(kind, data)
}

// Ping has no deadline of its own: it waits for its turn.
func (f *frontSocket) Ping(data string) error {
	return f.conn.WriteControl(websocket.PingMessage, []byte(data), time.Time{})
}

func (f *frontSocket) OnPong(do func(data string)) {
	f.conn.SetPongHandler(func(data string) error {
		do(data)
		return f.heard(readTimeout)
	})
}

func (f *frontSocket) Hold() { f.wire.hold() }

func (f *frontSocket) Full() bool { return f.wire.full() }

func (f *frontSocket) Release() error { return f.wire.release() }

func (f *frontSocket) Unblock() { f.unblock() }

func (f *frontSocket) Close(code int, reason string) {
	defer f.leave()
	if code != 0 {
		f.sayClose(closeReason{code, reason})
	}
	f.endReading()
	select {
	case <-f.ended:
		f.discardRest(f.readErr)
	case <-time.After(closeTimeout): // a message is being carried out
	}
	_ = f.conn.Close() // nothing can be done about a connection that does not close
}
