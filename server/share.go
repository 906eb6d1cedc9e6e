package server

import (
	"net/http"

	"talaria/api"
	"talaria/session"
	"talaria/session/access"
)

// visited returns the session that a visitor may read, "" for an owner.
func (c *call) visited() string {
	if c.visit == nil {
		return ""
	}
	return c.visit.Session
}

// attach reports that a client is present that can answer input().
func (c *call) attach(sess *session.Session) (detach func()) {
	if c.visit != nil && !c.visit.May(api.RightRun) {
		return func() {}
	}
	return sess.Attach()
}

// about reports whether the request is about a session: its page, or something of it.
func (c *call) about(id string) bool {
	return c.param("id") == id || c.Request.URL.Path == "/" && c.query.Get("session") == id
}

// host restricts a visitor to what the link or the token allows in one session.
func (c *call) host(r route) error {
	if id := c.param("id"); id != "" && id != c.visit.Session {
		return api.Errorf(api.CodeSessionNotFound, "you have no session %.140q", id)
	}
	return permit(c.visit, r.right)
}

// permit refuses a visitor who lacks a right; "" is for owners only.
func permit(v *access.Visit, right api.Right) error {
	switch {
	case right != "" && v.May(right):
		return nil
	case v.Link:
		return errReadOnly()
	case right == "":
		return api.Errorf(api.CodeForbidden, "a session token cannot do this; use the owner's token")
	}
	return api.Errorf(api.CodeForbidden, "this needs the right %q, which the session token does not have; create one that does", right)
}

func errReadOnly() *api.Error {
	return api.Errorf(api.CodeReadOnly, "this link is read-only; to change something, ask the person who shared it for a token")
}

// info returns the session as the caller may see it.
func (c *call) info(sess *session.Session) api.Session { return c.shown(sess.Info(c.command())) }

// shown returns what the caller may see of a session: a visitor sees neither its owner's notes, nor folders of the
// host.
func (c *call) shown(info api.Session) api.Session {
	if c.visit != nil {
		info.Metadata, info.Mounts = map[string]string{}, []api.Mount{}
	}
	return info
}

func (s *Server) createShare(c *call, sess *session.Session) error {
	var none struct{}
	if err := readJSON(c, &none, true); err != nil {
		return err
	}
	made, err := sess.Access().Share(c.command())
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, made)
}

func (s *Server) listShares(c *call, sess *session.Session) error {
	shares, err := sess.Access().Shares(c.ctx())
	if err != nil {
		return err
	}
	return wholeList[api.Share]{items: shares, down: true, key: func(one api.Share) string {
		return one.CreatedAt.String() + " " + one.ID
	}}.answer(c)
}

func (s *Server) deleteShare(c *call, sess *session.Session) error {
	id := c.param("share")
	if err := sess.Access().Revoke(c.command(), id); err != nil {
		return err
	}
	s.recheck(c.command())
	c.Status(http.StatusNoContent)
	return nil
}
