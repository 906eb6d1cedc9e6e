package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// The requests that are not commands of a kernel. The first four open a connection.
const (
	opHello  = "hello"
	opStart  = "start"
	opAttach = "attach"
	opRun    = "run"

	opKernels = "kernels"
	opWarm    = "warm"
	opSweep   = "sweep"
	opRetire  = "retire"
	opStop    = "stop" // stops the host on a control connection, and the kernel on its own connection
	opStats   = "stats"
	opUsages  = "usages"

	opAbort = "abort" // aborts a start: nothing of it remains
)

type request struct {
	N         uint64          `json:"n"`
	Op        string          `json:"op"`
	TimeoutMS int64           `json:"timeout_ms,omitzero"` // from the caller's context
	Body      json.RawMessage `json:"body,omitempty"`
}

type reply struct {
	N     uint64          `json:"n"`
	Error *remoteError    `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

type (
	helloBody struct {
		Protocol Versions `json:"protocol"`
		Build    string   `json:"build"`
		Version  string   `json:"version"`
		// Ending says that the server will ask to be told when the host ends. The host waits for it from now on. A host
		// that does not know the field waits from the request on.
		Ending bool `json:"ending,omitempty"`
	}
	helloReply struct {
		ID       string   `json:"id"`
		Protocol Versions `json:"protocol"`
		Agreed   int      `json:"agreed"`
		Build    string   `json:"build"`
		Version  string   `json:"version"`
		Instance string   `json:"instance"`
		Retired  bool     `json:"retired"`
	}
	startBody struct {
		Protocol  int                `json:"protocol"`
		Key       record.Key         `json:"key"`
		Env       kernel.Environment `json:"env"`
		Spec      kernel.Spec        `json:"spec"` // without its directories, which travel as descriptors
		Workspace bool               `json:"workspace"`
		Packages  bool               `json:"packages"`
	}
	startReply struct {
		Lease uint64             `json:"lease"`
		Info  command.KernelInfo `json:"info"`
	}
	attachBody struct {
		Protocol int        `json:"protocol"`
		Key      record.Key `json:"key"`
		// Lease is that of an earlier connection that broke: the attachment fails if another one came in between.
		Lease uint64 `json:"lease,omitzero"`
	}
	attachReply struct {
		Lease      uint64             `json:"lease"`
		Attachment command.Attachment `json:"attachment"`
	}
	sweepBody struct {
		Instance string          `json:"instance,omitempty"` // of a dead host; "" means the host itself
		Handles  []kernel.Handle `json:"handles"`
	}
	reasonBody struct {
		Reason string `json:"reason"`
	}
)

// remoteError is an error of the other side. It wraps the errors that callers branch on.
type remoteError struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

func (e *remoteError) Error() string { return e.Message }
func (e *remoteError) Unwrap() error {
	for _, known := range sentinels {
		if known.Name == e.Code {
			return known.Err
		}
	}
	return nil
}

// sentinels are the errors that callers branch on.
var sentinels = append([]command.NamedError{
	{Name: "retired", Err: errRetired}, {Name: "protocol", Err: errProtocol}, {Name: "taken_over", Err: ErrTakenOver},
}, command.Errors...)

func toRemote(err error) *remoteError {
	if err == nil {
		return nil
	}
	for _, known := range sentinels {
		if errors.Is(err, known.Err) {
			return &remoteError{Code: known.Name, Message: err.Error()}
		}
	}
	return &remoteError{Message: err.Error()}
}

func newRequest(ctx context.Context, n uint64, op string, body any) ([]byte, error) {
	r := request{N: n, Op: op}
	if at, ok := ctx.Deadline(); ok {
		r.TimeoutMS = max(time.Until(at).Milliseconds(), 1)
	}
	var err error
	if body != nil {
		if r.Body, err = encode(body); err != nil {
			return nil, fmt.Errorf("request %s: %w", op, err)
		}
	}
	return encode(r)
}

// encode encodes as JSON without HTML escapes: a cell full of them would not fit in a frame.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// context returns the context that bounds a request.
func (r request) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.TimeoutMS <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(r.TimeoutMS)*time.Millisecond)
}

func (r request) decode(body any) error {
	if err := json.Unmarshal(r.Body, body); err != nil {
		return fmt.Errorf("request %s: %w", r.Op, err)
	}
	return nil
}

// answer sends the reply to a request.
func (c *conn) answer(n uint64, body any, err error) error {
	r := reply{N: n, Error: toRemote(err)}
	if body != nil {
		b, err := encode(body)
		if err != nil {
			return err
		}
		r.Body = b
	}
	b, err := encode(r)
	if err != nil {
		return err
	}
	return c.write(frameReply, b)
}

// readRequest reads a frame that must be a request.
func (c *conn) readRequest() (r request, err error) {
	t, payload, err := c.read()
	if err != nil {
		return r, err
	}
	return parseRequest(t, payload)
}

func parseRequest(t frameType, payload []byte) (r request, err error) {
	if t != frameRequest {
		return r, fmt.Errorf("a message of type %d where a request was due", t)
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("read a request: %w", err)
	}
	return r, nil
}
