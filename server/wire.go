package server

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// heldBytes is how much a wire keeps back at the most, about.
const heldBytes = 64 << 10

// wire is a connection whose write deadlines move while its peer takes bytes. What is written between hold and release
// goes out at once, so that many small frames cost one system call.
type wire struct {
	net.Conn
	pace *pacer

	mu   sync.Mutex // guards what follows; not held while writing
	held bool
	kept []byte
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.held {
		w.kept = append(w.kept, p...)
		w.mu.Unlock()
		return len(p), nil
	}
	w.mu.Unlock()
	return w.pace.write(w.Conn.Write, p)
}

// hold keeps back what is written from now on, until release. One goroutine at a time holds.
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

// release writes what was kept back, also what others write meanwhile.
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
		if _, err := w.pace.write(w.Conn.Write, kept); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.held = false
			return err
		}
	}
}

// SetWriteDeadline bounds writes beside the pace; zero takes the bound away.
func (w *wire) SetWriteDeadline(t time.Time) error { return w.pace.bound(t) }

// wireHijacker hands out its connection as a wire.
type wireHijacker struct {
	http.ResponseWriter
	wire *wire
}

func (h *wireHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.wire = &wire{Conn: conn, pace: &pacer{setDeadline: conn.SetWriteDeadline}}
	return h.wire, buffers, nil
}
