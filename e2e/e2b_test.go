package e2e

import (
	"context"
	wire "encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// untilDeleted reads a session's events to their end, which must be its deletion.
func untilDeleted(t *testing.T, events iter.Seq2[api.Event, error]) {
	t.Helper()
	for _, err := range events {
		if known := new(api.Error); errors.As(err, &known) && known.Code == api.CodeSessionNotFound {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("the events ended before the session was deleted")
}

// e2bKey is a token in the form that E2B's SDKs accept.
func (s *Server) e2bKey(t *testing.T, owner string) string {
	t.Helper()
	out, err := s.command(within(t), "token", "create", "--owner", owner, "--form", "e2b", "--state-dir", s.StateDir).Output()
	if err != nil {
		t.Fatalf("token create: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// e2bSandbox is the answer that lets a client use a sandbox.
type e2bSandbox struct {
	SandboxID          string `json:"sandboxID"`
	EnvdVersion        string `json:"envdVersion"`
	EnvdAccessToken    string `json:"envdAccessToken"`
	TrafficAccessToken string `json:"trafficAccessToken"`
}

// e2bCall makes a call as E2B's SDK does: key is an owner's token or a sandbox's.
func (s *Server) e2bCall(t *testing.T, method, path, key, sandbox, body string, status int) answer {
	t.Helper()
	header := map[string]string{"X-API-KEY": key}
	if strings.HasPrefix(key, "sbx_") {
		header = map[string]string{"X-Access-Token": key}
	}
	if sandbox != "" {
		header["E2b-Sandbox-Id"] = sandbox
	}
	kind := "application/json"
	if strings.HasPrefix(path, "/e2b/files?") {
		kind = "application/octet-stream"
	}
	return s.want(t, call{method: method, path: path, token: "-", header: header, kind: kind, body: body}, status, "")
}

func (s *Server) e2bCreate(t *testing.T, key, body string) e2bSandbox {
	t.Helper()
	return decode[e2bSandbox](t, string(s.e2bCall(t, "POST", "/e2b/v2/sandboxes", key, "", body, http.StatusCreated).body))
}

// e2bRun returns the lines of an execution.
func (s *Server) e2bRun(t *testing.T, box e2bSandbox, body string) []map[string]any {
	t.Helper()
	a := s.e2bCall(t, "POST", "/e2b/execute", box.EnvdAccessToken, box.SandboxID, body, http.StatusOK)
	var lines []map[string]any
	for line := range strings.Lines(string(a.body)) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in the line %q", err, line)
		}
		if one["type"] != "keepalive" { // one after five seconds without a line
			lines = joined(lines, one)
		}
	}
	return lines
}

func TestE2BClientsRunUnchanged(t *testing.T) {
	t.Parallel()
	installNode(t, "testdata/e2b")
	s := start(t, options{config: "fronts:\n  e2b:\n    addr: 127.0.0.1:0\n"})
	key := s.e2bKey(t, "agent")
	for _, c := range []struct{ name, sdk, url string }{
		{"2.51, below the path", "code-interpreter-2.8", s.URL + "/e2b"},
		{"2.45, at an address of its own", "code-interpreter-2.7", s.Fronts["e2b"]},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := withinProgram(t)
			cmd := exec.CommandContext(ctx, "node", "client.mjs", c.sdk)
			cmd.Dir = "testdata/e2b"
			cmd.Env = append(cmd.Environ(), "E2B_API_URL="+c.url, "E2B_SANDBOX_URL="+c.url, "E2B_API_KEY="+key)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "done\n") {
				t.Errorf("the client ended with %v:\n%s", err, out)
			}
		})
	}
}

func TestE2BSandboxesAreSessionsOfTheirOwner(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	other := s.owner(t, "other")
	box := s.e2bCreate(t, s.Token, `{"templateID":"code-interpreter-v1","metadata":{"a":"b"},"futureField":1}`)
	if box.EnvdVersion < "0.5.7" || !strings.HasPrefix(box.EnvdAccessToken, "sbx_") || box.TrafficAccessToken == "" {
		t.Errorf("the sandbox is %+v", box)
	}
	t.Run("the API sees it", func(t *testing.T) {
		info, err := s.Client().Session(within(t), box.SandboxID)
		if err != nil || info.Metadata["a"] != "b" {
			t.Errorf("the session is %+v (%v)", info, err)
		}
	})
	t.Run("lines of an execution", func(t *testing.T) {
		lines := s.e2bRun(t, box, `{"code":"print('x')\n'quoted'"}`)
		var types []string
		for _, l := range lines {
			types = append(types, l["type"].(string))
		}
		if got := strings.Join(types, " "); got != "number_of_executions stdout result end_of_execution" {
			t.Errorf("the lines are %s", got)
		}
		if lines[2]["text"] != "quoted" || lines[2]["is_main_result"] != true {
			t.Errorf("the result is %v", lines[2])
		}
		if _, err := time.Parse(time.RFC3339, lines[1]["timestamp"].(string)); err != nil {
			t.Error(err)
		}
		failed := s.e2bRun(t, box, `{"code":"def f(): raise ValueError('no')\nf()"}`)
		if e := failed[1]; e["type"] != "error" || e["name"] != "ValueError" || e["value"] != "no" || !strings.Contains(e["traceback"].(string), "in f\n") {
			t.Errorf("the error is %v", e)
		}
		died := s.e2bRun(t, box, `{"code":"import os; os._exit(3)"}`)
		if e := died[len(died)-2]; e["name"] != "KernelDied" || !strings.Contains(e["value"].(string), "(exit:3): its variables are lost") {
			t.Errorf("after the death comes %v", e)
		}
	})
	t.Run("other owners cannot tell that it exists", func(t *testing.T) {
		for _, c := range []struct {
			method, path, body string
			status             int
		}{
			{"GET", "/e2b/sandboxes/" + box.SandboxID, "", 404},
			{"DELETE", "/e2b/sandboxes/" + box.SandboxID, "", 404},
			{"POST", "/e2b/sandboxes/" + box.SandboxID + "/timeout", `{"timeout":60}`, 404},
			{"POST", "/e2b/v2/sandboxes/" + box.SandboxID + "/connect", `{}`, 404},
			{"POST", "/e2b/sandboxes/" + box.SandboxID + "/pause", `{}`, 404},
			{"POST", "/e2b/sandboxes/" + box.SandboxID + "/resume", `{}`, 404},
			{"POST", "/e2b/execute", `{"code":"1"}`, 502},
			{"GET", "/e2b/contexts", "", 502},
			{"GET", "/e2b/files?path=a", "", 502},
			{"GET", "/e2b/health", "", 502},
			{"POST", "/e2b/filesystem.Filesystem/Stat", `{"path":"a"}`, 503},
		} {
			s.e2bCall(t, c.method, c.path, other, box.SandboxID, c.body, c.status)
		}
		if list := s.e2bCall(t, "GET", "/e2b/v2/sandboxes", other, "", "", 200); string(list.body) != "[]" {
			t.Errorf("another owner's list is %s", list.body)
		}
	})
	t.Run("a sandbox's token is good for it alone", func(t *testing.T) {
		second := s.e2bCreate(t, s.Token, `{}`)
		s.e2bCall(t, "POST", "/e2b/execute", second.EnvdAccessToken, box.SandboxID, `{"code":"1"}`, 502)
		s.e2bCall(t, "GET", "/e2b/v2/sandboxes", second.EnvdAccessToken, "", "", 403)
		s.e2bCall(t, "POST", "/e2b/sandboxes", second.EnvdAccessToken, "", `{}`, 403)
		s.e2bCall(t, "DELETE", "/e2b/sandboxes/"+second.SandboxID, second.EnvdAccessToken, "", "", 403)
		s.e2bCall(t, "POST", "/e2b/sandboxes/"+second.SandboxID+"/pause", second.EnvdAccessToken, "", `{}`, 403)
		s.want(t, call{method: "GET", path: "/v1/sessions", token: second.EnvdAccessToken}, http.StatusUnauthorized, "")
		forged := second.EnvdAccessToken[:len(second.EnvdAccessToken)-4] + "AAAA"
		s.e2bCall(t, "GET", "/e2b/health", forged, second.SandboxID, "", 502)
		s.e2bCall(t, "GET", "/e2b/health", second.EnvdAccessToken, second.SandboxID, "", 204)
		s.e2bCall(t, "DELETE", "/e2b/sandboxes/"+second.SandboxID, s.Token, "", "", 204)
		s.e2bCall(t, "GET", "/e2b/health", second.EnvdAccessToken, second.SandboxID, "", 502)
	})
	t.Run("requests that make no sense", func(t *testing.T) {
		s.e2bCall(t, "GET", "/e2b/v2/sandboxes", "wrong", "", "", 401)
		for body, status := range map[string]int{
			`{"timeout":0}`: 400, `{"timeout":"x"}`: 400, `{"templateID":"unknown"}`: 404,
			`{"metadata":{"talaria.e2b.end_at":"0"}}`: 400, `{"network":{"rules":{"a":1}}}`: 501, `{`: 400,
			`{"metadata":{"a":"` + strings.Repeat("x", 17<<20) + `"}}`: 413,
		} {
			s.e2bCall(t, "POST", "/e2b/v2/sandboxes", s.Token, "", body, status)
		}
		for _, body := range []string{`{"code":"1","context_id":"x","language":"python"}`, `{}`, `{"code":"1","language":"fortran"}`} {
			s.e2bCall(t, "POST", "/e2b/execute", box.EnvdAccessToken, box.SandboxID, body, 400)
		}
		s.e2bCall(t, "POST", "/e2b/execute", box.EnvdAccessToken, box.SandboxID, `{"code":"1","context_id":"x"}`, 404)
		s.e2bCall(t, "POST", "/e2b/execute", s.Token, "", `{"code":"1"}`, 400)
		s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/snapshots", s.Token, "", `{}`, 501)
		s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/connect", s.Token, "", `{"timeout":0}`, 400)
		s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/resume", s.Token, "", `{}`, 409)
		for _, path := range []string{"/etc/passwd", "../x", "/home/user/../../etc/passwd", "a/../../x", "%00"} {
			status := 403
			if path == "%00" {
				status = 400
			}
			s.e2bCall(t, "GET", "/e2b/files?path="+path, box.EnvdAccessToken, box.SandboxID, "", status)
			s.e2bCall(t, "POST", "/e2b/files?path="+path, box.EnvdAccessToken, box.SandboxID, "x", status)
		}
	})
	t.Run("a list has pages", func(t *testing.T) {
		third := s.e2bCreate(t, s.Token, `{}`)
		first := s.e2bCall(t, "GET", "/e2b/v2/sandboxes?limit=1", s.Token, "", "", 200)
		next := first.header.Get("X-Next-Token")
		if list := decode[[]e2bSandbox](t, string(first.body)); len(list) != 1 || list[0].SandboxID != third.SandboxID || next == "" {
			t.Fatalf("the first page is %+v, the next token %q", list, next)
		}
		last := s.e2bCall(t, "GET", "/e2b/v2/sandboxes?limit=1&nextToken="+next, s.Token, "", "", 200)
		if list := decode[[]e2bSandbox](t, string(last.body)); len(list) != 1 || list[0].SandboxID != box.SandboxID {
			t.Errorf("the second page is %+v", list)
		}
	})
}

func TestE2BSandboxesEndWhenTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	box := s.e2bCreate(t, s.Token, `{"timeout":600}`)
	watch := s.Client().Events(within(t), box.SandboxID, client.EventsQuery{})
	s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/timeout", s.Token, "", `{"timeout":1}`, http.StatusNoContent)
	untilDeleted(t, watch)
	s.e2bCall(t, "GET", "/e2b/sandboxes/"+box.SandboxID, s.Token, "", "", 404)

	t.Run("also if the server was not running then", func(t *testing.T) {
		box := s.e2bCreate(t, s.Token, `{"timeout":1}`)
		kept := s.e2bCreate(t, s.Token, `{}`)
		s.Kill9()
		s.Restart(t)
		untilDeleted(t, s.Client().Events(within(t), box.SandboxID, client.EventsQuery{}))
		s.e2bCall(t, "GET", "/e2b/health", kept.EnvdAccessToken, kept.SandboxID, "", 204)
	})
}

