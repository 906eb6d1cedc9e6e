package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talaria/kernel"
	"talaria/kernel/python"
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
	engine := python.EngineStdlib
	compile := func(version string, wantOK bool, wantRuns int) {
		t.Helper()
		err := sandbox.CompileLibrary(t.Context(), library, kernel.Environment{Python: interpreter, Version: version, Engine: engine})
		lines, _ := os.ReadFile(count)
		if runs := strings.Count(string(lines), "\n"); (err == nil) != wantOK || runs != wantRuns {
			t.Fatalf("%v after %d runs, want %d", err, runs, wantRuns)
		}
	}
	install("exit 1")
	compile("3.12.1", false, 1)
	compile("3.12.1", false, 2) // a failure is not remembered
	install("exit 0")
	compile("3.12.1", true, 4) // pid 1 and the rest
	compile("3.12.1", true, 4)
	compile("3.12.2", true, 6)
	install("true; exit 0") // another interpreter at the same path
	engine = python.EngineScript
	compile("3.12.2", true, 7) // pid 1 is enough
	engine = python.EngineStdlib
	compile("3.12.2", true, 8)
	if err := os.Remove(interpreter); err != nil {
		t.Fatal(err)
	}
	compile("3.12.2", false, 8)
}

func TestADamagedRunnerIsWrittenAgain(t *testing.T) {
	dir := stateDir(t)
	files := func() []string {
		t.Helper()
		newBackend(t, dir, func(cfg *sandbox.Config) { cfg.LibDir = filepath.Join(dir, "lib") })
		found, err := filepath.Glob(filepath.Join(dir, "lib", "*", "talaria_init", "*.py"))
		if len(found) == 0 || err != nil {
			t.Fatal(found, err)
		}
		return found
	}
	before := files()
	want, err := os.ReadFile(before[1])
	if err == nil {
		err = errors.Join(os.Remove(before[0]), os.WriteFile(before[1], nil, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	after := files()
	if got, err := os.ReadFile(before[1]); err != nil || string(got) != string(want) || !slices.Equal(after, before) {
		t.Errorf("%d bytes instead of %d; %v instead of %v; %v", len(got), len(want), after, before, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "lib", ".new-*")); len(left) > 0 || err != nil {
		t.Errorf("left: %v %v", left, err)
	}
}
