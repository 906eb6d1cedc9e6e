package e2e

import (
	"context"
	bits "encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/api/kernelwire"
	"talaria/client"
)

// jupyterKernel is a kernel as Jupyter's REST API shows it.
type jupyterKernel struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	LastActivity   string `json:"last_activity"`
	ExecutionState string `json:"execution_state"`
	Connections    int    `json:"connections"`
}

func TestJupyterClientsFindTheirRESTAPI(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	other := s.owner(t, "other")
	t.Run("a login is missing", func(t *testing.T) {
		a := s.want(t, call{method: "GET", path: "/jupyter/api/kernels", token: "-"}, http.StatusForbidden, "")
		if !strings.HasPrefix(string(a.body), `{"message":"Forbidden`) || !strings.Contains(string(a.body), `"reason":null`) {
			t.Errorf("the answer is %s", a.body)
		}
		s.want(t, call{method: "GET", path: "/jupyter/api/kernels", token: "wrong"}, http.StatusForbidden, "")
		s.want(t, call{method: "GET", path: "/jupyter/api", token: "-"}, http.StatusOK, "")
	})
	t.Run("tokens in each form", func(t *testing.T) {
		for _, path := range []string{"/jupyter/api/kernels?token=" + s.Token, "/jupyter/api/kernels/?1700000000&token=" + s.Token} {
			s.want(t, call{method: "GET", path: path, token: "-"}, http.StatusOK, "")
		}
		s.want(t, call{method: "GET", path: "/jupyter/api/status", token: "-", header: map[string]string{"Authorization": "token " + s.Token}}, http.StatusOK, "")
		s.want(t, call{method: "GET", path: "/v1/sessions", token: "-", header: map[string]string{"Authorization": "token " + s.Token}}, http.StatusUnauthorized, "")
		s.want(t, call{method: "POST", path: "/v1/sessions?token=" + s.Token, token: "-"}, http.StatusUnauthorized, "")
		login := s.want(t, call{method: "POST", path: "/login", kind: "application/x-www-form-urlencoded", body: "token=" + s.Token, token: "-"}, http.StatusSeeOther, "")
		cookie, _, _ := strings.Cut(login.header.Get("Set-Cookie"), ";")
		s.want(t, call{method: "GET", path: "/v1/sessions", token: "-", header: map[string]string{"Cookie": cookie}}, http.StatusOK, "")
		s.want(t, call{method: "GET", path: "/jupyter/api/kernels", token: "-", header: map[string]string{"Cookie": cookie}}, http.StatusForbidden, "")
	})
	t.Run("kernels", func(t *testing.T) {
		a := s.want(t, call{method: "POST", path: "/jupyter/api/kernels?token=" + s.Token, token: "-"}, http.StatusCreated, "") // with no body
		k := decode[jupyterKernel](t, string(a.body))
		if a.header.Get("Location") != "/jupyter/api/kernels/"+k.ID || k.Name != "python3" {
			t.Errorf("the kernel is %+v, at %s", k, a.header.Get("Location"))
		}
		if _, err := time.Parse("2006-01-02T15:04:05.000000Z", k.LastActivity); err != nil {
			t.Error(err)
		}
		path := "/jupyter/api/kernels/" + k.ID
		s.want(t, call{method: "GET", path: path}, http.StatusOK, "")
		s.want(t, call{method: "GET", path: path, token: other}, http.StatusNotFound, "")
		s.want(t, call{method: "DELETE", path: path, token: other}, http.StatusNotFound, "")
		s.want(t, call{method: "POST", path: path + "/interrupt"}, http.StatusNoContent, "")
		s.want(t, call{method: "POST", path: path + "/restart"}, http.StatusOK, "")
		s.want(t, call{method: "DELETE", path: path}, http.StatusNoContent, "")
		s.want(t, call{method: "GET", path: path}, http.StatusNotFound, "")
		s.want(t, call{method: "POST", path: "/jupyter/api/kernels/nothing/restart"}, http.StatusNotFound, "")
		s.want(t, call{method: "POST", path: "/jupyter/api/kernels", body: `{"name":"julia"}`}, http.StatusNotImplemented, "")
		s.want(t, call{method: "POST", path: "/jupyter/api/kernels", body: `{"name":`}, http.StatusBadRequest, "")
		s.want(t, call{method: "GET", path: "/jupyter/api/terminals"}, http.StatusNotFound, "")
	})
	events := "ws" + strings.TrimPrefix(s.URL, "http") + "/jupyter/api/events/subscribe"
	t.Run("what JupyterLab asks for besides", func(t *testing.T) {
		if a := s.want(t, call{method: "GET", path: "/jupyter/api/nbconvert"}, http.StatusOK, ""); string(a.body) != "{}" {
			t.Errorf("the formats are %s", a.body)
		}
		if _, a, err := websocket.DefaultDialer.DialContext(within(t), events, nil); err == nil || a == nil || a.StatusCode != http.StatusForbidden {
			t.Errorf("events without a login: %v", err)
		}
		conn, _, err := websocket.DefaultDialer.DialContext(within(t), events+"?token="+s.Token, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, m := range []struct {
			kind int
			data []byte
		}{{websocket.TextMessage, []byte("{}")}, {websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")}} {
			if err := conn.WriteMessage(m.kind, m.data); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience)) // fails with the read
		if kind, data, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("after an event comes %d %q (%v)", kind, data, err)
		}
	})
	t.Run("a session with another name is a kernel too", func(t *testing.T) {
		if _, _, err := s.Client().EnsureSession(within(t), "chat:7", api.SessionRequest{}); err != nil {
			t.Fatal(err)
		}
		a := s.want(t, call{method: "GET", path: "/jupyter/api/kernels"}, http.StatusOK, "")
		list := decode[[]jupyterKernel](t, string(a.body))
		if len(list) != 1 || !regexp.MustCompile(`^\w+-\w+-\w+-\w+-\w+$`).MatchString(list[0].ID) {
			t.Fatalf("the kernels are %+v", list)
		}
		s.want(t, call{method: "GET", path: "/jupyter/api/kernels/" + list[0].ID}, http.StatusOK, "")
	})
	t.Run("sessions", func(t *testing.T) {
		body := `{"path":"a b/x.ipynb","type":"notebook","name":"x.ipynb","kernel":{"name":"python3"}}`
		first := s.want(t, call{method: "POST", path: "/jupyter/api/sessions", body: body}, http.StatusCreated, "")
		again := s.want(t, call{method: "POST", path: "/jupyter/api/sessions", body: body}, http.StatusCreated, "")
		type model struct {
			ID, Path string
			Kernel   jupyterKernel
		}
		one, two := decode[model](t, string(first.body)), decode[model](t, string(again.body))
		if one.ID == "" || one.ID != two.ID || one.Kernel.ID != two.Kernel.ID || one.Path != "a b/x.ipynb" {
			t.Errorf("the same path gives %+v and %+v", one, two)
		}
		s.want(t, call{method: "POST", path: "/jupyter/api/sessions", body: `{"path":"y"}`}, http.StatusBadRequest, "")
		path := "/jupyter/api/sessions/" + one.ID
		s.want(t, call{method: "GET", path: path, token: other}, http.StatusNotFound, "")
		a := s.want(t, call{method: "PATCH", path: path, body: `{"path":"z.ipynb","kernel":{"name":"python3"}}`}, http.StatusOK, "")
		moved := decode[model](t, string(a.body))
		if moved.ID != one.ID || moved.Path != "z.ipynb" || moved.Kernel.ID == one.Kernel.ID {
			t.Errorf("after a change of path and kernel it is %+v, it was %+v", moved, one)
		}
		s.want(t, call{method: "GET", path: "/jupyter/api/kernels/" + one.Kernel.ID}, http.StatusNotFound, "")
		s.want(t, call{method: "DELETE", path: path}, http.StatusNoContent, "")
		s.want(t, call{method: "GET", path: path}, http.StatusNotFound, "")
		s.want(t, call{method: "GET", path: "/jupyter/api/kernels/" + moved.Kernel.ID}, http.StatusNotFound, "")
		last := decode[model](t, string(s.want(t, call{method: "POST", path: "/jupyter/api/sessions", body: body}, http.StatusCreated, "").body))
		s.want(t, call{method: "DELETE", path: "/jupyter/api/kernels/" + last.Kernel.ID}, http.StatusNoContent, "")
		s.want(t, call{method: "DELETE", path: "/jupyter/api/sessions/" + last.ID}, http.StatusNotFound, "")
	})
	t.Run("a token for one session has one kernel, and cannot delete it", func(t *testing.T) {
		id := session(t, s.Client(), api.SessionRequest{})
		made, err := s.Client().CreateToken(within(t), id, api.SessionTokenRequest{Rights: []api.Right{api.RightRun}})
		if err != nil {
			t.Fatal(err)
		}
		a := s.want(t, call{method: "POST", path: "/jupyter/api/kernels", token: made.Token}, http.StatusCreated, "")
		if k := decode[jupyterKernel](t, string(a.body)); k.ID != id {
			t.Errorf("its kernel is %s, not %s", k.ID, id)
		}
		s.want(t, call{method: "DELETE", path: "/jupyter/api/kernels/" + id, token: made.Token}, http.StatusNoContent, "")
		s.want(t, call{method: "GET", path: "/v1/sessions/" + id}, http.StatusOK, "")
	})
	t.Run("events end with the server", func(t *testing.T) {
		conn, _, err := websocket.DefaultDialer.DialContext(within(t), events+"?token="+s.Token, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		s.Terminate(t)
		_ = conn.SetReadDeadline(time.Now().Add(patience)) // fails with the read
		if kind, data, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
			t.Errorf("at the end comes %d %q (%v)", kind, data, err)
		}
	})
}

func TestJupyterCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"jupyter: false\n", "fronts:\n  jupyter:\n    enabled: false\n    addr: 127.0.0.1:0\n"} {
		s := start(t, options{config: config})
		s.want(t, call{method: "GET", path: "/jupyter/api"}, http.StatusNotFound, api.CodeNotFound)
		if len(s.Fronts) != 0 {
			t.Errorf("fronts that are switched off are served: %v", s.Fronts)
		}
	}
}

func TestAFrontHasAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "fronts:\n  jupyter:\n    addr: 127.0.0.1:0\n"})
	own := *s
	if own.URL = s.Fronts["jupyter"]; own.URL == "" || own.URL == s.URL {
		t.Fatalf("the front is at %q, the server at %q", own.URL, s.URL)
	}
	for _, path := range []string{"/api", "/jupyter/api"} {
		own.want(t, call{method: "GET", path: path, token: "-"}, http.StatusOK, "")
	}
	own.want(t, call{method: "GET", path: "/api/kernels", token: "-"}, http.StatusForbidden, "")
	id := decode[jupyterKernel](t, string(own.want(t, call{method: "POST", path: "/api/kernels", body: "{}"}, http.StatusCreated, "").body)).ID
	s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/executions", body: `{"code":"open('f', 'w').close()"}`}, http.StatusOK, "")
	listed := own.want(t, call{method: "GET", path: "/api/contents/" + id}, http.StatusOK, "")
	cookie, _, _ := strings.Cut(listed.header.Get("Set-Cookie"), ";")
	own.want(t, call{method: "GET", path: "/files/" + id + "/f", token: "-", header: map[string]string{"Cookie": cookie}}, http.StatusOK, "")
	for _, path := range []string{"/v1/sessions", "/", "/metrics", "/healthz", "/%2e%2e/v1/stats"} {
		own.want(t, call{method: "GET", path: path}, http.StatusNotFound, "")
	}
	s.want(t, call{method: "GET", path: "/healthz"}, http.StatusOK, "")
}

