package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"talaria/api"
	"talaria/client"
)

const hookKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// receiver is a program that carries out webhooks, as docs/tools-providers.md describes them.
type receiver struct {
	*httptest.Server
	t    *testing.T
	hold chan struct{} // the path hold answers when it is closed
	got  chan string   // the path and the key of each request

	mu   sync.Mutex
	busy int // answers of 503 that are left
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, hold: make(chan struct{}), got: make(chan string, 64)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements [http.Handler].
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var call struct {
		CallID      string             `json:"call_id"`
		SessionID   string             `json:"session_id"`
		ExecutionID string             `json:"execution_id"`
		Tool        string             `json:"tool"`
		Arguments   map[string]float64 `json:"arguments"`
	}
	if err != nil || json.Unmarshal(body, &call) != nil {
		r.t.Errorf("a webhook got %q (%v)", body, err)
	}
	key, _ := base64.StdEncoding.DecodeString(hookKey)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", req.Header.Get("Webhook-Id"), req.Header.Get("Webhook-Timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); req.Header.Get("Webhook-Signature") != want {
		r.t.Errorf("the signature is %q, want %q", req.Header.Get("Webhook-Signature"), want)
	}
	if req.Header.Get("Idempotency-Key") != call.CallID || call.CallID == "" || call.SessionID == "" || call.ExecutionID == "" {
		r.t.Errorf("the call is %s, with the key %q", body, req.Header.Get("Idempotency-Key"))
	}
	name := strings.TrimPrefix(req.URL.Path, "/hooks/")
	r.got <- name + " " + call.CallID
	switch name {
	case "add":
		r.mu.Lock()
		r.busy--
		busy := r.busy >= 0
		r.mu.Unlock()
		if busy {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"result": %v}`, call.Arguments["a"]+call.Arguments["b"])
	case "refuse":
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error": {"code": "no_such_city", "message": "there is no such city"}}`)
	case "elsewhere":
		http.Redirect(w, req, "/secret", http.StatusTemporaryRedirect)
	case "secret":
		r.t.Error("a redirect was followed")
	case "endless":
		for req.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	case "hold":
		select {
		case <-r.hold:
			io.WriteString(w, `{"result": "held"}`)
		case <-req.Context().Done():
		}
	}
}

// config allows the receiver's hooks, and an MCP server.
func (r *receiver) config(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	secret, env := filepath.Join(dir, "secret"), filepath.Join(dir, "env")
	for path, text := range map[string]string{secret: "whsec_" + hookKey + "\n", env: "SECRET_OF_THE_SERVER=sesame\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("testdata/mcpserver.py")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
webhooks:
  prefixes: [%s/hooks/]
  secret_file: %s
mcp_servers:
  - name: testing
    command: /usr/bin/python3
    args: [%s]
    env_file: %s
`, r.URL, secret, script, env)
}

func (r *receiver) tool(name string, more ...func(*api.Tool)) api.Tool {
	t := api.Tool{Name: name, Description: "Does " + name + ".", URL: r.URL + "/hooks/" + name}
	for _, set := range more {
		set(&t)
	}
	return t
}

// TestAWebHookIsATool checks that the tools of a session's body are called by signed requests, and survive the server.
func TestAWebHookIsATool(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{config: r.config(t)})
	c := s.Client()
	add := r.tool("add", func(t *api.Tool) {
		t.Parameters = api.Raw(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`)
	})
	hooks := []api.Tool{add, r.tool("refuse"), r.tool("elsewhere"), r.tool("endless")}
	id := session(t, c, api.SessionRequest{Tools: &hooks})
	r.busy = 1
	const code = `
from hermes_tools import add, refuse, elsewhere, endless, ToolError, ToolLimit
print(add(2, b="3"))
for hook in (refuse, elsewhere, endless):
    try: print(hook())
    except ToolError as e: print(type(e).__name__, e.code)
try: add(1, "x")
except ToolError as e: print(e.code)
`
	const want = "5\nToolError no_such_city\nToolError invalid_answer\nToolLimit limit\ninvalid_arguments\n"
	if got := runOK(t, c, id, code); got != want {
		t.Errorf("printed %s\nwant %s", got, want)
	}
	list, err := c.Tools(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, one := range list {
		if one.Provider == api.ProviderWebhook {
			found++
			if one.URL != "" || !one.Available {
				t.Errorf("GET tools has %+v", one)
			}
		}
	}
	if found != len(hooks) {
		t.Errorf("GET tools has %d webhooks of %d", found, len(hooks))
	}
	s.Kill9()
	s.Restart(t)
	c = s.Client()
	if got := runOK(t, c, id, "print(add(20, 22))"); got != "42\n" {
		t.Errorf("after a restart the cell printed %s", got)
	}
	if _, _, err := c.EnsureSession(within(t), id, api.SessionRequest{Tools: &hooks}); err != nil {
		t.Errorf("the same body again: %v", err)
	}
	if _, _, err := c.EnsureSession(within(t), id, api.SessionRequest{Tools: &[]api.Tool{add}}); problemCode(err) != api.CodeSessionConflict {
		t.Errorf("another list: %v, want %s", err, api.CodeSessionConflict)
	}
}

