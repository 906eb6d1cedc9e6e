package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

const (
	handshakeTimeout = 30 * time.Second
	writeTimeout     = 30 * time.Second
	pingEvery        = 15 * time.Second
	silence          = 3 * pingEvery // after which a connection counts as lost
)

// dial opens a connection and reads its hello.
func (s *Socket) dial(ctx context.Context, after *int64, logID string) (*websocket.Conn, api.Hello, error) {
	target, err := s.url(after, logID)
	if err != nil {
		return nil, api.Hello{}, err
	}
	header := http.Header{}
	if s.client.token != "" {
		header.Set("Authorization", "Bearer "+s.client.token)
	}
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeTimeout, Subprotocols: []string{api.Subprotocol},
	}
	conn, resp, err := dialer.DialContext(ctx, target, header)
	if errors.Is(err, websocket.ErrBadHandshake) && resp.StatusCode >= 400 {
		return nil, api.Hello{}, problem(resp)
	}
	if err != nil {
		return nil, api.Hello{}, fmt.Errorf("attach to the session: %w", err)
	}
	hello, err := readHello(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, api.Hello{}, fmt.Errorf("attach to the session: %w", err)
	}
	return conn, hello, nil
}

func (s *Socket) url(after *int64, logID string) (string, error) {
	base, ok := strings.CutPrefix(s.client.base, "http")
	if !ok {
		return "", fmt.Errorf("attach to the session: %q is not the URL of a server", s.client.base)
	}
	query := url.Values{}
	if after != nil {
		query.Set("after", strconv.FormatInt(*after, 10))
	}
	if logID != "" {
		query.Set("log_id", logID)
	}
	if s.opt.Usage {
		query.Set("usage", "1")
	}
	return "ws" + base + path("sessions", s.session, "ws") + "?" + query.Encode(), nil
}

func readHello(ctx context.Context, conn *websocket.Conn) (hello api.Hello, err error) {
	if got := conn.Subprotocol(); got != api.Subprotocol {
		return hello, fmt.Errorf("the server speaks %q, not %s", got, api.Subprotocol)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	conn.SetReadLimit(api.MaxServerFrame)
	_ = conn.SetReadDeadline(time.Now().Add(handshakeTimeout))
	_, frame, err := conn.ReadMessage()
	if !stop() {
		return hello, context.Cause(ctx)
	}
	if err != nil {
		return hello, closeError(err)
	}
	if err := json.Unmarshal(frame, &hello); err != nil || hello.Type != "hello" {
		return hello, fmt.Errorf("the first frame is not a hello: %.100s", frame)
	}
	if hello.Protocol != api.Protocol {
		return hello, fmt.Errorf("the server speaks protocol %d, not %d", hello.Protocol, api.Protocol)
	}
	return hello, nil
}

// serve reads one connection after the other until the socket ends.
func (s *Socket) serve() {
	retry := backoff{outage: s.client.Outage}
	for {
		s.mu.Lock()
		conn := s.conn
		s.mu.Unlock()
		if conn == nil { // closed at once
			return
		}
		retry.connected()
		err := s.read(conn, &retry)
		conn.Close()
		if s.ctx.Err() != nil {
			return
		}
		if !s.opt.Reconnect || isFinal(err) {
			s.end(err)
			return
		}
		s.mu.Lock()
		if s.err == nil {
			if s.tools != nil {
				s.tools.lost()
			}
			s.disconnectLocked(ErrDisconnected)
		}
		s.mu.Unlock()
		if err := s.reconnect(&retry, err); err != nil {
			s.end(err)
			return
		}
	}
}

func (s *Socket) reconnect(retry *backoff, cause error) error {
	for {
		if err := retry.wait(s.ctx, cause); err != nil {
			return err
		}
		s.mu.Lock()
		last, logID := s.last, s.hello.Session.LogID
		s.mu.Unlock()
		conn, hello, err := s.dial(s.ctx, &last, logID)
		if err != nil {
			if cause = err; isFinal(err) {
				return err
			}
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err != nil {
			conn.Close()
			return s.err
		}
		s.conn, s.hello = conn, hello
		close(s.changed)
		s.changed = make(chan struct{})
		if s.tools != nil {
			s.tools.reconnected()
		}
		return nil
	}
}

// isFinal reports whether a connection ended in a way that another connection would not change.
func isFinal(err error) bool {
	var closed *CloseError
	if errors.As(err, &closed) {
		switch closed.Code {
		case websocket.CloseGoingAway, websocket.CloseAbnormalClosure, websocket.CloseInternalServerErr,
			websocket.CloseServiceRestart, websocket.CloseTryAgainLater:
			return false
		}
		return true
	}
	return errors.Is(err, websocket.ErrReadLimit) || isFatal(err)
}

// read reads the frames of one connection until it ends.
func (s *Socket) read(conn *websocket.Conn, retry *backoff) error {
	alive := func(string) error { return conn.SetReadDeadline(time.Now().Add(silence)) }
	conn.SetPongHandler(alive)
	pings := make(chan struct{})
	defer close(pings)
	s.run.Go(func() { ping(conn, pings) })
	for {
		_ = alive("")
		_, frame, err := conn.ReadMessage()
		if err != nil {
			return closeError(err)
		}
		if err := s.take(frame, retry); err != nil {
			return err
		}
	}
}

// ping keeps a connection alive, and detects its end when nothing else does.
func ping(conn *websocket.Conn, done <-chan struct{}) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout)) != nil {
				return
			}
		case <-done:
			return
		}
	}
}

