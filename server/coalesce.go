package server

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// heldBytes is about how much a wire holds back at most.
const heldBytes = 64 << 10

// wire is a connection that sends everything written between hold and release at once, so that many small frames cost
// one system call.
type wire struct {
	net.Conn

	mu   sync.Mutex // guards the fields below, and the order of write deadlines; not held while writing
	held bool
	kept []byte
	dead bool
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.held {
		w.kept = append(w.kept, p...)
		w.mu.Unlock()
		return len(p), nil
	}
	w.mu.Unlock()
	return w.Conn.Write(p)
}

// hold holds back everything written from now on, until release. Only one goroutine may hold at a time.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// full reports whether it is time to release.
func (w *wire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.kept) >= heldBytes
}

// release writes what was held back, including what others write meanwhile.
func (w *wire) release() error {
	for {
		w.mu.Lock()
		kept := w.kept
		w.kept = nil
		w.held = len(kept) > 0
		w.mu.Unlock()
		if len(kept) == 0 {
			return nil
		}
		if _, err := w.Conn.Write(kept); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.held = false
			return err
		}
	}
}

// SetWriteDeadline implements [net.Conn], and does nothing: the WebSocket library sets a deadline for each frame, also for a pong while
// others are held back or being written, and all of them would end with it. A client that takes nothing is given up without it.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// bound makes all writes end at t, including one in progress.
func (w *wire) bound(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dead {
		_ = w.Conn.SetWriteDeadline(t) // fails only when the connection is gone
	}
}

// cut fails all writes from now on, including one in progress.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	_ = w.Conn.SetWriteDeadline(time.Unix(1, 0)) // fails only when there is nothing left to cut
}

// wireHijacker returns its connection as a wire.
type wireHijacker struct {
	http.ResponseWriter
	wire *wire
}

func (h *wireHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.wire = &wire{Conn: conn}
	return h.wire, buffers, nil
}
