package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/session"
	"talaria/session/access"
)

const (
	pingEvery = 30 * time.Second
	// readTimeout is how long a peer may say nothing, not even to a ping, before it is given up.
	readTimeout = 5 * time.Minute
	// backlog is how many frames of a client wait while one is carried out.
	backlog = 8
	// partSize is how many bytes a message may have before a client that asks for parts gets it in parts of so many.
	partSize = 256 << 10
)

// socket is one client on one session's log. Three goroutines serve it: read takes frames in, work carries them out
// in order, with a few more for questions to the kernel, and write alone sends.
type socket struct {
	srv  *Server
	sess *session.Session
	*peer
	reader  *session.Reader
	usage   bool
	parts   bool // large messages come in parts
	owner   string
	visit   *access.Visit // nil for an owner
	tools   *toolOutbox
	revoked context.Context // ends when the credential is revoked
	frames  chan frame      // closed by read
	replies chan []byte     // from work
	over    chan struct{}
	readEnd chan struct{}
	readErr error // valid once readEnd is closed
}

// serveSocket is GET /v1/sessions/{id}/ws. Token and Origin were checked by the gate.
func (s *Server) serveSocket(c *call, sess *session.Session) error {
	after, given, err := position(c, sess)
	if err != nil {
		return err
	}
	usage, err := c.flag("usage", false)
	if err != nil {
		return err
	}
	view, err := c.flag("view", false)
	if err != nil {
		return err
	}
	parts, err := c.flag("parts", false)
	if err != nil {
		return err
	}
	peer, leave, err := s.upgrade(c, api.Subprotocol)
	if peer == nil {
		return err
	}
	defer leave()
	detach := c.attach(sess)
	defer detach()
	defer c.attachApprover(sess)()
	info := c.info(sess)
	reader := follow(sess, after, given, view, info.LastSeq)
	k := &socket{
		srv:     s,
		sess:    sess,
		peer:    peer,
		reader:  reader,
		usage:   usage,
		parts:   parts,
		owner:   c.owner,
		visit:   c.visit,
		tools:   newToolOutbox(),
		revoked: c.ctx(),
		frames:  make(chan frame, backlog),
		replies: make(chan []byte),
		over:    make(chan struct{}),
		readEnd: make(chan struct{}),
	}
	k.run(c.command(), info)
	return nil
}

// follow makes the reader of a socket: from the position that was given, else a view from the log's beginning, and all
// others from now on.
func follow(sess *session.Session, after int64, given, view bool, last int64) *session.Reader {
	switch {
	case view && given:
		return sess.Journal().View(after, last)
	case view:
		return sess.Journal().View(max(sess.Journal().FirstSeq()-1, 0), last)
	case given:
		return sess.Journal().Follow(after)
	}
	return sess.Journal().Follow(last)
}

// upgrade makes a request a WebSocket. Without a peer the answer is the error, or was given already; else leave is to be
// called when the connection has ended.
func (s *Server) upgrade(c *call, subprotocols ...string) (p *peer, leave func(), err error) {
	if !websocket.IsWebSocketUpgrade(c.Request) {
		return nil, nil, api.Errorf(api.CodeInvalidRequest, "this path serves a WebSocket; send an upgrade request")
	}
	if !s.sockets.enter() {
		return nil, nil, api.Errorf(api.CodeShuttingDown, "the server is shutting down")
	}
	hijacker := &wireHijacker{ResponseWriter: c.Writer}
	upgrader := websocket.Upgrader{
		Subprotocols:    subprotocols,
		ReadBufferSize:  4 << 10,
		WriteBufferSize: 16 << 10,
		CheckOrigin:     func(*http.Request) bool { return true },
		Error: func(_ http.ResponseWriter, _ *http.Request, _ int, reason error) {
			writeProblem(c.Writer, api.Errorf(api.CodeInvalidRequest, "the WebSocket handshake failed: %v", reason))
		},
	}
	conn, err := upgrader.Upgrade(hijacker, c.Request, nil)
	if err != nil {
		s.sockets.leave()
		return nil, nil, nil // answered by Error
	}
	s.metrics.sockets.Inc()
	return newPeer(conn, hijacker.wire, c.caller.intake), func() {
		s.metrics.sockets.Dec()
		s.sockets.leave()
	}, nil
}

