package e2e

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// The entry point of a container restarts the server whenever it ends, and the kernels do not notice.
func TestTheSupervisorStartsTheServerAgain(t *testing.T) {
	t.Parallel()
	s := prepare(t, options{})
	shared := filepath.Join(filepath.Dir(s.StateDir), "shared")
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := s.command(context.Background(), "host", "--supervise", "--state-dir", s.StateDir, "--mount-roots", shared, "--",
		"--addr", "127.0.0.1:0")
	cmd.Stderr = s.out
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	ready := make(chan *client.Client)
	go func() {
		defer read.Close()
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), "open "); ok {
				token, err := os.ReadFile(filepath.Join(s.StateDir, "token"))
				if err != nil {
					t.Error(err)
				}
				ready <- client.New(strings.TrimSuffix(url, "/"), strings.TrimSpace(string(token)))
			}
		}
	}()
	started := func() *client.Client {
		t.Helper()
		select {
		case c := <-ready:
			return c
		case <-time.After(startup):
			_ = cmd.Process.Kill()
			t.Fatal("the supervised server is not ready")
			return nil
		}
	}
	c := started()
	id := session(t, c, api.SessionRequest{Mounts: &[]api.Mount{{Source: shared, Target: "/data", Mode: "ro"}}})
	runOK(t, c, id, "x = 1; import os; os.listdir('/data')")
	plain := session(t, c, api.SessionRequest{})
	runOK(t, c, plain, "x = 1")
	var server process
	for _, p := range descendants(cmd.Process.Pid) {
		if p.parent == cmd.Process.Pid {
			server = p
		}
	}
	if err := syscall.Kill(server.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c = started()
	if got := runOK(t, c, id, "print(x)"); got != "1\n" {
		t.Errorf("after the server was killed the kernel says %q", got)
	}
	inside := descendants(cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the supervisor ended with %v", err)
	}
	for _, p := range inside {
		if p.alive() {
			t.Errorf("process %v outlives the supervisor", p)
		}
	}
	s.exited = make(chan struct{})
	close(s.exited)
	s.Restart(t)
	if got := runOK(t, s.Client(), plain, "print(x)"); got != "1\n" {
		t.Errorf("after the supervisor has ended x is %q", got)
	}
	s.stop(t)
}

func TestAStrictSessionSharesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	const loaded = "import sys; print('pandas' in sys.modules)"
	ordinary := session(t, c, api.SessionRequest{})
	for end := time.Now().Add(patience); runOK(t, c, ordinary, loaded) != "True\n"; { // the server has just begun to import
		if time.Now().After(end) {
			t.Fatal("ordinary sessions do not have pandas loaded")
		}
		if _, err := c.ResetSession(within(t), ordinary, api.ResetRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	strict := session(t, c, api.SessionRequest{Isolation: new(api.IsolationStrict)})
	if got := runOK(t, c, strict, loaded); got != "False\n" {
		t.Errorf("in a strict session pandas is loaded: %s", got)
	}
	if _, err := c.ResetSession(within(t), strict, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := runOK(t, c, strict, loaded); got != "False\n" {
		t.Errorf("after a reset of a strict session pandas is loaded: %s", got)
	}
}
