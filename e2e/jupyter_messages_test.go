package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestJupyterClientsGetEveryMessage sends what clients of Jupyter send beside cells that print, and reads what comes back.
func TestJupyterClientsGetEveryMessage(t *testing.T) {
	t.Parallel()
	s := start(t, options{args: []string{"--engine", "stdlib"}, config: "environments:\n  - name: second\n    python: /usr/bin/python3\n"})
	kernel := s.kernel(t)
	k := s.channels(t, kernel, "&session_id=m")
	simple := func(reply string) []string { return []string{"status busy", reply, "status idle"} }
	cell := func(middle ...string) []string {
		return append(append([]string{"status busy", "execute_input"}, middle...), "execute_reply ok", "status idle")
	}
	quiet := func(middle ...string) []string {
		return append(append([]string{"status busy"}, middle...), "execute_reply ok", "status idle")
	}
	for i, c := range []struct {
		name, msgType, content string
		want                   []string
		of                     string            // the type of the message whose content is looked at
		fields                 map[string]string // its fields, as Go prints them
	}{
		{name: "what the kernel can do", msgType: "kernel_info_request", content: `{}`, want: simple("kernel_info_reply ok"),
			of: "kernel_info_reply", fields: map[string]string{"debugger": "false", "supported_features": "[]", "implementation": "talaria", "help_links": "[]"}},
		{name: "a debugger that was not announced", msgType: "debug_request", content: `{"command":"initialize"}`,
			want: []string{"status busy", "debug_reply error not_implemented", "status idle"}},
		{name: "a silent cell has no execute_input", msgType: "execute_request", content: `{"code":"print('quiet')","silent":true,"store_history":false}`,
			want: quiet("stream quiet\n")},
		{name: "a silent cell shows no result", msgType: "execute_request", content: `{"code":"6 * 7","silent":true}`, want: quiet()},
		{name: "it is not counted", msgType: "execute_request", content: `{"code":"pass"}`, want: cell(), of: "execute_input", fields: map[string]string{"execution_count": "1"}},
		{name: "complete code", msgType: "is_complete_request", content: `{"code":"1 + 1"}`, want: simple("is_complete_reply complete")},
		{name: "incomplete code", msgType: "is_complete_request", content: `{"code":"for x in y:"}`, want: simple("is_complete_reply incomplete"),
			of: "is_complete_reply", fields: map[string]string{"indent": "    "}},
		{name: "invalid code", msgType: "is_complete_request", content: `{"code":"a b c"}`, want: simple("is_complete_reply invalid")},
		{name: "clear_output", msgType: "execute_request", content: `{"code":"from IPython.display import clear_output\nprint(1)\nclear_output(wait=True)\nprint(2)"}`,
			want: cell("stream 1\n", "clear_output", "stream 2\n"), of: "clear_output", fields: map[string]string{"wait": "true"}},
		{name: "a display that is updated", msgType: "execute_request", content: `{"code":"shown = display('a', display_id='d')\nshown.update('b')"}`,
			want: cell("display_data", "update_display_data"), of: "update_display_data",
			fields: map[string]string{"transient": "map[display_id:d]", "data": "map[text/plain:'b']"}},
		{name: "VS Code's start: the folder of a notebook", msgType: "execute_request", content: `{"code":"import os as _VSCODE_os\n_VSCODE_os.makedirs('sub', exist_ok=True)\n%cd -q sub","silent":true,"store_history":false}`,
			want: quiet()},
		{name: "VS Code's start: a folder that is only on its own machine", msgType: "execute_request", content: `{"code":"%cd \"/home/ann/notebooks\"","silent":true,"store_history":false}`,
			want: []string{"status busy", "error FileNotFoundError", "execute_reply error FileNotFoundError", "status idle"}},
		{name: "where it is then", msgType: "execute_request", content: `{"code":"import os\nprint(os.path.basename(os.getcwd()))"}`, want: cell("stream sub\n")},
		{name: "no comms", msgType: "comm_info_request", content: `{}`, want: simple("comm_info_reply ok"), of: "comm_info_reply", fields: map[string]string{"comms": "map[]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var words []string
			var messages []jupyterMessage
			for tries := 0; tries == 0 || slices.Contains(words, "is_complete_reply unknown") && tries < 100; tries++ { // the machine may be busy
				id := fmt.Sprint("m", i, "-", tries)
				k.say(`{"msg_id":"`+id+`","msg_type":"`+c.msgType+`","username":"","session":"m","version":"5.3"}`, c.content)
				words, messages = k.answers(id)
			}
			wantWords(t, words, c.want...)
			for _, m := range messages {
				for field, want := range c.fields {
					if got := fmt.Sprint(m.Content[field]); m.Header.MsgType == c.of && got != want {
						t.Errorf("%s of %s is %s, not %s", field, c.of, got, want)
					}
				}
			}
		})
	}
	for _, c := range []struct {
		path   string
		status int
		words  []string
	}{
		{"/api/me", 200, []string{`"username":"admin"`, `"initials":"A"`, `"permissions":{}`}},
		{"/api/me?permissions=%7B%7D", 200, []string{`"username":"admin"`}},
		{"/api/kernelspecs", 200, []string{`"default":"python3"`, `"python3":{`, `"second":{`, `"argv":[`, `"language":"python"`, `"display_name":"Python `}},
		{"/api/kernelspecs/python3", 200, []string{`"name":"python3"`, `"argv":[`, `"resources":{}`}},
		{"/api/kernelspecs/second", 200, []string{`"name":"second"`, `(second, Talaria)`}},
		{"/api/kernelspecs/julia", 404, []string{"julia"}},
	} {
		a := s.want(t, call{method: "GET", path: "/jupyter" + c.path}, c.status, "")
		for _, word := range c.words {
			if !strings.Contains(string(a.body), word) {
				t.Errorf("GET %s answers %s, without %s", c.path, a.body, word)
			}
		}
	}
	t.Run("a kernel of another environment", func(t *testing.T) {
		a := s.want(t, call{method: "POST", path: "/jupyter/api/kernels", body: `{"name":"second"}`}, http.StatusCreated, "")
		if one := decode[jupyterKernel](t, string(a.body)); one.Name != "second" {
			t.Errorf("the kernel is %+v", one)
		}
	})
	t.Run("the last status is busy while a cell runs, whatever is asked beside it", func(t *testing.T) {
		k.say(`{"msg_id":"r1","msg_type":"execute_request","session":"m"}`, `{"code":"input()"}`)
		k.first("input_request")
		late := s.channels(t, kernel, "&session_id=late") // it has not seen the cell start
		for i, of := range []*jupyterSocket{k, late, k} {
			id := fmt.Sprint("r1-", i)
			of.say(`{"msg_id":"`+id+`","msg_type":"kernel_info_request","session":"m"}`, `{}`)
			wantWords(t, of.until(id), simple("kernel_info_reply ok")...)
			if m := of.first("status"); m.Content["execution_state"] != "busy" || m.Parent.MsgID != "r1" {
				t.Errorf("after the answer comes %+v", m)
			}
		}
		s.want(t, call{method: "POST", path: "/jupyter/api/kernels/" + kernel + "/interrupt"}, http.StatusNoContent, "")
		k.until("r1")
		k.say(`{"msg_id":"r2","msg_type":"kernel_info_request","session":"m"}`, `{}`)
		k.until("r2")
		k.say(`{"msg_id":"r3","msg_type":"kernel_info_request","session":"m"}`, `{}`)
		if m := k.first("status"); m.Parent.MsgID != "r3" {
			t.Errorf("after the cell and an answer comes %+v", m)
		}
	})
	t.Run("two sockets without session_id are two clients", func(t *testing.T) {
		one, two := s.channels(t, kernel, ""), s.channels(t, kernel, "")
		one.say(`{"msg_id":"x1","msg_type":"execute_request","session":"x"}`, `{"code":"print('one')"}`)
		wantWords(t, one.until("x1"), cell("stream one\n")...)
		wantWords(t, two.until("x1"), "status busy", "execute_input", "stream one\n", "status idle") // the reply is not its own
		two.say(`{"msg_id":"y1","msg_type":"execute_request","session":"y"}`, `{"code":"print('two')"}`)
		wantWords(t, two.until("y1"), cell("stream two\n")...)
		wantWords(t, one.until("y1"), "status busy", "execute_input", "stream two\n", "status idle")
	})
}
