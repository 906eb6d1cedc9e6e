package server

import (
	"net/http"

	"talaria/api"
	"talaria/session"
)

// getVariables is GET /v1/sessions/{id}/variables.
func (s *Server) getVariables(c *call, sess *session.Session) error {
	found, err := sess.Interpreter().Variables(c.ctx())
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, found)
}

// postPing is POST /v1/sessions/{id}/ping.
func (s *Server) postPing(c *call, sess *session.Session) error {
	answer, err := sess.Interpreter().Ping(c.ctx())
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, answer)
}

// postInspect is POST /v1/sessions/{id}/inspect.
func (s *Server) postInspect(c *call, sess *session.Session) error {
	var req api.InspectRequest
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	found, err := sess.Interpreter().Inspect(c.ctx(), req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, found)
}
