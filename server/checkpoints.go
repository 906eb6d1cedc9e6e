package server

import (
	"net/http"

	"talaria/api"
	"talaria/session"
)

func (s *Server) postCheckpoint(c *call, sess *session.Session) error {
	var req api.CheckpointRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	made, err := sess.Checkpoint(c.command(), req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, made)
}

func (s *Server) listCheckpoints(c *call, sess *session.Session) error {
	items, err := sess.Checkpoints(c.ctx())
	if err != nil {
		return err
	}
	return wholeList[api.Checkpoint]{items: items, down: true, key: func(one api.Checkpoint) string { return one.ID }}.answer(c)
}

func (s *Server) getCheckpoint(c *call, sess *session.Session) error {
	found, err := sess.CheckpointInfo(c.ctx(), c.param("cid"))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, found)
}

func (s *Server) getCheckpointDiff(c *call, sess *session.Session) error {
	to, _, err := c.value("to")
	if err != nil {
		return err
	}
	diff, err := sess.CheckpointDiff(c.ctx(), c.param("cid"), to)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, diff)
}

func (s *Server) deleteCheckpoint(c *call, sess *session.Session) error {
	if err := sess.DropCheckpoint(c.command(), c.param("cid")); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	return nil
}

func (s *Server) postRollback(c *call, sess *session.Session) error {
	var req api.RollbackRequest
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	reply, err := sess.Rollback(c.command(), req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, reply)
}

func (s *Server) postHibernate(c *call, sess *session.Session) error {
	reply, err := sess.Hibernate(c.command())
	if err != nil {
		return err
	}
	reply.Session = c.shown(reply.Session)
	return c.answer(http.StatusOK, reply)
}

func (s *Server) postWake(c *call, sess *session.Session) error {
	reply, err := sess.Wake(c.command())
	if err != nil {
		return err
	}
	reply.Session = c.shown(reply.Session)
	return c.answer(http.StatusOK, reply)
}

func (s *Server) postFork(c *call, sess *session.Session) error {
	var req api.ForkRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	reply, err := sess.Fork(c.command(), req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, reply)
}
