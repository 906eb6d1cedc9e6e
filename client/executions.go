package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"talaria/api"
)

// Execute runs a cell and waits for its end. If the server shuts down meanwhile, it returns the execution so far, and
// its Status is not final.
func (c *Client) Execute(ctx context.Context, session string, req api.ExecutionRequest) (api.Execution, error) {
	return c.execute(ctx, session, req, nil)
}

// ExecuteWait is Execute that waits for at most that long and then returns the execution so far, which keeps running.
func (c *Client) ExecuteWait(
	ctx context.Context, session string, req api.ExecutionRequest, wait time.Duration,
) (api.Execution, error) {
	seconds := strconv.FormatFloat(wait.Seconds(), 'f', -1, 64)
	return c.execute(ctx, session, req, url.Values{"wait_s": {seconds}})
}

func (c *Client) execute(
	ctx context.Context, session string, req api.ExecutionRequest, query url.Values,
) (api.Execution, error) {
	var e api.Execution
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "executions"), query, req, &e)
	return e, err
}

// InstallPackages installs packages into the session and returns the execution that did so, once it is over. If they
// could not be installed, its status is error, and nothing has changed.
func (c *Client) InstallPackages(ctx context.Context, session string, req api.PackagesRequest) (api.Execution, error) {
	var e api.Execution
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "packages"), nil, req, &e)
	return e, err
}

// ExecuteStream runs a cell and returns its events as they happen, the last one being execution_finished. The cell
// gets an id if the request has none, so that a broken connection can be resumed, with each event delivered once,
// until the outage lasts longer than the client allows. Leaving the loop stops nothing on the server.
func (c *Client) ExecuteStream(
	ctx context.Context, session string, req api.ExecutionRequest,
) iter.Seq2[api.Event, error] {
	if req.ID == nil {
		id := NewID()
		req.ID = &id
	}
	return c.stream(ctx, stream{
		open: func(ctx context.Context, after int64) (*http.Response, error) {
			if after > 0 {
				return c.openExecution(ctx, session, *req.ID, after)
			}
			return c.postForEvents(ctx, path("sessions", session, "executions"), req)
		},
		last: isFinish,
	})
}

// ExecutionEvents returns the events of an execution after a position in the session's log, including live ones, the
// last one being execution_finished. It resumes like ExecuteStream.
func (c *Client) ExecutionEvents(
	ctx context.Context, session, execution string, after int64,
) iter.Seq2[api.Event, error] {
	return c.stream(ctx, stream{
		open: func(ctx context.Context, after int64) (*http.Response, error) {
			return c.openExecution(ctx, session, execution, after)
		},
		after: after,
		last:  isFinish,
	})
}

func (c *Client) openExecution(ctx context.Context, session, execution string, after int64) (*http.Response, error) {
	return c.send(ctx, request{
		method: http.MethodGet,
		path:   path("sessions", session, "executions", execution),
		query:  url.Values{"after": {strconv.FormatInt(after, 10)}},
		accept: typeNDJSON,
	})
}

func isFinish(e api.Event) bool {
	_, ok := e.Body.(api.ExecutionFinished)
	return ok
}

// Executions lists executions, newest first.
func (c *Client) Executions(ctx context.Context, session string, p api.PageQuery) (api.Page[api.Execution], error) {
	return get[api.Page[api.Execution]](ctx, c, path("sessions", session, "executions"), pageQuery(p))
}

// Execution returns the execution with that id.
func (c *Client) Execution(ctx context.Context, session, id string) (api.Execution, error) {
	return get[api.Execution](ctx, c, path("sessions", session, "executions", id), nil)
}
