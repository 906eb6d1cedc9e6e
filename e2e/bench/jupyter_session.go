package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// jupyterSession is a kernel of a Jupyter Server.
type jupyterSession struct {
	server *jupyterServer
	id     string
}

func (s *jupyterSession) path() string { return "/api/kernels/" + s.id }

// attach connects as JupyterLab does: a client id of its own, and the binary framing where the server has it.
func (s *jupyterSession) attach(ctx context.Context, a attachment) (conn, error) {
	dialer := websocket.Dialer{Subprotocols: []string{jupyterProtocol}}
	if a.quickACK {
		dialer.NetDialContext = dialQuickACK
	}
	client := rand.Text()
	target := strings.Replace(s.server.url, "http", "ws", 1) + s.path() + "/channels?" +
		url.Values{"session_id": {client}}.Encode()
	ws, resp, err := dialer.DialContext(ctx, target, http.Header{"Authorization": {"token " + s.server.token}})
	if err != nil && resp != nil {
		return nil, fmt.Errorf("%w: %s", err, resp.Status)
	}
	if err != nil {
		return nil, err
	}
	return &jupyterConn{ws: ws, client: client, late: a.late, binary: ws.Subprotocol() == jupyterProtocol}, nil
}

func (s *jupyterSession) interrupt(ctx context.Context) error {
	return s.server.call(ctx, http.MethodPost, s.path()+"/interrupt", struct{}{}, nil)
}

func (s *jupyterSession) reset(ctx context.Context) error {
	return s.server.call(ctx, http.MethodPost, s.path()+"/restart", struct{}{}, nil)
}

func (s *jupyterSession) upload(ctx context.Context, name string, content []byte) error {
	file := map[string]string{"type": "file", "format": "base64", "content": base64.StdEncoding.EncodeToString(content)}
	return s.server.call(ctx, http.MethodPut, "/api/contents/"+name, file, nil)
}

func (s *jupyterSession) download(ctx context.Context, name string) (io.ReadCloser, error) {
	resp, err := s.server.send(ctx, http.MethodGet, "/files/"+name, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (s *jupyterSession) delete(ctx context.Context) error {
	return s.server.call(ctx, http.MethodDelete, s.path(), nil, nil)
}

// jupyterConn is a WebSocket of the channels of a kernel.
type jupyterConn struct {
	ws     *websocket.Conn
	client string
	binary bool
	late   bool // the cell is another client's

	sent       string // id of the request that runs
	idle, done bool   // the kernel has said that it is idle after it; the reply has come
	status     string // of the reply
}

func (c *jupyterConn) execute(ctx context.Context, code string) error {
	c.sent, c.idle, c.done, c.status = rand.Text(), false, false, ""
	m := message{channel: "shell"}
	m.header.ID, m.header.Session, m.header.Type = c.sent, c.client, "execute_request"
	m.header.Username, m.header.Version, m.header.Date = "bench", "5.3", time.Now().UTC().Format(time.RFC3339Nano)
	content, err := json.Marshal(map[string]any{
		"code": code, "silent": false, "store_history": true, "user_expressions": map[string]string{},
		"allow_stdin": false, "stop_on_error": true,
	})
	if err != nil {
		return err
	}
	m.content = content
	frame, err := m.encode(c.binary)
	if err != nil {
		return err
	}
	kind := websocket.TextMessage
	if c.binary {
		kind = websocket.BinaryMessage
	}
	defer context.AfterFunc(ctx, func() { c.ws.Close() })()
	return c.ws.WriteMessage(kind, frame)
}

func (c *jupyterConn) next(ctx context.Context) (output, error) {
	defer context.AfterFunc(ctx, func() { c.ws.Close() })()
	for {
		_, frame, err := c.ws.ReadMessage()
		if ctx.Err() != nil {
			return output{}, context.Cause(ctx)
		}
		if err != nil {
			return output{}, err
		}
		m, err := decodeMessage(frame, c.binary)
		if err != nil {
			return output{}, err
		}
		if c.late && m.parent.Type != "execute_request" || !c.late && m.parent.ID != c.sent {
			continue
		}
		if o, ok, err := c.output(m); ok || err != nil {
			return o, err
		}
	}
}

// output is what a person sees of a message, if anything.
func (c *jupyterConn) output(m message) (output, bool, error) {
	var content struct {
		Name   string         `json:"name"`
		Text   string         `json:"text"`
		Data   map[string]any `json:"data"`
		Ename  string         `json:"ename"`
		State  string         `json:"execution_state"`
		Status string         `json:"status"`
	}
	if err := json.Unmarshal(m.content, &content); err != nil {
		return output{}, false, fmt.Errorf("read a message of type %s: %w", m.header.Type, err)
	}
	switch m.header.Type {
	case "stream":
		return output{kind: kindText, text: content.Text}, content.Name == "stdout", nil
	case "execute_result":
		text, _ := content.Data["text/plain"].(string)
		return output{kind: kindResult, text: text}, true, nil
	case "display_data":
		_, ok := content.Data["image/png"]
		return output{kind: kindImage}, ok, nil
	case "error":
		return output{kind: kindFailure, text: content.Ename}, true, nil
	case "status":
		c.idle = c.idle || content.State == "idle"
	case "execute_reply":
		c.done, c.status = true, content.Status
	default:
		return output{}, false, nil
	}
	if c.late && c.idle {
		return output{kind: kindEnd, text: "ok"}, true, nil
	}
	return output{kind: kindEnd, text: c.status}, c.idle && c.done, nil
}

func (c *jupyterConn) close() error { return c.ws.Close() }
