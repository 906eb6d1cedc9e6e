package server

import (
	"context"
	"net/http"

	"talaria/api"
	"talaria/session"
	"talaria/session/access"
)

// approver names who decides on approvals: an owner, or a token of the session.
func approver(owner string, visit *access.Visit) string {
	if visit != nil {
		return "token " + visit.ShareID
	}
	return owner
}

// attachApprover tells that a client watches the session that may decide on approvals.
func (c *call) attachApprover(sess *session.Session) (detach func()) {
	if c.visit != nil && !c.visit.May(api.RightRun) {
		return func() {}
	}
	return sess.Approvals().Attach()
}

// approve carries out the frame approve.
func approve(k *socket, ctx context.Context, r api.ApproveRequest) (struct{}, error) {
	switch {
	case r.ApprovalID == "":
		return struct{}{}, missing("approval_id")
	case r.Decision == "":
		return struct{}{}, missing("decision")
	}
	return struct{}{}, k.sess.Approvals().Decide(ctx, r.ApprovalID, r.ApprovalAnswer, approver(k.owner, k.visit))
}

func (s *Server) postApproval(c *call, sess *session.Session) error {
	var req api.ApprovalAnswer
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	if req.Decision == "" {
		return missing("decision")
	}
	if err := sess.Approvals().Decide(c.command(), c.param("approval_id"), req, approver(c.owner, c.visit)); err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct{}{})
}

func (s *Server) listApprovals(c *call, sess *session.Session) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	state, _, err := c.value("state")
	if err != nil {
		return err
	}
	list, err := sess.Approvals().List(c.ctx(), state, page)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, list)
}