// e2bText is the text of the result of a cell.
func (s *Server) e2bText(t *testing.T, box e2bSandbox, code string) any {
	t.Helper()
	for _, line := range s.e2bRun(t, box, `{"code":"`+code+`"}`) {
		if line["type"] == "result" || line["type"] == "error" {
			return line["text"]
		}
	}
	return nil
}

// e2bState is the state of a sandbox, and whether it has an end.
func (s *Server) e2bState(t *testing.T, box e2bSandbox) (state string, ends bool) {
	t.Helper()
	info := decode[struct{ State string }](t, string(s.e2bCall(t, "GET", "/e2b/sandboxes/"+box.SandboxID, s.Token, "", "", 200).body))
	seen, err := s.Client().Session(within(t), box.SandboxID)
	if err != nil {
		t.Fatal(err)
	}
	return info.State, seen.Metadata["talaria.e2b.end_at"] != ""
}

func TestE2BSandboxesArePausedInsteadOfKilled(t *testing.T) {
	t.Parallel()
	s := start(t, options{args: []string{"--on-idle", "drop"}})
	box := s.e2bCreate(t, s.Token, `{"timeout":600,"autoPause":true}`)
	one := "/e2b/sandboxes/" + box.SandboxID
	if got := s.e2bText(t, box, "x = 5; x"); got != "5" {
		t.Fatalf("x is %v", got)
	}
	k := s.attach(t, box.SandboxID, "after=0")
	s.e2bCall(t, "POST", one+"/timeout", s.Token, "", `{"timeout":1}`, 204)
	k.awaits(t, func(h head, raw []byte) bool {
		return h.Type == "session_state" && decode[api.SessionStateEvent](t, string(raw)).State == api.StateHibernated
	})
	for ends := true; ends; { // each turn is a request
		_, ends = s.e2bState(t, box)
	}

	// Nobody kills it, also if the server starts again, which reads when sandboxes end.
	s.Kill9()
	s.Restart(t)
	if state, _ := s.e2bState(t, box); state != "paused" {
		t.Errorf("the sandbox is %s", state)
	}
	s.e2bCall(t, "GET", "/e2b/health", box.EnvdAccessToken, box.SandboxID, "", 502)
	s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/resume", s.Token, "", `{"timeout":600}`, 201)
	if state, ends := s.e2bState(t, box); state != "running" || !ends {
		t.Errorf("the sandbox is %s, and has an end: %t", state, ends)
	}
	s.e2bCall(t, "POST", one+"/pause", s.Token, "", `{"memory":true}`, 204)
	s.e2bCall(t, "POST", one+"/pause", s.Token, "", `{"memory":true}`, 409)
	s.e2bCall(t, "POST", one+"/refreshes", s.Token, "", `{}`, 409)
	if state, ends := s.e2bState(t, box); state != "paused" || ends {
		t.Errorf("the sandbox is %s, and has an end: %t", state, ends)
	}
	if got := s.e2bText(t, box, "x"); got != "5" { // any use wakes it; then it has no end until a client connects
		t.Errorf("x is %v", got)
	}
	if state, ends := s.e2bState(t, box); state != "running" || ends {
		t.Errorf("the sandbox is %s, and has an end: %t", state, ends)
	}
	s.e2bCall(t, "POST", one+"/connect", s.Token, "", `{"timeout":600}`, 200)
	if _, ends := s.e2bState(t, box); !ends {
		t.Error("the sandbox has no end")
	}
	forks, err := s.Client().Fork(within(t), box.SandboxID, api.ForkRequest{})
	if err != nil || len(forks.Items[0].Session.Metadata) > 0 { // a fork does not end with the sandbox
		t.Errorf("the forks are %+v (%v)", forks, err)
	}
	s.e2bRun(t, box, `{"code":"import os; os._exit(3)"}`)
	s.e2bCall(t, "POST", one+"/pause", s.Token, "", ``, 204)
	s.e2bCall(t, "DELETE", one, s.Token, "", "", 204)
}

