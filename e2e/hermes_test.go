package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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
	t.Parallel()
	eachTier(t, func(t *testing.T, tier string, who identity) {
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
		ctx := withinProgram(t)
		pipes := pipesOf(t, s.PID())
		out, err := hermesReplica(ctx, "client.py", socket, strconv.Itoa(uid), filepath.Join(s.StateDir, "talaria.db"), tools).CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "done\n") {
			t.Errorf("the replica ended with %v:\n%s", err, out)
		}
		if after := pipesOf(t, s.PID()); after > pipes {
			t.Errorf("the server has %d pipes, and had %d before", after, pipes)
		}
		page, err := s.Client().Sessions(within(t), client.SessionFilter{})
		if err != nil || len(page.Items) != 1 || page.Items[0].ID != "hermes-"+strconv.Itoa(os.Getuid()) {
			t.Errorf("after all leases there are the sessions %v (%v), not that of commands alone", page.Items, err)
		}
	})
}

// pipesOf counts the pipes that a process has open.
func pipesOf(t *testing.T, pid int) (n int) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, "pipe:") {
			n++
		}
	}
	return n
}

// hermesReplica is a program of testdata/hermes. ctx ends it.
func hermesReplica(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "python3", args...)
	cmd.Dir = "testdata/hermes"
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// TestLeasesOfHermesAgentEndWithTheServer also has the next server end what a killed one could not.
func TestLeasesOfHermesAgentEndWithTheServer(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		socket, uid := hermesSocket(t, who)
		s := start(t, options{as: who, config: hermesConfig(socket) + "idle_timeout: 1s\n"})
		for _, end := range []struct {
			how string
			do  func()
		}{{"killed", s.Kill9}, {"told to end", func() { s.Terminate(t) }}} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := hermesReplica(ctx, "hold.py", socket, strconv.Itoa(uid))
			in, err1 := cmd.StdinPipe()
			out, err2 := cmd.StdoutPipe()
			cmd.Stderr = t.Output()
			if err := errors.Join(err1, err2, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			next := func(want string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != want {
					t.Fatalf("%s: the replica says %q (%v), not %q", end.how, lines.Text(), errors.Join(lines.Err(), cmd.Wait()), want)
				}
			}
			next("ready")
			end.do()
			next("ended")
			s.Restart(t)
			// The server ends what is left before it serves the first client.
			if out, err := hermesReplica(ctx, "-c", fmt.Sprintf("from broker import Process; p = Process(%q, %d, stdin=False, argv=['true'], cwd='/', env={}); print(p.wait())",
				socket, uid)).CombinedOutput(); err != nil || string(out) != "0\n" {
				t.Fatalf("%s: after that a command ends with %v: %s", end.how, err, out)
			}
			if _, err := io.WriteString(in, "\n"); err != nil {
				t.Fatal(err)
			}
			next("left: []")
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			page, err := s.Client().Sessions(within(t), client.SessionFilter{})
			if err != nil || len(page.Items) != 1 || page.Items[0].Metadata["talaria.hermes"] != "commands" {
				t.Errorf("%s: the sessions are then %v (%v)", end.how, page.Items, err)
			}
		}
	})
}

func TestHermesAgentSharesAFolderWithItsSandboxes(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("/mnt", "hermes")
	if err != nil {
		t.Skipf("no folder can be made in /mnt: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o777|os.ModeSticky); err != nil { // each session has a user of its own
		t.Fatal(err)
	}
	socket, uid := hermesSocket(t, me)
	config := hermesConfig(socket) + fmt.Sprintf("    folder: %s\nmount_roots: [%s]\nmax_sessions: 2\n", folder, folder)
	start(t, options{config: config})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out, err := hermesReplica(ctx, "folder.py", socket, strconv.Itoa(uid), folder).CombinedOutput(); err != nil || string(out) != "done\n" {
		t.Errorf("the replica ended with %v:\n%s", err, out)
	}
}
