// Package zmqkernel is a kernel that Jupyter clients start on their own machine and speak ZeroMQ to, such as jupyter console. It
// passes their messages to the kernel of a session on a Talaria server, through the server's Jupyter front, and the answers back:
// both speak of the same messages, in different frames.
package zmqkernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"talaria/api/kernelwire"
	"talaria/client"
)

// Channels of a kernel, as the server names them.
const (
	shell   = "shell"
	control = "control"
	stdin   = "stdin"
	iopub   = "iopub"
)

const (
	firstPause = 50 * time.Millisecond // before the server is called again, doubled each time up to
	lastPause  = 2 * time.Second
	// handshakeTimeout bounds an attempt to reach the server, and deletionTimeout the deletion of the session at the end.
	handshakeTimeout = 30 * time.Second
	deletionTimeout  = 10 * time.Second
	// silence is how long the server may say nothing: it pings every 30 seconds.
	silence = 90 * time.Second
)

// Server is where a session is.
type Server struct {
	URL   string // such as "http://127.0.0.1:8765"
	Token string
}

// Config describes a kernel.
type Config struct {
	Connection Connection
	// Find returns the server. It is called again after each cut, since the next server may have another address.
	Find func() (Server, error)
	// Session is the id of an existing session.
	Session string
	// Delete says that the session ends with the kernel.
	Delete bool
	// Outage is how long the server may be away; 0 is client.DefaultOutage.
	Outage time.Duration
	Log    *slog.Logger
}

// kernel serves the clients that have its connection file.
type kernel struct {
	cfg     Config
	key     key
	name    string // by which the server knows it after a cut
	sockets map[string]zmq4.Socket
	done    chan struct{} // closed when a client has shut the kernel down
	over    sync.Once

	writing chan struct{} // holds a value while a frame is written to the server

	mu      sync.Mutex // guards the fields below
	conn    *websocket.Conn
	changed chan struct{}       // closed and replaced when conn changes
	waiting map[string]*request // by message id
	last    int                 // number of the last request
	log     string              // whose messages came last
	at      kernelwire.Position // of the last of them
	restart bool                // a client will start this program again for the same session
}

// request is a request without a reply.
type request struct {
	n        int
	channel  string
	route    [][]byte
	frame    []byte // as it is sent to the server
	question string // the id of the last input_request for it
}

// Run serves clients until one of them shuts the kernel down, or ctx ends. It returns an error if the sockets cannot be opened, the
// session is gone, or the server is away for longer than cfg.Outage.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Outage == 0 {
		cfg.Outage = client.DefaultOutage
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &kernel{
		cfg: cfg, key: key(cfg.Connection.Key), name: "zmq-" + uuid.NewString(), done: make(chan struct{}),
		writing: make(chan struct{}, 1), changed: make(chan struct{}), waiting: map[string]*request{},
	}
	if err := k.listen(ctx); err != nil {
		return err
	}
	var serving sync.WaitGroup
	for _, channel := range []string{shell, control, stdin} {
		serving.Go(func() { k.receive(ctx, channel) })
	}
	serving.Go(func() { beat(k.sockets["heartbeat"]) })
	lost := make(chan error, 1)
	serving.Go(func() { lost <- k.follow(ctx) })
	var err error
	select {
	case <-k.done:
	case <-ctx.Done():
	case err = <-lost:
	}
	k.mu.Lock()
	remove := cfg.Delete && err == nil && !k.restart
	k.mu.Unlock()
	if remove {
		err = k.deleteSession()
	}
	cancel()
	for _, socket := range k.sockets {
		if cause := socket.Close(); !errors.Is(cause, net.ErrClosed) { // of a client that has just gone
			err = errors.Join(err, cause)
		}
	}
	serving.Wait()
	return err
}

// listen opens the sockets.
func (k *kernel) listen(ctx context.Context) error {
	c := k.cfg.Connection
	quiet := zmq4.WithLogger(log.New(io.Discard, "", 0)) // it would report each port scan
	k.sockets = map[string]zmq4.Socket{
		shell: zmq4.NewRouter(ctx, quiet), control: zmq4.NewRouter(ctx, quiet), stdin: zmq4.NewRouter(ctx, quiet),
		iopub: zmq4.NewPub(ctx, quiet), "heartbeat": zmq4.NewRep(ctx, quiet),
	}
	ports := map[string]int{shell: c.Shell, control: c.Control, stdin: c.Stdin, iopub: c.IOPub, "heartbeat": c.Heartbeat}
	for name, socket := range k.sockets {
		if err := socket.Listen(c.endpoint(ports[name])); err != nil {
			for _, one := range k.sockets {
				_ = one.Close()
			}
			return fmt.Errorf("open the %s socket: %w", name, err)
		}
	}
	return nil
}

