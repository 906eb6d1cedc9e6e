package server

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// wire is a connection whose write deadlines move while its peer takes bytes.
type wire struct {
	net.Conn
	pace *pacer
}

func (w *wire) Write(p []byte) (int, error) { return w.pace.write(w.Conn.Write, p) }

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
