package client

import (
	"context"
	"net/http"
	"net/url"

	"talaria/api"
)

// CreateSession makes a session.
func (c *Client) CreateSession(ctx context.Context, req api.SessionRequest) (api.Session, error) {
	var s api.Session
	_, err := c.call(ctx, http.MethodPost, path("sessions"), nil, req, &s)
	return s, err
}

// EnsureSession returns the session with that id, and creates it if it does not exist; created reports whether it did.
// If the session exists, its settings are compared with the fields of req, and a difference is a session_conflict. One
// policy may be given to change that: [api.IfExistsKeep] returns the session as it is, [api.IfExistsApply] changes it
// to req.
func (c *Client) EnsureSession(ctx context.Context, id string, req api.SessionRequest, policy ...api.IfExists) (s api.Session, created bool, err error) {
	q := url.Values{}
	for _, p := range policy {
		q.Set("if_exists", string(p))
	}
	status, err := c.call(ctx, http.MethodPut, path("sessions", id), q, req, &s)
	return s, status == http.StatusCreated, err
}

// SessionFilter selects sessions; the zero value selects all.
type SessionFilter struct {
	State    api.SessionState
	Metadata map[string]string
	Search   string // text in the name or the id
	Page     api.PageQuery
}

// Sessions lists sessions, newest first.
func (c *Client) Sessions(ctx context.Context, f SessionFilter) (api.Page[api.Session], error) {
	q := pageQuery(f.Page)
	if f.State != "" {
		q.Set("state", string(f.State))
	}
	if f.Search != "" {
		q.Set("search", f.Search)
	}
	for key, value := range f.Metadata {
		q.Set("metadata."+key, value)
	}
	return get[api.Page[api.Session]](ctx, c, path("sessions"), q)
}

// Session returns the session with that id.
func (c *Client) Session(ctx context.Context, id string) (api.Session, error) {
	return get[api.Session](ctx, c, path("sessions", id), nil)
}

// UpdateSession changes a session.
func (c *Client) UpdateSession(ctx context.Context, id string, patch api.SessionPatch) (api.Session, error) {
	var s api.Session
	_, err := c.call(ctx, http.MethodPatch, path("sessions", id), nil, patch, &s)
	return s, err
}

// DeleteSession ends a session, with its workspace and log.
func (c *Client) DeleteSession(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, path("sessions", id), nil, nil, nil)
	return err
}

// ResetSession gives a session a fresh interpreter, and returns when that answers.
func (c *Client) ResetSession(ctx context.Context, id string, req api.ResetRequest) (api.Session, error) {
	var s api.Session
	_, err := c.call(ctx, http.MethodPost, path("sessions", id, "reset"), nil, req, &s)
	return s, err
}

// KeepSession counts as use of a session and so postpones its end.
func (c *Client) KeepSession(ctx context.Context, id string) (api.Session, error) {
	var s api.Session
	_, err := c.call(ctx, http.MethodPost, path("sessions", id, "keep"), nil, nil, &s)
	return s, err
}

// Interrupt interrupts one execution, or, with an empty id, the running one and all that wait.
func (c *Client) Interrupt(ctx context.Context, id, executionID string) error {
	req := api.InterruptRequest{}
	if executionID != "" {
		req.ExecutionID = &executionID
	}
	_, err := c.call(ctx, http.MethodPost, path("sessions", id, "interrupt"), nil, req, nil)
	return err
}

// Input answers a question of a cell.
func (c *Client) Input(ctx context.Context, id string, req api.InputRequest) error {
	_, err := c.call(ctx, http.MethodPost, path("sessions", id, "input"), nil, req, nil)
	return err
}

// Stats returns the server's figures; it requires the first owner's token.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	return get[api.Stats](ctx, c, path("stats"), nil)
}

// Healthy returns nil while the server answers.
func (c *Client) Healthy(ctx context.Context) error {
	return c.health(ctx, "/healthz", "ok")
}

// Ready returns nil once sessions can be made.
func (c *Client) Ready(ctx context.Context) error {
	return c.health(ctx, "/readyz", "ready")
}

// health returns nil if the server is in that status. Another program that listens at the address does not answer so.
func (c *Client) health(ctx context.Context, path, want string) error {
	var answer struct {
		Status string `json:"status"`
	}
	if _, err := c.call(ctx, http.MethodGet, path, nil, nil, &answer); err != nil {
		return err
	}
	if answer.Status != want {
		return &api.Error{Type: "about:blank", Status: http.StatusOK, Detail: "what answers there is not a talaria server"}
	}
	return nil
}
