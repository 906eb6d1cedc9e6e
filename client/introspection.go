package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"talaria/api"
)

// Variables lists the variables of a session's kernel. It does not start one: the error is no_kernel if there is none,
// and kernel_busy while the kernel cannot answer.
func (c *Client) Variables(ctx context.Context, id string) (api.VariablesReply, error) {
	return get[api.VariablesReply](ctx, c, path("sessions", id, "variables"), nil)
}

// Ping measures how long the interpreter of a session's kernel takes to answer, also while a cell runs; its errors are
// those of Variables.
func (c *Client) Ping(ctx context.Context, id string) (api.PingReply, error) {
	var r api.PingReply
	_, err := c.call(ctx, http.MethodPost, path("sessions", id, "ping"), nil, nil, &r)
	return r, err
}

// Inspect describes what a name in a session's kernel stands for; its errors are those of Variables.
func (c *Client) Inspect(ctx context.Context, id string, req api.InspectRequest) (api.InspectReply, error) {
	var r api.InspectReply
	_, err := c.call(ctx, http.MethodPost, path("sessions", id, "inspect"), nil, req, &r)
	return r, err
}

// Complete lists what could be typed at a position in code; the errors here and below are those of [Client.Variables].
func (s *Socket) Complete(ctx context.Context, req api.CompleteRequest) (api.CompleteReply, error) {
	return ask[api.CompleteReply](ctx, s, "complete", req)
}

// Inspect describes what a name stands for.
func (s *Socket) Inspect(ctx context.Context, req api.InspectRequest) (api.InspectReply, error) {
	return ask[api.InspectReply](ctx, s, "inspect", req)
}

// IsComplete reports whether code could be run as it is.
func (s *Socket) IsComplete(ctx context.Context, req api.IsCompleteRequest) (api.IsCompleteReply, error) {
	return ask[api.IsCompleteReply](ctx, s, "is_complete", req)
}

// Variables lists the variables.
func (s *Socket) Variables(ctx context.Context) (api.VariablesReply, error) {
	return ask[api.VariablesReply](ctx, s, "variables", struct{}{})
}

func ask[T any](ctx context.Context, s *Socket, kind string, fields any) (reply T, err error) {
	raw, err := s.Do(ctx, kind, fields)
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return reply, fmt.Errorf("read the reply to %s: %w", kind, err)
	}
	return reply, nil
}
