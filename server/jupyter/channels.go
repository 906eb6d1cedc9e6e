package jupyter

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
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
	Ping() error
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
	asking chan struct{}  // a slot for each question
	cancel context.CancelCauseFunc

	generation int64  // of the interpreter; used by write only
	count      int64  // of cells; used by write only
	phase      string // of an interpreter that has not run a cell: restarting or starting; used by write only
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
		v1: socket.Subprotocol() == binaryProtocol, events: make(chan api.Event), out: make(chan []message),
		asking: make(chan struct{}, questions), cancel: cancel, generation: info.Kernel.Generation, count: info.ExecutionCount,
	}
	if len(k.id) > maxClientID {
		k.id = ""
	}
	var after int64
	k.kernel, after = h.kernels.enter(q.caller.Owner, info, k)
	defer k.kernel.leave(k)
	defer q.caller.Attach(sess)()
	k.run(ctx, after)
	return nil
}

// run serves the connection until either side ends it; nothing of it is left then.
func (k *channels) run(ctx context.Context, after int64) {
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
var errGone = errors.New("the client has gone")

func (k *channels) follow(ctx context.Context, after int64) {
	defer close(k.events)
	for event, err := range k.sess.Events(ctx, after) {
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

// write sends events and answers, and says how the connection is to end.
func (k *channels) write(ctx context.Context) (code int, reason string) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		var err error
		select {
		case event, more := <-k.events:
			if !more {
				return k.ending(ctx, k.failed)
			}
			if err = k.send(k.translate(event)); err == nil {
				k.kernel.sent(k, event.Seq)
			}
		case list := <-k.out:
			err = k.send(list)
		case <-ping.C:
			err = k.socket.Ping()
		case <-ctx.Done():
			return k.ending(ctx, nil)
		}
		if err != nil {
			return 0, ""
		}
	}
}

// ending returns what the close frame says after the log has ended with err, or ctx.
func (k *channels) ending(ctx context.Context, err error) (code int, reason string) {
	select {
	case <-k.sess.Deleted():
		return closeNormal, "kernel deleted"
	default:
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errGone):
		return 0, ""
	case errors.Is(cause, errReplaced):
		return closeNormal, "replaced by another connection of the same session_id"
	case errors.Is(err, session.ErrLagging):
		return closeLagging, "lagging; connect again with the same session_id"
	case err != nil && ctx.Err() == nil && !errors.Is(err, session.ErrClosing):
		k.h.Log.Error("follow a session", slog.Any("error", err))
		return closeBroken, "internal error"
	}
	return closeRestart, "the server is restarting, or the token was revoked"
}

func (k *channels) send(list []message) error {
	for _, m := range list {
		m.header.Session = k.kernel.session(k.generation)
		m.header.Username, m.header.Version = "kernel", protocolVersion
		if m.header.MsgID == "" {
			m.header.MsgID = newID()
		}
		if m.header.Date == "" {
			m.header.Date = date(time.Now())
		}
		data, binary, err := m.encode(k.v1)
		if err != nil {
			return err
		}
		if err := k.socket.Write(binary, data); err != nil {
			return err
		}
	}
	return nil
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

// kernels holds what connections to the same kernel share. The zero value is ready to use and safe for concurrent use.
type kernels struct {
	mu   sync.Mutex // guards all below, and the fields of kernelStates
	by   map[kernelKey]*kernelState
	left []*kernelState // without connections, the longest first
}

// kernelKey names a kernel among those of all owners.
type kernelKey struct{ owner, session string }

// kernelState is what connections to one kernel share. It is kept while there are connections, and for some time after them, since
// a client that has gone may come back.
type kernelState struct {
	all     *kernels
	key     kernelKey
	id      string
	logID   string
	open    map[*channels]bool
	parents map[string]parent // of the executions that clients asked for, by id
	ended   []string          // of parents: those that have ended, the oldest first
	places  map[string]*place // up to where clients have the log, by their session_id
}

// place is a position in the log. Only the client's newest connection moves it.
type place struct {
	seq   int64
	owner *channels // nil: it has gone
}

// parent is the request for an execution.
type parent struct {
	head   api.Raw
	client string // session_id of the connection, or the session of the request
	socket *channels
}

const (
	maxClientID = 256
	maxEnded    = 64  // requests that are kept for connections that are behind
	maxPlaces   = 64  // of one kernel
	maxLeft     = 256 // kernels of one owner that are kept without a connection

	maxLeftRequests = 4096 // that those kernels keep
)

func (s *kernels) connections(owner, session string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.by[kernelKey{owner, session}]; k != nil {
		return len(k.open)
	}
	return 0
}

// enter adds a connection, and returns the position in the log from which it follows: where the same client's last connection
// stopped, or else the end. An open connection of the same client ends.
func (s *kernels) enter(owner string, info api.Session, c *channels) (k *kernelState, after int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[kernelKey]*kernelState{}
	}
	key := kernelKey{owner, info.ID}
	k = s.by[key]
	if k == nil || k.logID != info.LogID { // another session had this id before
		k = &kernelState{all: s, key: key, id: kernelID(info.ID), logID: info.LogID, open: map[*channels]bool{}, parents: map[string]parent{}, places: map[string]*place{}}
		s.by[key] = k
	}
	s.left = slices.DeleteFunc(s.left, func(other *kernelState) bool { return other.key == key })
	k.open[c] = true
	if c.id == "" {
		return k, info.LastSeq
	}
	p := k.places[c.id]
	if p == nil || p.seq < info.FirstSeq-1 || p.seq > info.LastSeq {
		k.makeRoom()
		p = &place{seq: info.LastSeq}
		k.places[c.id] = p
	} else if p.owner != nil {
		p.owner.cancel(errReplaced)
	}
	p.owner = c
	return k, p.seq
}

