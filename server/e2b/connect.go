package e2b

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/server/transfer"
)

// The media types of the Connect protocol with JSON. Its binary codec is not served: the SDK does not use it.
const (
	unaryMedia  = "application/json"
	streamMedia = "application/connect+json"
)

// The flags of an envelope.
const (
	flagCompressed = 1
	flagEnd        = 2
)

// maxMessage bounds a message of a client.
const maxMessage = api.MaxBody

// rpcCode returns the code that Connect has for an error.
func rpcCode(problem *api.Error) string {
	switch problem.Code {
	case api.CodeSessionNotFound:
		return "unavailable" // by that the SDK knows that the sandbox is over
	case api.CodeFileNotFound, api.CodeTerminalNotFound, api.CodeNotFound:
		return "not_found"
	case api.CodePathOutside, api.CodeForbidden, api.CodeReadOnly:
		return "permission_denied"
	case api.CodeNotAFile, api.CodeNoKernel, api.CodeNoInputPending:
		return "failed_precondition"
	case codeExists:
		return "already_exists"
	case api.CodeNotImplemented:
		return "unimplemented"
	case api.CodeUnauthorized:
		return "unauthenticated"
	case api.CodeLimitExceeded, api.CodeDiskLimit, api.CodeDiskFull, api.CodeTooManyRequests, api.CodePayloadTooLarge:
		return "resource_exhausted"
	case api.CodeInvalidRequest, api.CodeUnsupportedMedia:
		return "invalid_argument"
	case api.CodeNotReady, api.CodeShuttingDown, api.CodeKernelStart, api.CodeKernelBusy:
		return "unavailable"
	case codeTimeout:
		return "deadline_exceeded"
	}
	return "internal"
}

// Codes that only this protocol has.
const (
	codeExists  api.Code = "already_exists"
	codeTimeout api.Code = "deadline_exceeded"
)

// rpcStatus is the HTTP status of each code, as Connect's specification has it.
var rpcStatus = map[string]int{
	"invalid_argument": 400, "failed_precondition": 400, "unauthenticated": 401, "permission_denied": 403, "not_found": 404,
	"already_exists": 409, "resource_exhausted": 429, "internal": 500, "unimplemented": 501, "unavailable": 503, "deadline_exceeded": 504,
}

// refuseRPC answers with an error: as the body of a unary call, or as the end of a stream.
func refuseRPC(q *request, problem *api.Error) {
	code := rpcCode(problem)
	failed := object{"code": code, "message": problem.Detail}
	if q.isStream() {
		q.w.Header().Set("Content-Type", streamMedia)
		data, err := envelope(flagEnd, object{"error": failed})
		if err != nil { // strings always encode
			panic(err)
		}
		_, _ = q.w.Write(data)
		return
	}
	transfer.WriteJSON(q.w, rpcStatus[code], failed)
}

func (q *request) isStream() bool {
	return strings.HasPrefix(q.Header.Get("Content-Type"), streamMedia)
}

// unary makes a handler of a call with one message each way.
func unary[In any](call func(*request, In) (any, error)) func(*request) error {
	return func(q *request) error {
		if media, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";"); media != unaryMedia {
			return api.Errorf(api.CodeUnsupportedMedia, "Content-Type must be %s: only unary Connect calls in JSON are served", unaryMedia)
		}
		if coding := q.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
			return api.Errorf(api.CodeNotImplemented, "compression %.40q is not supported; send messages uncompressed", coding)
		}
		var in In
		if err := q.read(&in); err != nil {
			return err
		}
		out, err := call(q, in)
		if err != nil {
			return err
		}
		return q.answer(http.StatusOK, out)
	}
}

// streaming makes a handler of a call with one message in, and many out. The deadline that the client asks for ends the
// stream, and with it nothing else.
func streaming[In any](h *Handler, call func(context.Context, *request, In, *messages) error) func(*request) error {
	return func(q *request) error {
		if !q.isStream() {
			return api.Errorf(api.CodeUnsupportedMedia, "Content-Type must be %s: only Connect streams in JSON are served", streamMedia)
		}
		data, release, err := q.caller.Body()
		defer release()
		if err != nil {
			return err
		}
		flags, body, rest, err := cutEnvelope(data)
		if err != nil {
			return err
		}
		if flags != 0 || len(rest) > 0 {
			return api.Errorf(api.CodeInvalidRequest, "the call takes exactly one message, uncompressed")
		}
		var in In
		if err := api.UnmarshalLoose(body, &in); err != nil {
			return err
		}
		ctx, cancel, err := h.streamContext(q)
		if err != nil {
			return err
		}
		defer cancel()
		out := &messages{Stream: transfer.NewStream(q.w, h.Stall), header: q.w.Header()}
		err = call(ctx, q, in, out)
		switch {
		case errors.Is(err, transfer.ErrWrite), q.Context().Err() != nil:
			return nil // nobody is there
		case !out.begun:
			if err == nil {
				err = out.begin()
			}
			if err != nil {
				return err
			}
		}
		return out.end(q, h, err)
	}
}

