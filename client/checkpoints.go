package client

import (
	"context"
	"net/http"
	"net/url"

	"talaria/api"
)

// Checkpoint makes a checkpoint of a session now.
func (c *Client) Checkpoint(ctx context.Context, session string, req api.CheckpointRequest) (api.Checkpoint, error) {
	var made api.Checkpoint
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "checkpoints"), nil, req, &made)
	return made, err
}

// Checkpoints lists the session's checkpoints, newest first.
func (c *Client) Checkpoints(ctx context.Context, session string) ([]api.Checkpoint, error) {
	list, err := get[api.Page[api.Checkpoint]](ctx, c, path("sessions", session, "checkpoints"), nil)
	return list.Items, err
}

// CheckpointInfo returns one checkpoint.
func (c *Client) CheckpointInfo(ctx context.Context, session, id string) (api.Checkpoint, error) {
	return get[api.Checkpoint](ctx, c, path("sessions", session, "checkpoints", id), nil)
}

// CheckpointDiff returns what changed since a checkpoint, up to the checkpoint to, or until now if that is "".
func (c *Client) CheckpointDiff(ctx context.Context, session, id, to string) (api.CheckpointDiff, error) {
	q := url.Values{}
	if to != "" {
		q.Set("to", to)
	}
	return get[api.CheckpointDiff](ctx, c, path("sessions", session, "checkpoints", id, "diff"), q)
}

// DropCheckpoint deletes a checkpoint.
func (c *Client) DropCheckpoint(ctx context.Context, session, id string) error {
	_, err := c.call(ctx, http.MethodDelete, path("sessions", session, "checkpoints", id), nil, nil, nil)
	return err
}

// Rollback makes a session what it was at a checkpoint.
func (c *Client) Rollback(ctx context.Context, session string, req api.RollbackRequest) (api.RollbackReply, error) {
	var done api.RollbackReply
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "rollback"), nil, req, &done)
	return done, err
}

// Hibernate saves the variables of a session and ends its kernel; the next use has them back.
func (c *Client) Hibernate(ctx context.Context, session string) (api.HibernateReply, error) {
	var reply api.HibernateReply
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "hibernate"), nil, nil, &reply)
	return reply, err
}

// Wake starts the kernel of a session that has none, with the variables that were saved.
func (c *Client) Wake(ctx context.Context, session string) (api.WakeReply, error) {
	var reply api.WakeReply
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "wake"), nil, nil, &reply)
	return reply, err
}

// Fork makes sessions with the variables and files of this one.
func (c *Client) Fork(ctx context.Context, session string, req api.ForkRequest) (api.ForkReply, error) {
	var reply api.ForkReply
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "fork"), nil, req, &reply)
	return reply, err
}
