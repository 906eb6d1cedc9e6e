package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"talaria/api"
	"talaria/client"
)

// talariaSession is a session of a server of this repository.
type talariaSession struct {
	server *talariaServer
	id     string
}

func (s *talariaSession) client() *client.Client { return s.server.client }

// attach connects as the Go client does. An immediate ACK has no meaning here: the server waits for none.
func (s *talariaSession) attach(ctx context.Context, a attachment) (conn, error) {
	var o client.AttachOptions
	if a.late {
		o.After = new(int64)
	}
	socket, err := s.client().Attach(ctx, s.id, o)
	return &talariaConn{s, socket}, err
}

func (s *talariaSession) interrupt(ctx context.Context) error {
	return s.client().Interrupt(ctx, s.id, "")
}

func (s *talariaSession) reset(ctx context.Context) error {
	_, err := s.client().ResetSession(ctx, s.id, api.ResetRequest{})
	return err
}

func (s *talariaSession) upload(ctx context.Context, name string, content []byte) error {
	_, _, err := s.client().PutFile(ctx, s.id, name, bytes.NewReader(content))
	return err
}

func (s *talariaSession) download(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.client().GetFile(ctx, s.id, name)
}

func (s *talariaSession) delete(ctx context.Context) error {
	return s.client().DeleteSession(ctx, s.id)
}

// talariaConn is a WebSocket of such a session.
type talariaConn struct {
	session *talariaSession
	socket  *client.Socket
}

func (c *talariaConn) execute(ctx context.Context, code string) error {
	_, err := c.socket.Execute(ctx, api.ExecutionRequest{Code: &code})
	return err
}

func (c *talariaConn) next(ctx context.Context) (output, error) {
	for {
		e, err := c.socket.Next(ctx)
		if err != nil {
			return output{}, err
		}
		if o, ok := c.output(e.Body); ok {
			return o, nil
		}
	}
}

// output is what a person sees of an event, if anything.
func (c *talariaConn) output(body api.EventBody) (output, bool) {
	switch b := body.(type) {
	case api.Stream:
		if b.Truncated != nil {
			return output{kind: kindWhole, open: c.artifact(b.Truncated.SHA256)}, true
		}
		return output{kind: kindText, text: b.Text}, b.Name == "stdout"
	case api.ExecuteResult:
		return output{kind: kindResult, text: plain(b.Data)}, true
	case api.DisplayData:
		_, ok := b.Data["image/png"]
		return output{kind: kindImage}, ok
	case api.ErrorEvent:
		return output{kind: kindFailure, text: b.Ename}, true
	case api.ExecutionFinished:
		return output{kind: kindEnd, text: string(b.Execution.Status)}, true
	}
	return output{}, false
}

func (c *talariaConn) artifact(sha256 string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) { return c.session.client().GetArtifact(ctx, sha256) }
}

func (c *talariaConn) close() error { return c.socket.Close() }

// plain is the text of a value.
func plain(data api.MIMEBundle) (text string) {
	_ = json.Unmarshal(data["text/plain"], &text) // a value without one has no text
	return text
}
