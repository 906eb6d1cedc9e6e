package server

import (
	"context"
	"net/http"

	"talaria/api"
	"talaria/server/engine"
)

// Runs runs programs to their end. [run.Manager] is one.
type Runs = engine.Runs

// postRun runs one program. When the client goes away, the program is ended: nothing of it would be left to ask for.
func (s *Server) postRun(c *call) error {
	if s.runs == nil {
		return api.Errorf(api.CodeNotImplemented, "this server does not run programs outside sessions")
	}
	var r api.RunRequest
	data, release, err := readBody(c, false, "application/json")
	defer release()
	if err != nil {
		return err
	}
	if err := decodeObject(data, &r, "the body"); err != nil {
		return err
	}
	return answerRun(s, c, func(ctx context.Context) (api.RunResult, error) { return s.runs.Run(ctx, c.owner, r) })
}

// answerRun answers with what run returns.
func answerRun[T any](s *Server, c *call, run func(context.Context) (T, error)) error {
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	result, err := run(ctx)
	if err != nil && context.Cause(ctx) == errDraining {
		return api.Errorf(api.CodeShuttingDown, "the server is shutting down and ended the program; run it again once the server is back")
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, result)
}
