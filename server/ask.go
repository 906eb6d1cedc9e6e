package server

import (
	"context"
	"net/http"
	"unicode/utf8"

	"talaria/api"
	"talaria/kernel"
	"talaria/session"
)

// maxAsked bounds the code that a question may hold, in bytes.
const maxAsked = 1 << 20

// What clients ask about the names in a kernel, over either transport.

func complete(ctx context.Context, sess *session.Session, req api.CompleteRequest) (any, error) {
	q, err := about(kernel.QueryComplete, req.Code, req.CursorPos)
	if err != nil {
		return nil, err
	}
	answer, err := sess.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return answer.Completion, nil
}

func inspectName(ctx context.Context, sess *session.Session, req api.InspectRequest) (any, error) {
	q, err := about(kernel.QueryInspect, req.Code, req.CursorPos)
	if err != nil {
		return nil, err
	}
	if req.DetailLevel != nil {
		if q.Detail = *req.DetailLevel; q.Detail != 0 && q.Detail != 1 {
			return nil, api.Errorf(api.CodeInvalidRequest, "field \"detail_level\" must be 0 or 1")
		}
	}
	answer, err := sess.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return answer.Inspection, nil
}

func isComplete(ctx context.Context, sess *session.Session, req api.IsCompleteRequest) (any, error) {
	q, err := about(kernel.QueryIsComplete, req.Code, nil)
	if err != nil {
		return nil, err
	}
	answer, err := sess.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return answer.Completeness, nil
}

func variables(ctx context.Context, sess *session.Session, _ struct{}) (any, error) {
	answer, err := sess.Ask(ctx, kernel.Query{Kind: kernel.QueryVariables})
	if err != nil {
		return nil, err
	}
	return answer.Variables, nil
}

// about is a query about a place in code: its end, if none is given or it lies behind that.
func about(kind kernel.QueryKind, code *string, cursor *int64) (kernel.Query, error) {
	switch {
	case code == nil:
		return kernel.Query{}, missing("code")
	case len(*code) > maxAsked:
		return kernel.Query{}, api.Errorf(api.CodePayloadTooLarge, "field \"code\" is longer than %d bytes", maxAsked)
	case cursor != nil && *cursor < 0:
		return kernel.Query{}, api.Errorf(api.CodeInvalidRequest, "field \"cursor_pos\" is negative")
	}
	end := int64(utf8.RuneCountInString(*code))
	if cursor != nil {
		end = min(end, *cursor)
	}
	return kernel.Query{Kind: kind, Code: *code, Cursor: end}, nil
}

// getVariables is GET /v1/sessions/{id}/variables.
func (s *Server) getVariables(c *call, sess *session.Session) error {
	found, err := variables(c.ctx(), sess, struct{}{})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, found)
}

// postInspect is POST /v1/sessions/{id}/inspect.
func (s *Server) postInspect(c *call, sess *session.Session) error {
	var req api.InspectRequest
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	found, err := inspectName(c.ctx(), sess, req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, found)
}
