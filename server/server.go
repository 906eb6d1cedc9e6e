// Package server translates between the network and package session: REST, WebSocket, SSE, NDJSON, files, artifacts,
// the notebook page, and who may do what. The packages below it, such as server/jupyter, speak the protocols of other clients; this
// one serves them at their paths, or at addresses of their own.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"talaria/api"
	"talaria/batch"
	"talaria/server/e2b"
	"talaria/server/execd"
	"talaria/server/jupyter"
	"talaria/server/librechat"
	"talaria/server/mcp"
	"talaria/session"
)

// drainTime bounds how long Drain waits for sockets to say goodbye.
const drainTime = 2 * time.Second

// errDraining is the cause of the contexts of waiting requests that a shutdown ends.
var errDraining = errors.New("the server is shutting down")

// LoginTime is how long a browser's login lasts.
const LoginTime = 30 * 24 * time.Hour

// Tokens knows owners by their tokens, and by the cookies of logins, which end with the token. ctx bounds each call.
type Tokens interface {
	// Owner returns the owner of a token; first tells that it is the first owner, who may see the server's own
	// figures.
	Owner(ctx context.Context, token string) (owner string, first bool, ok bool)
	// Login makes a login of a token, which lasts until then, and returns what its cookie holds.
	Login(ctx context.Context, token string, until time.Time) (login string, err error)
	// LoginOwner is Owner for a login.
	LoginOwner(ctx context.Context, login string) (owner string, first bool, ok bool)
	// Logout ends a login.
	Logout(ctx context.Context, login string) error
	// OwnedTokens lists the owner's tokens that have not expired, those for one session included.
	OwnedTokens(ctx context.Context, owner string) ([]api.OwnedToken, error)
	// RevokeOwned revokes the owner's token with that id; found is false if the owner has no such token.
	RevokeOwned(ctx context.Context, owner, id string) (found bool, err error)
	// NoteUses records when tokens, and logins by what their cookies hold, were last used.
	NoteUses(ctx context.Context, uses map[string]time.Time) error
	// Revocations is a number that changes whenever a token or a login ends before its time.
	Revocations(ctx context.Context) (int64, error)
}

// Config is what a server needs. Sessions, Tokens, Version and Log are required.
type Config struct {
	Sessions *session.Manager
	Tokens   Tokens
	Origins  []string // such as "https://chat.example.org": may use the API from a browser
	Version  string
	Log      *slog.Logger
	Registry *prometheus.Registry // nil: one of its own
	MCP      string               // which tools /mcp offers, such as [mcp.ToolsAll], which "" means
	Jupyter  bool                 // serve clients of Jupyter below [jupyter.Prefix]
	// JupyterPlaces keeps how far clients of Jupyter have read; nil: for the life of the server.
	JupyterPlaces *jupyter.Places
	Runs          Runs           // runs programs outside of sessions; nil: nobody does
	Batches       *batch.Manager // runs jobs of many cells; nil: nobody does
	Engine        bool           // serve clients of one-shot engines below [engine.Prefix]; needs Runs
	E2B           bool           // serve clients of E2B below [e2b.Prefix]
	// SandboxKey makes the tokens of single sandboxes, which clients of E2B get. It is required with E2B.
	SandboxKey []byte
	Execd      bool // serve clients of OpenSandbox's execd below [execd.Prefix]
	LibreChat  bool // serve LibreChat below [librechat.Prefix]
	// LibreChatKeys verify the tokens that LibreChat signs.
	LibreChatKeys []librechat.Key

	// Connections bounds those on which no authenticated request is under way; 0: 256.
	Connections int
	// OwnerRequests bounds the requests, streams and sockets that one owner has under way; 0: 1000.
	OwnerRequests int
	// SecureCookies marks cookies Secure, for a proxy that does TLS.
	SecureCookies bool
	// Stall is how long a client may take no byte of an answer, or send no byte of a body; 0: a minute.
	Stall time.Duration
}

// Server is the HTTP side of the program. It is safe for concurrent use.
type Server struct {
	sessions      *session.Manager
	tokens        Tokens
	uses          tokenUses
	origins       map[string]bool
	log           *slog.Logger
	version       string
	engine        *gin.Engine
	web           *http.Server
	frontWebs     map[string]*http.Server // of the fronts that are served, by their names
	lobby         *lobby
	metrics       *metrics
	page          *page
	mcp           *mcp.Handler     // nil: off
	jupyter       *jupyter.Handler // nil: off
	runs          Runs             // nil: none
	batches       *batch.Manager   // nil: none
	engineOn      bool
	e2b           *e2b.Handler       // nil: off
	execd         *execd.Handler     // nil: off
	librechat     *librechat.Handler // nil: off
	librechatKeys []librechat.Key
	openapi       func() ([]byte, error) // its description takes 14 ms, so it waits for a request
	sockets       connTracker
	callers       *callers
	guesses       *guesses
	filePasses    *filePasses
	revocations   atomic.Int64 // how often recheck began
	stall         time.Duration
	secureCookies bool

	drainOnce sync.Once
	draining  chan struct{}
}

