package client

import (
	"context"
	"net/http"

	"talaria/api"
)

// Run runs a program without a session, and returns when it has ended. If ctx ends first, so does the program.
func (c *Client) Run(ctx context.Context, req api.RunRequest) (api.RunResult, error) {
	var result api.RunResult
	_, err := c.call(ctx, http.MethodPost, path("run"), nil, req, &result)
	return result, err
}
