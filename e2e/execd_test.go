package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/client"
)

func TestOpenSandboxClientsRunUnchanged(t *testing.T) {
	t.Parallel()
	installNode(t, "testdata/opensandbox")
	s := start(t, options{config: "fronts:\n  execd:\n    addr: 127.0.0.1:0\n"})
	for _, c := range []struct{ name, url, owner string }{
		{"below the path", s.URL + "/execd", "one"}, {"at an address of its own", s.Fronts["execd"], "two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := withinProgram(t)
			cmd := exec.CommandContext(ctx, "node", "client.mjs")
			cmd.Dir = "testdata/opensandbox"
			cmd.Env = append(cmd.Environ(), "EXECD_URL="+strings.TrimSuffix(c.url, "/"), "EXECD_TOKEN="+s.owner(t, c.owner))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "done\n") {
				t.Errorf("the client ended with %v:\n%s", err, out)
			}
		})
	}
}

// execdEvents decodes the body of a stream: JSON with an empty line behind each.
func execdEvents(t *testing.T, body []byte) []map[string]any {
	t.Helper()
	var list []map[string]any
	for part := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		var one map[string]any
		if err := json.Unmarshal([]byte(part), &one); err != nil {
			t.Fatalf("%v in %q", err, part)
		}
		if one["type"] == "ping" { // one after three silent seconds
			continue
		}
		list = joined(list, one)
	}
	return list
}

// joined appends an event of a front. Text of one stream becomes one event: at which byte a busy machine cuts it is not fixed.
func joined(list []map[string]any, e map[string]any) []map[string]any {
	if n := len(list); n > 0 && (e["type"] == "stdout" || e["type"] == "stderr") && list[n-1]["type"] == e["type"] {
		list[n-1]["text"] = list[n-1]["text"].(string) + e["text"].(string)
		return list
	}
	return append(list, e)
}

