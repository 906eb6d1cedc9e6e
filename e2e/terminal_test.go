package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

// terminal is a client of one terminal.
type terminal struct {
	t      *testing.T
	conn   *websocket.Conn
	shown  string
	offset int64 // of the next byte
	first  int64 // of the first one
	code   *int
}

func (s *Server) openTerminal(t *testing.T, session string, body string) string {
	t.Helper()
	a := s.want(t, call{method: "POST", path: "/v1/sessions/" + session + "/terminals", body: body}, 201, "")
	return decode[api.Terminal](t, string(a.body)).ID
}

func (s *Server) attachTerminal(t *testing.T, session, id, query string) *terminal {
	t.Helper()
	url := "ws" + strings.TrimPrefix(s.URL, "http") + "/v1/sessions/" + session + "/terminals/" + id + "/ws" + query
	conn, resp, err := websocket.DefaultDialer.DialContext(within(t), url, http.Header{"Authorization": {"Bearer " + s.Token}})
	if err != nil {
		t.Fatalf("attach to a terminal: %v %v", err, resp)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &terminal{t: t, conn: conn, offset: -1}
}

func (k *terminal) say(text string) {
	k.t.Helper()
	if err := k.conn.WriteMessage(websocket.BinaryMessage, []byte(text)); err != nil {
		k.t.Fatal(err)
	}
}

// next reads one frame. It returns false at the end.
func (k *terminal) next() bool {
	k.t.Helper()
	kind, data, err := k.conn.ReadMessage()
	if err != nil {
		if !websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
			k.t.Fatalf("the terminal shows %q and then: %v", k.shown, err)
		}
		return false
	}
	if kind == websocket.BinaryMessage {
		if k.offset < 0 {
			k.t.Fatal("output comes before its offset")
		}
		k.shown += string(data)
		k.offset += int64(len(data))
		return true
	}
	var frame struct {
		Type   string
		Offset int64
		Code   int
	}
	if err := json.Unmarshal(data, &frame); err != nil {
		k.t.Fatal(err)
	}
	switch frame.Type {
	case "offset":
		k.offset, k.first = frame.Offset, frame.Offset
	case "exit":
		k.code = &frame.Code
	default:
		k.t.Fatalf("an unknown frame: %s", data)
	}
	return true
}

func (k *terminal) until(want string) {
	k.t.Helper()
	for !strings.Contains(k.shown, want) {
		if !k.next() {
			k.t.Fatalf("it ended without %q: %q", want, k.shown)
		}
	}
}

// quiet makes the shell show neither a prompt nor what is typed.
func (k *terminal) quiet() {
	k.t.Helper()
	k.say("PS1=; stty -echo; bind 'set enable-bracketed-paste off'; echo quiet-$((0))\n")
	k.until("quiet-0\r\n")
}

func (k *terminal) ended(want int) {
	k.t.Helper()
	for k.next() {
	}
	if k.code == nil {
		k.t.Errorf("it ended without an exit code: %q", k.shown)
	} else if *k.code != want {
		k.t.Errorf("the shell ended with %d, want %d: %q", *k.code, want, k.shown)
	}
}

