package mcpclient

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"talaria/session/remote"
)

const (
	connectTime = 30 * time.Second // for a program to start and answer
	stableTime  = 30 * time.Second // a connection that lasted this long is not a failure when it ends
	minBackoff  = time.Second
	maxBackoff  = time.Minute
)

// server keeps the one connection to a configured server.
type server struct {
	cfg     Server
	version string
	changed func(server string)
	log     *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // all goroutines of the server

	mu       sync.Mutex    // guards what follows
	closed   bool          // no goroutine may begin
	current  *connection   // nil: none
	dialing  chan struct{} // is closed when the attempt that is under way has ended; nil: none
	failures int           // in succession
	retryAt  time.Time     // no attempt before
}

func newServer(one Server, cfg Config) *server {
	s := &server{cfg: one, version: cfg.Version, changed: cfg.Changed, log: cfg.Log.With("mcp_server", one.Name)}
	if s.changed == nil {
		s.changed = func(string) {}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// connect returns the connection, and makes one if there is none. ctx bounds the wait; an attempt goes on without it.
func (s *server) connect(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	switch {
	case s.closed || s.ctx.Err() != nil:
		s.mu.Unlock()
		return nil, s.unavailable("the server is shutting down")
	case s.current != nil:
		defer s.mu.Unlock()
		return s.current, nil
	}
	if s.dialing == nil {
		if wait := time.Until(s.retryAt); wait > 0 {
			s.mu.Unlock()
			return nil, s.unavailable("it ended or did not start; the next attempt is possible in " + wait.Round(100*time.Millisecond).String())
		}
		s.dialing = make(chan struct{})
		s.work.Go(s.dial)
	}
	dialing := s.dialing
	s.mu.Unlock()
	select {
	case <-dialing:
	case <-ctx.Done():
		return nil, ended(ctx, s.cfg.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, s.unavailable("the connection failed; the server's log says why")
	}
	return s.current, nil
}

func (s *server) unavailable(why string) error {
	return remote.Failuref(remote.CodeUnavailable, "the MCP server %s is not available: %s", s.cfg.Name, why)
}

// ended is the failure of a call whose context ended.
func ended(ctx context.Context, name string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return remote.Failuref(remote.CodeTimeout, "the MCP server %s did not answer before the call's deadline", name)
	}
	return remote.Failuref(remote.CodeCancelled, "the cell no longer waits for the call")
}

// dial makes one attempt, and then keeps the connection until it ends.
func (s *server) dial() {
	c, err := s.open()
	s.mu.Lock()
	close(s.dialing)
	s.dialing = nil
	if s.current = c; err != nil {
		s.failed()
	}
	s.mu.Unlock()
	if err != nil {
		if s.ctx.Err() == nil {
			s.log.Warn("cannot connect to an MCP server", "error", err)
		}
		return
	}
	s.changed(s.cfg.Name)
	err = c.run()
	s.lose(c)
	if s.ctx.Err() == nil {
		s.log.Warn("the connection to an MCP server ended", "error", err)
	}
}

// lose gives up a connection that has broken. The next call begins with another one.
func (s *server) lose(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != c {
		return
	}
	s.current = nil
	if time.Since(c.begun) >= stableTime {
		s.failures = 0
	}
	if !c.transport.forgotten() { // else the server restarted, and is there
		s.failed()
	}
}

// failed puts the next attempt off: not at all after the first failure, then for twice as long each time. s.mu is held.
func (s *server) failed() {
	wait := time.Duration(0)
	if s.failures > 0 {
		wait = min(minBackoff<<min(s.failures-1, 10), maxBackoff)
	}
	s.failures++
	s.retryAt = time.Now().Add(wait)
}

// drop gives a connection up that the server does not know any more.
func (s *server) drop(c *connection) {
	s.mu.Lock()
	if s.current == c {
		s.current = nil
	}
	s.mu.Unlock()
	c.cancel()
}

// open connects and lists the tools.
func (s *server) open() (*connection, error) {
	ctx, cancel := context.WithTimeout(s.ctx, connectTime)
	defer cancel()
	return open(ctx, s)
}

func (s *server) close() {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
}
