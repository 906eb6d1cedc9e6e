// Package client is the Go client of the server: its REST calls, its streams of events and its WebSocket.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"talaria/api"
)

// DefaultOutage is how long a stream or a socket keeps trying to come back after a cut.
const DefaultOutage = time.Minute

const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
)

// Client calls one server with one token. Its methods are safe for concurrent use; its fields are set before the
// first call. ctx bounds a call with all of its body.
//
// A refused call returns an [*api.Error]. Its Code is empty if something between client and server, such as a proxy,
// refused it.
type Client struct {
	HTTP   *http.Client  // set by New to one without a timeout
	Outage time.Duration // set by New to DefaultOutage

	base  string
	token string
}

// New makes a client of the server at a URL such as "http://127.0.0.1:8765". Nothing is sent yet; a URL that is
// none is an error of each call.
func New(baseURL, token string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // or a download would not know its size
	return &Client{
		HTTP:   &http.Client{Transport: transport},
		Outage: DefaultOutage,
		base:   strings.TrimRight(baseURL, "/"),
		token:  token,
	}
}

// NewID makes an id for a session or an execution.
func NewID() string { return rand.Text() }

// request is one call.
type request struct {
	method string
	path   string // escaped
	query  url.Values
	accept string
	body   io.Reader
	kind   string // of the body
	header http.Header
}

// send returns the response of a status below 400; the caller closes its body.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, r.body)
	if err != nil {
		return nil, fmt.Errorf("call the server: %w", err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	maps.Copy(req.Header, r.header)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the server: %w", err)
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, problem(resp)
	}
	return resp, nil
}

// call sends in, unless it is nil, and decodes the answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) (int, error) {
	r := request{method: method, path: path, query: query, accept: typeJSON}
	if in != nil {
		body, err := api.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("encode the request: %w", err)
		}
		r.body, r.kind = bytes.NewReader(body), typeJSON
	}
	resp, err := c.send(ctx, r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && out != nil && resp.StatusCode != http.StatusNoContent {
		err = json.Unmarshal(answer, out)
	}
	if err != nil {
		return 0, fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return resp.StatusCode, nil
}

// get decodes the answer to a GET.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var out T
	_, err := c.call(ctx, http.MethodGet, path, query, nil, &out)
	return out, err
}

// problem reads the error out of a response of a status of 400 or more.
func problem(resp *http.Response) *api.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	e := new(api.Error)
	if kind == "application/problem+json" && json.Unmarshal(body, e) == nil && e.Code != "" {
		return e
	}
	detail := strings.TrimSpace(string(body[:min(len(body), 200)]))
	if detail == "" || !strings.HasPrefix(kind, "text/plain") {
		detail = "the response is not a problem document"
	}
	return &api.Error{
		Type: "about:blank", Title: http.StatusText(resp.StatusCode), Status: resp.StatusCode,
		Detail: fmt.Sprintf("status %d: %s", resp.StatusCode, detail),
	}
}

// path joins escaped segments below /v1.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

func pageQuery(p api.PageQuery) url.Values {
	q := url.Values{}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	return q
}

// isRefusal reports an answer that a further attempt would not change.
func isRefusal(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Status < 500 && e.Status != http.StatusTooManyRequests
}
