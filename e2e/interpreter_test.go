package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnInterpreterThatCannotStartIsNamedAtOnce checks a configuration with interpreters that hang, end at once, or are
// other programs. A limit of the program ends the wait for the one that hangs.
func TestAnInterpreterThatCannotStartIsNamedAtOnce(t *testing.T) {
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
