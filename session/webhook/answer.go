package webhook

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"talaria/api"
	"talaria/session/remote"
)

// answer is the body of a response: a result, or an error.
type answer struct {
	Result api.Raw        `json:"result,omitzero"`
	Error  *reportedError `json:"error,omitzero"`
}

type reportedError struct {
	Code    string `json:"code,omitzero"`
	Message string `json:"message,omitzero"`
}

var null = api.Raw("null")

func newBody(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// read returns the result of a response.
func read(ctx context.Context, resp *http.Response) (api.Raw, error) {
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return nil, &busyError{status, retryAfter(resp.Header, time.Now())}
	case status >= 300 && status < 400:
		return nil, remote.Failuref(remote.CodeInvalidAnswer, "the webhook answered with a redirect (%s), which is not followed", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, remote.MaxResult+1))
	if err != nil {
		return nil, failed(ctx, err, true)
	}
	if len(body) > remote.MaxResult {
		return nil, remote.Failuref(remote.CodeLimit, "the webhook's answer has more than %d bytes", remote.MaxResult)
	}
	ok := resp.StatusCode >= 200 && resp.StatusCode < 300
	if len(body) == 0 && ok {
		return null, nil
	}
	var a answer
	err = api.Unmarshal(body, &a)
	switch {
	case err == nil && a.Error != nil && a.Result == nil:
		return nil, remote.ReportedFailure(a.Error.Code, a.Error.Message)
	case !ok:
		return nil, remote.Failuref(remote.CodeInvalidAnswer, "the webhook answered with %s", resp.Status)
	case err != nil:
		return nil, remote.Failuref(remote.CodeInvalidAnswer,
			`the webhook's answer is not {"result": …} or {"error": {"code": …, "message": …}}: %v`, err)
	case a.Error != nil || a.Result == nil:
		return nil, remote.Failuref(remote.CodeInvalidAnswer, `the webhook's answer must have either "result" or "error"`)
	}
	return a.Result, nil
}