// take passes a frame to its recipient.
func (s *Socket) take(frame []byte, retry *backoff) error {
	var head struct {
		Type   string          `json:"type"`
		Seq    int64           `json:"seq"`
		ID     json.RawMessage `json:"id"`
		OK     bool            `json:"ok"`
		Result json.RawMessage `json:"result"`
		Error  *api.Error      `json:"error"`
	}
	var event api.Event
	if err := json.Unmarshal(frame, &head); err != nil && head.Seq == 0 {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	if head.Seq > 0 {
		if err := json.Unmarshal(frame, &event); err != nil {
			return fmt.Errorf("%w: %w", errMalformed, err)
		}
		return s.takeEvent(event, len(frame), retry)
	}
	retry.reset()
	if head.Type == "reply" {
		r := reply{result: head.Result}
		if !head.OK {
			r.err = errNoReason
			if head.Error != nil {
				r.err = head.Error
			}
		}
		if s.answer(string(head.ID), r) {
			return nil
		}
	}
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	if tools != nil && tools.take(head.Type, frame) {
		return nil
	}
	if s.opt.OnFrame != nil {
		s.opt.OnFrame(head.Type, frame)
	}
	return nil
}

var errNoReason = errors.New("the server refused the frame and gave no reason")

func (s *Socket) takeEvent(e api.Event, bytes int, retry *backoff) error {
	s.mu.Lock()
	last := s.last
	if e.Seq == last+1 {
		s.last = e.Seq
	}
	s.mu.Unlock()
	switch {
	case e.Seq <= last:
		return nil
	case e.Seq > last+1:
		return fmt.Errorf("%w: %d came after %d", ErrGap, e.Seq, last)
	}
	retry.reset()
	s.events.push(s.ctx, e, bytes)
	return nil
}

// answer gives a reply to the oldest call that waits for it.
func (s *Socket) answer(id string, r reply) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.pending[id]
	if len(calls) == 0 {
		return false
	}
	calls[0] <- r
	if s.pending[id] = calls[1:]; len(calls) == 1 {
		delete(s.pending, id)
	}
	return true
}

func closeError(err error) error {
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return &CloseError{closed.Code, closed.Text}
	}
	return err
}