// beat answers heartbeats until the socket is closed.
func beat(socket zmq4.Socket) {
	for {
		message, err := socket.Recv()
		if err == nil {
			err = socket.Send(message)
		}
		if err != nil {
			return
		}
	}
}

// receive passes the requests of a channel to the server until ctx ends.
func (k *kernel) receive(ctx context.Context, channel string) {
	for {
		message, err := k.sockets[channel].Recv()
		if ctx.Err() != nil {
			return
		}
		var route, parts [][]byte
		if err == nil {
			route, parts, err = k.key.open(message.Frames)
		}
		if err != nil {
			k.cfg.Log.Warn("a message is ignored", "channel", channel, "error", err)
			continue
		}
		h := readHeader(parts[partHeader])
		if h.Type == "shutdown_request" {
			if !restarts(parts) {
				k.answerShutdown(channel, route, parts)
				return
			}
			k.mu.Lock()
			k.restart = true
			k.mu.Unlock()
		}
		k.pass(ctx, h, &request{channel: channel, route: route, frame: pack(channel, parts)})
	}
}

// restarts reports whether a shutdown_request wants the kernel back: the client starts this program again then.
func restarts(parts [][]byte) bool {
	var content struct {
		Restart bool `json:"restart"`
	}
	_ = json.Unmarshal(parts[jsonParts-1], &content)
	return content.Restart
}

// answerShutdown says that the kernel ends, and ends it.
func (k *kernel) answerShutdown(channel string, route, parts [][]byte) {
	head, _ := json.Marshal(map[string]string{ // strings always encode
		"msg_id": uuid.NewString(), "session": k.name, "username": "", "date": time.Now().UTC().Format(time.RFC3339Nano),
		"msg_type": "shutdown_reply", "version": "5.3",
	})
	reply := [][]byte{head, parts[partHeader], []byte("{}"), []byte(`{"status":"ok","restart":false}`)}
	k.send(channel, route, reply)
	k.over.Do(func() { close(k.done) })
}

// pass sends a request to the server. What gets no reply waits for a connection, and what gets one is kept until then.
func (k *kernel) pass(ctx context.Context, h header, r *request) {
	replied := strings.HasSuffix(h.Type, "_request") && h.ID != ""
	for {
		k.mu.Lock()
		if replied {
			k.last++
			r.n = k.last
			k.waiting[h.ID] = r
		}
		conn, changed := k.conn, k.changed
		k.mu.Unlock()
		if conn != nil && k.write(conn, r.frame) == nil || replied {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (k *kernel) write(conn *websocket.Conn, frame []byte) error {
	k.writing <- struct{}{}
	defer func() { <-k.writing }()
	return conn.WriteMessage(websocket.BinaryMessage, frame)
}

// send sends a message to a client, or to all of them with iopub.
func (k *kernel) send(channel string, route, parts [][]byte) {
	if err := k.sockets[channel].SendMulti(zmq4.NewMsgFrom(k.key.seal(route, parts)...)); err != nil {
		k.cfg.Log.Warn("a message could not be sent to a client", "channel", channel, "error", err)
	}
}

// follow passes on what the server says, over one connection after the other, until ctx ends or the kernel is lost.
func (k *kernel) follow(ctx context.Context) error {
	since, pause := time.Now(), firstPause
	for {
		conn, err := k.dial(ctx)
		if err == nil {
			k.serve(ctx, conn)
			since, pause = time.Now(), firstPause
		}
		gone := new(goneError)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &gone):
			return err
		case err != nil && time.Since(since) > k.cfg.Outage:
			return fmt.Errorf("the server has been away for %v: %w", k.cfg.Outage, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		pause = min(2*pause, lastPause)
	}
}

// goneError says why no connection is possible any more.
type goneError struct{ reason string }

func (e *goneError) Error() string { return e.reason }

// dial connects to the server.
func (k *kernel) dial(ctx context.Context) (*websocket.Conn, error) {
	server, err := k.cfg.Find()
	if err != nil {
		return nil, err
	}
	base, ok := strings.CutPrefix(server.URL, "http")
	if !ok {
		return nil, &goneError{fmt.Sprintf("%q is not the URL of a server", server.URL)}
	}
	target := "ws" + base + "/jupyter/api/kernels/" + kernelwire.KernelID(k.cfg.Session) + "/channels?session_id=" + url.QueryEscape(k.name)
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeTimeout, Subprotocols: []string{kernelwire.Subprotocol}}
	conn, resp, err := dialer.DialContext(ctx, target, http.Header{"Authorization": {"token " + server.Token}})
	if errors.Is(err, websocket.ErrBadHandshake) && resp.StatusCode < http.StatusInternalServerError && resp.StatusCode != http.StatusTooManyRequests {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		var problem struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(body, &problem)
		if problem.Message == "" {
			problem.Message = "is its Jupyter front switched off?"
		}
		return nil, &goneError{fmt.Sprintf("the server refused the session %q: %s: %s", k.cfg.Session, resp.Status, problem.Message)}
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	if got := conn.Subprotocol(); got != kernelwire.Subprotocol {
		return nil, errors.Join(&goneError{fmt.Sprintf("the server speaks %q, not %s", got, kernelwire.Subprotocol)}, conn.Close())
	}
	return conn, nil
}

// serve repeats the requests that have no reply, which the server carries out once, and passes on what it says until the
// connection ends.
func (k *kernel) serve(ctx context.Context, conn *websocket.Conn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	k.repeat(conn)
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.setConn(nil)
	}()
	alive := func() error { return conn.SetReadDeadline(time.Now().Add(silence)) }
	conn.SetPingHandler(func(data string) error {
		return errors.Join(alive(), conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second)))
	})
	for alive() == nil {
		kind, frame, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if kind != websocket.BinaryMessage {
			continue
		}
		channel, parts, err := unpack(frame)
		if err != nil {
			k.cfg.Log.Warn("a message of the server is ignored", "error", err)
			continue
		}
		k.deliver(channel, parts)
	}
}

