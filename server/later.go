package server

import (
	"talaria/api"
	"talaria/session"
)

// notYet answers endpoints of the protocol that this version does not have. They change nothing.
func (s *Server) notYet(*call, *session.Session) error { return errLater() }

func errLater() *api.Error {
	return api.Errorf(api.CodeNotImplemented, "this version of the server cannot do this yet")
}
