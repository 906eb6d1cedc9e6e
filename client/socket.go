package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

var (
	// ErrClosed: the socket was closed on this side.
	ErrClosed = errors.New("the socket is closed")
	// ErrDisconnected: the connection was lost before the reply; it is not known whether the frame was received.
	ErrDisconnected = errors.New("the connection was lost before the reply")
)

// CloseError says how the server closed the socket, such as 1000 "session_deleted".
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("the server closed the socket: %d %s", e.Code, e.Reason)
}

// AttachOptions select what a socket delivers.
type AttachOptions struct {
	// After is the position after which the events start; nil means the present.
	After *int64
	// LogID is the id of the log that After is a position in; for another log the error is log_changed.
	LogID string
	// Usage asks for a usage frame once a second, which is passed to OnFrame.
	Usage bool
	// Reconnect resumes a lost connection after the last event received, until the outage lasts longer than the client
	// allows. Events come once and without a gap; a Do that was waiting fails with ErrDisconnected.
	Reconnect bool
	// OnFrame is called with each frame that is neither an event nor the reply to a Do. The reading goroutine calls
	// it: it must not wait for this socket, nor keep the frame.
	OnFrame func(kind string, frame []byte)
}

// Socket is a WebSocket of a session. All methods are safe for concurrent use; each event goes to one caller of Next.
// Events that have not been taken are kept, so that replies keep coming: beyond 64 MiB of them the socket is not read until
// Next is called, and a Do may wait for that. Close releases it.
type Socket struct {
	client  *Client
	session string
	opt     AttachOptions
	events  *eventQueue

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	run     sync.WaitGroup
	writing chan struct{} // holds a token while a frame is written

	mu      sync.Mutex // guards the fields below
	conn    *websocket.Conn
	changed chan struct{} // closed and renewed when conn or err changes
	hello   api.Hello
	last    int64 // position of the last event received
	pending map[string][]chan reply
	err     error       // why the socket has ended
	tools   *ToolServer // nil: it provides none
}

// reply is the server's answer to a frame, or the error that came instead.
type reply struct {
	result json.RawMessage
	err    error
}

// Attach opens a WebSocket of a session. ctx bounds the opening, not the socket's life.
func (c *Client) Attach(ctx context.Context, session string, opt AttachOptions) (*Socket, error) {
	s := &Socket{
		client: c, session: session, opt: opt, events: newEventQueue(),
		writing: make(chan struct{}, 1), changed: make(chan struct{}), pending: map[string][]chan reply{},
	}
	conn, hello, err := s.dial(ctx, opt.After, opt.LogID)
	if err != nil {
		return nil, err
	}
	s.last = hello.Session.LastSeq
	if opt.After != nil {
		s.last = *opt.After
	}
	s.conn, s.hello = conn, hello
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.run.Go(s.serve)
	return s, nil
}

// Hello returns the server's first frame on the current connection, or on the last one.
func (s *Socket) Hello() api.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hello
}

// Next returns the next event. ctx bounds the wait. Once the socket has ended, and all received events were taken, it
// returns the reason: a [*CloseError], an [*api.Error] of an attempt to reconnect, [ErrGap], [ErrClosed], or an error
// of the network.
func (s *Socket) Next(ctx context.Context) (api.Event, error) { return s.events.next(ctx) }

