package server

import (
	"context"

	"talaria/api"
	"talaria/session"
)

// Shared by an HTTP body and a WebSocket frame: the checks of required fields.

func interrupt(sess *session.Session, ctx context.Context, req api.InterruptRequest) error {
	id := ""
	if req.ExecutionID != nil {
		if id = *req.ExecutionID; id == "" {
			return api.Errorf(api.CodeInvalidRequest, "field \"execution_id\" is empty; leave it out to interrupt everything")
		}
	}
	return sess.Interrupt(ctx, id)
}

func submit(ctx context.Context, sess *session.Session, req api.ExecutionRequest, stdin bool) (string, error) {
	if req.Code == nil {
		return "", missing("code")
	}
	return sess.Submit(ctx, req, stdin)
}

// inputBody is an [api.InputRequest] that notices a missing value.
type inputBody struct {
	RequestID *string `json:"request_id,omitzero"`
	Value     *string `json:"value"`
}

func answerInput(sess *session.Session, ctx context.Context, b inputBody) error {
	if b.Value == nil {
		return missing("value")
	}
	return sess.Input(ctx, api.InputRequest{RequestID: b.RequestID, Value: *b.Value})
}
