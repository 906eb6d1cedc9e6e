package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	// strangersBody is how long the body of a request may take that is not authenticated.
	strangersBody = 10 * time.Second
	// restOfBody is how long the rest of a body may take that nobody wants: the connection is closed after it.
	restOfBody = time.Second
)

// pacedBody is a request's body with a read deadline: a fixed one at first, which then moves as bytes come.
type pacedBody struct {
	io.ReadCloser
	setDeadline func(time.Time) error
	stall       time.Duration
	trusted     bool // the request is authenticated
	ended       bool // nothing is left to read
}

// Read implements [io.Reader].
func (b *pacedBody) Read(p []byte) (int, error) {
	if b.trusted {
		b.expect(b.stall)
	}
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// expect gives the next bytes their time.
func (b *pacedBody) expect(within time.Duration) {
	_ = b.setDeadline(time.Now().Add(within)) // fails only when the connection is gone, and then reading fails
}

// paceBody gives the request's body its deadlines. A rest that no handler has read is not waited for.
func (s *Server) paceBody(c *gin.Context) {
	if c.Request.Body == nil || c.Request.Body == http.NoBody {
		return
	}
	control := http.NewResponseController(c.Writer)
	body := &pacedBody{ReadCloser: c.Request.Body, setDeadline: control.SetReadDeadline, stall: s.stall}
	body.expect(strangersBody)
	c.Request.Body = body
	c.Next()
	body.refuse()
}

// trustBody lets the body of an authenticated request take its time.
func trustBody(r *http.Request) {
	if body, ok := r.Body.(*pacedBody); ok {
		body.trusted = true
	}
}

// refuseBody ends the wait for what is left of the body: net/http reads it before it answers, and closes the connection
// where it does not come.
func refuseBody(r *http.Request) {
	if body, ok := r.Body.(*pacedBody); ok {
		body.refuse()
	}
}

func (b *pacedBody) refuse() {
	if !b.ended {
		b.expect(restOfBody)
	}
}
