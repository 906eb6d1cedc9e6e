package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/kernel/python"
)

// TestTrialOfIPythonIsRepeatedOnlyAfterAChange counts how often the interpreter imports IPython.
func TestTrialOfIPythonIsRepeatedOnlyAfterAChange(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	interpreter := withIPython(t, "echo >> "+count+"; exit 0")
	dir, kept := filepath.Dir(interpreter), filepath.Join(t.TempDir(), "trials")
	discover := func(wantEngine string, wantTrials int) {
		t.Helper()
		env, _, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Python: interpreter, Trials: kept})
		if err != nil {
			t.Fatal(err)
		}
		lines, _ := os.ReadFile(count)
		if trials := strings.Count(string(lines), "\n"); env.Engine != wantEngine || trials != wantTrials {
			t.Fatalf("engine %s after %d trials, not %s after %d", env.Engine, trials, wantEngine, wantTrials)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	discover("ipython", 1)
	discover("ipython", 1)

	write(filepath.Join(dir, "traitlets.py"), "")
	discover("ipython", 2)
	write(filepath.Join(dir, "traitlets.py"), "raise ImportError")
	discover("ipython", 3)
	write(filepath.Join(dir, "IPython", "core", "history.py"), "")
	discover("ipython", 4)
	write(filepath.Join(dir, "IPython", "core", "history.py"), "raise ImportError")
	discover("ipython", 5)
	write(filepath.Join(dir, "IPython", "__pycache__", "history.pyc"), "byte code")
	discover("ipython", 6) // its directory is new
	write(filepath.Join(dir, "IPython", "__pycache__", "history.pyc"), "other byte code")
	discover("ipython", 6)

	files, err := filepath.Glob(filepath.Join(kept, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	write(files[0], "a fingerprint of something else")
	discover("ipython", 7)
}

// TestInterpreterThatBreaksIsNoticedDespiteARememberedTrial breaks IPython, and then the interpreter.
func TestInterpreterThatBreaksIsNoticedDespiteARememberedTrial(t *testing.T) {
	interpreter := withIPython(t, "exit 0")
	cfg := python.EnvironmentConfig{Python: interpreter, Trials: t.TempDir()}
	if env, _, err := python.DiscoverEnvironment(t.Context(), cfg); err != nil || env.Engine != python.EngineIPython {
		t.Fatalf("%+v, %v", env, err)
	}
	working, err := os.ReadFile(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a failure is not remembered
		broken := strings.Replace(string(working), "exit 0", "echo boom >&2; exit 1", 1)
		if err := os.WriteFile(interpreter, []byte(broken), 0o755); err != nil {
			t.Fatal(err)
		}
		env, findings, err := python.DiscoverEnvironment(t.Context(), cfg)
		if err != nil || env.Engine != python.EngineStdlib || !strings.Contains(findings[len(findings)-1].Detail, "boom") {
			t.Fatalf("%+v %+v, %v", env, findings, err)
		}
	}
	if err := os.WriteFile(interpreter, []byte("#!/bin/sh\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := python.DiscoverEnvironment(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Fatalf("got %v", err)
	}
}
