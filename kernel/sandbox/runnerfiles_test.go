package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/kernel"
	"talaria/kernel/sandbox"
)

// TestTheRunnerIsCompiledOnceForAnInterpreter counts how often the interpreter runs.
func TestTheRunnerIsCompiledOnceForAnInterpreter(t *testing.T) {
	library, interpreter := t.TempDir(), filepath.Join(t.TempDir(), "python3")
	count := filepath.Join(t.TempDir(), "count")
	install := func(ends string) {
		t.Helper()
		script := "#!/bin/sh\necho >> " + count + "\n" + ends + "\n"
		if err := os.WriteFile(interpreter, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	compile := func(version string, wantOK bool, wantRuns int) {
		t.Helper()
		err := sandbox.CompileLibrary(t.Context(), library, kernel.Environment{Python: interpreter, Version: version})
		lines, _ := os.ReadFile(count)
		if runs := strings.Count(string(lines), "\n"); (err == nil) != wantOK || runs != wantRuns {
			t.Fatalf("%v after %d runs, want %d", err, runs, wantRuns)
		}
	}
	install("exit 1")
	compile("3.12.1", false, 1)
	compile("3.12.1", false, 2) // a failure is not remembered
	install("exit 0")
	compile("3.12.1", true, 3)
	compile("3.12.1", true, 3)
	compile("3.12.2", true, 4)
	install("true; exit 0") // another interpreter at the same path
	compile("3.12.2", true, 5)
	if err := os.Remove(interpreter); err != nil {
		t.Fatal(err)
	}
	compile("3.12.2", false, 5)
}
