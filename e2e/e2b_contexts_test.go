package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// e2bContext is a context of a sandbox.
type e2bContext struct{ ID, Language, CWD string }

func TestE2BContextsOfOtherLanguagesHaveTheirFolder(t *testing.T) {
	t.Parallel()
	everyTier(t, func(t *testing.T, tier string, who identity) {
		s := start(t, options{as: who, args: []string{"--tier", tier, "--min-tier", tier}})
		box := s.e2bCreate(t, s.Token, `{"metadata":{"a":"b"}}`)
		ask := func(method, path, body string, status int) answer {
			t.Helper()
			return s.e2bCall(t, method, "/e2b/contexts"+path, box.EnvdAccessToken, box.SandboxID, body, status)
		}
		create := func(body string) e2bContext {
			t.Helper()
			return decode[e2bContext](t, string(ask("POST", "", body, http.StatusOK).body))
		}
		list := func() (found []string) {
			t.Helper()
			for _, c := range decode[[]e2bContext](t, string(ask("GET", "", "", http.StatusOK).body)) {
				found = append(found, c.Language+" "+c.CWD)
			}
			return found
		}
		// prints returns what a cell writes, and the error that ends it.
		prints := func(c e2bContext, code string) (text string) {
			t.Helper()
			for _, line := range s.e2bRun(t, box, `{"context_id":"`+c.ID+`","code":`+quoted(t, code)+`}`) {
				switch line["type"] {
				case "stdout", "stderr":
					text += line["text"].(string)
				case "error":
					text += line["name"].(string)
				}
			}
			return text
		}
		s.e2bRun(t, box, `{"code":"import os\nx = 5\nos.makedirs(\"it's here\")"}`)
		bash := create(`{"language":"bash","cwd":"it's here"}`)
		if bash.CWD != "/home/user/it's here" || bash.Language != "bash" || bash.ID == "" {
			t.Errorf("the context is %+v", bash)
		}
		if got := prints(bash, "basename \"$PWD\"; echo one > kept; VARIABLE=1"); got != "it's here\n" {
			t.Errorf("the folder is %q", got)
		}
		if got := prints(bash, "cat kept; echo \"<$VARIABLE>\"\nno-such-program"); !strings.Contains(got, "one\n") || !strings.Contains(got, "<>\n") ||
			!strings.Contains(got, "line 2: no-such-program") {
			t.Errorf("the next cell printed %q", got)
		}
		if got := prints(bash, "exit 3"); got != "CalledProcessError" {
			t.Errorf("a failure printed %q", got)
		}
		if _, err := exec.LookPath("node"); err == nil {
			script := create(`{"language":"js","cwd":"/home/user/it's here"}`)
			if got := prints(script, "console.log(require('fs').readFileSync('kept', 'utf8'))"); got != "one\n\n" {
				t.Errorf("JavaScript printed %q", got)
			}
			ask("DELETE", "/"+script.ID, "", http.StatusNoContent)
			ask("DELETE", "/"+script.ID, "", http.StatusNotFound)
		}
		if got := prints(create(`{"language":"bash","cwd":"/tmp"}`), "pwd"); got != "/tmp\n" {
			t.Errorf("another folder is %q", got)
		}
		if got := prints(create(`{"language":"bash","cwd":"nowhere"}`), "echo never"); !strings.Contains(got, "No such file or directory") || strings.Contains(got, "never") {
			t.Errorf("a folder that is not there: %q", got)
		}
		ask("POST", "/"+bash.ID+"/restart", "", http.StatusOK)
		if got := s.e2bText(t, box, "x"); got != "5" {
			t.Errorf("after the restart of a context in bash x is %v", got)
		}
		s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/timeout", s.Token, "", `{"timeout":600}`, http.StatusNoContent)
		s.Kill9()
		s.Restart(t)
		want := "python /home/user, bash /home/user, javascript /home/user, bash /home/user/it's here, bash /tmp, bash /home/user/nowhere"
		if got := strings.Join(list(), ", "); got != want {
			t.Errorf("the contexts are %s, want %s", got, want)
		}
		if a := s.e2bCall(t, "GET", "/e2b/sandboxes/"+box.SandboxID, s.Token, "", "", http.StatusOK); !strings.Contains(string(a.body), `"metadata":{"a":"b"}`) {
			t.Errorf("the sandbox is %s", a.body)
		}
		for body, status := range map[string]int{
			`{}`: 501, `{"language":"python","cwd":"/tmp"}`: 501, `{"language":"cobol"}`: 400, `{"language":"bash","cwd":"a\u0000b"}`: 400,
			`{"language":"bash","cwd":"` + strings.Repeat("x", 2000) + `"}`: 400,
		} {
			ask("POST", "", body, status)
		}
		ask("DELETE", "/_bash", "", http.StatusBadRequest)
		for len(list()) < 3+32 {
			create(`{"language":"bash"}`)
		}
		ask("POST", "", `{"language":"bash"}`, http.StatusUnprocessableEntity)
	})
}