// Code of a sandbox decides how long its variables take to be saved.
func TestSIGTERMDoesNotWaitForVariablesOfSandboxes(t *testing.T) {
	t.Parallel()
	slow := `{"code":"import os, time\nclass Slow:\n  def __reduce__(self):\n    open('saving', 'w').close()\n    while not os.path.exists('go'): time.sleep(0.02)\n    return int, ()\na, b, c, d, e, f, g, h = (Slow() for _ in range(8))"}`
	s := start(t, options{})
	saving := func(box e2bSandbox) {
		t.Helper()
		header := map[string]string{"X-Access-Token": box.EnvdAccessToken, "E2b-Sandbox-Id": box.SandboxID}
		for status := 0; status != http.StatusOK && status != http.StatusBadGateway; { // or the machine is slow, and it has been killed already
			status = s.do(t, call{method: "GET", path: "/e2b/files?path=saving", token: "-", header: header}).status
		}
	}
	paused := s.e2bCreate(t, s.Token, `{"timeout":600,"autoPause":true}`)
	killed := s.e2bCreate(t, s.Token, `{"timeout":600}`)
	s.e2bRun(t, paused, slow)
	s.e2bRun(t, killed, slow)
	s.e2bCall(t, "POST", "/e2b/sandboxes/"+paused.SandboxID+"/timeout", s.Token, "", `{"timeout":1}`, 204)
	saving(paused)
	s.e2bCall(t, "POST", "/e2b/sandboxes/"+killed.SandboxID+"/timeout", s.Token, "", `{"timeout":3}`, 204)
	go func() { _, _ = s.Client().Hibernate(t.Context(), killed.SandboxID) }()
	saving(killed)
	time.Sleep(4 * time.Second) // by now its end waits for the variables, or the test proves less
	// If it waited for them, it would take half a minute.
	if took, _ := s.Signal(t, syscall.SIGTERM); took > 25*time.Second {
		t.Errorf("the server ended after %v", took)
	}
	s.Restart(t)
	untilDeleted(t, s.Client().Events(within(t), killed.SandboxID, client.EventsQuery{}))
	s.e2bCall(t, "POST", "/e2b/files?path=go", paused.EnvdAccessToken, paused.SandboxID, "", 200)
	for ends := true; ends; {
		_, ends = s.e2bState(t, paused)
	}
	if state, _ := s.e2bState(t, paused); state != "paused" {
		t.Errorf("the sandbox is %s", state)
	}
}

