package server

import (
	"strings"

	"github.com/gin-gonic/gin"

	"talaria/api"
)

// route is one endpoint: what answers it, and its part of the API's description.
type route struct {
	method string
	path   string // with {name}; {path} takes the rest of the path, slashes included
	handle func(*call) error
	open   bool      // needs no token
	socket bool      // a WebSocket
	right  api.Right // that a link or a session token needs; "": owners' tokens only
	large  bool      // the answer may contain all output of a session
	front  *front    // nil: our own API
	doc    doc
}

// pattern returns the path in gin's form.
func (r route) pattern() string {
	segments := strings.Split(r.path, "/")
	for i, segment := range segments {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			if name == "path" {
				segments[i] = "*" + name
			} else {
				segments[i] = ":" + name
			}
		}
	}
	return strings.Join(segments, "/")
}

// handler returns the route with its gate, its query values and its errors.
func (s *Server) handler(r route) gin.HandlerFunc {
	return func(c *gin.Context) {
		setLabel(c, r.path)
		one := &call{Context: c, leave: func() {}}
		defer func() { one.leave() }() // after the answer: it ends the request's context
		if err := s.serve(r, one); err != nil {
			s.failAs(c, err, r.front.refusal())
		}
	}
}

func (s *Server) serve(r route, c *call) error {
	var err error
	if c.query, err = parseQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	c.front = r.front
	if r.open || r.front != nil && r.front.open(c.Request) {
		return r.handle(c)
	}
	revocations := s.revocations.Load()
	if err := s.authenticate(c); err != nil {
		return err
	}
	if c.visit != nil {
		if err := c.host(r); err != nil {
			return err
		}
	}
	if err := s.callers.enter(c); err != nil {
		return err
	}
	if s.revocations.Load() != revocations && !s.good(c.ctx(), c.cred) { // it came too late to be ended with the others
		return api.Errorf(api.CodeUnauthorized, "the token was revoked")
	}
	trustBody(c.Request)
	if conn := connOf(c.Request); conn != nil {
		conn.lobby.call(conn, c.callerKey())
	}
	if r.large && !streams(c.Request) {
		release, err := c.caller.large.take(c.ctx())
		if err != nil {
			return err
		}
		defer release()
	}
	return r.handle(c)
}
