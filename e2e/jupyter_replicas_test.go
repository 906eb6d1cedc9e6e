package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// TestJupyterClientsRunCells sends what clients send that cannot be installed for a test, with what is odd about each.
func TestJupyterClientsRunCells(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	t.Run("a chat UI: a new session in each message, no date", func(t *testing.T) {
		kernel := s.kernel(t)
		k := s.channels(t, kernel, "")
		ask := func(id, code string) ([]string, []jupyterMessage) {
			k.say(`{"msg_id":"`+id+`","msg_type":"execute_request","username":"user","session":"s-`+id+`","date":"","version":"5.3"}`,
				`{"code":`+quoted(t, code)+`,"silent":false,"store_history":true,"user_expressions":{},"allow_stdin":false,"stop_on_error":true}`)
			return k.answers(id)
		}
		words, _ := ask("a1", "print(6 * 7)")
		wantWords(t, words, "status busy", "execute_input", "stream 42\n", "execute_reply ok", "status idle")
		words, seen := ask("a2", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
		wantWords(t, words, "status busy", "execute_input", "display_data", "execute_reply ok", "status idle")
		data, _ := seen[2].Content["data"].(map[string]any)
		text, _ := data["image/png"].(string)
		if picture, err := base64.StdEncoding.DecodeString(text); err != nil || !strings.HasPrefix(string(picture), "\x89PNG") {
			t.Errorf("image/png is %.40q (%v)", text, err)
		}
		words, seen = ask("a3", "def f(): 1/0\nf()")
		wantWords(t, words, "status busy", "execute_input", "error ZeroDivisionError", "execute_reply error ZeroDivisionError", "status idle")
		lines, _ := seen[2].Content["traceback"].([]any)
		if trace := fmt.Sprintln(lines...); !strings.Contains(trace, "in f") || !strings.Contains(trace, "ZeroDivisionError: division by zero") {
			t.Errorf("the traceback is %q", lines)
		}
		s.want(t, call{method: "DELETE", path: "/jupyter/api/kernels/" + kernel + "?token=" + s.Token, token: "-"}, http.StatusNoContent, "")
	})
	t.Run("AutoGen: a header on the socket, a date without a zone, an object for the buffers", func(t *testing.T) {
		bearer := map[string]string{"Authorization": "token " + s.Token}
		a := s.want(t, call{method: "POST", path: "/jupyter/api/kernels", token: "-", header: bearer, body: `{"name":"python3"}`}, http.StatusCreated, "")
		kernel := decode[jupyterKernel](t, string(a.body)).ID
		k := s.dialChannels(t, kernel, "", http.Header{"Authorization": {"token " + s.Token}})
		ask := func(id, msgType, content string) []string {
			k.text(`{"header":{"username":"autogen","version":"5.0","session":"0f0e","msg_id":"` + id + `","msg_type":"` + msgType +
				`","date":"2026-11-21T10:11:12.131415"},"parent_header":{},"channel":"shell","content":` + content + `,"metadata":{},"buffers":{}}`)
			return k.until(id)
		}
		wantWords(t, ask("i1", "kernel_info_request", `{}`), "status busy", "kernel_info_reply ok", "status idle")
		wantWords(t, ask("i2", "execute_request", `{"code":"print(1)\n2","silent":false,"store_history":true,"user_expressions":{},"allow_stdin":false,"stop_on_error":true}`),
			"status busy", "execute_input", "stream 1\n", "execute_result", "execute_reply ok", "status idle")
		s.want(t, call{method: "DELETE", path: "/jupyter/api/kernels/" + kernel, token: "-", header: bearer}, http.StatusNoContent, "")
	})
	for _, protocol := range [][]string{nil, {"v1.kernel.websocket.jupyter.org"}} {
		t.Run(fmt.Sprintf("jupyter-kernel-client: Bearer, then a shutdown on the control channel, with the subprotocols %q", protocol), func(t *testing.T) {
			bearer := map[string]string{"Authorization": "Bearer " + s.Token}
			rest := func(method, path, body string, status int) answer {
				t.Helper()
				return s.want(t, call{method: method, path: "/jupyter/api/kernels" + path, token: "-", header: bearer, body: body}, status, "")
			}
			kernel := decode[jupyterKernel](t, string(rest("POST", "", `{"name":"python3","path":null}`, http.StatusCreated).body)).ID
			k := s.dialChannels(t, kernel, "?token="+s.Token, nil, protocol...)
			head := func(id, msgType string) string {
				return `{"msg_id":"` + id + `","msg_type":"` + msgType + `","username":"ann","session":"j","date":"2026-11-21T10:11:12.131415Z","version":"5.3"}`
			}
			k.sayOn("shell", head("j1", "kernel_info_request"), `{}`)
			wantWords(t, k.until("j1"), "status busy", "kernel_info_reply ok", "status idle")
			k.sayOn("shell", head("j2", "execute_request"), `{"code":"import time\nprint('on', flush=True)\ntime.sleep(600)","silent":false,"store_history":true,"user_expressions":{},"allow_stdin":false,"stop_on_error":true}`)
			k.first("stream")
			k.sayOn("control", head("j3", "interrupt_request"), `{}`)
			for answered, ended := false, false; !answered || !ended; { // the cell may end before the reply comes, or after it
				m, err := k.next()
				switch {
				case err != nil:
					t.Fatalf("answered: %v, ended: %v: %v", answered, ended, err)
				case m.Header.MsgType == "interrupt_reply":
					answered = true
					if m.Channel != "control" || m.Content["status"] != "ok" || m.Parent.MsgID != "j3" {
						t.Errorf("the interrupt is answered by %+v", m)
					}
				case m.Parent.MsgID == "j2" && m.Content["execution_state"] == "idle":
					ended = true
				}
			}
			rest("GET", "/"+kernel, "", http.StatusOK)
			k.sayOn("control", head("j4", "shutdown_request"), `{"restart":false}`)
			if m := k.first("shutdown_reply"); m.Channel != "control" || m.Content["restart"] != false || m.Parent.MsgID != "j4" {
				t.Errorf("the shutdown is answered by %+v", m)
			}
			k.closes()
			gone := call{method: "GET", path: "/jupyter/api/kernels/" + kernel, token: "-", header: bearer}
			for end := time.Now().Add(10 * time.Second); s.do(t, gone).status != http.StatusNotFound; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) { // the client asks until then, too
					t.Fatal("the kernel is still there")
				}
			}
			rest("DELETE", "/"+kernel, "", http.StatusNotFound)
		})
	}
	t.Run("an agent: no channel, no date, its answer in an exception", func(t *testing.T) {
		k := s.channels(t, s.kernel(t), "")
		k.say(`{"msg_id":"b1","msg_type":"execute_request","username":"a","session":"s","version":"5.0"}`,
			`{"code":"class FinalAnswer(Exception): pass\nraise FinalAnswer('x' * 300_000)","silent":false,"store_history":true,"user_expressions":{},"allow_stdin":false}`)
		m := k.first("error")
		if evalue, _ := m.Content["evalue"].(string); m.Content["ename"] != "FinalAnswer" || len(evalue) != 300_000 {
			t.Errorf("the answer is a %v of %d characters", m.Content["ename"], len(evalue))
		}
	})
	t.Run("kernel_info before all else, in the newer framing", func(t *testing.T) {
		k := s.channels(t, s.kernel(t), "&session_id=c", "v1.kernel.websocket.jupyter.org")
		if !k.v1 {
			t.Fatal("the subprotocol was not agreed on")
		}
		k.say(`{"msg_id":"c1","msg_type":"kernel_info_request","username":"","session":"c","version":"5.2"}`, `{}`)
		wantWords(t, k.until("c1"), "status busy", "kernel_info_reply ok", "status idle")
		k.say(`{"msg_id":"c2","msg_type":"execute_request","username":"","session":"c","version":"5.2"}`, `{"code":"1/0"}`)
		wantWords(t, k.until("c2"), "status busy", "execute_input", "error ZeroDivisionError", "execute_reply error ZeroDivisionError", "status idle")
	})
	t.Run("the same message twice runs once", func(t *testing.T) {
		k := s.channels(t, s.kernel(t), "")
		for range 2 {
			k.say(`{"msg_id":"d1","msg_type":"execute_request","session":"d"}`, `{"code":"n = globals().get('n', 0) + 1"}`)
		}
		k.until("d1")
		k.say(`{"msg_id":"d2","msg_type":"execute_request","session":"d"}`, `{"code":"print(n)"}`)
		wantWords(t, k.until("d2"), "status busy", "execute_input", "stream 1\n", "execute_reply ok", "status idle")
	})
	t.Run("an error aborts what is queued", func(t *testing.T) {
		k := s.channels(t, s.kernel(t), "")
		k.say(`{"msg_id":"e1","msg_type":"execute_request","session":"e"}`, `{"code":"input()\n1/0","allow_stdin":true}`)
		k.say(`{"msg_id":"e2","msg_type":"execute_request","session":"e"}`, `{"code":"print('never')"}`)
		k.first("input_request")
		answer := `{"header":{"msg_id":"e3","msg_type":"input_reply","session":"e"},"parent_header":{},"content":{"value":"x"},"channel":"stdin"}`
		if err := k.WriteMessage(websocket.TextMessage, []byte(answer)); err != nil {
			t.Fatal(err)
		}
		k.until("e1")
		wantWords(t, k.until("e2"), "status busy", "execute_reply aborted", "status idle")
	})
	t.Run("only a death is told as restarting, which makes JupyterLab drop its requests", func(t *testing.T) {
		id := s.kernel(t)
		k := s.channels(t, id, "")
		k.say(`{"msg_id":"h1","msg_type":"kernel_info_request","session":"h"}`, `{}`)
		k.until("h1")
		s.want(t, call{method: "POST", path: "/jupyter/api/kernels/" + id + "/restart"}, http.StatusOK, "")
		wantWords(t, k.until(""), "status starting", "status idle")
		k.say(`{"msg_id":"h2","msg_type":"execute_request","session":"h"}`, `{"code":"import os\nos._exit(3)"}`)
		k.until("h2")
		if m := k.first("status"); m.Content["execution_state"] != "restarting" || m.Parent.MsgID != "" {
			t.Errorf("after the death comes %+v", m)
		}
		k.say(`{"msg_id":"h3","msg_type":"execute_request","session":"h"}`, `{"code":"print(1)"}`)
		wantWords(t, k.until("h3"), "status busy", "execute_input", "stream 1\n", "execute_reply ok", "status idle")
	})
	t.Run("frames that are not messages harm nobody", func(t *testing.T) {
		k := s.channels(t, s.kernel(t), "")
		for _, frame := range []string{"", "{", "[]", `{"header":{}}`, `{"header":{"msg_id":"f","msg_type":"execute_request"},"content":7}`} {
			if err := k.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.WriteMessage(websocket.BinaryMessage, []byte("\xff\xff\xff\xff")); err != nil {
			t.Fatal(err)
		}
		k.say(`{"msg_id":"f1","msg_type":"execute_request","session":"f"}`, `{"code":"print('fine')"}`)
		wantWords(t, k.until("f1"), "status busy", "execute_input", "stream fine\n", "execute_reply ok", "status idle")
	})
}
