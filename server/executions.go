package server

import (
	"context"
	"net/http"

	"talaria/api"
	"talaria/session"
)

func (s *Server) postExecution(c *call, sess *session.Session) error {
	read := func() (req api.ExecutionRequest, err error) {
		err = readJSON(c, &req, false)
		return req, err
	}
	asTool, err := isExecuteCode(c)
	if err != nil {
		return err
	}
	if asTool {
		return s.execute(c, sess, checkedExecuteCode(read), asExecuteCode)
	}
	return s.execute(c, sess, read, asExecution)
}

// postPackages installs packages by an execution.
func (s *Server) postPackages(c *call, sess *session.Session) error {
	return s.execute(c, sess, func() (api.ExecutionRequest, error) {
		var req api.PackagesRequest
		if err := readJSON(c, &req, false); err != nil {
			return api.ExecutionRequest{}, err
		}
		return s.sessions.InstallRequest(req)
	}, asExecution)
}

// asExecution answers with an execution unchanged.
func asExecution(e api.Execution) any { return e }

// execute runs a request's execution, and answers in the format that the client accepts; final makes the body of an
// execution that has ended.
func (s *Server) execute(
	c *call, sess *session.Session, read func() (api.ExecutionRequest, error), final func(api.Execution) any,
) error {
	answer, err := negotiate(c, formatJSON, formatSSE, formatNDJSON)
	if err != nil {
		return err
	}
	wait, bounded, err := c.seconds("wait_s")
	if err != nil {
		return err
	}
	req, err := read()
	if err != nil {
		return err
	}
	streams := answer != formatJSON
	waits := !bounded || wait > 0
	if streams || waits && req.AllowStdin != nil && *req.AllowStdin {
		detach := c.attach(sess) // before the cell can ask
		defer detach()
	}
	over := !waits && isOver(c.ctx(), sess, req.ID)
	id, err := submit(c.command(), sess, req, false)
	if err != nil {
		return err
	}
	if streams {
		return s.streamExecution(c, sess, answer, id, 0, false)
	}
	if !waits {
		execution, err := sess.Executions().Get(c.ctx(), id)
		if err == nil && !over { // however quick it was
			return c.answer(http.StatusAccepted, execution)
		}
		return answerExecution(c, final)(execution, err)
	}
	return s.answerWaited(c, sess, id, wait, bounded, final)
}

// isOver reports whether the execution with an id that a client chose has already ended.
func isOver(ctx context.Context, sess *session.Session, id *string) bool {
	if id == nil {
		return false
	}
	execution, err := sess.Executions().Get(ctx, *id)
	return err == nil && execution.Status.Final()
}

// answerExecution writes an execution: 200 and the body from final if it is over, 202 if it continues.
func answerExecution(c *call, final func(api.Execution) any) func(api.Execution, error) error {
	return func(execution api.Execution, err error) error {
		if err != nil {
			return err
		}
		if !execution.Status.Final() {
			return c.answer(http.StatusAccepted, execution)
		}
		return c.answer(http.StatusOK, final(execution))
	}
}

func (s *Server) getExecution(c *call, sess *session.Session) error {
	answer, err := negotiate(c, formatJSON, formatSSE, formatNDJSON)
	if err != nil {
		return err
	}
	id := c.param("eid")
	execution, err := sess.Executions().Get(c.ctx(), id)
	if err != nil {
		return err
	}
	asTool, err := isExecuteCode(c)
	switch {
	case err != nil:
		return err
	case answer == formatJSON && asTool && execution.Status.Final():
		return c.answer(http.StatusOK, asExecuteCode(execution))
	case answer == formatJSON:
		return c.answer(http.StatusOK, execution)
	}
	after, _, err := position(c, sess)
	if err != nil {
		return err
	}
	detach := c.attach(sess)
	defer detach()
	return s.streamExecution(c, sess, answer, id, after, execution.Status.Final())
}

func (s *Server) listExecutions(c *call, sess *session.Session) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	l := newPageWriter(c)
	return l.end(sess.Executions().List(c.ctx(), page, func(e api.Execution) (bool, error) { return l.add(e) }))
}
