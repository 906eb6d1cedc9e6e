package session

import (
	"errors"

	"talaria/api"
)

// The ends of a log that is being read.
var (
	ErrLagging = errors.New("the reader fell too far behind; resume with after")
	ErrDeleted = api.Errorf(api.CodeSessionNotFound, "the session was deleted")
	ErrClosing = api.Errorf(api.CodeShuttingDown, "the server is shutting down; resume with after")
)