// Events yields what Next returns. The sequence ends with the first error.
func (s *Socket) Events(ctx context.Context) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		for {
			e, err := s.Next(ctx)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Execute queues a cell and returns its id, which is generated here if the request has none. After a lost connection
// the same frame is sent again if the socket reconnects: it never runs twice.
func (s *Socket) Execute(ctx context.Context, req api.ExecutionRequest) (string, error) {
	if req.ID == nil {
		id := NewID()
		req.ID = &id
	}
	for {
		raw, err := s.Do(ctx, "execute", req)
		if errors.Is(err, ErrDisconnected) && s.opt.Reconnect {
			continue // the next Do waits for the connection, or for the end of the socket
		}
		if err != nil {
			return "", err
		}
		var result api.ExecuteReply
		if err := json.Unmarshal(raw, &result); err != nil {
			return "", fmt.Errorf("read the reply to execute: %w", err)
		}
		return result.ExecutionID, nil
	}
}

// Do sends a frame of that type, with the fields of a struct or map, and returns the result of its reply. The frame
// gets an id unless the fields have one; for an id that is already in use, replies go to the calls in their order. A
// refusal by the server is an [*api.Error]. ctx bounds the wait; a frame that cannot be sent within 30 s ends the
// connection.
func (s *Socket) Do(ctx context.Context, frameType string, fields any) (json.RawMessage, error) {
	frame, id, err := encodeFrame(frameType, fields)
	if err != nil {
		return nil, err
	}
	answer := make(chan reply, 1)
	if err := s.write(ctx, frame, id, answer); err != nil {
		return nil, fmt.Errorf("send %s: %w", frameType, err)
	}
	select {
	case r := <-answer:
		return r.result, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Send sends a text frame unchanged; a reply to it goes to OnFrame.
func (s *Socket) Send(ctx context.Context, frame []byte) error {
	if err := s.write(ctx, frame, "", nil); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}

// Close closes the socket and waits until it is released. It is idempotent.
func (s *Socket) Close() error {
	s.end(ErrClosed)
	s.run.Wait()
	return nil
}

// end ends the socket; the first reason counts.
func (s *Socket) end(err error) {
	s.mu.Lock()
	conn := s.conn
	if s.err == nil {
		s.err = err
		s.disconnectLocked(err)
		s.events.end(err)
	}
	s.mu.Unlock()
	s.cancel()
	if conn != nil {
		message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
		conn.Close()
	}
}

// disconnectLocked forgets the connection and fails the calls that wait for a reply on it.
func (s *Socket) disconnectLocked(err error) {
	s.conn = nil
	for id, calls := range s.pending {
		for _, c := range calls {
			c <- reply{err: err}
		}
		delete(s.pending, id)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// write sends a frame on the current connection, or on the next one. The reply to id goes to answer, if there is one;
// so does the loss of the connection.
func (s *Socket) write(ctx context.Context, frame []byte, id string, answer chan reply) error {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	conn, err := s.register(ctx, id, answer)
	if err != nil {
		return err
	}
	// Not the end of ctx: a frame that is cut short ends the connection for all callers.
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := conn.WriteMessage(websocket.TextMessage, frame); err != nil {
		conn.Close() // half a frame may have been sent; the reader notices and continues from there
		if answer == nil {
			return fmt.Errorf("%w: %w", ErrDisconnected, err)
		}
	}
	return nil
}

// register waits for a connection and books the reply on it.
func (s *Socket) register(ctx context.Context, id string, answer chan reply) (*websocket.Conn, error) {
	for {
		s.mu.Lock()
		conn, changed, err := s.conn, s.changed, s.err
		if err == nil && conn != nil && answer != nil {
			s.pending[id] = append(s.pending[id], answer)
		}
		s.mu.Unlock()
		if err != nil || conn != nil {
			return conn, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func encodeFrame(frameType string, fields any) (frame []byte, id string, err error) {
	all := map[string]json.RawMessage{}
	if fields != nil {
		b, err := api.Marshal(fields)
		if err == nil {
			err = json.Unmarshal(b, &all)
		}
		if err != nil {
			return nil, "", fmt.Errorf("encode a frame of type %s: %w", frameType, err)
		}
	}
	if _, ok := all["id"]; !ok {
		all["id"] = json.RawMessage(api.Text(NewID()))
	}
	id = string(all["id"])
	all["type"] = json.RawMessage(api.Text(frameType))
	frame, err = json.Marshal(all)
	if err != nil {
		return nil, "", fmt.Errorf("encode a frame of type %s: %w", frameType, err)
	}
	return frame, id, nil
}
