package client

import (
	"context"
	"net/url"

	"talaria/api"
)

// Render returns an execution as messages for a chat. One that still runs is rendered as far as it is.
func (c *Client) Render(ctx context.Context, session, execution string, target api.RenderTarget) (api.Rendering, error) {
	return get[api.Rendering](ctx, c, path("sessions", session, "executions", execution, "render"), url.Values{"target": {string(target)}})
}

// RenderedFile downloads a file of a rendering.
func (c *Client) RenderedFile(ctx context.Context, a api.RenderArtifact) (*Download, error) {
	return c.download(ctx, a.URL)
}
