package server

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"time"
)

// stall is how long a client may accept no byte of an answer, or send no byte of a body, before its connection is
// closed.
const stall = time.Minute

// conn is one client's connection. A write fails once the peer has accepted nothing for a while; a slow peer that
// accepts bytes is never cut off. It is safe for concurrent use.
type conn struct {
	net.Conn
	stall time.Duration
	lobby *lobby
	seat  seat // guarded by lobby.mu

	mu    sync.Mutex // guards limit, and the order of write deadlines
	limit time.Time  // of all writes, or zero
}

// Write implements [io.Writer].
func (c *conn) Write(p []byte) (written int, err error) {
	for {
		if err := c.extend(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:])
		written += n
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
	}
}

// ReadFrom implements [io.ReaderFrom]: the operating system copies files.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	part, ok := r.(*io.LimitedReader)
	if !ok {
		part = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	file, ok := part.R.(*os.File)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	return c.sendFile(file, part)
}

// sendFile sends part of file, from the file's current offset.
func (c *conn) sendFile(file *os.File, part *io.LimitedReader) (written int64, err error) {
	begin, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	for {
		if err := c.extend(); err != nil {
			return written, err
		}
		remaining := part.N
		n, err := io.Copy(c.Conn, part)
		written += n
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
		if _, err := file.Seek(begin+written, io.SeekStart); err != nil { // the offset is past what was read, but not sent
			return written, err
		}
		part.N = remaining - n
	}
}

// extend sets the deadline of the next write, within the limit.
func (c *conn) extend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(c.stall)
	if !c.limit.IsZero() && c.limit.Before(deadline) {
		deadline = c.limit
	}
	return c.Conn.SetWriteDeadline(deadline)
}

// SetWriteDeadline makes all writes end at t, including one in progress. The zero time removes the limit.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite tells the peer that nothing more will come; net/http uses it before it closes a connection.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.lobby.leave(c)
	return c.Conn.Close()
}
