package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATokenForNoServerIsNoted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mistyped")
	for _, args := range [][]string{{"token", "list"}, {"token", "revoke", "--owner", "alice"}} {
		if _, err := ran(t, append(args, "--state-dir", dir)...); err == nil || !strings.Contains(err.Error(), "no server has used the state directory "+dir) {
			t.Errorf("%v: %v", args, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v made %s", args, dir)
		}
	}
	create := func() string {
		t.Helper()
		var stderr strings.Builder
		root := command()
		root.SetArgs([]string{"token", "create", "--owner", "alice", "--state-dir", dir})
		root.SetOut(new(strings.Builder))
		root.SetErr(&stderr)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return stderr.String()
	}
	const note = "a server that uses another does not know this token"
	if said := create(); !strings.Contains(said, note) {
		t.Errorf("the first token: %q", said)
	}
	if said := create(); strings.Contains(said, note) {
		t.Errorf("the second token: %q", said)
	}
}