// clientStream makes a handler of a call with many messages in, and one out. next decodes the next message; its error is [io.EOF]
// at the end. The deadline that the client asks for ends the stream.
func clientStream(h *Handler, call func(ctx context.Context, next func(into any) error) (any, error)) func(*request) error {
	return func(q *request) error {
		if !q.isStream() {
			return api.Errorf(api.CodeUnsupportedMedia, "Content-Type must be %s: only Connect streams in JSON are served", streamMedia)
		}
		ctx, cancel, err := h.streamContext(q)
		if err != nil {
			return err
		}
		defer cancel()
		answer, err := call(ctx, func(into any) error {
			body, release, err := readEnvelope(q.Body, q.caller.Intake)
			defer release()
			if err != nil {
				return err
			}
			return api.UnmarshalLoose(body, into)
		})
		if err != nil {
			return err
		}
		out := &messages{Stream: transfer.NewStream(q.w, h.Stall), header: q.w.Header()}
		if err := out.send(answer); err == nil {
			return out.end(q, h, nil)
		}
		return nil // nobody is there
	}
}

// streamContext returns the context of a stream, which also ends at the client's deadline and when the server shuts down.
func (h *Handler) streamContext(q *request) (context.Context, context.CancelFunc, error) {
	var timeout time.Duration
	if text := q.Header.Get("Connect-Timeout-Ms"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 || len(text) > 10 { // Connect's own bound
			return nil, nil, api.Errorf(api.CodeInvalidRequest, "Connect-Timeout-Ms must be a number of at most ten digits")
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := h.UntilDrain(q.Context())
	if timeout == 0 {
		return ctx, cancel, nil
	}
	ctx, end := context.WithTimeoutCause(ctx, timeout, errDeadline)
	return ctx, func() { end(); cancel() }, nil
}

var errDeadline = &api.Error{Code: codeTimeout, Status: http.StatusGatewayTimeout, Detail: "the call took longer than the client allows"}

// messages is the answer of a stream.
type messages struct {
	*transfer.Stream
	header http.Header
	begun  bool
}

// begin sends the head of the answer.
func (m *messages) begin() error {
	m.begun = true
	m.header.Set("Content-Type", streamMedia)
	m.header.Set("Cache-Control", "no-store")
	m.header.Set("X-Accel-Buffering", "no")
	return m.Flush()
}

func (m *messages) send(v any) error {
	if !m.begun {
		if err := m.begin(); err != nil {
			return err
		}
	}
	data, err := envelope(0, v)
	if err != nil {
		return err
	}
	return m.Stream.Send(data)
}

// end sends the last message, which says how the call ended.
func (m *messages) end(q *request, h *Handler, err error) error {
	last := object{}
	if err != nil {
		problem := h.Problem(q.Context(), err, "stream of E2B")
		last["error"] = object{"code": rpcCode(problem), "message": problem.Detail}
	}
	data, err := envelope(flagEnd, last)
	if err != nil {
		return err
	}
	_ = m.Stream.Send(data) // nothing can be done about a client that has left
	return nil
}

// envelope frames a message: a byte of flags, the length, and the message.
func envelope(flags byte, v any) ([]byte, error) {
	text, err := api.Marshal(v)
	if err != nil {
		return nil, err
	}
	data := make([]byte, 5, 5+len(text))
	data[0] = flags
	binary.BigEndian.PutUint32(data[1:], uint32(len(text)))
	return append(data, text...), nil
}

// cutEnvelope returns the first message of data, which ends with a whole one, and what follows it.
func cutEnvelope(data []byte) (flags byte, body, rest []byte, err error) {
	if len(data) < 5 {
		return 0, nil, nil, api.Errorf(api.CodeInvalidRequest, "the message is cut off")
	}
	size := binary.BigEndian.Uint32(data[1:5])
	if int64(size) > int64(len(data)-5) {
		return 0, nil, nil, api.Errorf(api.CodeInvalidRequest, "the message is cut off: only %d of its %d bytes arrived", len(data)-5, size)
	}
	return data[0], data[5 : 5+size], data[5+size:], nil
}

// readEnvelope reads the next message of a stream with read, as [Caller.Intake] does; [io.EOF] is its end. release must be
// called, in any case.
func readEnvelope(r io.Reader, read func(io.Reader) ([]byte, func(), error)) (body []byte, release func(), err error) {
	release = func() {}
	var head [5]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return nil, release, io.EOF
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return nil, release, api.Errorf(api.CodeInvalidRequest, "the stream is cut off")
	}
	size := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0]&flagEnd != 0:
		return nil, release, io.EOF
	case head[0] != 0:
		return nil, release, api.Errorf(api.CodeNotImplemented, "messages must not be compressed")
	case size > maxMessage:
		return nil, release, api.Errorf(api.CodePayloadTooLarge, "the message is larger than the limit of %d bytes", maxMessage)
	}
	body, release, err = read(io.LimitReader(r, int64(size))) // grows with what arrives
	if err == nil && len(body) < int(size) {
		err = api.Errorf(api.CodeInvalidRequest, "the stream is cut off")
	}
	return body, release, err
}
