package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"talaria/kernel/network"
)

// What is asked of an index. Source: PEP 691.
const (
	jsonType    = "application/vnd.pypi.simple.v1+json"
	htmlType    = "application/vnd.pypi.simple.v1+html"
	acceptPages = jsonType + ", " + htmlType + ";q=0.2, text/html;q=0.1"
	acceptFiles = "*/*"
)

var (
	errSilent    = errors.New("no data for too long")
	errDowngrade = errors.New("a redirect from https to http")
)

// statusError is an answer that is none.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("%d %s", int(e), http.StatusText(int(e))) }

// upstream talks to the index and to the hosts of its files. Credentials go to the index itself only. Other hosts are
// of the public network, or listed.
type upstream struct {
	base           *url.URL
	user, password string
	hosts          network.Public
	proxy          func(*http.Request) (*url.URL, error)
	timeout        time.Duration // of silence
	client         *http.Client
	free, guarded  *http.Transport
}

func newUpstream(
	base *url.URL, user, password string, hosts network.Public, proxy func(*http.Request) (*url.URL, error), timeout time.Duration,
) *upstream {
	u := &upstream{base: base, user: user, password: password, hosts: hosts, proxy: proxy, timeout: timeout}
	free, guarded := net.Dialer{Timeout: timeout}, net.Dialer{Timeout: timeout, Control: hosts.Control}
	u.free = &http.Transport{
		Proxy: proxy, DialContext: free.DialContext, TLSHandshakeTimeout: timeout, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: maxRequests, IdleConnTimeout: time.Minute,
	}
	u.guarded = u.free.Clone()
	u.guarded.Proxy, u.guarded.DialContext = nil, guarded.DialContext
	u.client = &http.Client{Transport: u, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		if len(before) >= 10 {
			return errors.New("too many redirects")
		}
		if before[len(before)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return errDowngrade
		}
		return nil
	}}
	return u
}

func (u *upstream) close() {
	u.free.CloseIdleConnections()
	u.guarded.CloseIdleConnections()
}

// own reports whether an address is of the index itself.
func (u *upstream) own(at *url.URL) bool {
	return at.Scheme == u.base.Scheme && strings.EqualFold(at.Hostname(), u.base.Hostname()) && portOf(at) == portOf(u.base)
}

func portOf(at *url.URL) uint16 {
	if n, err := strconv.ParseUint(at.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if at.Scheme == "https" {
		return 443
	}
	return 80
}

// RoundTrip is asked for each redirect too.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return nil, fmt.Errorf("unsupported URL scheme %q", r.URL.Scheme)
	}
	r = r.Clone(r.Context())
	r.URL.User = nil
	r.Header.Del("Authorization")
	r.Header.Del("Referer")
	host, port := r.URL.Hostname(), portOf(r.URL)
	if u.own(r.URL) {
		if u.user != "" || u.password != "" {
			r.SetBasicAuth(u.user, u.password)
		}
		return u.free.RoundTrip(r)
	}
	if u.hosts.Lists(host, port) {
		return u.free.RoundTrip(r)
	}
	proxy, err := u.proxy(r)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if proxy == nil {
		return u.guarded.RoundTrip(r)
	}
	if err := u.hosts.CheckHost(host, port); err != nil {
		return nil, err
	}
	return u.free.RoundTrip(r)
}

// get asks for an address. The body must be closed; ctx bounds it too.
func (u *upstream) get(ctx context.Context, at, accept string) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(u.timeout, func() { cancel(errSilent) })
	fail := func(err error) (*http.Response, error) {
		silence.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fail(err)
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "talaria")
	if accept == acceptFiles {
		r.Header.Set("Accept-Encoding", "identity") // else the bytes would not be those of the hash
	}
	resp, err := u.client.Do(r)
	if err != nil {
		return fail(err)
	}
	silence.Stop()
	resp.Body = &body{resp.Body, ctx, cancel, silence, u.timeout}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, statusError(resp.StatusCode)
	}
	return resp, nil
}

// body ends when nothing comes for too long while somebody reads.
type body struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence *time.Timer
	timeout time.Duration
}

func (b *body) Read(p []byte) (int, error) {
	b.silence.Reset(b.timeout)
	n, err := b.ReadCloser.Read(p)
	b.silence.Stop()
	if cause := context.Cause(b.ctx); cause != nil && err != nil && !errors.Is(err, io.EOF) {
		err = cause
	}
	return n, err
}

func (b *body) Close() error {
	b.silence.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
