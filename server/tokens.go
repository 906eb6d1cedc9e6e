package server

import (
	"fmt"
	"net/http"

	"talaria/api"
	"talaria/session"
)

func (s *Server) listOwnedTokens(c *call) error {
	s.writeUses(c.ctx())
	tokens, err := s.tokens.OwnedTokens(c.ctx(), c.owner)
	if err != nil {
		return err
	}
	return wholeList[api.OwnedToken]{items: tokens, key: func(one api.OwnedToken) string {
		return fmt.Sprintf("%t %s %s", one.Session != "", one.CreatedAt, one.ID)
	}}.answer(c)
}

func (s *Server) deleteOwnedToken(c *call) error {
	id := c.param("token")
	found, err := s.tokens.RevokeOwned(c.command(), c.owner, id)
	if err != nil {
		return err
	}
	if !found {
		return api.Errorf(api.CodeNotFound, "you have no token with the id %.80q; GET /v1/tokens lists yours", id)
	}
	c.Status(http.StatusNoContent) // before the recheck, which may end this request
	s.recheck(c.command())
	return nil
}

func (s *Server) createToken(c *call, sess *session.Session) error {
	var req api.SessionTokenRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	made, err := sess.Access().CreateToken(c.command(), req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, made)
}

func (s *Server) listTokens(c *call, sess *session.Session) error {
	s.writeUses(c.ctx())
	tokens, err := sess.Access().Tokens(c.ctx())
	if err != nil {
		return err
	}
	return wholeList[api.SessionToken]{items: tokens, down: true, key: func(one api.SessionToken) string {
		return one.CreatedAt.String() + " " + one.ID
	}}.answer(c)
}

func (s *Server) deleteToken(c *call, sess *session.Session) error {
	if err := sess.Access().RevokeToken(c.command(), c.param("token")); err != nil {
		return err
	}
	s.recheck(c.command())
	c.Status(http.StatusNoContent)
	return nil
}