// New makes a server. It fails for an origin that is none.
func New(cfg Config) (*Server, error) {
	if cfg.Sessions == nil || cfg.Tokens == nil || cfg.Log == nil {
		return nil, errors.New("server: Sessions, Tokens and Log are required")
	}
	origins, err := parseOrigins(cfg.Origins)
	if err != nil {
		return nil, err
	}
	page, err := newPage()
	if err != nil {
		return nil, fmt.Errorf("load the page: %w", err)
	}
	s := &Server{
		sessions:      cfg.Sessions,
		tokens:        cfg.Tokens,
		origins:       origins,
		log:           cfg.Log,
		version:       cfg.Version,
		page:          page,
		callers:       newCallers(cmp.Or(cfg.OwnerRequests, 1000)),
		guesses:       newGuesses(),
		filePasses:    newFilePasses(),
		lobby:         newLobby(cmp.Or(cfg.Connections, 256), cmp.Or(cfg.Stall, stall)),
		stall:         cmp.Or(cfg.Stall, stall),
		secureCookies: cfg.SecureCookies,
		draining:      make(chan struct{}),
	}
	s.metrics = newMetrics(cfg.Registry, cfg.Sessions, cfg.Batches)
	s.mcp = s.newMCP(cmp.Or(cfg.MCP, mcp.ToolsAll))
	if cfg.Jupyter {
		s.jupyter = s.newJupyter(cfg.JupyterPlaces)
	}
	s.batches = cfg.Batches
	s.runs, s.engineOn = cfg.Runs, cfg.Engine && cfg.Runs != nil
	if cfg.E2B {
		s.e2b = s.newE2B(cfg.SandboxKey)
	}
	if cfg.Execd {
		s.execd = execd.New(execd.Config{Sessions: s.sessions, Stall: s.stall, UntilDrain: s.untilDrain, Problem: s.problem})
	}
	if cfg.LibreChat {
		s.librechatKeys = cfg.LibreChatKeys
		s.librechat = librechat.New(librechat.Config{Sessions: s.sessions, Runs: s.runs, UntilDrain: s.untilDrain, Problem: s.problem})
	}
	routes := slices.Concat(s.routes(), s.mcpRoutes(), s.jupyterRoutes(), s.e2bRoutes(), s.librechatRoutes(), s.execdRoutes(), s.engineRoutes())
	s.openapi = sync.OnceValues(func() ([]byte, error) { return describe(routes, cfg.Version) })
	s.engine = s.newEngine(routes)
	s.web = s.newWeb(s.engine)
	s.frontWebs = map[string]*http.Server{}
	for _, r := range routes {
		if f := r.front; f != nil && s.frontWebs[f.name] == nil {
			s.frontWebs[f.name] = s.newWeb(f.atRoot(s.engine))
		}
	}
	return s, nil
}

func (s *Server) newWeb(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext: withConn, ConnState: connState,
	}
}

// Serve accepts connections until Shutdown or Close, and then returns [http.ErrServerClosed].
func (s *Server) Serve(listener net.Listener) error {
	watching, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { s.watchRevocations(watching) })
	watch.Go(func() { s.recordUses(watching) })
	if s.e2b != nil {
		watch.Go(func() { s.e2b.Run(watching) })
	}
	defer watch.Wait()
	defer stop()
	return s.web.Serve(door{listener, s.lobby})
}

// Shutdown drains the server and waits for the requests under way. What is left when ctx ends is cut off, and is the
// error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	webs := append(slices.Collect(maps.Values(s.frontWebs)), s.web)
	errs := make([]error, len(webs))
	var ending sync.WaitGroup
	for i, web := range webs {
		ending.Go(func() {
			if err := web.Shutdown(ctx); err != nil {
				errs[i] = errors.Join(err, web.Close())
			}
		})
	}
	ending.Wait()
	return errors.Join(errs...)
}

// Drain answers waiting requests with what there is, ends streams, and closes sockets with 1001. It returns when the
// sockets are closed or after two seconds.
func (s *Server) Drain() {
	s.drainOnce.Do(func() { close(s.draining) })
	select {
	case <-s.sockets.close():
	case <-time.After(drainTime):
	}
}

func (s *Server) newEngine(routes []route) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.HandleMethodNotAllowed = true
	e.UseEscapedPath = true // one decoding, ours, after the route is found
	e.UnescapePathValues = false
	e.Use(s.observe, s.recoverPanic, s.paceBody, securityHeaders, s.cors)
	e.NoRoute(s.noRoute)
	e.NoMethod(s.noMethod)
	for _, r := range routes {
		handler := s.handler(r)
		e.Handle(r.method, r.pattern(), handler)
		if r.method == http.MethodGet && !r.socket {
			e.Handle(http.MethodHead, r.pattern(), handler)
		}
	}
	return e
}

// untilDrain is parent, ended also by a shutdown, with errDraining as its cause then. cancel must be called.
func (s *Server) untilDrain(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	go func() {
		select {
		case <-s.draining:
		case <-s.sessions.Closing():
		case <-ctx.Done():
			return
		}
		end(errDraining)
	}()
	return ctx, func() { end(context.Canceled) }
}

// connTracker counts who is there, and can be closed: then nobody enters, and the last one to leave is noticed. The zero
// value is ready to use and safe for concurrent use.
type connTracker struct {
	mu     sync.Mutex // guards all below
	count  int
	closed bool
	empty  chan struct{}
}

func (c *connTracker) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.count++
	return true
}

func (c *connTracker) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count--
	if c.closed && c.count == 0 {
		close(c.empty)
	}
}

// close lets nobody enter any more; the channel is closed once all have left.
func (c *connTracker) close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.empty = make(chan struct{})
		if c.count == 0 {
			close(c.empty)
		}
	}
	return c.empty
}