func TestExecdContextsAreSessions(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	other := s.owner(t, "other")
	as := func(token, method, path, body string) call {
		return call{method: method, path: "/execd" + path, token: "-", kind: "application/json", body: body,
			header: map[string]string{"X-EXECD-ACCESS-TOKEN": token}}
	}
	run := func(t *testing.T, body string) []map[string]any {
		t.Helper()
		return execdEvents(t, s.want(t, as(s.Token, "POST", "/code", body), http.StatusOK, "").body)
	}
	made := s.want(t, as(s.Token, "POST", "/code/context", `{"language":"python","cwd":"/tmp","futureField":1}`), http.StatusOK, "")
	id := decode[struct{ ID string }](t, string(made.body)).ID

	t.Run("the API sees them", func(t *testing.T) {
		info, err := s.Client().Session(within(t), id)
		if err != nil || info.Metadata["talaria.execd.language"] != "python" {
			t.Errorf("the session is %+v (%v)", info, err)
		}
	})
	t.Run("events of an execution", func(t *testing.T) {
		events := run(t, `{"code":"import os\nprint(os.getcwd())\n6*7","context":{"id":"`+id+`","language":"python"}}`)
		var types []string
		for _, e := range events {
			types = append(types, e["type"].(string))
		}
		if got := strings.Join(types, " "); got != "init execution_count stdout result execution_complete" {
			t.Fatalf("the events are %s", got)
		}
		if events[2]["text"] != "/tmp\n" || events[3]["results"].(map[string]any)["text"] != "42" {
			t.Errorf("the events are %v", events)
		}
		if execution := events[0]["text"].(string); !strings.HasPrefix(execution, id+"~") {
			t.Errorf("the execution is %s in the context %s", execution, id)
		}
		if at := events[0]["timestamp"].(float64); time.Since(time.UnixMilli(int64(at))).Abs() > time.Hour {
			t.Errorf("the time is %v", at)
		}
	})
	t.Run("a command's timeout ends what the command has started", func(t *testing.T) {
		slow := `{"command":"sleep 4242 | cat","timeout":300}`
		events := execdEvents(t, s.want(t, as(s.Token, "POST", "/command", slow), http.StatusOK, "").body)
		if last := events[len(events)-1]["error"].(map[string]any); last["evalue"] != "124" {
			t.Errorf("it ended with %v", last)
		}
		look := `{"command":"pgrep -cx sleep"}`
		events = execdEvents(t, s.want(t, as(s.Token, "POST", "/command", look), http.StatusOK, "").body)
		if strings.TrimSpace(fmt.Sprint(events[1]["text"])) != "0" {
			t.Errorf("of sleep, %v run on", events[1]["text"])
		}
	})
	t.Run("a death is an error with its reason", func(t *testing.T) {
		events := run(t, `{"code":"import os; os._exit(3)","context":{"id":"`+id+`"}}`)
		last := events[len(events)-1]["error"].(map[string]any)
		if last["ename"] != "KernelDied" || !strings.Contains(last["evalue"].(string), "exit:3") {
			t.Errorf("after the death comes %v", last)
		}
	})
	t.Run("bash keeps its state", func(t *testing.T) {
		made := s.want(t, as(s.Token, "POST", "/code/context", `{"language":"bash","cwd":"/tmp"}`), http.StatusOK, "")
		context := `{"id":"` + decode[struct{ ID string }](t, string(made.body)).ID + `"}`
		for _, step := range []struct{ context, code, want string }{
			{context, "pwd; export A=1; f() { echo f; }; mkdir sub; cd sub", "/tmp\n"},
			{context, "echo $A; f; pwd", "1\nf\n/tmp/sub\n"},
			{`{"language":"bash"}`, "echo \"<$A>\"; A=2", "<>\n"},
			{`{}`, "echo \"<$A>\"", "<2>\n"},
		} {
			var got string
			for _, e := range run(t, `{"code":`+quoted(t, step.code)+`,"context":`+step.context+`}`) {
				if text, printed := e["text"].(string); printed && e["type"] != "init" {
					got += text
				}
			}
			if got != step.want {
				t.Errorf("%q in the context %s prints %q, want %q", step.code, step.context, got, step.want)
			}
		}
		s.want(t, as(s.Token, "DELETE", "/code/contexts?language=bash", ""), http.StatusOK, "")
	})
	t.Run("a client that leaves interrupts its code", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/execd/code", strings.NewReader(
			`{"code":"import time\nstay = 1\nprint('on', flush=True)\ntime.sleep(600)","context":{"id":"`+id+`"}}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-EXECD-ACCESS-TOKEN", s.Token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		for seen := ""; !strings.Contains(seen, `"on`); {
			part := make([]byte, 1024)
			n, err := response.Body.Read(part)
			if seen += string(part[:n]); err != nil {
				t.Fatalf("%v after %q", err, seen)
			}
		}
		cancel()
		events := run(t, `{"code":"stay","context":{"id":"`+id+`"}}`)
		if !slices.ContainsFunc(events, func(e map[string]any) bool { return e["type"] == "result" }) {
			t.Errorf("the next cell gave %v", events)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		for _, c := range []struct {
			method, path, body string
			status             int
			words              string
		}{
			{"POST", "/code", `{`, 400, "INVALID_REQUEST_BODY"},
			{"POST", "/code", `{"code":""}`, 400, "code is missing"},
			{"POST", "/code", `{"code":"1","context":{"language":"java"}}`, 400, "POST /v1/run"},
			{"POST", "/code", `{"code":"1","context":{"id":"` + id + `","language":"bash"}}`, 400, "runs python"},
			{"POST", "/code", `{"code":"1","context":{"id":"nobody"}}`, 404, "CONTEXT_NOT_FOUND"},
			{"POST", "/code/context", `{}`, 400, "language is missing"},
			{"POST", "/code/context", `{"language":"python","cwd":"/nowhere"}`, 400, "FileNotFoundError"},
			{"DELETE", "/code", ``, 400, "id is missing"},
			{"DELETE", "/code?id=" + id + "~nothing", ``, 404, "nothing"},
			{"DELETE", "/command?id=" + id + "~p1-99", ``, 404, "no program"},
			{"DELETE", "/code/contexts", ``, 400, "language is missing"},
			{"POST", "/command", `{"command":"true","argv":["true"]}`, 400, "either command or argv"},
			{"POST", "/command", `{"argv":["no-such-program"]}`, 404, "no-such-program"},
			{"POST", "/command", `{"command":"true","timeout":-1}`, 400, "negative"},
			{"POST", "/command", `{"command":"true","background":true}`, 501, "background"},
			{"GET", "/files/info?path=/", ``, 404, "docs/execd.md"},
		} {
			if a := s.want(t, as(s.Token, c.method, c.path, c.body), c.status, ""); !strings.Contains(string(a.body), c.words) {
				t.Errorf("%s %s %s is refused with %s, without %q", c.method, c.path, c.body, a.body, c.words)
			}
		}
		if page, err := s.Client().Sessions(within(t), client.SessionFilter{}); err != nil || len(page.Items) != 2 {
			t.Errorf("the sessions after all refusals are %v (%v), not the context and the default one", page.Items, err)
		}
	})
	t.Run("strangers", func(t *testing.T) {
		s.want(t, as("wrong", "GET", "/code/contexts", ""), http.StatusUnauthorized, "")
		s.want(t, call{method: "GET", path: "/execd/ping", token: "-"}, http.StatusOK, "")
		for _, c := range []call{
			as(other, "GET", "/code/contexts/"+id, ""), as(other, "DELETE", "/code/contexts/"+id, ""),
			as(other, "DELETE", "/code?id="+id, ""), as(other, "POST", "/code", `{"code":"1","context":{"id":"`+id+`"}}`),
		} {
			s.want(t, c, http.StatusNotFound, "")
		}
		if got := string(s.want(t, as(other, "GET", "/code/contexts", ""), http.StatusOK, "").body); strings.TrimSpace(got) != "[]" {
			t.Errorf("another owner has the contexts %s", got)
		}
	})
}

var execdExamples = regexp.MustCompile("(?s)<!-- example: (execd-[a-z]+) -->\n```sh\n(.*?)```")

func TestTheExamplesOfExecdRun(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	text, err := os.ReadFile("../docs/execd.md")
	if err != nil {
		t.Fatal(err)
	}
	found := execdExamples.FindAllStringSubmatch(string(text), -1)
	if len(found) != 2 {
		t.Errorf("docs/execd.md has %d examples, want 2", len(found))
	}
	for _, example := range found {
		cmd := exec.CommandContext(within(t), "sh", "-ec", example[2])
		cmd.Env = append(os.Environ(), "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", example[1], err)
		}
		last := execdEvents(t, out)
		end := last[len(last)-1]
		switch failure, _ := end["error"].(map[string]any); {
		case example[1] == "execd-code" && end["type"] != "execution_complete":
			t.Errorf("the code ended with %v", end)
		case example[1] == "execd-command" && failure["evalue"] != "3":
			t.Errorf("the command ended with %v", end)
		}
	}
}
