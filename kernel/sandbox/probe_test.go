package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/kernel"
	"talaria/kernel/sandbox"
)

func TestProbeMakesASandboxAndLeavesNothing(t *testing.T) {
	dir := stateDir(t)
	probe := newBackend(t, dir).Probe(t.Context(), environment(t))
	if !probe.OK {
		t.Fatalf("%+v", probe.Findings)
	}
	if !strings.Contains(probe.Findings[0].Detail, "no capabilities") {
		t.Errorf("%+v", probe.Findings[0])
	}
	for _, finding := range probe.Findings {
		if finding.OK == (finding.Remedy != "") {
			t.Errorf("a remedy belongs to what is wrong, and only there: %+v", finding)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "sessions")); len(left) > 0 || err != nil {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestProbeSaysWhyItFails(t *testing.T) {
	for interpreter, detail := range map[string]string{"": "no Python", "/bin/false": "/bin/false"} {
		probe := newBackend(t, stateDir(t)).Probe(t.Context(), kernel.Environment{Python: interpreter})
		if probe.OK || probe.Findings[0].OK || !strings.Contains(probe.Findings[0].Detail, detail) {
			t.Errorf("%q: %+v", interpreter, probe)
		}
		if remedy := probe.Findings[0].Remedy; interpreter == "" && !strings.Contains(remedy, "install Python") {
			t.Errorf("the remedy is %q", remedy)
		}
	}
}

func TestPrepareListsFontsForAllSessions(t *testing.T) {
	dir := stateDir(t)
	b := newBackend(t, dir, func(cfg *sandbox.Config) { cfg.CacheDir = filepath.Join(dir, "cache") })
	env := environment(t)
	if !strings.Contains(strings.Join(env.Modules, " "), "matplotlib") {
		t.Skip("the environment has no matplotlib")
	}
	for range 2 {
		if err := b.Prepare(t.Context(), env); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.Create(t.Context(), env, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Seal(t.Context(), newSpec(t, dir)); err != nil {
		t.Fatal(err)
	}
	// The list that matplotlib would search for exists, and matplotlib uses it without writing its own.
	p, err := s.Start(t.Context(), kernel.Program{Args: []string{env.Python, "-c", `
import os
import matplotlib.font_manager as fm
config = os.environ["MPLCONFIGDIR"]
print([os.path.islink(os.path.join(config, f)) for f in os.listdir(config) if f.startswith("fontlist")])
print(len(fm.fontManager.ttflist) > 0)
`}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout().Close()
	defer p.Stderr().Close()
	<-p.Done()
	buffer := make([]byte, 100)
	n, err := p.Stdout().Read(buffer)
	if got := string(buffer[:n]); got != "[True]\nTrue\n" {
		t.Errorf("%q %v", got, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "sessions")); err != nil || len(left) != 1 {
		t.Errorf("beside this test's session: %v %v", left, err)
	}
}
