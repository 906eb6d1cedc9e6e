package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// TestDoctorPrintsTheSettingOfEachFront pastes what doctor prints into a shell, and calls the front with it as its clients do.
func TestDoctorPrintsTheSettingOfEachFront(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	doctor := s.command(within(t), "doctor", "--json", "--state-dir", s.StateDir)
	doctor.Env = append(doctor.Env, "TALARIA_ADDR="+strings.TrimPrefix(s.URL, "http://"))
	out, _ := doctor.Output() // its status is about the machine
	printed := map[string]string{}
	for _, f := range decode[struct {
		Findings []struct{ Name, Detail string }
	}](t, string(out)).Findings {
		printed[f.Name] = f.Detail
	}
	for _, c := range []struct{ front, before, use, want string }{
		{"Jupyter clients", "run this before the client: ",
			`$CURL -X POST "$JUPYTER_GATEWAY_URL/api/kernels" -H "Authorization: token $JUPYTER_GATEWAY_AUTH_TOKEN"`, `"execution_state"`},
		{"E2B clients", "run this before the client: ",
			`test "$E2B_SANDBOX_URL" = "$E2B_API_URL"; $CURL -X POST "$E2B_API_URL/v2/sandboxes" -H "X-API-KEY: $E2B_API_KEY" -d '{}'`, `"sandboxID"`},
		{"one-shot engine clients", "give a client the base URL ", `$CURL "$BASE/execute/" -H "$HEADER" -d '{"language":"bash","code":"echo 42"}'`, `"output":"42\n"`},
		{"OpenSandbox's execd clients", "give a client the base URL ", `$CURL "$BASE/code" -H "$HEADER" -d '{"code":"6 * 7","context":{"language":"python"}}'`, `"text":"42"`},
		{"LibreChat", "add this to LibreChat's .env: ",
			`$CURL "$LIBRECHAT_CODE_BASEURL/exec" -H "X-API-Key: $LIBRECHAT_CODE_API_KEY" -d '{"lang":"py","code":"print(42)"}'`, `"stdout":"42\n"`},
	} {
		line, ok := strings.CutPrefix(printed[c.front], c.before)
		if !ok {
			t.Errorf("%s: doctor prints %q", c.front, printed[c.front])
			continue
		}
		if base, header, ok := strings.Cut(line, " and the header "); ok {
			line = "BASE=" + base + " HEADER=" + header
		}
		if variable, rest, ok := strings.Cut(line, " and LIBRECHAT_CODE_API_KEY=TOKEN, with the token that this prints: "); ok {
			line = variable + "\nLIBRECHAT_CODE_API_KEY=$(" + rest + ")"
		}
		shell := exec.CommandContext(within(t), "sh", "-ec", `CURL="curl -sf -H Content-Type:application/json"`+"\n"+line+"\n"+c.use)
		shell.Env = append(os.Environ(), s.command(within(t)).Env...)
		shell.Dir, shell.SysProcAttr = s.home, s.command(within(t)).SysProcAttr
		if out, err := shell.Output(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %s\nanswers %s (%v), without %s", c.front, line, out, err, c.want)
		}
	}
	if got := printed["languages of /v1/run"]; !strings.HasPrefix(got, "python, ") || !strings.Contains(got, "bash") {
		t.Errorf("doctor reports the languages %q", got)
	}
}