func TestAPauseWaitsForCells(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	box := s.e2bCreate(t, s.Token, `{}`)
	waiting := s.queue(t, box.SandboxID, "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\nx = 6")
	answered := make(chan answer, 1)
	go func() {
		answered <- s.do(t, call{method: "POST", path: "/e2b/sandboxes/" + box.SandboxID + "/pause", token: s.Token, body: `{}`})
	}()
	for ends := true; ends; { // until the pause has begun; each turn is a request
		_, ends = s.e2bState(t, box)
		select {
		case a := <-answered:
			t.Fatalf("the pause does not wait: %d %s", a.status, a.body)
		default:
		}
	}
	s.e2bCall(t, "POST", "/e2b/files?path=go", box.EnvdAccessToken, box.SandboxID, "", 200)
	s.ended(t, box.SandboxID, waiting)
	if a := <-answered; a.status != http.StatusNoContent {
		t.Errorf("the answer is %d %s", a.status, a.body)
	}
	if state, _ := s.e2bState(t, box); state != "paused" {
		t.Errorf("the sandbox is %s", state)
	}
	if got := s.e2bText(t, box, "x"); got != "6" {
		t.Errorf("x is %v", got)
	}

	// A client that gives up leaves the sandbox as it was.
	ctx, cancel := context.WithCancel(t.Context())
	s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/connect", s.Token, "", `{"timeout":600}`, 200)
	waiting = s.queue(t, box.SandboxID, "time.sleep(600)")
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/e2b/sandboxes/"+box.SandboxID+"/pause", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", s.Token)
	left := make(chan error, 1)
	go func() { _, err := http.DefaultClient.Do(req); left <- err }()
	for ends := true; ends; {
		_, ends = s.e2bState(t, box)
		if len(left) > 0 {
			t.Fatalf("the pause does not wait for a cell that runs: %v", <-left)
		}
	}
	cancel()
	<-left
	for ends := false; !ends; {
		_, ends = s.e2bState(t, box)
	}
	s.e2bCall(t, "GET", "/e2b/health", box.EnvdAccessToken, box.SandboxID, "", 204)
	if err := s.Client().Interrupt(within(t), box.SandboxID, ""); err != nil {
		t.Fatal(err)
	}
	s.ended(t, box.SandboxID, waiting)
}

