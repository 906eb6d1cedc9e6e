package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"talaria/client"
)

// hermesSocket makes a folder for a socket, which belongs to the server's user, and returns the socket's path. Paths of sockets are
// short, and those of tests are not.
func hermesSocket(t *testing.T, who identity) (socket string, uid int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hermes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	uid = os.Getuid()
	if as := who.credential(t); as != nil {
		uid = int(as.Uid)
	}
	if err := os.Chown(dir, uid, -1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "socket"), uid
}

// hermesConfig is the section of a server that this test's user may use.
func hermesConfig(socket string) string {
	return fmt.Sprintf("fronts:\n  hermes:\n    socket: %s\n    uids: [%d]\n", socket, os.Getuid())
}

// TestHermesAgentLaunchesThroughItsBroker has a replica of hermes-agent launch its kernels and commands.
func TestHermesAgentLaunchesThroughItsBroker(t *testing.T) {
	everyTier(t, func(t *testing.T, tier string, who identity) {
		t.Parallel()
		socket, uid := hermesSocket(t, who)
		s := start(t, options{as: who, config: hermesConfig(socket), args: []string{"--tier", tier, "--min-tier", "landlock"}})
		if s.Fronts["hermes"] != socket {
			t.Errorf("the server said that its socket is %q", s.Fronts["hermes"])
		}
		tools := "tools"
		if tier == "landlock" { // where no cell can make a socket without the network
			tools = "none"
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "python3", "client.py", socket, strconv.Itoa(uid), filepath.Join(s.StateDir, "talaria.db"), tools)
		cmd.Dir = "testdata/hermes"
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "done\n") {
			t.Errorf("the replica ended with %v:\n%s", err, out)
		}
		page, err := s.Client().Sessions(within(t), client.SessionFilter{})
		if err != nil || len(page.Items) != 1 || page.Items[0].ID != "hermes-"+strconv.Itoa(os.Getuid()) {
			t.Errorf("after all leases there are the sessions %v (%v), not that of commands alone", page.Items, err)
		}
	})
}
