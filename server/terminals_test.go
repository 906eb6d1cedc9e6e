package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

const terminals = "/v1/sessions/s/terminals"

func (h *harness) terminal() (path string) {
	h.Helper()
	r := h.do(request{method: "POST", path: terminals, body: `{"rows":30,"cols":100}`})
	if r.status != 201 {
		h.Fatalf("%d %s", r.status, r.body)
	}
	return terminals + "/" + decode[api.Terminal](h.T, r.body).ID
}

// viewer is a client of a terminal.
type viewer struct {
	*testing.T
	conn  *websocket.Conn
	texts []string // frames of text
	shown string
}

func (h *harness) view(path string) *viewer {
	h.Helper()
	conn, resp, err := h.dial(path, http.Header{"Authorization": {"Bearer " + firstToken}})
	if err != nil {
		h.Fatalf("dial: %v %v", err, resp)
	}
	return &viewer{T: h.T, conn: conn}
}

func (v *viewer) send(kind int, text string) {
	v.Helper()
	if err := v.conn.WriteMessage(kind, []byte(text)); err != nil {
		v.Fatal(err)
	}
}

func (v *viewer) read() error {
	v.Helper()
	if err := v.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		v.Fatal(err)
	}
	kind, data, err := v.conn.ReadMessage()
	if kind == websocket.TextMessage {
		v.texts = append(v.texts, string(data))
	} else {
		v.shown += string(data)
	}
	return err
}

// until reads until a condition is met.
func (v *viewer) until(done func() bool) {
	v.Helper()
	for !done() {
		if err := v.read(); err != nil {
			v.Fatalf("%q, %q: %v", v.texts, v.shown, err)
		}
	}
}

func (v *viewer) untilShown(text string) {
	v.Helper()
	v.until(func() bool { return strings.Contains(v.shown, text) })
}

// closes reads up to the close frame.
func (v *viewer) closes(code int, text string) {
	v.Helper()
	for {
		if err := v.read(); err != nil {
			if e, ok := err.(*websocket.CloseError); !ok || e.Code != code || e.Text != text {
				v.Errorf("closed with %v, want %d %q", err, code, text)
			}
			return
		}
	}
}

func (v *viewer) expect(texts ...string) {
	v.Helper()
	if got, want := strings.Join(v.texts, "\n"), strings.Join(texts, "\n"); got != want {
		v.Errorf("frames of text\n%s\nwant\n%s", got, want)
	}
}

func TestATerminalIsSharedAndResumed(t *testing.T) {
	h := start(t)
	h.session("s")
	path := h.terminal()
	first, second := h.view(path+"/ws"), h.view(path+"/ws?after=2")
	first.send(websocket.BinaryMessage, "hello\n")
	first.untilShown("[hello]\r\n")
	second.untilShown("[hello]\r\n")
	if first.shown != "hello\r\n[hello]\r\n" || !strings.HasSuffix(first.shown, second.shown) {
		t.Errorf("%q and %q", first.shown, second.shown)
	}
	late := h.view(path + "/ws?after=9")
	late.untilShown("ello]\r\n")
	late.expect(`{"type":"offset","offset":9}`)
	late.send(websocket.BinaryMessage, "exit 3\n")
	for _, v := range []*viewer{first, late} {
		v.closes(websocket.CloseNormalClosure, "exit")
	}
	first.expect(`{"type":"offset","offset":0}`, `{"type":"exit","code":3}`)
	h.want(h.do(request{path: path + "/ws"}), 400, "invalid_request") // it still exists
	if got := decode[map[string][]api.Terminal](t, h.do(request{path: terminals}).body)["items"]; len(got) != 1 {
		t.Errorf("terminals %v", got)
	}
}

func TestWhatATerminalDoesNotObeyIsRefused(t *testing.T) {
	h := start(t)
	h.session("s")
	v := h.view(h.terminal() + "/ws")
	v.until(func() bool { return len(v.texts) == 1 })
	for i, frame := range []string{
		`{"type":"resize","rows":0,"cols":1}`, `{"type":"resize","rows":1,"cols":1001}`, `{"type":"resize","row":1}`,
		`{"type":"other"}`, `[]`, ``, `{`,
	} {
		v.send(websocket.TextMessage, frame)
		v.until(func() bool { return len(v.texts) == i+2 })
		var got api.TerminalError
		if err := json.Unmarshal([]byte(v.texts[i+1]), &got); err != nil || got.Type != "error" || got.Error.Code != "invalid_request" {
			t.Errorf("%s: %s", frame, v.texts[i+1])
		}
	}
	v.send(websocket.TextMessage, `{"type":"resize","rows":1,"cols":1000}`)
	v.send(websocket.BinaryMessage, "on\n")
	v.untilShown("[on]\r\n")
	if len(v.texts) != 8 {
		t.Errorf("frames of text: %q", v.texts)
	}
	v.send(websocket.BinaryMessage, strings.Repeat("x", api.MaxBody+1))
	v.closes(websocket.CloseMessageTooBig, "")
}

func TestATerminalThatIsClosedTellsItsViewers(t *testing.T) {
	h := start(t)
	h.session("s")
	path := h.terminal()
	v := h.view(path + "/ws")
	v.until(func() bool { return len(v.texts) == 1 })
	if r := h.do(request{method: "DELETE", path: path}); r.status != 204 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for v.read() == nil {
	}
	if _, _, err := v.conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("closed with %v", err)
	}
	for _, r := range []request{{method: "DELETE", path: path}, {path: path + "/ws"}} {
		h.want(h.do(r), 404, "terminal_not_found")
	}
}

func TestATerminalGoesWithItsKernelAndItsSession(t *testing.T) {
	h := start(t)
	h.session("s")
	path := h.terminal()
	v := h.view(path + "/ws")
	if r := h.do(request{method: "POST", path: "/v1/sessions/s/reset"}); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	v.closes(websocket.CloseNormalClosure, "exit")
	v.expect(`{"type":"offset","offset":0}`, `{"type":"exit","code":137}`)
	h.want(h.do(request{method: "DELETE", path: path}), 404, "terminal_not_found")
	if r := h.do(request{path: terminals}); string(r.body) != `{"items":[]}` {
		t.Errorf("terminals %s", r.body)
	}
	v = h.view(h.terminal() + "/ws")
	if r := h.do(request{method: "DELETE", path: "/v1/sessions/s"}); r.status != 204 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	v.closes(websocket.CloseNormalClosure, "exit")
	h.want(h.do(request{path: terminals}), 404, "session_not_found")
}

func TestTheTerminalsOfAServerThatEndsAreTold(t *testing.T) {
	h := start(t)
	h.session("s")
	v := h.view(h.terminal() + "/ws")
	v.until(func() bool { return len(v.texts) == 1 })
	h.server.Drain()
	v.closes(websocket.CloseGoingAway, "shutting_down")
}

func TestIDsOfTerminalsAreTakenAsTheyAre(t *testing.T) {
	h := start(t)
	h.session("s")
	h.terminal()
	for _, id := range []string{"1", "1-", "-1", "1-2", "01-1", "1-01", "1-1x", "+1-1", "2-1", "1-99999999999999999999", "%20"} {
		h.want(h.do(request{method: "DELETE", path: terminals + "/" + id}), 404, "terminal_not_found")
	}
}