// framed are messages of a client's stream.
func framed(messages ...string) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteByte(0)
		_ = wire.Write(&b, wire.BigEndian, uint32(len(m)))
		b.WriteString(m)
	}
	return b.String()
}

// unframed are the messages of an answer; the last one is its end.
func unframed(t *testing.T, body []byte) []string {
	t.Helper()
	var messages []string
	for len(body) > 0 {
		if len(body) < 5 || len(body)-5 < int(wire.BigEndian.Uint32(body[1:])) {
			t.Fatalf("the answer is cut off: %q", body)
		}
		end := 5 + wire.BigEndian.Uint32(body[1:])
		messages, body = append(messages, string(body[5:end])), body[end:]
	}
	return messages
}

// e2bStream makes a call with streams of messages. Its status is 200, whatever comes of it.
func (s *Server) e2bStream(t *testing.T, method, key, sandbox string, messages ...string) []string {
	t.Helper()
	c := call{method: "POST", path: "/e2b/" + method, token: "-", kind: "application/connect+json", body: framed(messages...)}
	c.header = map[string]string{"X-Access-Token": key, "E2b-Sandbox-Id": sandbox, "Connect-Timeout-Ms": "120000"}
	return slices.DeleteFunc(unframed(t, s.want(t, c, http.StatusOK, "").body), func(m string) bool {
		return strings.Contains(m, `"keepalive"`) // after a while without a message
	})
}

