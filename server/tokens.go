package server

import (
	"net/http"

	"talaria/api"
	"talaria/session"
)

type sessionTokenList struct {
	Items []api.SessionToken `json:"items"`
}

func (s *Server) createToken(c *call, sess *session.Session) error {
	var req api.SessionTokenRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	made, err := sess.CreateToken(c.command(), req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, made)
}

func (s *Server) listTokens(c *call, sess *session.Session) error {
	tokens, err := sess.Tokens(c.ctx())
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, sessionTokenList{tokens})
}

func (s *Server) deleteToken(c *call, sess *session.Session) error {
	if err := sess.RevokeToken(c.command(), c.param("token")); err != nil {
		return err
	}
	s.recheck(c.command())
	c.Status(http.StatusNoContent)
	return nil
}
