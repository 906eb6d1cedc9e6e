package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"talaria/api"
)

const (
	// strangersBody is how long the body of an unauthenticated request may take.
	strangersBody = 10 * time.Second
	// excessBody is how long a client may write on, up to [api.MaxBody] again, after its body has turned out to be too large.
	excessBody = 5 * time.Second
	// restOfBody is how long the rest of an unwanted body may take: the connection is closed after it.
	restOfBody = time.Second
)

// pacedBody is a request's body with a read deadline: a fixed one at first, which then moves as bytes arrive.
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

// expect sets the time within which the next bytes must arrive.
func (b *pacedBody) expect(within time.Duration) {
	_ = b.setDeadline(time.Now().Add(within)) // fails only when the connection is gone, and then reading fails
}

// paceBody gives the request's body its deadlines. It does not wait for a rest that no handler has read.
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

// refuseBody ends the wait for the rest of the body: net/http reads it before it answers, and closes the connection if
// it does not arrive.
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

// discardBody reads what the client of a body that is too large still writes. Otherwise the connection would be closed while
// the client writes, which many clients report as a broken connection, without reading the answer.
func discardBody(r *http.Request) {
	if body, ok := r.Body.(*pacedBody); ok {
		body.trusted = false // the deadline does not move
		body.expect(excessBody)
		_, _ = io.CopyN(io.Discard, body, api.MaxBody) // its end, its deadline and its bound mean the same here
	}
}
