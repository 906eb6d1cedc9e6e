package client

import (
	"context"
	"net/http"

	"talaria/api"
)

// OwnTokens lists the caller's tokens that have not expired: those for all sessions, then those for one, oldest first.
func (c *Client) OwnTokens(ctx context.Context) ([]api.OwnedToken, error) {
	list, err := get[api.Page[api.OwnedToken]](ctx, c, path("tokens"), nil)
	return list.Items, err
}

// RevokeOwnToken revokes one of the caller's tokens, with its logins, sockets and streams. It may be the one that c uses.
func (c *Client) RevokeOwnToken(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, path("tokens", id), nil, nil, nil)
	return err
}

// CreateToken makes a token for one session. Its Token is in this answer only.
func (c *Client) CreateToken(ctx context.Context, session string, req api.SessionTokenRequest) (api.SessionToken, error) {
	var made api.SessionToken
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "tokens"), nil, req, &made)
	return made, err
}

// Tokens lists the session's tokens that have not expired, newest first.
func (c *Client) Tokens(ctx context.Context, session string) ([]api.SessionToken, error) {
	list, err := get[api.Page[api.SessionToken]](ctx, c, path("sessions", session, "tokens"), nil)
	return list.Items, err
}

// RevokeToken ends a token of the session, with its sockets and streams.
func (c *Client) RevokeToken(ctx context.Context, session, id string) error {
	_, err := c.call(ctx, http.MethodDelete, path("sessions", session, "tokens", id), nil, nil, nil)
	return err
}
