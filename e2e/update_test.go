package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"talaria/api"
)

// An update of the program is a restart of the server: the host of the older one keeps its sessions, and ends with the
// last of them.
func TestAnUpdateLosesNothing(t *testing.T) {
	t.Parallel()
	s := prepare(t, options{})
	s.program = filepath.Join(filepath.Dir(s.StateDir), "older")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.version=older", "-o", s.program, "../cmd/talaria")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build an older program: %v: %s", err, out)
	}
	s.launch(t)
	t.Cleanup(func() { s.stop(t) })
	c := s.Client()
	old := session(t, c, api.SessionRequest{})
	runOK(t, c, old, "x = 41")
	printing := s.queue(t, old, slowLines)
	s.attach(t, old, "after=0").awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" && h.ExecutionID == printing })
	older := s.host(t)
	s.Terminate(t)

	s.program = ""
	s.Restart(t)
	c = s.Client()
	enough(t, c, old)
	e := s.ended(t, old, printing)
	if e.Status != api.StatusOK || e.Generation != 1 {
		t.Errorf("the cell that ran ended %s %q in generation %d", e.Status, e.Reason, e.Generation)
	}
	wantSlowLines(t, "the log", printed(e))
	if got := runOK(t, c, old, "print(x + 1)"); got != "42\n" {
		t.Errorf("the older host's kernel says %q", got)
	}
	fresh := session(t, c, api.SessionRequest{})
	runOK(t, c, fresh, "y = 1")
	hosts := s.hosts(t)
	if len(hosts) != 2 || hosts[1].PID != older.pid {
		t.Fatalf("the hosts are %+v; the older one is %v", hosts, older)
	}
	if below := descendants(older.pid); len(below) == 0 {
		t.Error("nothing is left below the older host")
	}
	ended := watchEnd(t, older)
	if err := c.DeleteSession(within(t), old); err != nil {
		t.Fatal(err)
	}
	<-ended
	if got := runOK(t, c, fresh, "print(y)"); got != "1\n" {
		t.Errorf("the newer host's kernel says %q", got)
	}
}

// watchEnd returns a channel that is closed when the process has ended.
func watchEnd(t *testing.T, p process) <-chan struct{} {
	t.Helper()
	handle, err := os.FindProcess(p.pid) // a pidfd
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = handle.Wait() // the tests adopt orphans
	}()
	return done
}

// After a reboot, pids belong to other processes: nothing is attached to or killed because of one.
func TestAPidOfBeforeARebootHarmsNobody(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "x = 1")
	host, list := s.host(t), s.hosts(t)
	stranger := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	s.Kill9()
	if err := syscall.Kill(host.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.StateDir, "hosts", list[0].ID, "host.json")
	var info map[string]any
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &info) != nil {
		t.Fatalf("%s: %v", b, err)
	}
	info["pid"], info["boot_id"] = stranger.Process.Pid, "00000000-0000-4000-8000-000000000000"
	if b, err = json.Marshal(info); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if info, err := s.Client().Session(within(t), id); err != nil || info.State != api.StateDead || info.Reason != "host_crash" {
		t.Errorf("after a reboot the session is %s %q, %v", info.State, info.Reason, err)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process that has the pid of the host now: %v", err)
	}
	if got := runOK(t, s.Client(), id, "print('x' in globals())"); got != "False\n" {
		t.Errorf("the next cell says %q", got)
	}
}
