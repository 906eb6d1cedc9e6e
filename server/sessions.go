package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"talaria/api"
	"talaria/session"
)

// maxSearch is the longest text to look for in names, in bytes.
const maxSearch = 256

func (s *Server) createSession(c *call) error {
	var req api.SessionRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	made, err := s.sessions.Create(c.command(), c.owner, req)
	if err != nil {
		return err
	}
	defer made.Release()
	return answerCreated(c, made)
}

func answerCreated(c *call, made *session.Session) error {
	info := made.Info(c.command())
	c.Header("Location", "/v1/sessions/"+url.PathEscape(info.ID))
	return c.answer(http.StatusCreated, info)
}

func (s *Server) ensureSession(c *call) error {
	var req api.SessionRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	id := c.param("id")
	if req.ID != nil && *req.ID != id {
		return api.Errorf(api.CodeInvalidRequest, "field \"id\" is not the id in the path")
	}
	policy, given, err := c.value("if_exists")
	if err != nil {
		return err
	}
	if given && !slices.Contains([]api.IfExists{api.IfExistsKeep, api.IfExistsApply}, api.IfExists(policy)) {
		return badQuery("if_exists", "neither keep nor apply")
	}
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	found, created, err := s.sessions.Ensure(ctx, c.owner, id, req, api.IfExists(policy))
	if err != nil {
		return err
	}
	defer found.Release()
	if created {
		return answerCreated(c, found)
	}
	return c.answer(http.StatusOK, found.Info(c.ctx()))
}

func (s *Server) listSessions(c *call) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	filter := session.Filter{Page: page}
	state, given, err := c.value("state")
	if err != nil {
		return err
	}
	if filter.State = api.SessionState(state); given && !slices.Contains(api.SessionStates, filter.State) {
		return badQuery("state", "not a state; use starting, idle, busy, dead or hibernated")
	}
	if filter.Search, _, err = c.value("search"); err != nil {
		return err
	}
	if len(filter.Search) > maxSearch {
		return badQuery("search", "longer than 256 bytes")
	}
	for key, values := range c.query {
		name, ok := strings.CutPrefix(key, "metadata.")
		if !ok {
			continue
		}
		if len(values) > 1 {
			return badQuery(key, "given twice")
		}
		if filter.Metadata == nil {
			filter.Metadata = map[string]string{}
		}
		filter.Metadata[name] = values[0]
	}
	list, err := s.sessions.List(c.ctx(), c.owner, filter)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, list)
}

// withSession is a handler of a session that is there.
func (s *Server) withSession(handle func(*call, *session.Session) error) func(*call) error {
	return func(c *call) error {
		found, err := s.session(c)
		if err != nil {
			return err
		}
		defer found.Release()
		return handle(c, found)
	}
}

func (s *Server) getSession(c *call, sess *session.Session) error {
	return c.answer(http.StatusOK, c.info(sess))
}

func (s *Server) patchSession(c *call, sess *session.Session) error {
	var patch api.SessionPatch
	if err := readJSON(c, &patch, true); err != nil {
		return err
	}
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	if err := sess.Update(ctx, patch); err != nil {
		return err
	}
	return s.getSession(c, sess)
}

func (s *Server) deleteSession(c *call) error {
	if err := s.sessions.Delete(c.command(), c.owner, c.param("id")); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	return nil
}

func (s *Server) resetSession(c *call, sess *session.Session) error {
	var req api.ResetRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	if err := sess.Reset(c.command(), req); err != nil {
		return err
	}
	return s.getSession(c, sess)
}

func (s *Server) keepSession(c *call, sess *session.Session) error {
	var req struct{}
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	if err := sess.Keep(c.command()); err != nil {
		return err
	}
	return s.getSession(c, sess)
}

func (s *Server) interruptSession(c *call, sess *session.Session) error {
	var req api.InterruptRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	if err := interrupt(sess, c.command(), req); err != nil {
		return err
	}
	return c.answer(http.StatusAccepted, struct{}{})
}

func (s *Server) postInput(c *call, sess *session.Session) error {
	var req inputBody
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	if err := answerInput(sess, c.command(), req); err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct{}{})
}
