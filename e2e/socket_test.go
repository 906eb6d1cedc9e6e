package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"talaria/api"
)

func TestFramesOfAWebSocket(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "pass")
	k, res, err := s.dial(within(t), id, "")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if got := res.Header.Get("Sec-WebSocket-Protocol"); got != api.Subprotocol {
		t.Errorf("the subprotocol is %q", got)
	}
	hello := decode[struct {
		Type     string
		Protocol int
		Session  api.Session
	}](t, string(k.next(t)))
	if hello.Type != "hello" || hello.Protocol != 1 || hello.Session.ID != id {
		t.Errorf("hello is %+v", hello)
	}
	for _, c := range []struct {
		frame string
		id    any
		code  api.Code // "": ok
	}{
		{`{"type":"ping","id":"p"}`, "p", ""},
		{`{"type":"ping","id":"p","extra":1}`, "p", api.CodeInvalidRequest},
		{`{"type":"interrupt","id":"i"}`, "i", ""},
		{`{"type":"interrupt","id":"i","execution_id":5}`, "i", api.CodeInvalidRequest},
		{`{"type":"execute","id":"e"}`, "e", api.CodeInvalidRequest},
		{`{"type":"execute","id":"e","code":5}`, "e", api.CodeInvalidRequest},
		{`{"type":"execute","id":"e","code":"\ud800"}`, "e", api.CodeInvalidRequest},
		{`{"type":"execute","id":"e","code":"1","checkpoint":1}`, "e", api.CodeInvalidRequest},
		{`{"type":"input_reply","id":"r","value":"x"}`, "r", api.CodeNoInputPending},
		{`{"type":"what","id":"w"}`, "w", api.CodeInvalidRequest},
		{`{"id":"n"}`, "n", api.CodeInvalidRequest},
		{`{"type":5,"id":"n"}`, "n", api.CodeInvalidRequest},
		{`nonsense`, nil, api.CodeInvalidRequest},
		{`[]`, nil, api.CodeInvalidRequest},
		{``, nil, api.CodeInvalidRequest},
		{`{"type":"ping","id":"p"} trailing`, nil, api.CodeInvalidRequest},
		{strings.Repeat("[", 100_000), nil, api.CodeInvalidRequest},
		{`{"type":"complete","id":"c","cursor_pos":1}`, "c", api.CodeInvalidRequest},
		{`{"type":"complete","id":"c","code":"x","cursor_pos":1.5}`, "c", api.CodeInvalidRequest},
		{`{"type":"inspect","id":"c","code":"x","cursor_pos":-1}`, "c", api.CodeInvalidRequest},
		{`{"type":"inspect","id":"c","code":"x","detail_level":7}`, "c", api.CodeInvalidRequest},
		{`{"type":"is_complete","id":"c","code":["x"]}`, "c", api.CodeInvalidRequest},
		{`{"type":"variables","id":"c","name":"x"}`, "c", api.CodeInvalidRequest},
		{`{"type":"tools","id":"c","tools":[]}`, "c", ""},
		{`{"type":"tool_result","id":"c","call_id":"x","result":1}`, "c", api.CodeNoCallPending},
		{`{"type":"checkpoint","id":"c","level":"warm"}`, "c", api.CodeInvalidRequest},
		{`{"type":"rollback","id":"c"}`, "c", api.CodeInvalidRequest},
		{`{"type":"execute","id":"run","code":"6*7"}`, "run", ""},
	} {
		r := k.reply(t, c.frame)
		if r.OK != (c.code == "") || r.Error != nil && r.Error.Code != c.code {
			t.Errorf("%.80s: ok %v, %v", c.frame, r.OK, r.Error)
		}
		// A frame that cannot be read as a whole may be answered with a null id.
		if r.ID != c.id && !(r.ID == nil && c.code == api.CodeInvalidRequest) {
			t.Errorf("%.80s: the reply's id is %v", c.frame, r.ID)
		}
		if c.id == "run" && string(r.Result) != `{"execution_id":"run"}` {
			t.Errorf("execute is answered with %s", r.Result)
		}
	}
	if err := k.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"ping","id":"b"}`)); err != nil {
		t.Fatal(err)
	}
	if r := decode[reply](t, string(k.awaitType(t, "reply"))); r.OK {
		t.Errorf("a binary frame is taken: %+v", r)
	}
	if r := k.reply(t, `{"type":"reset","id":"again"}`); !r.OK {
		t.Errorf("reset: %+v", r)
	}
	if r := k.reply(t, `{"type":"execute","id":"run","code":"6*8"}`); r.OK || r.Error.Code != api.CodeExecutionConflict {
		t.Errorf("another code with the same id: %+v", r)
	}

	k.say(t, `{"type":"execute","id":"big","code":"`+strings.Repeat("x", 16<<20)+`"}`)
	if code, reason := k.untilClose(t); code != websocket.CloseMessageTooBig {
		t.Errorf("a frame of 16 MiB: closed with %d %q, want 1009", code, reason)
	}
	if got := runOK(t, s.Client(), id, "print('still')"); got != "still\n" {
		t.Errorf("the session says %q", got)
	}
}

func TestInvalidUTF8InAFrameIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	k := s.attach(t, id, "")
	if r := k.reply(t, "{\"type\":\"execute\",\"id\":\"x\",\"code\":\"\xff\"}"); r.OK || r.Error.Code != api.CodeInvalidRequest {
		t.Errorf("invalid UTF-8 is answered with %+v", r)
	}
	if r := k.reply(t, `{"type":"ping","id":"after"}`); !r.OK {
		t.Errorf("the socket is not open any more: %+v", r)
	}
}

func TestDeletingASessionClosesItsSockets(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	k := s.attach(t, id, "after=0")
	s.queue(t, id, "import ctypes; ctypes.CDLL(None).prctl(15, b'e2e-deleted', 0, 0, 0); print('begun')\nwhile True: pass")
	k.awaitType(t, "stream")
	inside := descendants(s.PID())
	if err := c.DeleteSession(within(t), id); err != nil {
		t.Fatal(err)
	}
	if code, reason := k.untilClose(t); code != 1000 || reason != "session_deleted" {
		t.Errorf("closed with %d %q", code, reason)
	}
	seen := false
	for _, p := range inside {
		seen = seen || p.name == "e2e-deleted"
		if p.alive() && p.name == "e2e-deleted" {
			t.Errorf("after the deletion %v lives", p)
		}
	}
	if !seen {
		t.Errorf("the kernel is none of %v", inside)
	}
	if _, res, err := s.dial(within(t), id, ""); err == nil || res.StatusCode != 404 {
		t.Errorf("attaching to a deleted session: %v", res)
	}
	checkSessionsOnDisk(t, s, c)
}

func TestTheFirstAnswerToAQuestionWins(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	one, two := s.attach(t, id, ""), s.attach(t, id, "")
	one.say(t, `{"type":"execute","id":"ask","code":"print('Hello', input('Who? '))"}`)
	question := decode[api.InputRequested](t, string(one.awaitType(t, "input_request")))
	two.awaitType(t, "input_request")
	if question.Prompt != "Who? " || question.Password || question.RequestID == "" {
		t.Errorf("the question is %+v", question)
	}
	info, err := s.Client().Session(within(t), id)
	if err != nil || info.PendingInput == nil || info.PendingInput.RequestID != question.RequestID {
		t.Errorf("the session's question is %+v (%v)", info.PendingInput, err)
	}
	answer := `{"type":"input_reply","id":"%s","value":"%s","request_id":"` + question.RequestID + `"}`
	if r := two.reply(t, fmt.Sprintf(answer, "a", "Ada")); !r.OK {
		t.Errorf("the first answer: %+v", r)
	}
	if r := one.reply(t, fmt.Sprintf(answer, "b", "Bob")); r.OK || r.Error.Code != api.CodeNoInputPending {
		t.Errorf("the second answer: %+v", r)
	}
	e := collect(t, s.Client().ExecutionEvents(within(t), id, "ask", 0))
	if got := stdout(e, "ask"); !strings.HasSuffix(got, "Hello Ada\n") {
		t.Errorf("the cell prints %q", got)
	}
	if closed := of[api.InputClosed](e); len(closed) != 1 || closed[0] != (api.InputClosed{RequestID: question.RequestID, How: "answered"}) {
		t.Errorf("the question was closed as %+v", closed)
	}

	// The same over HTTP, and a password.
	k := s.attach(t, id, "")
	s.queueWith(t, id, `{"code":"import getpass; print(len(getpass.getpass('Secret: ')))","id":"http","allow_stdin":true}`)
	question = decode[api.InputRequested](t, string(k.awaitType(t, "input_request")))
	if !question.Password {
		t.Errorf("a password is asked for as %+v", question)
	}
	s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/input", body: `{"value":"x","request_id":"other"}`}, 409, api.CodeNoInputPending)
	s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/input", body: `{"value":"hunter2"}`}, 200, "")
	list := collect(t, s.Client().ExecutionEvents(within(t), id, "http", 0))
	if got := stdout(list, "http"); !strings.HasSuffix(got, "7\n") {
		t.Errorf("the cell prints %q", got)
	}
	for _, l := range s.log(t, id) {
		if strings.Contains(string(l.raw), "hunter2") {
			t.Errorf("the answer is in the log: %s", l.raw)
		}
	}

	// An interrupt closes a question.
	s.queueWith(t, id, `{"code":"input()","id":"cut","allow_stdin":true}`)
	k.awaitType(t, "input_request")
	if err := s.Client().Interrupt(within(t), id, ""); err != nil {
		t.Fatal(err)
	}
	list = collect(t, s.Client().ExecutionEvents(within(t), id, "cut", 0))
	if closed := of[api.InputClosed](list); len(closed) != 1 || closed[0].How != "interrupted" {
		t.Errorf("the question was closed as %+v", closed)
	}
}

// queueWith queues a cell with a body of its own.
func (s *Server) queueWith(t *testing.T, session, body string) {
	t.Helper()
	s.want(t, call{method: "POST", path: "/v1/sessions/" + session + "/executions?wait_s=0", body: body}, 202, "")
}

func TestTheClockStandsStillWhileACellWaitsForInput(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	k := s.attach(t, id, "usage=1")
	k.say(t, `{"type":"execute","id":"slow","code":"print(input())","timeout_s":5}`)
	k.awaitType(t, "input_request")
	for range 6 { // one per second
		if !strings.Contains(string(k.awaitType(t, "usage")), `"limits"`) {
			t.Error("a usage frame has no limits")
		}
	}
	k.say(t, `{"type":"input_reply","id":"r","value":"in time"}`)
	e := collect(t, s.Client().ExecutionEvents(within(t), id, "slow", 0))
	if done := of[api.ExecutionFinished](e)[0].Execution; done.Status != api.StatusOK {
		t.Errorf("ended %s %q", done.Status, done.Reason)
	}
}
