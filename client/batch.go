package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"talaria/api"
)

// CreateBatch runs many cells as a job, and returns at once.
func (c *Client) CreateBatch(ctx context.Context, req api.BatchRequest) (api.Batch, error) {
	var b api.Batch
	_, err := c.call(ctx, http.MethodPost, path("batch"), nil, req, &b)
	return b, err
}

// Batch returns the job with that id, with all its items.
func (c *Client) Batch(ctx context.Context, id string) (api.Batch, error) {
	return get[api.Batch](ctx, c, path("batch", id), nil)
}

// Batches lists jobs without their items, newest first.
func (c *Client) Batches(ctx context.Context, p api.PageQuery) (api.Page[api.Batch], error) {
	return get[api.Page[api.Batch]](ctx, c, path("batch"), pageQuery(p))
}

// CancelBatch cancels what of a job has not ended. Its status is not final if cells still run after a few seconds; then
// it will be.
func (c *Client) CancelBatch(ctx context.Context, id string) (api.Batch, error) {
	var b api.Batch
	_, err := c.call(ctx, http.MethodDelete, path("batch", id), nil, nil, &b)
	return b, err
}

// BatchEvents returns a job's events after a position, each once and in order, the last one being that of its end. A
// broken connection is resumed where it was, until the outage lasts longer than the client allows.
func (c *Client) BatchEvents(ctx context.Context, id string, after int64) iter.Seq2[api.BatchEvent, error] {
	var ended bool
	events := c.stream(ctx, stream{
		open: func(ctx context.Context, after int64) (*http.Response, error) {
			return c.send(ctx, request{
				method: http.MethodGet, path: path("batch", id, "events"),
				query: url.Values{"after": {strconv.FormatInt(after, 10)}}, accept: typeNDJSON,
			})
		},
		after: after,
		dense: true,
		last:  func(api.Event) bool { return ended },
	})
	return func(yield func(api.BatchEvent, error) bool) {
		for raw, err := range events {
			var event api.BatchEvent
			if err == nil {
				event, err = batchEvent(raw)
			}
			ended = event.Status.Final()
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// batchEvent decodes an event of a batch, whose types are none of a session's log.
func batchEvent(e api.Event) (event api.BatchEvent, err error) {
	raw, ok := e.Body.(api.RawEvent)
	if !ok {
		return event, fmt.Errorf("%w: of type %s", errMalformed, e.Body.EventType())
	}
	if err := json.Unmarshal(raw.JSON, &event); err != nil {
		return event, errors.Join(errMalformed, err)
	}
	return event, nil
}