// jupyterMessage is a kernel message as a client reads it.
type jupyterMessage struct {
	Header struct {
		MsgID   string `json:"msg_id"`
		MsgType string `json:"msg_type"`
		Session string `json:"session"`
	} `json:"header"`
	MsgType string `json:"msg_type"`
	Parent  struct {
		MsgID   string `json:"msg_id"`
		Session string `json:"session"`
	} `json:"parent_header"`
	Content map[string]any `json:"content"`
	Channel string         `json:"channel"`
}

// jupyterSocket is a client on the channels of a kernel.
type jupyterSocket struct {
	*websocket.Conn
	t  *testing.T
	v1 bool
}

func (s *Server) channels(t *testing.T, kernel, query string, subprotocols ...string) *jupyterSocket {
	t.Helper()
	return s.dialChannels(t, kernel, "?token="+s.Token+query, http.Header{"Origin": {"https://elsewhere.example"}}, subprotocols...)
}

func (s *Server) channelsURL(kernel string) string {
	return "ws" + strings.TrimPrefix(s.URL, "http") + "/jupyter/api/kernels/" + kernel + "/channels"
}

func (s *Server) dialChannels(t *testing.T, kernel, query string, header http.Header, subprotocols ...string) *jupyterSocket {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: subprotocols}
	conn, _, err := dialer.DialContext(within(t), s.channelsURL(kernel)+query, header)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(patience)) // fails with the read
	return &jupyterSocket{conn, t, conn.Subprotocol() != ""}
}

