package server

import (
	"context"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"talaria/api"
	"talaria/session"
	"talaria/session/access"
)

// call is one request on its way through a handler.
type call struct {
	*gin.Context
	owner  string
	shared string        // owner of what the users of a LibreChat share; "": nobody
	first  bool          // the caller is the first owner
	visit  *access.Visit // the visitor with a share's token; nil for an owner
	cred   credential    // that made it so: one of its fields is set
	front  *front        // nil: our own API
	caller *caller       // nil on open routes
	leave  func()        // ends the request's context, once it is answered
	query  url.Values

	keepsBody bool // for longer than it takes to read the body and carry it out
}

// ctx ends when the client goes away.
func (c *call) ctx() context.Context { return c.Request.Context() }

// command returns the context for a change: a client that goes away stops nothing.
func (c *call) command() context.Context { return context.WithoutCancel(c.Request.Context()) }

// param returns a part of the path, decoded once.
func (c *call) param(name string) string {
	raw := c.Param(name)
	if value, err := url.PathUnescape(raw); err == nil {
		return value
	}
	return raw
}

// filePath returns what follows "files/", decoded once and otherwise unchanged.
func (c *call) filePath() string { return strings.TrimPrefix(c.param("path"), "/") }

// answer writes v as JSON.
func (c *call) answer(status int, v any) error {
	body, err := api.Marshal(v)
	if err != nil {
		return err
	}
	c.Data(status, "application/json", body)
	return nil
}

func (s *Server) session(c *call) (*session.Session, error) {
	return s.sessions.Get(c.owner, c.param("id"))
}