func TestE2BProcessesReadInputAndHaveTags(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	box := s.e2bCreate(t, s.Token, `{}`)
	rpc := func(method, body string, status int) string {
		return string(s.e2bCall(t, "POST", "/e2b/process.Process/"+method, box.EnvdAccessToken, box.SandboxID, body, status).body)
	}
	stream := func(method string, messages ...string) []string {
		return s.e2bStream(t, "process.Process/"+method, box.EnvdAccessToken, box.SandboxID, messages...)
	}
	// The stream of Start lasts until the process ends.
	ended := make(chan []string, 1)
	go func() {
		ended <- stream("Start", `{"process":{"cmd":"/bin/sh","args":["-c","cat /dev/stdin; exit 7"]},"tag":"reader","stdin":true}`)
	}()
	selector := `{"process":{"tag":"reader"}}`
	for !strings.Contains(rpc("List", `{}`, 200), `"tag":"reader"`) {
		select {
		case messages := <-ended:
			t.Fatalf("the process ended at once: %q", messages)
		default: // each turn is a request
		}
	}
	rpc("SendInput", `{"process":{"tag":"reader"},"input":{"stdin":"YQ=="}}`, 200)
	if got := stream("StreamInput", `{"start":`+selector+`}`, `{"data":{"input":{"stdin":"Yg=="}}}`, `{"keepalive":{}}`,
		`{"data":{"input":{"stdin":"Yw=="}}}`); strings.Join(got, "") != "{}{}" {
		t.Errorf("the answer to a stream of input is %q", got)
	}
	for name, messages := range map[string][]string{
		"no start": {`{"data":{"input":{"stdin":"Yg=="}}}`}, "nothing": {}, "two starts": {`{"start":` + selector + `}`, `{"start":` + selector + `}`},
		"no process": {`{"start":{}}`}, "another tag": {`{"start":{"process":{"tag":"none"}}}`}, "no JSON": {`{`},
		"for a terminal": {`{"start":` + selector + `}`, `{"data":{"input":{"pty":"Yg=="}}}`},
	} {
		if got := stream("StreamInput", messages...); len(got) != 1 || !strings.Contains(got[0], `"error"`) {
			t.Errorf("%s: the answer is %q", name, got)
		}
	}
	for body, status := range map[string]int{
		`{"process":{}}`: 400, `{"process":{"pid":1,"tag":"reader"}}`: 400, `{"process":{"tag":""}}`: 404, `{"process":{"tag":"none"}}`: 404,
		`{"process":{"pid":99}}`: 404, `{"process":{"pid":4294967295}}`: 400, `{"process":{"pid":-1}}`: 400, `{"process":{"pid":4294967296}}`: 400,
	} {
		rpc("CloseStdin", body, status)
	}
	other := s.e2bCreate(t, s.owner(t, "other"), `{}`)
	for _, method := range []string{"SendInput", "CloseStdin", "SendSignal"} {
		body := `{"process":{"tag":"reader"},"input":{"stdin":"YQ=="},"signal":"SIGNAL_SIGKILL"}`
		s.e2bCall(t, "POST", "/e2b/process.Process/"+method, other.EnvdAccessToken, box.SandboxID, body, 503)
		s.e2bCall(t, "POST", "/e2b/process.Process/"+method, other.EnvdAccessToken, other.SandboxID, body, 404)
	}
	followed := make(chan []string, 1)
	go func() { followed <- stream("Connect", selector) }()
	rpc("CloseStdin", selector, 200)
	var output []byte
	messages := <-ended
	for _, m := range messages[1 : len(messages)-1] {
		var one struct {
			Event struct {
				Data struct{ Stdout []byte }
				End  struct{ ExitCode int }
			}
		}
		if err := json.Unmarshal([]byte(m), &one); err != nil {
			t.Fatal(err)
		}
		output = append(output, one.Event.Data.Stdout...)
	}
	if last := messages[len(messages)-2]; string(output) != "abc" || !strings.Contains(last, `"exitCode":7`) {
		t.Errorf("the process printed %q, and ended with %s", output, last)
	}
	<-followed // which either follows to the end, or comes too late
	rpc("CloseStdin", selector, 404)
}