// say sends a message on the channel shell; in the older framing without naming it.
func (k *jupyterSocket) say(header, content string) {
	k.t.Helper()
	if k.v1 {
		k.sayOn("shell", header, content)
		return
	}
	k.text(fmt.Sprintf(`{"header":%s,"parent_header":{},"metadata":{},"content":%s}`, header, content))
}

func (k *jupyterSocket) text(frame string) {
	k.t.Helper()
	if err := k.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		k.t.Fatal(err)
	}
}

// sayOn sends a message on a channel.
func (k *jupyterSocket) sayOn(channel, header, content string) {
	k.t.Helper()
	if !k.v1 {
		k.text(fmt.Sprintf(`{"header":%s,"parent_header":{},"metadata":{},"content":%s,"channel":%q}`, header, content, channel))
		return
	}
	parts := []string{channel, header, "{}", "{}", content}
	at := uint64(8 * (len(parts) + 2))
	frame := bits.LittleEndian.AppendUint64(nil, uint64(len(parts)+1))
	frame = bits.LittleEndian.AppendUint64(frame, at)
	for _, part := range parts {
		at += uint64(len(part))
		frame = bits.LittleEndian.AppendUint64(frame, at)
	}
	if err := k.WriteMessage(websocket.BinaryMessage, append(frame, strings.Join(parts, "")...)); err != nil {
		k.t.Fatal(err)
	}
}

func (k *jupyterSocket) next() (m jupyterMessage, err error) {
	kind, data, err := k.ReadMessage()
	if err != nil {
		return m, err
	}
	if !k.v1 {
		if kind != websocket.TextMessage {
			return m, fmt.Errorf("a binary frame")
		}
		return m, json.Unmarshal(data, &m)
	}
	var parts [][]byte
	for i := range bits.LittleEndian.Uint64(data) - 1 {
		parts = append(parts, data[bits.LittleEndian.Uint64(data[8*(i+1):]):bits.LittleEndian.Uint64(data[8*(i+2):])])
	}
	m.Channel = string(parts[0])
	for i, into := range []any{&m.Header, &m.Parent, new(any), &m.Content} {
		if err := json.Unmarshal(parts[i+1], into); err != nil {
			return m, err
		}
	}
	return m, nil
}

// until reads up to idle of that request, and returns what belongs to it as words: type, and text or state.
func (k *jupyterSocket) until(id string) (words []string) {
	k.t.Helper()
	words, _ = k.answers(id)
	return words
}

