package client

import (
	"context"
	"net/http"
	"net/url"

	"talaria/api"
)

// Approvals lists the session's approvals, newest first: questions that are open, and how the others ended.
func (c *Client) Approvals(ctx context.Context, session string, p api.PageQuery) (api.Page[api.Approval], error) {
	return get[api.Page[api.Approval]](ctx, c, path("sessions", session, "approvals"), pageQuery(p))
}

// PendingApprovals lists the questions of the session that are open, oldest first.
func (c *Client) PendingApprovals(ctx context.Context, session string) ([]api.Approval, error) {
	page, err := get[api.Page[api.Approval]](ctx, c, path("sessions", session, "approvals"), url.Values{"state": {"pending"}})
	return page.Items, err
}

// Approve decides on an approval. If it is open no longer, the error is [api.CodeNoApprovalPending].
func (c *Client) Approve(ctx context.Context, session, id string, answer api.ApprovalAnswer) error {
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "approvals", id), nil, answer, nil)
	return err
}

// Approve decides on an approval. If it is open no longer, the error is [api.CodeNoApprovalPending].
func (s *Socket) Approve(ctx context.Context, id string, answer api.ApprovalAnswer) error {
	_, err := s.Do(ctx, "approve", api.ApproveRequest{ApprovalID: id, ApprovalAnswer: answer})
	return err
}
