package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/server"
)

// raw opens a connection and sends text, as no HTTP client would.
func (h *harness) raw(text string) net.Conn {
	h.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(h.url, "http://"), patience)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		h.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		h.Fatal(err)
	}
	return c
}

func TestABodyThatNeverComesIsNotWaitedFor(t *testing.T) {
	h := startWith(t, server.Config{Stall: 300 * time.Millisecond})
	h.session("s")
	bearer := "Authorization: Bearer " + firstToken + "\r\n"
	for _, test := range []struct {
		name, head string
		status     int
	}{
		{"refused", "POST /v1/sessions HTTP/1.1\r\nContent-Length: 1000\r\n", 401},
		{"refused, in chunks", "POST /v1/sessions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", 401},
		{"no such path", "PUT /nothing HTTP/1.1\r\nContent-Length: 1000\r\n", 404},
		{"login", "POST /login HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n", 401},
		{"JSON", "POST /v1/sessions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n" + bearer, 400},
		{"upload", "PUT /v1/sessions/s/files/f HTTP/1.1\r\nContent-Length: 1000\r\n" + bearer, 400},
		{"a body that nobody reads", "DELETE /v1/sessions/none HTTP/1.1\r\nContent-Length: 1000\r\n" + bearer, 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := bufio.NewReader(h.raw(test.head + "Host: x\r\n\r\n"))
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != test.status || !r.Close {
				t.Errorf("status %d, want %d; close %v, %v", r.StatusCode, test.status, r.Close, err)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

func TestAClientThatWritesItsWholeBodyFirstReadsThatItIsTooLarge(t *testing.T) {
	h := start(t)
	h.session("s")
	size := api.MaxBody + 15<<20 // more than the buffers of a connection hold
	c := h.raw(fmt.Sprintf("POST /v1/sessions/s/executions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", firstToken, size))
	for part, sent := make([]byte, 1<<20), 0; sent < size; sent += len(part) {
		if _, err := c.Write(part); err != nil {
			t.Fatalf("after %d MiB: %v", sent>>20, err)
		}
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", r.StatusCode)
	}
}

// Whatever clients are told without detail is in the log with all detail.
func TestTheLogSaysWhatFailed(t *testing.T) {
	h := start(t)
	if err := os.Remove(filepath.Join(h.dir, "sessions")); err != nil {
		t.Fatal(err)
	}
	h.want(h.do(request{method: "PUT", path: "/v1/sessions/s"}), 500, api.CodeInternal)
	if !strings.Contains(h.log.String(), `level=ERROR msg="request failed" request="PUT /v1/sessions/:id" error=`) {
		t.Errorf("the log has only\n%s", h.log)
	}
}

func TestARefusedBodyThatComesKeepsTheConnection(t *testing.T) {
	h := start(t)
	c := h.raw("")
	in := bufio.NewReader(c)
	for range 2 {
		fmt.Fprint(c, "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != 401 || r.Close {
			t.Errorf("status %d, close %v, %v", r.StatusCode, r.Close, err)
		}
	}
}

func TestAnAnswerThatIsNotReadEnds(t *testing.T) {
	h := startWith(t, server.Config{Stall: 300 * time.Millisecond})
	h.session("s")
	const size = 32 << 20 // more than the system buffers
	h.want(h.do(request{method: "PUT", path: "/v1/sessions/s/files/big"}), 201, "")
	files, _ := filepath.Glob(filepath.Join(h.dir, "sessions", "*", "workspace", "big"))
	if len(files) != 1 {
		t.Fatalf("the file is %q", files)
	}
	if err := os.Truncate(files[0], size); err != nil { // to send all of it may take longer than a client may stall
		t.Fatal(err)
	}
	c := h.raw("GET /v1/sessions/s/files/big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + firstToken + "\r\n\r\n")
	h.answered("/v1/sessions/{id}/files/{path}")
	if n, err := io.Copy(io.Discard, c); n >= size {
		t.Errorf("%d bytes came, and then %v", n, err)
	}
}

func TestConnectionsWithoutATokenAreFewAndKeepNobodyOut(t *testing.T) {
	h := startWith(t, server.Config{Connections: 8}) // 4 from this address
	h.session("s")
	attached := h.attach("/v1/sessions/s/ws")
	var waiting []net.Conn
	for range 12 {
		waiting = append(waiting, h.raw("POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"))
		h.want(h.do(request{method: "GET", path: "/v1/sessions/s"}), 200, "")
	}
	for _, c := range waiting[:8] { // these came first, and had to go for the others
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("the oldest got an answer")
		} else if late, ok := err.(net.Error); ok && late.Timeout() {
			t.Error("one of the oldest is still there")
		}
	}
	if r := attached.ask(`{"type":"ping","id":"p"}`); r["ok"] != true {
		t.Errorf("the socket of an owner: %v", r)
	}
}

func TestAnOwnersRequestsAndSocketsAreBounded(t *testing.T) {
	h := startWith(t, server.Config{OwnerRequests: 3})
	h.session("s")
	first := h.attach("/v1/sessions/s/ws")
	h.attach("/v1/sessions/s/ws")
	h.attach("/v1/sessions/s/ws")
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s"}), 429, api.CodeTooManyRequests)
	if _, r, _ := h.dial("/v1/sessions/s/ws", http.Header{"Authorization": {"Bearer " + firstToken}}); r == nil || r.StatusCode != 429 {
		t.Errorf("a fourth socket: %v", r)
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions", token: secondToken}), 200, "")
	first.conn.Close()
	h.answered("/v1/sessions/{id}/ws")
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s"}), 200, "")
}

func TestASharesVisitorsHaveABudgetOfTheirOwn(t *testing.T) {
	h := start(t)
	token, _ := h.shared("s")
	visitor := http.Header{"Authorization": {"Bearer " + token}}
	for range 64 {
		if _, r, err := h.dial("/v1/sessions/s/ws", visitor); err != nil {
			t.Fatalf("%v %v", err, r)
		}
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s", token: token}), 429, api.CodeTooManyRequests)
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s"}), 200, "")
	h.attach("/v1/sessions/s/ws")
}

func TestARevokedTokenEndsItsSocketsAndStreams(t *testing.T) {
	h := start(t)
	h.session("s")
	terminal := h.terminal()
	r := h.do(request{method: "GET", path: "/?token=" + firstToken, token: "-"})
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	byToken := h.attach("/v1/sessions/s/ws")
	byCookie, _, err := h.dial("/v1/sessions/s/ws", http.Header{"Cookie": {cookie}, "Origin": {h.url}})
	if err != nil {
		t.Fatal(err)
	}
	shell, _, err := h.dial(terminal+"/ws", http.Header{"Authorization": {"Bearer " + firstToken}})
	if err != nil {
		t.Fatal(err)
	}
	stream := h.raw("GET /v1/sessions/s/events HTTP/1.0\r\nAuthorization: Bearer " + firstToken + "\r\n\r\n")
	if _, err := bufio.NewReader(stream).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	h.tokens.revoke(firstToken)
	for name, conn := range map[string]*websocket.Conn{"token": byToken.conn, "cookie": byCookie, "terminal": shell} {
		if end := (&client{T: t, conn: conn}).closed(); end.Code != websocket.ClosePolicyViolation || end.Text != "token_revoked" {
			t.Errorf("the socket by %s was closed with %v", name, end)
		}
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the stream goes on: %v", err)
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions"}), 401, api.CodeUnauthorized)
}

func TestALoginIsNotTheTokenAndEndsWithLogout(t *testing.T) {
	h := start(t)
	h.session("s")
	cookie := h.cookie()
	if strings.Contains(cookie, firstToken) {
		t.Error("the cookie holds the token")
	}
	name, value, _ := strings.Cut(cookie, "=")
	h.want(h.do(request{method: "GET", path: "/v1/sessions", token: value}), 401, api.CodeUnauthorized)
	conn, _, err := h.dial("/v1/sessions/s/ws", http.Header{"Cookie": {cookie}, "Origin": {h.url}})
	if err != nil {
		t.Fatal(err)
	}
	kept := h.attach("/v1/sessions/s/ws")
	foreign := h.do(request{method: "POST", path: "/logout", token: "-", header: map[string]string{
		"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}})
	h.want(foreign, 403, api.CodeOriginNotAllowed)
	out := h.do(request{method: "POST", path: "/logout", token: "-", header: map[string]string{"Cookie": cookie, "Origin": h.url}})
	if out.status != 303 || !strings.HasPrefix(out.header.Get("Set-Cookie"), name+"=;") {
		t.Errorf("logout: %d %v", out.status, out.header)
	}
	if end := (&client{T: t, conn: conn}).closed(); end.Text != "token_revoked" {
		t.Errorf("the socket of the login was closed with %v", end)
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions", token: "-", header: map[string]string{"Cookie": cookie}}), 401, api.CodeUnauthorized)
	if r := kept.ask(`{"type":"ping","id":"p"}`); r["ok"] != true {
		t.Errorf("the socket of the token: %v", r)
	}
}

func TestALinkAsksBeforeItSignsIn(t *testing.T) {
	h := start(t)
	token, _ := h.shared("s")
	open := func(token, site string) response {
		return h.do(request{method: "GET", path: "/?session=s&token=" + token, token: "-", header: map[string]string{"Sec-Fetch-Site": site}})
	}
	for _, site := range []string{"cross-site", "same-site", "same-origin"} {
		page := open(secondToken, site)
		if page.status != 200 || page.header.Get("Set-Cookie") != "" || page.header.Get("Cache-Control") != "no-store" ||
			!strings.Contains(string(page.body), "Sign in as second?") ||
			!strings.Contains(string(page.body), `action="/login?session=s"`) ||
			!strings.Contains(page.header.Get("Content-Security-Policy"), "form-action 'self'") {
			t.Errorf("%s: %d %v %s", site, page.status, page.header, page.body)
		}
	}
	in := h.do(request{method: "POST", path: "/login?session=s", token: "-", body: url.Values{"token": {secondToken}}.Encode(),
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}})
	if in.status != 303 || in.header.Get("Set-Cookie") == "" || in.header.Get("Location") != "/?session=s" {
		t.Errorf("the form: %d %v", in.status, in.header)
	}
	for _, r := range []response{open(secondToken, "none"), open(secondToken, ""), open(token, "cross-site")} {
		if r.status != 303 || r.header.Get("Set-Cookie") == "" {
			t.Errorf("%d %v", r.status, r.header)
		}
	}
}

// Pictures in a notebook come from the page's own origin, and may have any address on this server.
func TestOnlyAPageInATabSignsIn(t *testing.T) {
	h := start(t)
	shared, _ := h.shared("s")
	cookie := h.cookie()
	for _, tt := range []struct {
		site, destination string
		owner, share      int
	}{
		{"none", "document", 303, 303},
		{"", "", 303, 303},
		{"same-origin", "document", 200, 303},
		{"cross-site", "document", 200, 303},
		{"same-origin", "image", 403, 403},
		{"cross-site", "image", 403, 403},
		{"none", "image", 403, 403},
		{"same-origin", "empty", 403, 403},
		{"same-origin", "iframe", 403, 403},
		{"same-origin", "style", 403, 403},
	} {
		for token, want := range map[string]int{secondToken: tt.owner, shared: tt.share} {
			r := h.do(request{method: "GET", path: "/?token=" + token, token: "-",
				header: map[string]string{"Cookie": cookie, "Sec-Fetch-Site": tt.site, "Sec-Fetch-Dest": tt.destination}})
			if signedIn := r.header.Get("Set-Cookie") != ""; r.status != want || signedIn != (want == 303) {
				t.Errorf("site %q, destination %q: status %d, want %d; signed in: %v", tt.site, tt.destination, r.status, want, signedIn)
			}
		}
	}
}

func TestCookiesAreForTLSOnlyWhereConfigured(t *testing.T) {
	h := startWith(t, server.Config{SecureCookies: true})
	r := h.do(request{method: "GET", path: "/?token=" + firstToken, token: "-"})
	if cookie := r.header.Get("Set-Cookie"); !strings.Contains(cookie, "; Secure") {
		t.Errorf("the cookie is %q", cookie)
	}
}

func TestManyWrongTokensHaveToWait(t *testing.T) {
	h := start(t)
	h.want(h.do(request{method: "GET", path: "/v1/sessions"}), 200, "")
	var r response
	for begin := time.Now(); r.status != 429 && time.Since(begin) < patience; {
		if r = h.do(request{method: "GET", path: "/v1/sessions", token: "wrong"}); r.status != 401 && r.header.Get("Retry-After") == "" {
			t.Fatalf("%d %v", r.status, r.header)
		}
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions", token: secondToken}), 429, api.CodeTooManyRequests)
	h.want(h.do(request{method: "GET", path: "/v1/sessions"}), 200, "") // it was good from here before
	h.want(h.do(request{method: "GET", path: "/healthz", token: "-"}), 200, "")
}

func TestAVisitorSeesNeitherMetadataNorMounts(t *testing.T) {
	h := start(t)
	token, _ := h.shared("s")
	h.want(h.do(request{method: "PATCH", path: "/v1/sessions/s", body: `{"metadata":{"chat":"private"}}`}), 200, "")
	conn, _, err := h.dial("/v1/sessions/s/ws", http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		t.Fatal(err)
	}
	hello := (&client{T: t, conn: conn}).read()
	may := decode[api.SessionToken](t, h.do(request{method: "POST", path: "/v1/sessions/s/tokens", body: `{"rights":["run"]}`}).body)
	for who, info := range map[string]any{
		"GET":   decode[any](t, h.do(request{method: "GET", path: "/v1/sessions/s", token: token}).body),
		"hello": hello["session"],
		"wake":  decode[any](t, h.do(request{method: "POST", path: "/v1/sessions/s/wake", token: may.Token}).body),
	} {
		session := info.(map[string]any)
		if metadata, _ := session["metadata"].(map[string]any); len(metadata) > 0 || session["metadata"] == nil || session["mounts"] == nil {
			t.Errorf("%s: %v, %v", who, session["metadata"], session["mounts"])
		}
	}
	own := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body)
	if own.Metadata["chat"] != "private" {
		t.Errorf("the owner sees %v", own.Metadata)
	}
}
