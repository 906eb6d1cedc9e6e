package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"talaria/api"
)

// TestAnInterpreterThatCannotStartIsNamedAtOnce checks a configuration with interpreters that hang, end at once, or are
// other programs. A limit of the program ends the wait for the one that hangs.
func TestAnInterpreterThatCannotStartIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, says string }{
		"hangs":   {"exec sleep 1000", "does not answer"},
		"ends":    {"exit 7", "exit status 7"},
		"another": {"echo hello", "does not work as a Python"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, options{})
			path := filepath.Join(t.TempDir(), "python3")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			out, err := s.command(within(t), "serve", "--check", "--python", path).CombinedOutput()
			if err == nil {
				t.Fatalf("serve --check takes %s: %s", path, out)
			}
			for _, part := range []string{path, c.says} {
				if !strings.Contains(string(out), part) {
					t.Errorf("the error does not have %q: %s", part, out)
				}
			}
		})
	}
}

// TestAnInterpreterThatBreaksIsNamedByTheNextStart breaks the Python of a running server's environment. Cells and resets
// answer with the reason, other environments go on, and the session works again once Python does.
func TestAnInterpreterThatBreaksIsNamedByTheNextStart(t *testing.T) {
	t.Parallel()
	venv := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.Command("/usr/bin/python3", "-I", "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	python := filepath.Join(venv, "bin", "python3")
	works, err := os.Readlink(python)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, options{config: fmt.Sprintf("pool: 0\nenvironments:\n  - name: own\n    python: %s\n", python)})
	c := s.Client()
	own, other := "own", session(t, c, api.SessionRequest{})
	strict := api.IsolationStrict // so that each start runs the interpreter
	id := session(t, c, api.SessionRequest{Environment: &own, Isolation: &strict})
	runOK(t, c, id, "import sys; assert sys.prefix != sys.base_prefix")

	for name, broken := range map[string]struct {
		replace func() error
		says    string
	}{
		"removed": {func() error { return nil }, `the Python of the environment "own" is missing`},
		"ends": {func() error {
			return writeProgram(python, []byte("#!/bin/sh\necho 'error while loading shared libraries: libm.so.6' >&2\nexit 127\n"))
		}, `in the environment "own"; the cause is in the server's log`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(os.Remove(python), broken.replace()); err != nil {
				t.Fatal(err)
			}
			_, err := c.ResetSession(within(t), id, api.ResetRequest{})
			wantCode(t, err, api.CodeKernelStart)
			if !strings.Contains(fmt.Sprint(err), broken.says) {
				t.Errorf("the reset says %v", err)
			}
			e := run(t, c, id, "1")
			if e.Status != api.StatusDied || e.Reason != "start_failed" || !strings.Contains(e.Text, broken.says) {
				t.Errorf("a cell ends %s, %s: %s", e.Status, e.Reason, e.Text)
			}
			runOK(t, c, other, "1")
			_ = os.Remove(python) // it may be missing
			if err := os.Symlink(works, python); err != nil {
				t.Fatal(err)
			}
			runOK(t, c, id, "1")
		})
	}
}