func TestAShellOnATerminalInTheSandbox(t *testing.T) {
	t.Parallel()
	everyTier(t, func(t *testing.T, tier string, who identity) {
		t.Parallel()
		s := start(t, options{as: who, args: []string{"--tier", tier}})
		id := session(t, s.Client(), api.SessionRequest{})
		place := runOK(t, s.Client(), id, "import os; open('from-cell', 'w').write('seen'); print(os.getcwd(), os.getuid(), sep='\\n')")
		tid := s.openTerminal(t, id, `{"rows":30,"cols":101}`)
		k := s.attachTerminal(t, id, tid, "")
		k.quiet()
		k.say("cat from-cell; stty size; tty >/dev/null && echo is-a-tty; pwd; id -u; echo done-1\n")
		k.until("done-1")
		for _, want := range []string{"seen", "30 101\r\n", "is-a-tty\r\n" + strings.ReplaceAll(place, "\n", "\r\n")} {
			if !strings.Contains(k.shown, want) {
				t.Errorf("it shows %q, without %q", k.shown, want)
			}
		}
		if err := k.conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"resize","rows":40,"cols":120}`)); err != nil {
			t.Fatal(err)
		}
		k.say("trap 'echo resized' WINCH; stty size; echo done-2\n")
		k.until("done-2\r\n")
		if !strings.Contains(k.shown, "40 120\r\n") {
			t.Errorf("after the change of its size: %q", k.shown)
		}
		k.say("PS1='status $? '; sh -c 'echo sleeping; exec sleep 1000'\n")
		k.until("sleeping\r\n")
		k.say("\x03") // to the foreground, which only a terminal knows
		k.until("status 130 ")
		k.say("echo done-3\n")
		k.until("done-3\r\n")

		// A second client sees earlier output, from any offset on; the first one leaves.
		from := strings.LastIndex(k.shown, "done-3\r\n") // a prompt follows it, at once or later
		k.conn.Close()
		again := s.attachTerminal(t, id, tid, fmt.Sprintf("?after=%d", from))
		again.until("status 0 ")
		if again.first != int64(from) || !strings.HasPrefix(again.shown, "done-3\r\n") {
			t.Errorf("from %d on: %q from %d on", from, again.shown, again.first)
		}
		again.say("echo kept > made; setsid sleep 86399 & exit 7\n")
		again.ended(7)
		if got := runOK(t, s.Client(), id, "print(open('made').read(), end='')"); got != "kept\n" {
			t.Errorf("the shell wrote %q", got)
		}
		s.want(t, call{method: "DELETE", path: "/v1/sessions/" + id + "/terminals/" + tid}, 204, "")
		s.want(t, call{method: "DELETE", path: "/v1/sessions/" + id + "/terminals/" + tid}, 404, "terminal_not_found")
		s.want(t, call{method: "GET", path: "/v1/sessions/" + id + "/terminals/" + tid + "/ws"}, 404, "terminal_not_found")
	})
}

// Also where the server was started by nohup, and so ignores the signal that ends it.
func TestAClosedTerminalEndsWhatRunsInItsForeground(t *testing.T) {
	t.Parallel()
	s := prepare(t, options{})
	s.program = filepath.Join(t.TempDir(), "nohup-talaria")
	if err := writeProgram(s.program, []byte("#!/bin/sh\ntrap '' HUP QUIT\nexec "+binary+" \"$@\"\n")); err != nil {
		t.Fatal(err)
	}
	s.launch(t)
	t.Cleanup(func() { s.stop(t) })
	id := session(t, s.Client(), api.SessionRequest{})
	path := runOK(t, s.Client(), id, "import os, select; print(os.environ['PATH'])")
	s.want(t, call{
		method: "POST", path: "/v1/sessions/" + id + "/executions?wait_s=0", body: `{"code":"input('a cell runs')","allow_stdin":true}`,
	}, 202, "")
	tid := s.openTerminal(t, id, "")
	k := s.attachTerminal(t, id, tid, "")
	k.quiet()
	k.say("echo $PATH; sh -c 'echo $$ > pid; echo sleeping; exec sleep 1000'\n")
	k.until("sleeping\r\n")
	if !strings.Contains(k.shown, strings.ReplaceAll(path, "\n", "\r\n")) {
		t.Errorf("the PATH of cells is %q, that of the shell is other: %q", path, k.shown)
	}
	s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/interrupt"}, 202, "")
	runOK(t, s.Client(), id, "fd = os.pidfd_open(int(open('pid').read()))")
	s.want(t, call{method: "DELETE", path: "/v1/sessions/" + id + "/terminals/" + tid}, 204, "")
	runOK(t, s.Client(), id, "assert select.select([fd], [], [], 60)[0], 'it runs on'")
	for k.next() {
	}
}

func TestTerminalsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	everyTier(t, func(t *testing.T, tier string, who identity) {
		t.Parallel()
		s := start(t, options{as: who, args: []string{"--tier", tier}})
		id := session(t, s.Client(), api.SessionRequest{})
		host := s.host(t)
		list := func() []api.Terminal {
			a := s.want(t, call{method: "GET", path: "/v1/sessions/" + id + "/terminals"}, 200, "")
			return decode[struct{ Items []api.Terminal }](t, string(a.body)).Items
		}
		for range 3 { // closed by the client, by the shell and by the next ones, and with the kernel
			tid := s.openTerminal(t, id, "")
			s.want(t, call{method: "DELETE", path: "/v1/sessions/" + id + "/terminals/" + tid}, 204, "")
		}
		for range 10 {
			k := s.attachTerminal(t, id, s.openTerminal(t, id, ""), "")
			k.say("exit 0\n")
			k.ended(0)
		}
		if n, open := len(list()), terminalsOf(t, host.pid); n != 8 || open != 0 {
			t.Errorf("%d terminals are known, the host holds %d", n, open)
		}
		for range 3 {
			s.openTerminal(t, id, "")
		}
		if open := terminalsOf(t, host.pid); open != 3 {
			t.Errorf("the host holds %d terminals of 3", open)
		}
		if _, err := s.Client().ResetSession(within(t), id, api.ResetRequest{}); err != nil {
			t.Fatal(err)
		}
		if n, open := len(list()), terminalsOf(t, host.pid); n != 0 || open != 0 {
			t.Errorf("after a reset %d terminals are known, the host holds %d", n, open)
		}
	})
}

// terminalsOf counts the terminals that a process holds.
func terminalsOf(t *testing.T, pid int) (n int) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if strings.Contains(name, "/pts/") || strings.HasSuffix(name, "/ptmx") {
			n++
		}
	}
	return n
}

func TestAFloodedTerminalKeepsItsEnd(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	tid := s.openTerminal(t, id, "")
	k := s.attachTerminal(t, id, tid, "")
	k.quiet()
	k.say("seq 1 400000; echo the-end\n")
	k.until("the-end\r\n")
	late := s.attachTerminal(t, id, tid, "?after=5")
	late.until("the-end\r\n")
	if late.first <= 5 || len(late.shown) > 1<<20 || !strings.HasSuffix(k.shown, late.shown) {
		t.Errorf("a late client gets %d bytes from %d on", len(late.shown), late.first)
	}
}

func TestATerminalOutlivesTheServerAndGoesWithItsKernel(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	tid := s.openTerminal(t, id, "{}")
	k := s.attachTerminal(t, id, tid, "")
	k.quiet()
	k.say("x=kept; echo done-1\n")
	k.until("done-1\r\n")
	k.conn.Close()
	s.Kill9()
	s.launch(t)
	again := s.attachTerminal(t, id, tid, fmt.Sprintf("?after=%d", k.offset))
	again.say("echo $x\n")
	again.until("kept\r\n")
	if _, err := s.Client().ResetSession(within(t), id, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	again.ended(137)
	if a := s.want(t, call{method: "GET", path: "/v1/sessions/" + id + "/terminals"}, 200, ""); string(a.body) != `{"items":[]}`+"\n" && string(a.body) != `{"items":[]}` {
		t.Errorf("terminals of a fresh kernel: %s", a.body)
	}
}

func TestTerminalsAreBoundedAndChecked(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	path := "/v1/sessions/" + id + "/terminals"
	for range 8 {
		s.openTerminal(t, id, "")
	}
	s.want(t, call{method: "POST", path: path}, 422, "limit_exceeded")
	for body, code := range map[string]api.Code{
		`{"rows":0}`: "invalid_request", `{"cols":100000}`: "invalid_request", `{"shell":"x"}`: "invalid_request", `{"rows":"1"}`: "invalid_request",
	} {
		s.want(t, call{method: "POST", path: path, body: body}, 400, code)
	}
	s.want(t, call{method: "POST", path: path, token: "-"}, 401, "unauthorized")
	s.want(t, call{method: "GET", path: path + "/1-1/ws?after=-1", token: s.Token}, 400, "invalid_request")
	s.want(t, call{method: "GET", path: path + "/1-1/ws", header: map[string]string{
		"Origin": "https://evil.example", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
	}}, 403, "origin_not_allowed")
	if list := decode[struct{ Items []api.Terminal }](t, string(s.want(t, call{method: "GET", path: path}, 200, "").body)); len(list.Items) != 8 {
		t.Errorf("there are %d terminals", len(list.Items))
	}
}