func TestE2BWatchersCollectEvents(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	box := s.e2bCreate(t, s.Token, `{}`)
	rpc := func(method, body string, status int) string {
		return string(s.e2bCall(t, "POST", "/e2b/filesystem.Filesystem/"+method, box.EnvdAccessToken, box.SandboxID, body, status).body)
	}
	create := func(body string) string {
		id := decode[struct{ WatcherID string }](t, rpc("CreateWatcher", body, 200)).WatcherID
		return `{"watcherId":"` + id + `"}`
	}
	all := create(`{"path":"/home/user","recursive":true,"includeEntry":true}`)
	rpc("MakeDir", `{"path":"folder"}`, 200)
	s.e2bCall(t, "POST", "/e2b/files?path=folder/a.txt", box.EnvdAccessToken, box.SandboxID, "abc", 200)
	var events string
	for until := time.Now().Add(patience); !strings.Contains(events, `WRITE`); { // each turn is a request
		if time.Now().After(until) {
			t.Fatalf("no file is told as written: %s", events)
		}
		events += rpc("GetWatcherEvents", all, 200)
	}
	for _, want := range []string{`"name":"folder"`, `"type":"EVENT_TYPE_CREATE"`, `"name":"folder/a.txt"`, `"path":"/home/user/folder/a.txt"`, `"size":"3"`} {
		if !strings.Contains(events, want) {
			t.Errorf("%s is missing in %s", want, events)
		}
	}
	if strings.Contains(events, "upload") {
		t.Errorf("the events tell of the server's own file: %s", events)
	}

	owner := s.owner(t, "other")
	other := s.e2bCreate(t, owner, `{}`)
	for _, method := range []string{"GetWatcherEvents", "RemoveWatcher"} {
		s.e2bCall(t, "POST", "/e2b/filesystem.Filesystem/"+method, other.EnvdAccessToken, box.SandboxID, all, 503)
		s.e2bCall(t, "POST", "/e2b/filesystem.Filesystem/"+method, other.EnvdAccessToken, other.SandboxID, all, 404)
		rpc(method, `{"watcherId":"none"}`, 404)
	}
	for body, status := range map[string]int{`{"path":"none"}`: 404, `{"path":"folder/a.txt"}`: 400, `{"path":"../x"}`: 403, `{"path":"/etc"}`: 403} {
		rpc("CreateWatcher", body, status)
	}

	for range 7 {
		create(`{"path":"folder"}`)
	}
	if got := rpc("CreateWatcher", `{"path":"folder"}`, 429); !strings.Contains(got, "8 watched folders") {
		t.Errorf("one watcher too many: %s", got)
	}
	s.e2bCall(t, "POST", "/e2b/filesystem.Filesystem/CreateWatcher", other.EnvdAccessToken, other.SandboxID, `{"path":"."}`, 200)
	rpc("RemoveWatcher", all, 200)
	rpc("RemoveWatcher", all, 404)
	flooded := create(`{"path":"."}`)
	s.e2bRun(t, box, `{"code":"import os\nfor i in range(3000): open(str(i), 'w').close(); os.remove(str(i))"}`)
	var last string
	for until := time.Now().Add(patience); !strings.Contains(last, "events were lost"); { // once those that are kept were read
		if time.Now().After(until) {
			t.Fatalf("nobody says that events were lost: %s", last)
		}
		a := s.do(t, call{method: "POST", path: "/e2b/filesystem.Filesystem/GetWatcherEvents", token: "-", kind: "application/json", body: flooded,
			header: map[string]string{"X-Access-Token": box.EnvdAccessToken, "E2b-Sandbox-Id": box.SandboxID}})
		last = string(a.body)
	}

	// A stream ends with its sandbox.
	ended := make(chan []string, 1)
	go func() {
		ended <- s.e2bStream(t, "filesystem.Filesystem/WatchDir", other.EnvdAccessToken, other.SandboxID, `{"path":"."}`)
	}()
	s.e2bCall(t, "DELETE", "/e2b/sandboxes/"+box.SandboxID, s.Token, "", "", 204)
	s.e2bCall(t, "DELETE", "/e2b/sandboxes/"+other.SandboxID, owner, "", "", 204)
	if messages := <-ended; !strings.Contains(messages[len(messages)-1], `"unavailable"`) {
		t.Errorf("the stream of a sandbox that was killed is %q", messages)
	}
}
