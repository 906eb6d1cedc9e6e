package sandbox_test

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"talaria/kernel"
	"talaria/kernel/python"
)

// The sandbox has a /tmp of its own, and the interpreter is there nevertheless, with nothing next to it.
func TestEnvironmentMayLieWhereASandboxHasItsOwn(t *testing.T) {
	dir := stateDir(t)
	if !strings.HasPrefix(dir, "/tmp/") {
		t.Skipf("temporary files are in %s, not in /tmp", dir)
	}
	venv := filepath.Join(dir, "venv")
	out, err := exec.Command(environment(t).Python, "-I", "-m", "venv", "--without-pip", venv).CombinedOutput()
	if err != nil {
		t.Skipf("no virtual environment can be made: %s", out)
	}
	env, _, err := python.DiscoverEnvironment(t.Context(),
		python.EnvironmentConfig{Python: filepath.Join(venv, "bin", "python3")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newBackend(t, dir).Create(t.Context(), env, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Seal(t.Context(), newSpec(t, dir)); err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(t.Context(), kernel.Program{Args: []string{env.Python, "-c", `
import os, sys
print(sys.prefix, os.listdir("/tmp"), os.listdir(os.path.dirname(sys.prefix)))
open("/tmp/mine", "w")
`}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout().Close()
	defer p.Stderr().Close()
	text, err := io.ReadAll(p.Stdout())
	want := venv + " ['" + filepath.Base(dir) + "'] ['venv']"
	if got := strings.TrimSpace(string(text)); got != want {
		t.Errorf("%q, not %q, %v", got, want, err)
	}
	<-p.Done()
	if exit := p.Exit(); exit != (kernel.Exit{}) {
		t.Errorf("%+v", exit)
	}
}

// A virtual environment has no place for a user's packages, so they are found in another way.
func TestAVirtualEnvironmentHasTheSessionsPackagesInAllItsProcesses(t *testing.T) {
	dir := stateDir(t)
	venv := filepath.Join(dir, "venv")
	out, err := exec.Command(environment(t).Python, "-I", "-m", "venv", "--without-pip", venv).CombinedOutput()
	if err != nil {
		t.Skipf("no virtual environment can be made: %s", out)
	}
	env, _, err := python.DiscoverEnvironment(t.Context(),
		python.EnvironmentConfig{Python: filepath.Join(venv, "bin", "python3")})
	if err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, dir)
	spec := newSpec(t, dir)
	spec.Env = map[string]string{"PYTHONPATH": "/workspace/own"}
	version := env.Version[:strings.LastIndex(env.Version, ".")]
	writeIn(t, spec.Packages, "current/lib/python"+version+"/site-packages/newcomer.py", "V = 1")
	writeIn(t, spec.Workspace, "own/mine.py", "V = 2")
	s, err := b.Create(t.Context(), env, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	k := interpret(t, s, spec)
	const found = `import sys, newcomer; print(newcomer.V, sys.prefix)`
	if got := k.run(found); got != "1 "+venv {
		t.Errorf("the kernel: %q", got)
	}
	got := k.run(`import subprocess, sys; print(subprocess.run([sys.executable, "-c", "import mine; ` + found +
		`"], capture_output=True, text=True).stdout)`)
	if got != "1 "+venv {
		t.Errorf("another process: %q", got)
	}
}

func TestEnvironmentThatHoldsTheSessionsIsRefused(t *testing.T) {
	dir := stateDir(t)
	env := environment(t)
	env.Prefix = append(env.Prefix, dir)
	if s, err := newBackend(t, dir).Create(t.Context(), env, false); err == nil {
		s.Close()
		t.Error("it was taken")
	}
}