// frontProbes have, for each front, the keys that switch it off, and a request that it answers with 200.
var frontProbes = map[string]struct {
	off    []string
	method string
	path   string
	body   string
}{
	"jupyter":   {[]string{"fronts:\n  jupyter:\n    enabled: false\n", "jupyter: false\n"}, "GET", "/jupyter/api/kernelspecs", ""},
	"e2b":       {[]string{"fronts:\n  e2b:\n    enabled: false\n"}, "GET", "/e2b/v2/sandboxes", ""},
	"engine":    {[]string{"fronts:\n  engine:\n    enabled: false\n"}, "GET", "/engine/", ""},
	"execd":     {[]string{"fronts:\n  execd:\n    enabled: false\n"}, "GET", "/execd/code/contexts", ""},
	"librechat": {[]string{"fronts:\n  librechat:\n    enabled: false\n"}, "GET", "/librechat/v1/health", ""},
	"mcp": {[]string{"mcp: \"off\"\n"}, "POST", "/mcp",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`},
}

func TestEachFrontCanBeSwitchedOffAlone(t *testing.T) {
	t.Parallel()
	for front, its := range frontProbes {
		for _, config := range its.off {
			t.Run(strings.Join(strings.Fields(config), " "), func(t *testing.T) {
				s := start(t, options{config: config})
				for name, probe := range frontProbes {
					want := http.StatusOK
					if name == front {
						want = http.StatusNotFound
					}
					s.want(t, call{method: probe.method, path: probe.path, body: probe.body, header: map[string]string{
						"Accept": "application/json, text/event-stream"}}, want, "")
				}
			})
		}
	}
}

// TestFrontsBoundWhatTheyTake sends each front more than the 16 MiB that a body or a message may have.
func TestFrontsBoundWhatTheyTake(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	kernel, box := s.kernel(t), s.e2bCreate(t, s.Token, `{}`)
	much := strings.Repeat("x", 17<<20)
	envd := map[string]string{"X-Access-Token": box.EnvdAccessToken, "E2b-Sandbox-Id": box.SandboxID}
	for _, c := range []call{
		{method: "POST", path: "/jupyter/api/kernels", body: `{"name":"` + much + `"}`},
		{method: "PUT", path: "/jupyter/api/contents/" + kernel + "/a.txt", body: `{"type":"file","format":"text","content":"` + much + `"}`},
		{method: "POST", path: "/e2b/v2/sandboxes", body: `{"metadata":{"a":"` + much + `"}}`},
		{method: "POST", path: "/e2b/execute", token: "-", header: envd, body: `{"code":"` + much + `"}`},
		{method: "POST", path: "/engine/execute/", body: `{"language":"python","code":"` + much + `"}`},
		{method: "POST", path: "/engine/v2/execute/", body: `{"language":"python","files":[{"name":"a","content":"` + much + `"}],"entry_file":"a"}`},
		{method: "POST", path: "/execd/code", body: `{"code":"` + much + `"}`},
		{method: "POST", path: "/execd/command", body: `{"command":"` + much + `"}`},
		{method: "POST", path: "/librechat/v1/exec", body: `{"lang":"py","code":"` + much + `"}`},
		{method: "POST", path: "/mcp", body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + much + `"}}`,
			header: map[string]string{"Accept": "application/json, text/event-stream"}},
	} {
		s.want(t, c, http.StatusRequestEntityTooLarge, "")
	}
	// In the Connect protocol the status of what is exhausted is 429.
	s.want(t, call{method: "POST", path: "/e2b/filesystem.Filesystem/Stat", token: "-", header: envd, body: `{"path":"` + much + `"}`}, http.StatusTooManyRequests, "")
	t.Run("a message on Jupyter's socket", func(t *testing.T) {
		k := s.channels(t, kernel, "")
		// The server may close the connection while the client still writes, and the client then never reads why.
		_ = k.WriteMessage(websocket.TextMessage, []byte(`{"header":{"msg_id":"a","msg_type":"execute_request"},"content":{"code":"`+much+`"}}`))
		for {
			_, err := k.next()
			if err == nil {
				continue
			}
			if websocket.IsUnexpectedCloseError(err, websocket.CloseMessageTooBig) {
				t.Errorf("the connection ends with %v", err)
			}
			break
		}
		after := s.channels(t, kernel, "")
		after.say(`{"msg_id":"b","msg_type":"execute_request","session":"b"}`, `{"code":"print('fine')"}`)
		wantWords(t, after.until("b"), "status busy", "execute_input", "stream fine\n", "execute_reply ok", "status idle")
	})
	t.Run("another owner's socket", func(t *testing.T) {
		other := s.owner(t, "other")
		for token, want := range map[string]int{other: http.StatusNotFound, "wrong": http.StatusForbidden} {
			conn, res, err := websocket.DefaultDialer.DialContext(within(t), s.channelsURL(kernel)+"?token="+token, nil)
			if err == nil {
				_ = conn.Close()
				t.Errorf("the socket of another owner's kernel opens")
			} else if res == nil || res.StatusCode != want {
				t.Errorf("the socket is refused with %v (%v), want %d", res, err, want)
			}
		}
	})
}