// answers is until, and returns the messages, too.
func (k *jupyterSocket) answers(id string) (words []string, messages []jupyterMessage) {
	k.t.Helper()
	for {
		m, err := k.next()
		if err != nil {
			k.t.Fatalf("after %q: %v", words, err)
		}
		if m.Parent.MsgID != id {
			continue
		}
		if !k.v1 && m.MsgType != m.Header.MsgType {
			k.t.Errorf("msg_type is %q beside the header's %q", m.MsgType, m.Header.MsgType)
		}
		messages = append(messages, m)
		word := m.Header.MsgType
		for _, field := range []string{"execution_state", "text", "status", "ename"} {
			if value, ok := m.Content[field]; ok {
				word += " " + fmt.Sprint(value)
			}
		}
		if text, ok := strings.CutPrefix(word, "stream "); ok && len(words) > 0 && strings.HasPrefix(words[len(words)-1], "stream ") {
			words[len(words)-1] += text // it may come in any number of pieces
		} else {
			words = append(words, word)
		}
		if m.Content["execution_state"] == "idle" {
			return words, messages
		}
	}
}

// confirm makes the server know that everything up to now was read: the first answer comes after its ping, and the second request
// is read after the pong.
func (k *jupyterSocket) confirm(id string) {
	k.t.Helper()
	for _, id := range []string{id, id + "-noted"} {
		k.say(`{"msg_id":"`+id+`","msg_type":"kernel_info_request","session":"tab"}`, `{}`)
		k.until(id)
	}
}

// first reads up to the first message of that type.
func (k *jupyterSocket) first(msgType string) jupyterMessage {
	k.t.Helper()
	for {
		m, err := k.next()
		if err != nil {
			k.t.Fatalf("before %s: %v", msgType, err)
		}
		if m.Header.MsgType == msgType {
			return m
		}
	}
}

// closes reads up to the end of the connection, which must tell the client not to connect again.
func (k *jupyterSocket) closes() {
	k.t.Helper()
	for {
		if _, err := k.next(); err != nil {
			if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				k.t.Errorf("the connection ends with %v", err)
			}
			return
		}
	}
}

// kernel makes a kernel.
func (s *Server) kernel(t *testing.T) string {
	t.Helper()
	a := s.want(t, call{method: "POST", path: "/jupyter/api/kernels", body: "{}"}, http.StatusCreated, "")
	return decode[jupyterKernel](t, string(a.body)).ID
}