// TestAWebHookGoesWhereTheOperatorAllowsOnly tries URLs that no prefix covers, and tools that no session takes.
func TestAWebHookGoesWhereTheOperatorAllowsOnly(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{config: r.config(t)})
	c := s.Client()
	at := func(url string) api.Tool { return api.Tool{Name: "hook", URL: url} }
	for _, refused := range []struct {
		tool api.Tool
		want api.Code
	}{
		{at(r.URL + "/other"), api.CodeForbidden},
		{at(r.URL + "/hooks/../other"), api.CodeForbidden},
		{at("http://169.254.169.254/hooks/x"), api.CodeForbidden},
		{at("file:///etc/passwd"), api.CodeForbidden},
		{at(""), api.CodeInvalidRequest},
		{api.Tool{Name: "class", URL: r.URL + "/hooks/x"}, api.CodeInvalidRequest},
		{api.Tool{Name: "hook", URL: r.URL + "/hooks/x", Parameters: api.Raw(`{"type": 7}`)}, api.CodeInvalidRequest},
	} {
		if _, err := c.CreateSession(within(t), api.SessionRequest{Tools: &[]api.Tool{refused.tool}}); problemCode(err) != refused.want {
			t.Errorf("%s: %v, want %s", refused.tool.URL, err, refused.want)
		}
	}
	id := session(t, c, api.SessionRequest{})
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	var reply api.ToolsReply
	answer, err := socket.Do(within(t), "tools", api.ToolsRequest{Tools: []api.Tool{r.tool("add")}})
	if err == nil {
		err = json.Unmarshal(answer, &reply)
	}
	if err != nil || len(reply.Rejected) != 1 || !strings.Contains(reply.Rejected[0].Reason, "body of the request") {
		t.Errorf("a frame with a webhook: %+v (%v)", reply, err)
	}
	plain := start(t, options{}).Client()
	if _, err := plain.CreateSession(within(t), api.SessionRequest{Tools: &[]api.Tool{r.tool("add")}}); problemCode(err) != api.CodeForbidden {
		t.Errorf("a server without prefixes: %v", err)
	}
	if _, err := plain.CreateSession(within(t), api.SessionRequest{MCPServers: &[]string{"testing"}}); problemCode(err) != api.CodeInvalidRequest {
		t.Errorf("a server without MCP servers: %v", err)
	}
}

// TestAKilledServerCallsOnlyIdempotentWebHooksAgain has a call of each kind open when the server dies.
func TestAKilledServerCallsOnlyIdempotentWebHooksAgain(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{config: r.config(t)})
	c := s.Client()
	again := r.tool("again", func(t *api.Tool) { t.Idempotent, t.URL = true, r.URL+"/hooks/hold" })
	hooks := []api.Tool{again, r.tool("hold")}
	id := session(t, c, api.SessionRequest{Tools: &hooks})
	request := api.ExecutionRequest{ID: new("calls"), Code: new(`
from concurrent.futures import ThreadPoolExecutor
import hermes_tools
def call(name):
    try: return getattr(hermes_tools, name)()
    except hermes_tools.ProviderGone: return "gone"
with ThreadPoolExecutor(2) as pool: print(list(pool.map(call, ["again", "hold"])))
`)}
	if _, err := c.ExecuteWait(within(t), id, request, 0); err != nil {
		t.Fatal(err)
	}
	first := map[string]bool{<-r.got: true, <-r.got: true}
	s.Kill9()
	s.Restart(t)
	if second := <-r.got; !first[second] {
		t.Errorf("after the restart the receiver got %s, before %v", second, first)
	}
	close(r.hold)
	e, err := s.Client().Execute(within(t), id, request)
	if err != nil || e.Text != "['held', 'gone']\n" {
		t.Errorf("%s: %s (%v)", e.Status, e.Text, err)
	}
	if len(r.got) > 0 {
		t.Errorf("the receiver got %s as well", <-r.got)
	}
}

// TestAnMCPServerProvidesTools checks names, structured results, pictures, errors, a death, a list that changes.
func TestAnMCPServerProvidesTools(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{config: r.config(t)})
	c := s.Client()
	id := session(t, c, api.SessionRequest{MCPServers: &[]string{"testing"}})
	info, err := c.Session(within(t), id)
	if err != nil || len(info.MCPServers) != 1 {
		t.Errorf("the session has %v (%v)", info.MCPServers, err)
	}
	for _, step := range []struct{ code, want string }{
		{`import hermes_tools, os
from hermes_tools import servers, testing__add, ToolError, ProviderGone
print(testing__add(a=1, b="2"), servers.testing.add(3, 4), testing__add.__doc__)`, "{'total': 3} {'total': 7} The tool add.\n"},
		{`try: servers.testing.fail()
except ToolError as e: print(e.code, e.message)`, "tool_error no such city\n"},
		{`print(servers.testing.whoami(), any("sesame" in v for v in os.environ.values()))`, "sesame False\n"},
		{`print(servers.testing.grow())`, "grown\n"},
		{`import time
for _ in range(3000): # the server may hear of the new list after the answer; a name that is missing has the list asked for again
    if hasattr(servers.testing, "grown"): break
    time.sleep(0.01)
print(servers.testing.grown())`, "I am grown\n"},
		{`print(hermes_tools.search_tools("grown", detail="name"))`, "['testing__grown']\n"},
		{`try: servers.testing.die()
except ProviderGone as e: print("gone")
print(servers.testing.add(5, 6))`, "gone\n{'total': 11}\n"},
	} {
		if got := runOK(t, c, id, step.code); got != step.want {
			t.Errorf("%s\nprinted %s\nwant    %s", step.code, got, step.want)
		}
	}
	drawn := run(t, c, id, "print(servers.testing.draw())")
	picture := false
	for _, o := range drawn.Outputs {
		picture = picture || o.OutputType == "display_data" && o.Data["image/png"] != nil
	}
	if drawn.Text != "drawn\n" && !strings.HasSuffix(drawn.Text, "drawn\n") || !picture {
		t.Errorf("a picture: %s, %+v", drawn.Text, drawn.Outputs)
	}
	s.Kill9()
	s.Restart(t)
	if got := runOK(t, s.Client(), id, "print(testing__add(a=20, b=22))"); got != "{'total': 42}\n" {
		t.Errorf("after a restart the cell printed %s", got)
	}
}
