package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"talaria/api"
)

// Map runs a function or a cell for each of the inputs and returns all items in their order, once the map has ended. If the
// server shuts down meanwhile, it returns the items so far, and the status of the summary is not final.
func (c *Client) Map(ctx context.Context, session string, req api.MapRequest) (api.MapResult, error) {
	var result api.MapResult
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "map"), nil, req, &result)
	return result, err
}

// MapEach runs a map and calls each with every item as it ends, until it returns an error. Nothing of that stops the map: a
// request with the same ID gives all items again, and runs nothing.
func (c *Client) MapEach(
	ctx context.Context, session string, req api.MapRequest, each func(api.MapItem) error,
) (api.MapSummary, error) {
	var none api.MapSummary
	resp, err := c.postForEvents(ctx, path("sessions", session, "map"), req)
	if err != nil {
		return none, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), api.MaxServerFrame)
	for lines.Scan() {
		var line struct {
			api.MapItem
			Type string `json:"type"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return none, fmt.Errorf("%w: %w", errMalformed, err)
		}
		if line.Type == api.MapSummaryType {
			var summary api.MapSummary
			err := json.Unmarshal(lines.Bytes(), &summary)
			return summary, err
		}
		if err := each(line.MapItem); err != nil {
			return none, err
		}
	}
	if err := lines.Err(); err != nil {
		return none, err
	}
	return none, io.ErrUnexpectedEOF
}