func wantWords(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAJupyterClientThatWasAwayGetsWhatItMissed(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := s.kernel(t)
	k := s.channels(t, id, "&session_id=tab")
	k.say(`{"msg_id":"g1","msg_type":"execute_request","session":"tab"}`, `{"code":"print('before')\ninput()\nprint('while away')\n"}`)
	k.first("input_request")
	k.confirm("g0")
	_ = k.Close()
	if err := s.Client().Input(within(t), id, api.InputRequest{Value: "go on"}); err != nil {
		t.Fatal(err)
	}
	collect(t, s.Client().ExecutionEvents(within(t), id, "g1", 0)) // to its end
	back := s.channels(t, id, "&session_id=tab")
	wantWords(t, back.until("g1"), "stream while away\n", "execute_reply ok", "status idle")

	t.Run("and its newest connection replaces the one before", func(t *testing.T) {
		s.channels(t, id, "&session_id=tab")
		back.closes()
	})
	t.Run("others see what it runs, and what runs by the API, without replies", func(t *testing.T) {
		other := s.channels(t, id, "&session_id=other")
		another := s.channels(t, id, "&session_id=another", kernelwire.Subprotocol)
		e := run(t, s.Client(), id, "print('by the API')")
		words, messages := other.answers(e.ID)
		wantWords(t, words, "status busy", "execute_input", "stream by the API\n", "status idle")
		_, same := another.answers(e.ID)
		ids := func(list []jupyterMessage) (ids []string) {
			for _, m := range list {
				ids = append(ids, m.Header.MsgID)
			}
			return ids
		}
		if !slices.Equal(ids(messages), ids(same)) {
			t.Errorf("the ids of the messages are %q for one client, %q for another", ids(messages), ids(same))
		}
	})
	t.Run("the kernel's end closes it for good", func(t *testing.T) {
		last := s.channels(t, id, "")
		if err := s.Client().DeleteSession(within(t), id); err != nil {
			t.Fatal(err)
		}
		last.closes()
	})
}

// labOutput is what testdata/jupyter/client.mjs prints.
func labOutput(t *testing.T, address, token, mode string) map[string]string {
	t.Helper()
	return labClient(t, "client.mjs", address, token, mode)
}

// labClient runs a program of testdata/jupyter and returns what it prints.
func labClient(t *testing.T, program, address, token, mode string) map[string]string {
	t.Helper()
	installNode(t, "testdata/jupyter")
	return reported(t, exec.CommandContext(within(t), "node", "testdata/jupyter/"+program, address, token, mode))
}

// wantReported compares values of what a program has reported.
func wantReported(t *testing.T, got, want map[string]string) {
	t.Helper()
	for what, value := range want {
		if got[what] != value {
			t.Errorf("%s: %s\nwant %s", what, got[what], value)
		}
	}
}

// reported runs a program that prints lines of JSON, each with what it has seen and the value.
func reported(t *testing.T, cmd *exec.Cmd) map[string]string {
	t.Helper()
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the client ended with %v; it printed\n%s\n%s", err, out, complaints.String())
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		var one struct {
			What  string
			Value json.RawMessage
		}
		if json.Unmarshal([]byte(line), &one) == nil {
			found[one.What] = string(one.Value)
		}
	}
	return found
}

func checkLab(t *testing.T, got map[string]string, gateway bool) {
	t.Helper()
	cell := func(count int, middle string) string {
		return fmt.Sprintf(`{"status":"ok","count":%d,"seen":[["busy"],["execute_input"],%s,["idle"]]}`, count, middle)
	}
	want := map[string]string{
		"specs":        `{"default":"python3","names":["python3"]}`,
		"info":         `{"status":"ok","language":"python"}`,
		"print":        cell(1, `["stdout","21\n"]`),
		"result":       cell(2, `["execute_result",["text/plain"]]`),
		"chart":        cell(3, `["display_data",["application/vnd.talaria.chart+json","image/png","text/plain"]]`),
		"error":        `{"status":"error","count":4,"seen":[["busy"],["execute_input"],["error","ZeroDivisionError"],["idle"]]}`,
		"input":        cell(5, `["stdout","hello Ann\n"]`),
		"complete":     `["import"]`,
		"inspect":      "true",
		"history":      `"print('hello', input('name? '))"`,
		"interrupt":    `{"status":"error","ename":"KeyboardInterrupt","second":"aborted"}`,
		"other client": `"for all\n"`,
		"restart":      cell(1, `["stdout","False\n"]`),
		"sessions":     `["renamed.ipynb"]`,
		"kernels":      "0",
	}
	if !gateway {
		want["death"], want["after death"] = `"restarting"`, cell(1, `["stdout","again\n"]`)
	}
	for what, value := range want {
		if got[what] != value {
			t.Errorf("%s: %s\nwant %s", what, got[what], value)
		}
	}
}

// TestJupyterLabsLibraryWorks runs JupyterLab's own client library, unmodified.
func TestJupyterLabsLibraryWorks(t *testing.T) {
	t.Parallel()
	s := start(t, options{args: []string{"--engine", "stdlib"}})
	checkLab(t, labOutput(t, s.URL+"/jupyter", s.Token, ""), false)
}

// jupyterPython is a Python with Jupyter's programs.
func jupyterPython(t *testing.T) string {
	t.Helper()
	const python = "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import jupyter_server, nbclient, websocket").CombinedOutput(); err != nil {
		t.Fatalf("Jupyter's programs are missing (make test-setup installs them): %v: %s", err, out)
	}
	return python
}

