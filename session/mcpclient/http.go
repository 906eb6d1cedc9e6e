package mcpclient

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const dialTime = 10 * time.Second // for a connection, and again for its TLS handshake

var errRedirect = errors.New("a redirect, which is not followed")

// httpTransport is an MCP server at a URL.
type httpTransport struct {
	*mcp.StreamableClientTransport
	trips  *http.Transport
	header *withHeader
}

// newHTTPTransport adds the configured headers to each request. Redirects are refused, since they would take the headers
// elsewhere; proxies of the environment are not used.
func newHTTPTransport(cfg Server) *httpTransport {
	dialer := net.Dialer{Timeout: dialTime}
	trips := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTime, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}
	header := &withHeader{next: trips, header: cfg.Header}
	client := &http.Client{
		Transport:     header,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
	return &httpTransport{
		&mcp.StreamableClientTransport{Endpoint: cfg.URL, HTTPClient: client, MaxEventSize: maxMessage}, trips, header,
	}
}

func (t *httpTransport) gone() <-chan struct{} { return nil }

func (t *httpTransport) forgotten() bool { return t.header.forgotten.Load() }

func (t *httpTransport) diagnosis() string { return "" }

func (t *httpTransport) release() { t.trips.CloseIdleConnections() }

// withHeader adds headers to requests and notes what becomes of them.
type withHeader struct {
	next      http.RoundTripper
	header    http.Header
	forgotten atomic.Bool // the server does not know the MCP session any more
}

func (t *withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range t.header {
		r.Header[name] = values
	}
	call, _ := r.Context().Value(tripKey{}).(*trip)
	if call == nil || r.Method != http.MethodPost {
		call = &trip{}
	}
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { call.connected.Store(true) },
	}))
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	call.status.Store(int64(resp.StatusCode))
	if resp.StatusCode == http.StatusNotFound && r.Header.Get("Mcp-Session-Id") != "" { // as the specification has it
		call.forgotten.Store(true)
		t.forgotten.Store(true)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" { // whose events are bounded
		resp.Body = &bounded{resp.Body, maxMessage}
	}
	return resp, nil
}

// bounded fails where a body is longer than a message may be.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxMessage)
	}
	return n, err
}

// trip is what became of the request of one call. Its address is in the context of the call.
type trip struct {
	connected atomic.Bool
	status    atomic.Int64 // 0: no answer
	forgotten atomic.Bool  // the server does not know the MCP session
}

type tripKey struct{}

// notMade reports whether the call cannot have been made: there was no connection, or the server was busy.
func (t *trip) notMade() bool {
	status := t.status.Load()
	return !t.connected.Load() || status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// isTransportError reports whether an error is of a request that the server did not answer with JSON-RPC. The SDK wraps
// these in a JSON-RPC error of its own.
func isTransportError(err error, reported *jsonrpc.Error) bool {
	return reported.Message == "rejected by transport" || errors.As(err, new(*url.Error))
}
