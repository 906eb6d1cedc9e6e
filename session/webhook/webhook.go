// Package webhook calls tools that are reached by HTTP: each call is a signed POST to the tool's URL, below a prefix that
// the operator allows and, unless such a prefix names an address literally, on the public network only.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"talaria/api"
	"talaria/kernel/network"
	"talaria/session/remote"
)

const (
	connectTime = 10 * time.Second // for a connection, and again for its TLS handshake
	idleTime    = time.Second      // shorter than servers keep idle connections, so that none is found closed
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 10 * time.Second
	maxHeader   = 64 << 10
)

// Config says where tools may be.
type Config struct {
	// Prefixes are URLs below which tools may be, such as https://hooks.example.com/talaria/. A prefix whose host is an
	// IP address also permits that one address when it is private or of this machine.
	Prefixes []string
	Secrets  []Secret // all sign each call; at least one
}

// Caller calls webhooks. It is safe for concurrent use.
type Caller struct {
	prefixes  []prefix
	secrets   []Secret
	transport *http.Transport
	client    *http.Client
}

// New returns a caller. It connects to nothing yet.
func New(cfg Config) (*Caller, error) {
	if len(cfg.Prefixes) == 0 || len(cfg.Secrets) == 0 {
		return nil, errors.New("webhooks need at least one URL prefix and a secret")
	}
	c := &Caller{secrets: cfg.Secrets}
	for _, text := range cfg.Prefixes {
		p, err := parsePrefix(text)
		if err != nil {
			return nil, err
		}
		c.prefixes = append(c.prefixes, p)
	}
	c.transport = &http.Transport{
		Proxy: nil, DialContext: dial, TLSHandshakeTimeout: connectTime, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTime, MaxResponseHeaderBytes: maxHeader,
	}
	c.client = &http.Client{Transport: c.transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return c, nil
}

// dial connects to an address that a prefix names literally as it is. A name is resolved, and each of its addresses is
// checked when it is connected to, so that no second lookup can change it.
func dial(ctx context.Context, kind, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTime}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err != nil {
		d.Control = network.Public{}.Control
	}
	return d.DialContext(ctx, kind, address)
}

// Close closes idle connections. Calls that are open go on until their contexts end.
func (c *Caller) Close() { c.transport.CloseIdleConnections() }

// Check reports why a tool must not have a URL: it is not below a prefix of the operator. It looks nothing up.
func (c *Caller) Check(at string) error {
	_, err := c.allowed(at)
	return err
}

func (c *Caller) allowed(at string) (*url.URL, error) {
	u, err := parse(at)
	if err != nil {
		return nil, err
	}
	for _, p := range c.prefixes {
		if p.has(u) {
			return u, nil
		}
	}
	return nil, fmt.Errorf("the URL %.200q is not below a prefix that the operator allows (webhooks.prefixes)", at)
}

// request is the body of a call.
type request struct {
	CallID      string   `json:"call_id"`
	SessionID   string   `json:"session_id"`
	ExecutionID string   `json:"execution_id"`
	Tool        string   `json:"tool"`
	Arguments   api.Raw  `json:"arguments"`
	Deadline    api.Time `json:"deadline"`
}

// Call makes a call and returns its result. A receiver that is busy (429, 503) is asked again, not before its Retry-After,
// until ctx or [remote.MaxTime] ends; nothing else is sent twice. Every error is a [remote.Failure].
func (c *Caller) Call(ctx context.Context, at string, call remote.Call) (remote.Result, error) {
	var none remote.Result
	u, err := c.allowed(at)
	if err != nil {
		return none, remote.Failuref(remote.CodeUnavailable, "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, remote.MaxTime)
	defer cancel()
	deadline, _ := ctx.Deadline()
	body, err := api.Marshal(request{call.ID, call.SessionID, call.ExecutionID, call.Tool, call.Arguments, api.Time{Time: deadline}})
	if err != nil {
		return none, fmt.Errorf("encode the call: %w", err)
	}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		value, err := c.post(ctx, u, call.ID, body)
		busy := new(busyError)
		if !errors.As(err, &busy) {
			return remote.Result{Value: value}, err
		}
		wait := max(busy.after, backoff)
		if time.Now().Add(wait).After(deadline) {
			return none, remote.Failuref(remote.CodeUnavailable,
				"the webhook of %s is busy (%d) and asks to wait %v, which is past the call's deadline", call.Tool, busy.status, wait)
		}
		if call.Progress != nil {
			call.Progress(fmt.Sprintf("the webhook is busy (%d); trying again in %v", busy.status, wait))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return none, ended(ctx)
		}
	}
}

// busyError is an answer that asks to try again.
type busyError struct {
	status int
	after  time.Duration
}

func (e *busyError) Error() string { return http.StatusText(e.status) }

// post sends the call once.
func (c *Caller) post(ctx context.Context, u *url.URL, id string, body []byte) (api.Raw, error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), newBody(body))
	if err != nil {
		return nil, remote.Failuref(remote.CodeUnavailable, "%v", err)
	}
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return newBody(body), nil }
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "talaria")
	// Not in its canonical form, which would have net/http send the request again after a connection broke.
	r.Header["idempotency-key"] = []string{id}
	sign(r.Header, c.secrets, id, body, time.Now())
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, failed(ctx, err, connected.Load())
	}
	defer resp.Body.Close()
	return read(ctx, resp)
}

// failed is the failure of a request without an answer.
func failed(ctx context.Context, err error, connected bool) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if outer := new(url.Error); errors.As(err, &outer) {
		err = outer.Err // without the URL, which may contain a secret of the tool
	}
	switch {
	case errors.Is(err, network.ErrNotPublic):
		return remote.Failuref(remote.CodeRefusedAddress,
			"the webhook's host has an address that is not part of the public network; the operator can allow it with a prefix that names the address")
	case connected:
		return remote.Failuref(remote.CodeProviderGone, "the connection to the webhook broke before it answered: %v", err)
	}
	return remote.Failuref(remote.CodeUnavailable, "the webhook cannot be reached: %v", err)
}

// ended is the failure of a call whose context ended.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return remote.Failuref(remote.CodeTimeout, "the webhook did not answer before the call's deadline")
	}
	return remote.Failuref(remote.CodeCancelled, "the cell no longer waits for the call")
}

// retryAfter reads the header in both of its forms. Source: RFC 9110, section 10.2.3.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