// run serves the socket until either side ends it; nothing of it is left then.
func (k *socket) run(ctx context.Context, info api.Session) {
	ctx, cancel := k.srv.untilDrain(ctx)
	defer cancel()
	worked := make(chan struct{})
	go k.read(ctx)
	go func() {
		defer close(worked)
		k.work(context.WithoutCancel(ctx))
	}()
	farewell := k.write(ctx, info)
	cancel()
	close(k.over)
	k.close(farewell)
	<-worked
	k.sess.Tools().Withdraw(k.tools)
}

// read takes frames until the connection ends, or ctx while one waits for its slot. What it took is carried out even
// then.
func (k *socket) read(ctx context.Context) {
	defer k.unblock() // nobody reads what is being written
	defer close(k.readEnd)
	defer close(k.frames)
	for {
		var f frame
		if f, k.readErr = k.peer.read(ctx); k.readErr != nil {
			return
		}
		k.frames <- f
	}
}

// work carries out frames, one after another but for questions, also those that came before the client went away.
func (k *socket) work(ctx context.Context) {
	asking := make(chan struct{}, backlog)
	var asked sync.WaitGroup
	defer asked.Wait()
	for f := range k.frames {
		o := parseOrder(f)
		if !o.beside {
			k.reply(k.dispatch(ctx, o))
			f.release()
			continue
		}
		asking <- struct{}{}
		asked.Go(func() {
			defer func() { f.release(); <-asking }()
			k.reply(k.dispatch(ctx, o))
		})
	}
}

func (k *socket) reply(r api.Reply) {
	data, err := api.Marshal(r)
	if err != nil {
		k.srv.log.Error("encode a reply", slog.Any("error", err))
		return
	}
	select {
	case k.replies <- data:
	case <-k.over:
	}
}

// closeReason is what a close frame says; 0 means that there is nobody to say it to.
type closeReason struct {
	code int
	text string
}

var (
	gone         = closeReason{}
	deleted      = closeReason{websocket.CloseNormalClosure, "session_deleted"}
	shutdown     = closeReason{websocket.CloseGoingAway, "shutting_down"}
	revokedShare = closeReason{websocket.ClosePolicyViolation, "share_revoked"}
	revokedToken = closeReason{websocket.ClosePolicyViolation, "token_revoked"}
	expiredToken = closeReason{websocket.ClosePolicyViolation, "token_expired"}
	lagging      = closeReason{websocket.CloseTryAgainLater, "lagging; resume with after"}
	broken       = closeReason{websocket.CloseInternalServerErr, "internal_error"}
	expired      = closeReason{websocket.CloseInternalServerErr, "events_expired"}
)

// write sends hello, events, replies, usage and pings, and says how the socket is to end.
func (k *socket) write(ctx context.Context, info api.Session) closeReason {
	hello := api.Hello{Type: "hello", Protocol: api.Protocol, Session: info}
	if err := k.sendJSON(hello); err != nil {
		return gone
	}
	defer context.AfterFunc(ctx, k.unblock)() // a write that waits does not hold up a shutdown
	defer context.AfterFunc(k.revoked, k.unblock)()
	ctx, cancel := context.WithCancel(ctx)
	list := fetch(ctx, k.reader.Events(ctx))
	defer func() {
		cancel()
		list.drain()
	}()
	stop := k.watchLag(ctx)
	defer stop()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	var tick <-chan time.Time
	if k.usage {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		tick = ticker.C
	}
	deletion, deadline := k.sess.Deleted(), (<-chan time.Time)(nil)
	for {
		var err error
		select {
		case event, more := <-list.events:
			if !more {
				return k.ending(ctx, list.failure)
			}
			err = k.sendReady(event, list)
		case reply := <-k.replies:
			err = k.sendReply(reply, list)
		case <-k.tools.ready:
			err = k.sendTools()
		case <-tick:
			now := k.sess.Info(ctx)
			err = k.sendJSON(api.UsageFrame{Type: "usage", Usage: now.Usage, Limits: now.Limits, ReapAt: now.ReapAt})
		case <-ping.C:
			err = k.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(stall))
		case <-deletion:
			deletion, deadline = nil, time.After(closeTimeout) // the last events may still be on their way
		case <-deadline:
			return deleted
		case <-ctx.Done():
			return k.ending(ctx, ctx.Err())
		case <-k.revoked.Done():
			return k.dismissed()
		case <-k.readEnd:
			return gone
		}
		if err != nil {
			return k.ending(ctx, err)
		}
	}
}

