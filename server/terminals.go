package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/session"
)

// terminalClosed is the close reason for a terminal that somebody has closed.
var terminalClosed = closeReason{websocket.CloseNormalClosure, "terminal_closed"}

func (s *Server) createTerminal(c *call, sess *session.Session) error {
	var req api.TerminalRequest
	if err := readJSON(c, &req, true); err != nil {
		return err
	}
	made, err := sess.Terminals().Open(c.command(), req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, made)
}

func (s *Server) listTerminals(c *call, sess *session.Session) error {
	list, err := sess.Terminals().List(c.ctx())
	if err != nil {
		return err
	}
	return wholeList[api.Terminal]{items: list, key: func(one api.Terminal) string {
		return fmt.Sprintf("%40s", one.ID) // they count upwards
	}}.answer(c)
}

func (s *Server) deleteTerminal(c *call, sess *session.Session) error {
	if err := sess.Terminals().Close(c.command(), c.param("tid")); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	return nil
}

// serveTerminal is GET /v1/sessions/{id}/terminals/{tid}/ws. Token and Origin were checked by the gate.
func (s *Server) serveTerminal(c *call, sess *session.Session) error {
	text, given, err := c.value("after")
	if err != nil {
		return err
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if given && (err != nil || after < 0) {
		return badQuery("after", "not a whole number of 0 or more")
	}
	id := c.param("tid")
	if err := sess.Terminals().Has(c.ctx(), id); err != nil {
		return err
	}
	peer, leave, err := s.upgrade(c, api.Subprotocol)
	if peer == nil {
		return err
	}
	defer leave()
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	t := &terminalSocket{srv: s, sess: sess, id: id, peer: peer, position: after}
	t.run(ctx, cancel)
	return nil
}

// terminalSocket is one client on one terminal: read types what it sends, write sends the output.
type terminalSocket struct {
	srv  *Server
	sess *session.Session
	id   string
	*peer
	position int64 // offset of the next byte to send

	readErr error // valid once read has returned

	sending sync.Mutex // serialises frames
}

// run serves the socket until either side ends it; then nothing of it is left.
func (t *terminalSocket) run(ctx context.Context, cancel context.CancelFunc) {
	defer context.AfterFunc(ctx, t.unblock)() // a write in progress does not delay the end
	var others sync.WaitGroup
	others.Go(func() {
		defer cancel()
		t.read(ctx)
	})
	others.Go(func() {
		defer cancel()
		t.ping(ctx)
	})
	if f := t.write(ctx); f != gone {
		t.sayClose(f)
	}
	t.endReading()
	cancel()
	others.Wait()
	t.discardRest(t.readErr)
	_ = t.conn.Close() // nothing can be done about a connection that does not close
}

// read carries out frames until the connection ends, or ctx ends while a frame waits for the shell.
func (t *terminalSocket) read(ctx context.Context) {
	for {
		f, err := t.peer.read(ctx)
		if err != nil {
			t.readErr = err
			return
		}
		if f.kind == websocket.BinaryMessage {
			err = t.sess.Terminals().Write(ctx, t.id, f.data)
		} else {
			err = t.obey(ctx, f.data)
		}
		f.release()
		if err != nil && ctx.Err() == nil && t.refuse(ctx, err) != nil {
			return
		}
	}
}

// obey carries out a text frame.
func (t *terminalSocket) obey(ctx context.Context, data []byte) error {
	var frame api.TerminalResize
	if err := api.Unmarshal(data, &frame); err != nil {
		return err
	}
	if frame.Type != "resize" {
		return api.Errorf(api.CodeInvalidRequest, "unknown type %.40q; a text frame must be of type \"resize\"", frame.Type)
	}
	return t.sess.Terminals().Resize(ctx, t.id, frame.Rows, frame.Cols)
}

// refuse tells the client what was not done. If the terminal is gone, the writer reports that.
func (t *terminalSocket) refuse(ctx context.Context, err error) error {
	problem := t.srv.problem(ctx, err, "a frame of a terminal")
	if problem.Code == api.CodeTerminalNotFound {
		return nil
	}
	return t.sendJSON(api.TerminalError{Type: "error", Error: problem})
}

// write sends output until the shell ends, the client goes away or the server shuts down.
func (t *terminalSocket) write(ctx context.Context) closeReason {
	if err := t.sendOffset(t.position); err != nil {
		return gone
	}
	for {
		out, err := t.sess.Terminals().Read(ctx, t.id, t.position)
		if err != nil {
			return t.ending(ctx, err)
		}
		if out.Offset != t.position {
			if err := t.sendOffset(out.Offset); err != nil {
				return gone
			}
		}
		if len(out.Data) > 0 {
			if err := t.send(websocket.BinaryMessage, out.Data); err != nil {
				return gone
			}
			t.position += int64(len(out.Data))
		}
		if out.Ended {
			if err := t.sendJSON(api.TerminalExit{Type: "exit", Code: out.Code}); err != nil {
				return gone
			}
			return closeReason{websocket.CloseNormalClosure, "exit"}
		}
	}
}

func (t *terminalSocket) ending(ctx context.Context, err error) closeReason {
	var known *api.Error
	switch {
	case errors.Is(context.Cause(ctx), errDraining):
		return shutdown
	case errors.Is(context.Cause(ctx), errExpired):
		return expiredToken
	case errors.Is(context.Cause(ctx), errRevoked):
		return revokedToken
	case ctx.Err() != nil:
		return gone
	case errors.As(err, &known) && known.Code == api.CodeTerminalNotFound:
		return terminalClosed
	}
	t.srv.log.Error("terminal failed", slog.Any("error", err))
	return broken
}

// ping finds out whether the client is still there, as it sends nothing while its user does not type.
func (t *terminalSocket) ping(ctx context.Context) {
	every := time.NewTicker(pingEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if t.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(stall)) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (t *terminalSocket) sendOffset(offset int64) error {
	t.position = offset
	return t.sendJSON(api.TerminalOffset{Type: "offset", Offset: offset})
}

func (t *terminalSocket) sendJSON(v any) error {
	data, err := api.Marshal(v)
	if err != nil {
		return err
	}
	return t.send(websocket.TextMessage, data)
}

func (t *terminalSocket) send(kind int, data []byte) error {
	t.sending.Lock()
	defer t.sending.Unlock()
	return t.conn.WriteMessage(kind, data)
}
