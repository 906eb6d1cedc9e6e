package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talaria/kernel/python"
)

// fakePythonThat returns a fake interpreter that runs a shell command before it describes itself.
func fakePythonThat(t *testing.T, does string) string {
	t.Helper()
	path := fakePython(t, "3.12.1")
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(script), "#!/bin/sh\n", "#!/bin/sh\n"+does+"\n", 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// The first interpreter answers only after the second one has started.
func TestEnvironmentsAreDiscoveredTogetherAndReturnedInOrder(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	found := python.DiscoverEnvironments(t.Context(), []python.EnvironmentConfig{
		{Name: "first", Python: fakePythonThat(t, "read line < "+fifo)},
		{Name: "second", Python: fakePythonThat(t, "echo line > "+fifo)},
		{Name: "third", Python: "/nowhere/python3"},
	})
	if len(found) != 3 {
		t.Fatalf("%d discoveries", len(found))
	}
	for i, name := range []string{"first", "second"} {
		if d := found[i]; d.Err != nil || d.Environment.Name != name || len(d.Findings) == 0 {
			t.Errorf("%+v", d)
		}
	}
	if found[2].Err == nil {
		t.Error("an interpreter that does not exist was accepted")
	}
}
