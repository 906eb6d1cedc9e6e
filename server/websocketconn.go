package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

// rest is how much of an oversized frame is read away, so that its sender sees the close frame.
const rest = 64 << 20

// peer is a WebSocket as all kinds of sockets use it: it reads frames within the caller's intake and within deadlines, and says
// farewell. One goroutine reads.
type peer struct {
	conn   *websocket.Conn
	wire   *wire
	intake intake

	mu      sync.Mutex // guards closing, and the order of read deadlines
	closing bool
}

type frame struct {
	kind    int // websocket.TextMessage or websocket.BinaryMessage
	data    []byte
	release func() // to be called when data is not needed any more
}

func newPeer(conn *websocket.Conn, wire *wire, from intake) *peer {
	p := &peer{conn: conn, wire: wire, intake: from}
	conn.SetReadLimit(api.MaxBody)
	conn.SetPongHandler(func(string) error { return p.heard(readTimeout) })
	return p
}

// read reads the next frame.
func (p *peer) read(ctx context.Context) (f frame, err error) {
	if err := p.heard(readTimeout); err != nil {
		return f, err
	}
	kind, r, err := p.conn.NextReader()
	if err != nil {
		return f, err
	}
	data, release, err := p.intake.read(ctx, progress{r, p.heard})
	if err != nil {
		release()
		return f, err
	}
	return frame{kind, data, release}, nil
}

// progress is a frame that has begun: it has to go on.
type progress struct {
	io.Reader
	heard func(time.Duration) error
}

// Read implements [io.Reader].
func (p progress) Read(b []byte) (int, error) {
	if err := p.heard(stall); err != nil {
		return 0, err
	}
	return p.Reader.Read(b)
}

// heard moves the read deadline, except once the socket is being closed, which has a deadline of its own.
func (p *peer) heard(silence time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil
	}
	return p.conn.SetReadDeadline(time.Now().Add(silence))
}

// endReading gives the peer a moment to answer a close frame.
func (p *peer) endReading() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	_ = p.conn.SetReadDeadline(time.Now().Add(closeTimeout)) // fails only when the connection is gone
}

// unblock lets a write in progress fail soon.
func (p *peer) unblock() { p.wire.bound(time.Now().Add(closeTimeout)) }

func (p *peer) sayClose(f closeReason) {
	message := websocket.FormatCloseMessage(f.code, f.text)
	p.unblock()
	_ = p.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeTimeout)) // a try
}

// discardRest reads away the rest of an oversized frame, which ended reading: the peer sees the close frame only when it may
// continue sending.
func (p *peer) discardRest(readErr error) {
	if errors.Is(readErr, websocket.ErrReadLimit) {
		_, _ = io.Copy(io.Discard, io.LimitReader(p.wire, rest))
	}
}
