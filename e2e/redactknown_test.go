package e2e

import (
	"strings"
	"testing"

	"talaria/api"
)

// P38: the server, which read its configuration when it started, redacts what a cell prints.
func TestP38RedactionCannotBeSwitchedOffFromInside(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Env: &map[string]string{"TALARIA_REDACT_KNOWN": "false"}})
	e := run(t, c, id, `import os
os.environ["TALARIA_REDACT_KNOWN"] = "false"
open("talaria.yaml", "w").write("redact_known: false\n")
print("key ghp_" + "a1B2c3" * 6)
print("OPENAI_" + "API_KEY=abcdef123456")
print("commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad")`)
	if want := "key [redacted]\nOPENAI_API_KEY=[redacted]\ncommit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad\n"; e.Text != want {
		t.Errorf("the text is %q, want %q", e.Text, want)
	}
	s.Terminate(t)
}

func TestTheOperatorSwitchesRedactionOfKnownSecretsOff(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "redact_known: false\n"})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	if e := run(t, c, id, `print("ghp_" + "a1B2c3" * 6)`); strings.Contains(e.Text, "redacted") {
		t.Errorf("the text is %q", e.Text)
	}
	s.Terminate(t)
}
