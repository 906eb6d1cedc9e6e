package server

import (
	"strings"

	"talaria/session"
)

const notebookType = "application/x-ipynb+json"

func (s *Server) getNotebook(c *call, sess *session.Session) error {
	name := c.param("id")
	if info := sess.Info(c.ctx()); info.Name != "" {
		name = info.Name
	}
	c.Header("Content-Disposition", disposition(notebookType, strings.ReplaceAll(name, "/", "-")+".ipynb", false))
	out := &body{c: c, kind: notebookType}
	return out.ended(sess.Notebook().Export(c.ctx(), out))
}

func (s *Server) postNotebook(c *call, sess *session.Session) error {
	data, release, err := readBody(c, false, "application/json", notebookType)
	defer release()
	if err != nil {
		return err
	}
	if err := sess.Notebook().Import(c.command(), data); err != nil {
		return err
	}
	return s.getSession(c, sess)
}
