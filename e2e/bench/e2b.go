package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// e2bSandbox is a session as E2B's SDK sees it. It serves only the rows that create sessions and run cells.
type e2bSandbox struct {
	server *talariaServer
	id     string
	token  string // of the sandbox
}

// createE2B creates a sandbox.
func (s *talariaServer) createE2B(ctx context.Context) (session, error) {
	var made struct {
		SandboxID       string `json:"sandboxID"`
		EnvdAccessToken string `json:"envdAccessToken"`
	}
	body, err := s.e2b(ctx, http.MethodPost, "/v2/sandboxes", http.Header{"X-Api-Key": {s.token}}, map[string]any{"templateID": "code-interpreter-v1"})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(&made); err != nil {
		return nil, fmt.Errorf("read the new sandbox: %w", err)
	}
	_, err = io.Copy(io.Discard, body) // so that the connection is used again
	return &e2bSandbox{s, made.SandboxID, made.EnvdAccessToken}, err
}

// e2b makes a call, and returns the body of an answer of a status below 400. The caller closes it.
func (s *talariaServer) e2b(ctx context.Context, method, path string, header http.Header, in any) (io.ReadCloser, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+"/e2b"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := succeed(s.fronts, req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// attach connects to nothing: each cell is a request.
func (s *e2bSandbox) attach(context.Context, attachment) (conn, error) {
	return &e2bConn{sandbox: s}, nil
}

func (s *e2bSandbox) delete(ctx context.Context) error {
	body, err := s.server.e2b(ctx, http.MethodDelete, "/sandboxes/"+s.id, http.Header{"X-Api-Key": {s.server.token}}, nil)
	if err != nil {
		return err
	}
	return body.Close()
}

var errNotMeasured = errors.New("no row measures this with a client of E2B")

func (s *e2bSandbox) interrupt(context.Context) error { return errNotMeasured }
func (s *e2bSandbox) reset(context.Context) error     { return errNotMeasured }
func (s *e2bSandbox) upload(context.Context, string, []byte) error {
	return errNotMeasured
}
func (s *e2bSandbox) download(context.Context, string) (io.ReadCloser, error) {
	return nil, errNotMeasured
}

// e2bConn runs one cell at a time.
type e2bConn struct {
	sandbox *e2bSandbox
	body    io.ReadCloser  // of the cell that runs; nil if none does
	lines   *bufio.Scanner // of body
	failed  string         // why the cell has failed
}

func (c *e2bConn) execute(ctx context.Context, code string) error {
	header := http.Header{"E2b-Sandbox-Id": {c.sandbox.id}, "E2b-Sandbox-Port": {"49999"}, "X-Access-Token": {c.sandbox.token}}
	body, err := c.sandbox.server.e2b(ctx, http.MethodPost, "/execute", header, map[string]any{"code": code})
	if err != nil {
		return err
	}
	c.body, c.lines, c.failed = body, bufio.NewScanner(body), ""
	c.lines.Buffer(nil, 64<<20)
	return nil
}

func (c *e2bConn) next(context.Context) (output, error) {
	for c.lines.Scan() {
		var line struct {
			Type, Text, Name, Value string
			PNG                     string
		}
		if err := json.Unmarshal(c.lines.Bytes(), &line); err != nil {
			return output{}, fmt.Errorf("read a line: %w", err)
		}
		switch line.Type {
		case "stdout":
			return output{kind: kindText, text: line.Text}, nil
		case "result":
			if line.PNG != "" {
				return output{kind: kindImage}, nil
			}
			return output{kind: kindResult, text: line.Text}, nil
		case "error":
			c.failed = line.Name + ": " + line.Value
			return output{kind: kindFailure, text: c.failed}, nil
		case "end_of_execution":
			end := output{kind: kindEnd, text: "ok"}
			if c.failed != "" {
				end.text = c.failed
			}
			for c.lines.Scan() { // to the end of the answer, so that the connection is used again
			}
			return end, c.close()
		}
	}
	return output{}, errors.Join(errors.New("the answer ended before the cell"), c.lines.Err())
}

func (c *e2bConn) close() error {
	if c.body == nil {
		return nil
	}
	body := c.body
	c.body = nil
	return body.Close()
}