// makeRoom forgets a client that has gone where there are too many. The caller holds kernels.mu.
func (k *kernelState) makeRoom() {
	if len(k.places) < maxPlaces {
		return
	}
	for id, p := range k.places {
		if p.owner == nil {
			delete(k.places, id)
			return
		}
	}
}

// sent notes that a client has the log up to seq.
func (k *kernelState) sent(c *channels, seq int64) {
	if c.id == "" {
		return
	}
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if p := k.places[c.id]; p != nil && p.owner == c {
		p.seq = seq
	}
}

// leave removes a connection.
func (k *kernelState) leave(c *channels) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	delete(k.open, c)
	if p := k.places[c.id]; p != nil && p.owner == c {
		p.owner = nil
	}
	for id, p := range k.parents {
		if p.socket == c {
			p.socket = nil
			k.parents[id] = p
		}
	}
	if len(k.open) == 0 && k.all.by[k.key] == k {
		k.all.keep(k, c)
	}
}

// keep decides what becomes of a kernel without connections: one that is deleted, or that nobody can come back to, is forgotten,
// and so are the owner's oldest ones of too many. The caller holds kernels.mu.
func (s *kernels) keep(k *kernelState, last *channels) {
	select {
	case <-last.sess.Deleted():
		delete(s.by, k.key)
		return
	default:
	}
	if len(k.places) == 0 {
		delete(s.by, k.key)
		return
	}
	s.left = append(s.left, k)
	count, requests := 0, 0
	for i := len(s.left) - 1; i >= 0; i-- { // the newest first
		other := s.left[i]
		if other.key.owner != k.key.owner {
			continue
		}
		count, requests = count+1, requests+len(other.parents)
		if count > maxLeft || requests > maxLeftRequests {
			delete(s.by, other.key)
			s.left = slices.Delete(s.left, i, i+1)
		}
	}
}

// expect notes the request for an execution before it is submitted.
func (k *kernelState) expect(execution string, p parent) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.parents[execution] = p
}

// end notes that an execution has ended, or was refused.
func (k *kernelState) end(execution string) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if _, known := k.parents[execution]; !known || slices.Contains(k.ended, execution) {
		return
	}
	if k.ended = append(k.ended, execution); len(k.ended) > maxEnded {
		delete(k.parents, k.ended[0])
		k.ended = slices.Delete(k.ended, 0, 1)
	}
}

// parentOf returns the request for an execution. One that came by another way, or before the server started, has a header made
// from what is known of it.
func (k *kernelState) parentOf(execution string) parent {
	k.all.mu.Lock()
	p, ok := k.parents[execution]
	k.all.mu.Unlock()
	if ok || execution == "" {
		return p
	}
	head, err := json.Marshal(header{MsgID: execution, MsgType: "execute_request", Version: protocolVersion, Date: date(time.Now())})
	if err != nil { // strings always encode
		panic(err)
	}
	return parent{head: head}
}

// session names one life of the kernel: clients drop messages of an earlier one.
func (k *kernelState) session(generation int64) string {
	return k.id + "-" + formatInt(generation)
}