// TestAJupyterServerUsesUsAsItsGateway runs the same through a Jupyter Server that has its kernels here.
func TestAJupyterServerUsesUsAsItsGateway(t *testing.T) {
	t.Parallel()
	python := jupyterPython(t)
	s := start(t, options{args: []string{"--engine", "stdlib"}})
	port := unusedPort(t)
	home := t.TempDir()
	cmd := exec.Command(python, "-m", "jupyter_server", "--ServerApp.ip=127.0.0.1", fmt.Sprint("--ServerApp.port=", port), "--ServerApp.port_retries=0",
		"--ServerApp.token=open", "--ServerApp.open_browser=False", "--ServerApp.root_dir="+home, "--allow-root")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "JUPYTER_GATEWAY_URL=" + s.URL + "/jupyter", "JUPYTER_GATEWAY_AUTH_TOKEN=" + s.Token,
		"JUPYTER_DATA_DIR=" + filepath.Join(home, "data"), "JUPYTER_RUNTIME_DIR=" + filepath.Join(home, "run"), "JUPYTER_CONFIG_DIR=" + home}
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the Jupyter Server printed\n%s", printed.String())
		}
	})
	address := fmt.Sprint("http://127.0.0.1:", port)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if res, err := http.Get(address + "/api"); err == nil {
			_ = res.Body.Close()
			break
		} else if time.Now().After(end) {
			t.Fatalf("the Jupyter Server does not answer: %v", err)
		}
	}
	checkLab(t, labOutput(t, address, "open", "gateway"), true)
}

// TestNbclientRunsANotebook runs the example of docs/jupyter.md. nbclient writes dates as numbers, and says no channels.
func TestNbclientRunsANotebook(t *testing.T) {
	t.Parallel()
	python := jupyterPython(t)
	text, err := os.ReadFile("../docs/jupyter.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)<!-- example: jupyter-nbclient -->\n```python\n(.*?)```").FindSubmatch(text)
	if example == nil {
		t.Fatal("docs/jupyter.md has no example for nbclient")
	}
	s := start(t, options{})
	folder := t.TempDir()
	file := filepath.Join(folder, "analysis.ipynb")
	execute := func(cells ...string) (printed []byte, err error) {
		t.Helper()
		data := notebookFile(t, cells...)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(within(t), python, "-c", string(example[1]))
		cmd.Dir = folder
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + folder, "JUPYTER_GATEWAY_URL=" + s.URL + "/jupyter", "JUPYTER_GATEWAY_AUTH_TOKEN=" + s.Token}
		return cmd.CombinedOutput()
	}
	if printed, err := execute("x = 41", "print('out')\nx + 1", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	notebook := decode[savedNotebook](t, string(data))
	for _, cell := range notebook.Cells {
		for _, o := range cell.Outputs {
			_, png := o.Data["image/png"]
			got = append(got, fmt.Sprint(cell.ExecutionCount, " ", o.OutputType, " ", png))
		}
	}
	got = slices.CompactFunc(got, func(one, next string) bool { // a stream may come in any number of pieces
		return one == next && strings.Contains(one, " stream ")
	})
	if want := "2 stream false, 2 execute_result false, 3 display_data true"; strings.Join(got, ", ") != want {
		t.Errorf("the notebook has %q, want %q", got, want)
	}
	if printed, err := execute("1/0"); err == nil || !strings.Contains(string(printed), "ZeroDivisionError: division by zero") {
		t.Errorf("a cell that fails: %v: %s", err, printed)
	}
	if page, err := s.Client().Sessions(within(t), client.SessionFilter{}); err != nil || len(page.Items) != 0 {
		t.Errorf("these sessions are left: %+v (%v)", page.Items, err)
	}
}