// repeat sends the requests that have no reply, and makes conn the connection for those that follow.
func (k *kernel) repeat(conn *websocket.Conn) {
	k.writing <- struct{}{}
	defer func() { <-k.writing }()
	for sent := 0; ; {
		k.mu.Lock()
		open := slices.SortedFunc(maps.Values(k.waiting), func(a, b *request) int { return a.n - b.n })
		open = slices.DeleteFunc(open, func(r *request) bool { return r.n <= sent })
		if len(open) == 0 {
			k.setConn(conn)
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		for _, r := range open {
			_ = conn.WriteMessage(websocket.BinaryMessage, r.frame) // after an error, reading fails too
			sent = r.n
		}
	}
}

// setConn changes the connection. The caller holds mu.
func (k *kernel) setConn(conn *websocket.Conn) {
	k.conn = conn
	close(k.changed)
	k.changed = make(chan struct{})
}

// deliver passes a message of the server to the client that it is for, or with iopub to all of them. A server that is killed may have
// sent a message that the next one sends again.
func (k *kernel) deliver(channel string, parts [][]byte) {
	h, id := readHeader(parts[partHeader]), readHeader(parts[partParent]).ID
	switch {
	case !k.isNew(h.ID):
		return
	case h.Type == "status" && id == "":
		return // what becomes of the interpreter; for clients of ZeroMQ, this process is the kernel, and it lives on
	case channel == iopub:
		k.send(iopub, [][]byte{[]byte(h.Type)}, parts)
		return
	}
	k.mu.Lock()
	r := k.waiting[id]
	switch {
	case r == nil:
	case channel != stdin:
		delete(k.waiting, id)
	case r.question == h.ID:
		r = nil
	default:
		r.question = h.ID
	}
	k.mu.Unlock()
	if r == nil || k.sockets[channel] == nil {
		return // for a client that is gone, or of another process; or asked already
	}
	k.send(channel, r.route, parts)
	if h.Type == "shutdown_reply" {
		k.over.Do(func() { close(k.done) })
	}
}

// isNew reports whether a message of the session's log has not come before, and notes that it has now. The messages of a log come in
// order; other messages are always new.
func (k *kernel) isNew(id string) bool {
	logID, at, ok := kernelwire.ParseMessageID(id)
	if !ok {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if logID == k.log && !at.After(k.at) {
		return false
	}
	k.log, k.at = logID, at
	return true
}

func (k *kernel) deleteSession() error {
	ctx, cancel := context.WithTimeout(context.Background(), deletionTimeout)
	defer cancel()
	server, err := k.cfg.Find()
	if err == nil {
		err = client.New(server.URL, server.Token).DeleteSession(ctx, k.cfg.Session)
	}
	if err != nil {
		return fmt.Errorf("the session %s could not be deleted: %w", k.cfg.Session, err)
	}
	return nil
}