// dismissed is the farewell after the credential was revoked.
func (k *socket) dismissed() closeReason {
	switch {
	case errors.Is(context.Cause(k.revoked), errExpired):
		return expiredToken
	case k.visit != nil && k.visit.Link:
		return revokedShare
	}
	return revokedToken
}

// ending is the farewell after the events or a write failed.
func (k *socket) ending(ctx context.Context, err error) closeReason {
	select {
	case <-k.sess.Deleted():
		return deleted
	default:
	}
	if errors.Is(context.Cause(ctx), errDraining) {
		return shutdown
	}
	var known *api.Error
	if errors.As(err, &known) {
		switch known.Code {
		case api.CodeShuttingDown:
			return shutdown
		case api.CodeSessionNotFound:
			return deleted
		case api.CodeEventsExpired:
			return expired
		}
	}
	switch {
	case errors.Is(err, session.ErrLagging):
		return lagging
	case isWriteError(err):
		return gone
	}
	k.srv.log.Error("socket failed", slog.Any("error", err))
	return broken
}

func isWriteError(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, websocket.ErrCloseSent) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe)
}

// watchLag cuts off a client that lags, also while a write to it waits. It is told where it can still be.
func (k *socket) watchLag(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-k.reader.Lagged():
			k.sayClose(lagging)
			k.wire.cut()
		case <-ctx.Done():
		}
	}()
	return func() { cancel(); <-done }
}

// close says farewell, gives the peer a moment to answer, and closes the connection. Reading ends with it.
func (k *socket) close(f closeReason) {
	if f != gone {
		k.sayClose(f)
	}
	k.endReading()
	select {
	case <-k.readEnd:
		k.discardRest(k.readErr)
	case <-time.After(closeTimeout): // a frame is being carried out and another one waits
	}
	_ = k.conn.Close() // nothing to do about a connection that does not close
}

// sendReady sends an event, and with it all others and replies that are there by now.
func (k *socket) sendReady(event api.Event, list *feed) error {
	k.wire.hold()
	list.took(event)
	return k.sendRest(k.sendEvent(event), list)
}

// sendReply sends a reply, and with it all events that are there by now. The goroutine that fetches the events which the
// request caused is ready to run, so it goes first: then they and the reply cost the server and the client one system call each.
func (k *socket) sendReply(reply []byte, list *feed) error {
	runtime.Gosched()
	k.wire.hold()
	return k.sendRest(k.send(reply), list)
}

// sendRest sends the events and replies that are there by now with what the wire holds. err is why that failed, or nil.
func (k *socket) sendRest(err error, list *feed) error {
	var event api.Event
	for more := true; more && err == nil && !k.wire.full(); {
		select {
		case event, more = <-list.events:
			if more {
				list.took(event)
				err = k.sendEvent(event)
			}
		case reply := <-k.replies:
			err = k.send(reply)
		default:
			more = false
		}
	}
	return errors.Join(err, k.wire.release())
}

func (k *socket) sendEvent(event api.Event) error {
	line, err := eventJSON(event)
	if err != nil {
		return err
	}
	return k.send(line)
}

func (k *socket) sendJSON(v any) error {
	data, err := api.Marshal(v)
	if err != nil {
		return err
	}
	return k.send(data)
}

func (k *socket) send(data []byte) error {
	if !k.parts || len(data) <= partSize {
		return k.conn.WriteMessage(websocket.TextMessage, data)
	}
	if err := k.sendJSON(api.PartsFrame{Type: "parts", Bytes: len(data)}); err != nil {
		return err
	}
	for part := range slices.Chunk(data, partSize) {
		if err := k.conn.WriteMessage(websocket.BinaryMessage, part); err != nil {
			return err
		}
	}
	return nil
}
