package server

import (
	"context"
	"net/http"
	"sync"

	"talaria/api"
	"talaria/session"
)

// visited is the session that a visitor may read, "" for an owner.
func (c *call) visited() string {
	if c.visit == nil {
		return ""
	}
	return c.visit.Session
}

// attach tells that an owner is there to answer input(); a visitor cannot.
func (c *call) attach(sess *session.Session) (detach func()) {
	if c.visit != nil {
		return func() {}
	}
	return sess.Attach()
}

// about tells whether the request is about a session: the page of one, or something of one.
func (c *call) about(id string) bool {
	return c.param("id") == id || c.Request.URL.Path == "/" && c.query.Get("session") == id
}

// host holds a visitor to what a share allows: to read one session. leave ends the visit; ctx of the request ends with
// it, or with the share.
func (s *Server) host(r route, c *call) (leave func(), err error) {
	if id := c.param("id"); id != "" && id != c.visit.Session {
		return nil, api.Errorf(api.CodeSessionNotFound, "you have no session %.140q", id)
	}
	if !r.shared {
		return nil, errReadOnly()
	}
	ctx, cancel := context.WithCancel(c.Request.Context())
	c.Request = c.Request.WithContext(ctx)
	out := s.visitors.enter(c.visit.ShareID, cancel)
	return func() { out(); cancel() }, nil
}

func errReadOnly() *api.Error {
	return api.Errorf(api.CodeReadOnly, "this link may only read; to change something, ask its maker for a token")
}

// visitors are the requests under way of each share, so that revoking one ends them. The zero value is ready to use and
// safe for concurrent use.
type visitors struct {
	mu      sync.Mutex // guards all below
	serial  int
	present map[string]map[int]context.CancelFunc // by share
}

func (v *visitors) enter(share string, cancel context.CancelFunc) (leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.present == nil {
		v.present = map[string]map[int]context.CancelFunc{}
	}
	if v.present[share] == nil {
		v.present[share] = map[int]context.CancelFunc{}
	}
	v.serial++
	number := v.serial
	v.present[share][number] = cancel
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.present[share], number)
		if len(v.present[share]) == 0 {
			delete(v.present, share)
		}
	}
}

func (v *visitors) expel(share string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, cancel := range v.present[share] {
		cancel()
	}
}

type shareList struct {
	Items []api.Share `json:"items"`
}

func (s *Server) createShare(c *call, sess *session.Session) error {
	var none struct{}
	if err := readJSON(c, &none, true); err != nil {
		return err
	}
	made, err := sess.Share(c.command())
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, made)
}

func (s *Server) listShares(c *call, sess *session.Session) error {
	shares, err := sess.Shares(c.ctx())
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, shareList{shares})
}

func (s *Server) deleteShare(c *call, sess *session.Session) error {
	id := c.param("share")
	if err := sess.Revoke(c.command(), id); err != nil {
		return err
	}
	s.visitors.expel(id)
	c.Status(http.StatusNoContent)
	return nil
}