func TestTheNextServerTakesAJupyterClientUpWhereItStopped(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := s.kernel(t)
	k := s.channels(t, id, "&session_id=tab")
	k.say(`{"msg_id":"n1","msg_type":"execute_request","username":"ann","session":"tab"}`,
		`{"code":"for i in range(2000): print(i)\nanswer = input()\nfor i in range(2000): print('after', i)"}`)
	k.first("input_request")
	k.confirm("n2")
	s.Kill9()
	s.Restart(t)
	if err := s.Client().Input(within(t), id, api.InputRequest{Value: "go on"}); err != nil {
		t.Fatal(err)
	}
	collect(t, s.Client().ExecutionEvents(within(t), id, "n1", 0)) // to its end
	var want strings.Builder
	for i := range 2000 {
		fmt.Fprintln(&want, "after", i)
	}
	wantWords(t, s.channels(t, id, "&session_id=tab").until("n1"), "stream "+want.String(), "execute_reply ok", "status idle")
}

func TestAJupyterClientGetsWhatWasWrittenToADeadConnection(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := s.kernel(t)
	lost, dead := make(chan struct{}), new(atomic.Bool)
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return deafConn{conn, dead, lost}, err
	}}
	conn, _, err := dialer.DialContext(within(t), s.channelsURL(id)+"?session_id=tab&token="+s.Token, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	k := &jupyterSocket{conn, t, false}
	k.say(`{"msg_id":"l1","msg_type":"execute_request","session":"tab"}`, `{"code":"print('before')\ninput()\nprint('while away')\n"}`)
	k.first("input_request")
	k.confirm("l0")
	dead.Store(true)
	go func() {
		for err := error(nil); err == nil; { // reads, and gets nothing but what it has already
			_, err = k.next()
		}
	}()
	if err := s.Client().Input(within(t), id, api.InputRequest{Value: "go on"}); err != nil {
		t.Fatal(err)
	}
	collect(t, s.Client().ExecutionEvents(within(t), id, "l1", 0)) // to its end
	select {
	case <-lost: // the end of the cell may be on its way still: it comes in any case
	case <-within(t).Done():
		t.Fatal("nothing was written to the connection")
	}
	wantWords(t, s.channels(t, id, "&session_id=tab").until("l1"), "stream while away\n", "execute_reply ok", "status idle")
}

// deafConn is a connection from which nothing comes once dead is set, as that of a machine that has lost its network; lost is closed
// when something would have.
type deafConn struct {
	net.Conn
	dead *atomic.Bool
	lost chan struct{}
}

// Read implements [io.Reader].
func (c deafConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil || !c.dead.Load() {
		return n, err
	}
	close(c.lost)
	for err == nil {
		_, err = c.Conn.Read(p)
	}
	return 0, err
}

func TestJupyterClientsInterruptAnAwaitAndLearnWhyAKernelDied(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := s.kernel(t)
	k := s.channels(t, id, "")
	k.say(`{"msg_id":"w1","msg_type":"execute_request","session":"w"}`, `{"code":"import asyncio\nn = 7\nprint('waits\\n', end='', flush=True)\nawait asyncio.Event().wait()"}`)
	k.first("stream")
	s.want(t, call{method: "POST", path: "/jupyter/api/kernels/" + id + "/interrupt"}, http.StatusNoContent, "")
	wantWords(t, k.until("w1"), "error KeyboardInterrupt", "execute_reply error KeyboardInterrupt", "status idle")
	k.say(`{"msg_id":"w2","msg_type":"execute_request","session":"w"}`, `{"code":"print(n)\nimport os\nos._exit(9)"}`)
	wantWords(t, k.until("w2"), "status busy", "execute_input", "stream 7\n", "error KernelDied", "execute_reply error KernelDied", "status idle")
	a := s.want(t, call{method: "GET", path: "/jupyter/api/kernels/" + id}, http.StatusOK, "")
	if !strings.Contains(string(a.body), `"reason":"exit:9"`) {
		t.Errorf("the kernel is %s", a.body)
	}
}
