package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// quickRows leaves out the rows that differ from another one in what they configure only.
const quickRows = "^(create|chart|warm|together|lines|first-byte|steady|interrupt|reset|files|late-client|bulk|idle|idle-cpu|runner|tool-call|tool-builtin|checkpoint|rollback|after-checkpoint|hibernate|wake|fork|pickle|criu|map|kill|abusers)$"

// talariaBinary is the program under test: the one that TALARIA_BIN names, or one that is built.
func talariaBinary(t *testing.T) string {
	t.Helper()
	if given := os.Getenv("TALARIA_BIN"); given != "" {
		return given
	}
	path := filepath.Join(t.TempDir(), "talaria")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "talaria/cmd/talaria")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v: %s", err, out)
	}
	return path
}

// bench runs the program and returns its report. It fails the test when a process or a file is left.
func bench(t *testing.T, args ...string) report {
	t.Helper()
	temp, err := os.MkdirTemp("", "bench-") // with a short name: sockets are made below it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	samples := filepath.Join(t.TempDir(), "samples.json")
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, append(args, "-json", samples), t.Output(), t.Output()); err != nil {
		t.Error(err)
	}
	for _, p := range descendants(os.Getpid()) {
		t.Errorf("process %v is left", p)
	}
	entries, err := os.ReadDir(temp)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left in TMPDIR", e.Name())
	}
	var r report
	b, err := os.ReadFile(samples)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryRowCanBeMeasuredHere(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	doc := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(doc, []byte("before\n"+blockBegin+"old\n"+blockEnd+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := bench(t, "-talaria", talariaBinary(t), "-drivers", "talaria", "-quick", "-n", "1", "-run", quickRows, "-doc", doc)
	if len(r.Rows) < 25 {
		t.Errorf("only %d numbers were measured", len(r.Rows))
	}
	for _, l := range r.Rows {
		f := l.Figures[talariaName]
		if l.ID == "criu" && f.N == 0 && strings.HasPrefix(l.Note, skipped) {
			continue
		}
		if f.N < 1 || len(f.Samples) != f.N {
			t.Errorf("%s: %d samples, and %d are counted", l.What, len(f.Samples), f.N)
			continue
		}
		if l.ID == "kill" {
			continue
		}
		if l.Goal == "0" || l.Goal == "100" { // nothing may be lost, however slow this machine is
			if l.Reached == nil || !*l.Reached {
				t.Errorf("%s: %v, want %s", l.What, f.Samples, l.Goal)
			}
		} else if f.Min <= 0 && l.Unit != "MiB" && l.Unit != "ms/s" { // an idle session may take no time at all
			t.Errorf("%s: %v %s cannot be", l.What, f.Min, l.Unit)
		}
	}
	b, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if !strings.HasPrefix(text, "before\n") || !strings.HasSuffix(text, blockEnd+"\nafter\n") ||
		strings.Contains(text, "old") || !strings.Contains(text, "| lines lost by a new client") {
		t.Errorf("the document is\n%s", text)
	}
}

func TestAJupyterServerCanBeMeasuredWhereThereIsOne(t *testing.T) {
	if _, err := newJupyter(t.Context(), "", "", account{}); errors.Is(err, errNotInstalled) {
		t.Skip(err)
	}
	r := bench(t, "-drivers", "jupyter", "-quick", "-n", "1", "-run", "^warm")
	for _, l := range r.Rows {
		if f := l.Figures[jupyterName]; f.N != 1 || f.P50 <= 0 {
			t.Errorf("%s: %+v", l.What, f)
		}
	}
}

func TestWithoutJupyterItsColumnIsEmptyAndSaysHowToInstallIt(t *testing.T) {
	r := bench(t, "-drivers", "jupyter", "-jupyter", "/bin/false", "-run", "^warm$")
	if len(r.Drivers) != 1 || !strings.Contains(r.Drivers[0].About, "apt-get install jupyter-server") {
		t.Errorf("the report says %+v", r.Drivers)
	}
	if len(r.Rows) != 1 || len(r.Rows[0].Figures) != 0 {
		t.Errorf("figures without a server: %+v", r.Rows)
	}
}

func TestAServerThatDoesNotStartIsToldWithWhatItPrinted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "talaria")
	script := "#!/bin/sh\n(sleep 0.1; echo the disk is full >&2) &\nexit 3\n" // its last words may be read after its end
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"-talaria", program, "-drivers", "talaria"}, t.Output(), t.Output())
	if err == nil || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the error is %v", err)
	}
}

func TestEachAbuseHasARowWithItsGoals(t *testing.T) {
	ids := map[string]bool{}
	abuses := 0
	for _, r := range rows {
		if ids[r.id] {
			t.Errorf("two rows are called %s", r.id)
		}
		ids[r.id] = true
		if !strings.HasPrefix(r.id, "abusers-") {
			continue
		}
		abuses++
		if answer, growth := r.metrics[abuseAnswer], r.metrics[abuseGrowth]; answer.goal() != "100 / 100" || growth.goal() != "256" {
			t.Errorf("%s: the goals are %s ms and %s MiB", r.id, answer.goal(), growth.goal())
		}
	}
	if abuses < 8 {
		t.Errorf("there are rows of %d abuses", abuses)
	}
}

func TestAnAbuseCanBeMeasuredHere(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	r := bench(t, "-talaria", talariaBinary(t), "-drivers", "talaria", "-quick", "-run", "^abusers-(deep-paths|mute-bodies)$")
	if len(r.Rows) != 5 {
		t.Errorf("%d numbers were measured", len(r.Rows))
	}
	for _, l := range r.Rows {
		f := l.Figures[talariaName]
		if f.N < 1 || l.Unit == "ms" && (f.N < 3 || f.Min <= 0) {
			t.Errorf("%s: %+v", l.What, f)
		}
	}
}
