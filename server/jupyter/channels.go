package jupyter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"talaria/api"
	"talaria/session"
)

// Socket is one WebSocket. Read has one user at a time, and the other methods together have one, apart from Close and Unblock,
// which end what is in progress.
type Socket interface {
	// Subprotocol is the one that was agreed on, or "".
	Subprotocol() string
	// Read waits for a message. release must be called when data is no longer needed.
	Read(ctx context.Context) (binary bool, data []byte, release func(), err error)
	Write(binary bool, data []byte) error
	// Ping asks the peer to send data back, which it does once it has read everything that was written before.
	Ping(data string) error
	// OnPong says what Read does with data that comes back. It is called before the first Read.
	OnPong(do func(data string))
	// Hold keeps what is written from now on until Release sends it, with one system call where it can. Full says that it is
	// time for that.
	Hold()
	Full() bool
	Release() error
	// Unblock lets a write in progress fail soon.
	Unblock()
	// Close says why, waits a moment for the peer, and closes the connection. Code 0 says nothing.
	Close(code int, reason string)
}

// Close codes of a WebSocket. Clients of Jupyter connect again after any other than 1000 and 1001.
const (
	closeNormal  = 1000
	closeBroken  = 1011
	closeRestart = 1012
	closeLagging = 1013
)

const (
	pingEvery = 30 * time.Second
	// questions is how many completions and the like a client may have open; further ones wait.
	questions = 4
	// prefetch is how many events are read before they can be sent.
	prefetch = 16
)

// channels is one client's connection to a kernel. Three goroutines serve it: read carries out requests in order, follow reads
// the session's log, and write alone sends.
type channels struct {
	h      *Handler
	sess   *session.Session
	kernel *kernelState
	socket Socket
	caller Caller
	id     string // that the client gave for itself, or ""
	v1     bool

	events chan api.Event
	failed error          // why following ended; valid once events is closed
	out    chan []message // answers to requests other than cells
	behind chan struct{}  // holds a value when the client may have to be asked how far it has read
	asking chan struct{}  // a slot for each question
	cancel context.CancelCauseFunc

	// What follows is used by write only.
	generation  int64           // of the interpreter
	count       int64           // of cells
	phase       string          // of an interpreter that has not run a cell: restarting or starting
	comms       map[string]bool // that the client knows to be open
	parent      parent          // of the execution that the last event belongs to
	parentID    string          // that execution
	running     string          // the execution that runs
	expressions api.Raw         // values of the user expressions of the execution expressed
	expressed   string
}

// errReplaced is the cause of a connection's end when the same client has opened another.
var errReplaced = errors.New("the client has opened another connection")

// serveChannels is GET api/kernels/{id}/channels.
func (h *Handler) serveChannels(q *request) error {
	sess, err := h.session(q, q.PathValue("id"), api.RightRun)
	if err != nil {
		return err
	}
	defer sess.Release()
	socket, err := q.caller.Upgrade(binaryProtocol)
	if socket == nil {
		return err
	}
	ctx, end := h.UntilDrain(q.Context())
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	info := sess.Info(ctx)
	k := &channels{
		h: h, sess: sess, socket: socket, caller: q.caller, id: q.URL.Query().Get("session_id"),
		v1: socket.Subprotocol() == binaryProtocol, events: make(chan api.Event, prefetch), out: make(chan []message),
		behind: make(chan struct{}, 1), asking: make(chan struct{}, questions), cancel: cancel, generation: info.Kernel.Generation, count: info.ExecutionCount, comms: map[string]bool{},
	}
	if len(k.id) > maxClientID {
		k.id = ""
	}
	if info.State == api.StateBusy {
		if k.running, err = runningOf(ctx, sess); err != nil {
			h.Log.Warn("find the cell that runs", slog.Any("error", err))
		}
	}
	var after int64
	k.kernel, after = h.kernels.enter(q.caller.Owner, info, k)
	defer k.kernel.leave(k)
	defer q.caller.Attach(sess)()
	k.run(ctx, after)
	return nil
}

// runningOf returns the execution of a session that runs, or "".
func runningOf(ctx context.Context, sess *session.Session) (id string, err error) {
	_, err = sess.Executions().List(ctx, api.PageQuery{Limit: api.MaxPage}, func(e api.Execution) (bool, error) {
		if e.Status == api.StatusRunning {
			id = e.ID
		}
		return e.Status == api.StatusQueued, nil // those are newer
	})
	return id, err
}

// run serves the connection until either side ends it; nothing of it is left then.
func (k *channels) run(ctx context.Context, after int64) {
	k.socket.OnPong(k.hear)
	unblock := context.AfterFunc(ctx, k.socket.Unblock)
	defer unblock()
	var others sync.WaitGroup
	others.Go(func() { k.follow(ctx, after) })
	others.Go(func() {
		defer k.cancel(errGone)
		k.read(ctx)
	})
	code, reason := k.write(ctx)
	k.cancel(nil)
	k.socket.Close(code, reason)
	for range k.events { // follow is not held up by an event that nobody takes
	}
	others.Wait()
}

// errGone is the cause of a connection's end by the client.
var errGone = errors.New("the client has disconnected")

func (k *channels) follow(ctx context.Context, after int64) {
	defer close(k.events)
	for event, err := range k.sess.Journal().Events(ctx, after) {
		if err == nil {
			event, err = event.Decoded()
		}
		if err != nil {
			k.failed = err
			return
		}
		select {
		case k.events <- event:
		case <-ctx.Done():
			return
		}
	}
}

// read takes requests until the connection ends.
func (k *channels) read(ctx context.Context) {
	var asked sync.WaitGroup
	defer asked.Wait()
	for {
		binary, data, release, err := k.socket.Read(ctx)
		if err != nil {
			return
		}
		m, err := decode(k.v1, binary, data)
		if err != nil { // as a Jupyter Server does
			k.h.Log.Warn("a message of a Jupyter client is ignored", slog.Any("error", err))
			release()
			continue
		}
		if !isQuestion(m.header.MsgType) {
			k.carryOut(ctx, m)
			release()
			continue
		}
		select {
		case k.asking <- struct{}{}:
		case <-ctx.Done():
			release()
			return
		}
		asked.Go(func() {
			defer func() { release(); <-k.asking }()
			k.carryOut(ctx, m)
		})
	}
}

// reply sends messages, unless the connection has ended.
func (k *channels) reply(ctx context.Context, list ...message) {
	select {
	case k.out <- list:
	case <-ctx.Done():
	}
}
