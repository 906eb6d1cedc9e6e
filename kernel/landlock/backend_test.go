package landlock_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
	"talaria/kernel/landlock"
	"talaria/kernel/procfs"
)

func TestOrdinaryUsersNeedBoundsForSignals(t *testing.T) {
	for _, c := range []struct {
		root    bool
		version int
		enough  bool
	}{{true, 0, false}, {true, 1, false}, {true, 2, true}, {true, 6, true}, {false, 2, false}, {false, 5, false}, {false, 6, true}, {false, 7, true}} {
		if err := landlock.Enough(c.root, c.version); (err == nil) != c.enough {
			t.Errorf("root %v, ABI %d: %v", c.root, c.version, err)
		}
	}
}

func TestStepsThatAContainerForbidsHaveARemedy(t *testing.T) {
	for step, word := range map[string]string{
		"outer fence": "seccomp profile", "user id": "SETUID", "bounding set": "SETPCAP", "check signals": "ABI 6",
	} {
		if remedy := landlock.Remedy(step, unix.EPERM); !strings.Contains(remedy, word) {
			t.Errorf("%s: %q", step, remedy)
		}
	}
}

func TestTasksOfTheUserAreCounted(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root's come and go; the ordinary user of these tests runs nothing else")
	}
	const count = 20
	before := landlock.UserTasks()
	for range count {
		sleeper := exec.Command("sleep", "1000")
		if err := sleeper.Start(); err != nil {
			t.Fatal(err)
		}
		defer sleeper.Wait()
		defer sleeper.Process.Kill()
	}
	if now := landlock.UserTasks(); before < 2 || now < before+count-2 { // threads of this process may end meanwhile
		t.Errorf("%d, and with %d more %d", before, count, now)
	}
}

// firstFD is the descriptor of pid 1's socket.
const firstFD = 3

// Where root can tell by the session's user id, Close kills what pid 1 itself can no longer kill.
func TestWhatPid1LeavesBehindEndsWithCloseWhereRootCanTell(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("what an ordinary user runs is not to be told apart")
	}
	dir := kerneltest.StateDir(t)
	b := newBackend(t, dir)
	spec := newSpec(t, dir)
	s := sealed(t, b, environment(t), spec)
	p, err := s.Start(t.Context(), kernel.Program{Args: []string{"/bin/sh", "-c",
		"setsid sh -c 'exec 9>lock; flock 9; echo held; trap \"\" TERM HUP INT; while :; do sleep 100; done' & wait"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout().Close()
	defer p.Stderr().Close()
	buffer := make([]byte, 5)
	if _, err := p.Stdout().Read(buffer); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.Handle().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if exit := p.Exit(); !exit.Lost {
		t.Errorf("%+v", exit)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(spec.Workspace.Name(), "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	// Dying processes hold it for a moment; this waits until none does.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Error(err)
	}
}

// stopOthers stops, again and again, everything else that its user runs. Pid 1 has not started it itself.
const stopOthers = `
import os, signal
if os.fork():
    os._exit(0)
print("ready", flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass # there is nothing else
`

// On kernels whose Landlock does not bound signals, code inside can stop whatever runs as its user, and so what is to kill it.
func TestCloseEndsWhatStopsEverythingOfItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user needs a Landlock that bounds signals")
	}
	for _, pid1Lives := range []bool{true, false} {
		dir := kerneltest.StateDir(t)
		b := newBackend(t, dir)
		leaveSignalsUnbounded(t, dir)
		spec := newSpec(t, dir)
		s := sealed(t, b, environment(t), spec)
		p, err := s.Start(t.Context(), kernel.Program{Args: []string{environment(t).Python, "-c", stopOthers}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stdout().Close()
		defer p.Stderr().Close()
		if _, err := p.Stdout().Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		if !pid1Lives {
			if err := syscall.Kill(s.Handle().PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("pid 1 lives %v: %v", pid1Lives, err)
		}
		if left, err := procfs.OfUser(spec.UID); err != nil || len(left) > 0 {
			t.Errorf("pid 1 lives %v: processes %v are left, %v", pid1Lives, left, err)
		}
		endUser(t, spec.UID)
	}
}

// A host that was killed together with a pid 1 has nobody who ends what they leave, and a later session can have the same user id.
func TestNothingOfAnEarlierSessionOfItsUserLivesOn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user needs a Landlock that bounds signals")
	}
	dir := kerneltest.StateDir(t)
	b := newBackend(t, dir)
	leaveSignalsUnbounded(t, dir)
	spec := newSpec(t, dir)
	left := exec.Command("sleep", "600")
	left.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(spec.UID), Gid: uint32(spec.UID)}}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	defer left.Process.Kill()
	sealed(t, b, environment(t), spec)
	_ = left.Process.Signal(syscall.SIGTERM) // by which it ends if nothing has killed it
	if err := left.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("%v", err)
	}
}

// endUser ends what a test has left.
func endUser(t *testing.T, uid int) {
	t.Helper()
	for range 1000 {
		left, err := procfs.OfUser(uid)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	t.Errorf("processes of user %d are left", uid)
}

// What ends a user's processes is a Python of the environment, which may not get on for another reason.
func TestCloseDoesNotWaitForEverForWhatEndsProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("what an ordinary user runs is not to be told apart")
	}
	if testing.Short() {
		t.Skip("waits as long as Close does")
	}
	dir := kerneltest.StateDir(t)
	env, stuck := environment(t), filepath.Join(dir, "stuck")
	script := fmt.Sprintf("#!/bin/sh\n[ -e %s ] && exec sleep 600\nexec %s \"$@\"\n", stuck, env.Python)
	env.Python = filepath.Join(dir, "python")
	if err := os.WriteFile(env.Python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, dir)
	spec := newSpec(t, dir)
	s := sealed(t, b, env, spec)
	if err := errors.Join(syscall.Kill(s.Handle().PID, syscall.SIGKILL), os.WriteFile(stuck, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "kill what user") {
		t.Errorf("%v", err)
	}
	endUser(t, spec.UID)
	if err := b.Sweep(t.Context(), []kernel.Handle{s.Handle()}); err != nil {
		t.Error(err)
	}
}

// leaveSignalsUnbounded makes the sandboxes of a backend that has made none yet do without what Landlock has from ABI 6 on.
func leaveSignalsUnbounded(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "lib", "*", "talaria_init", "landlock.py"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "\nSCOPES = 6\n", "\nSCOPES = 1 << 30\n", 1)
	if changed == string(text) {
		t.Fatal("landlock.py does not say from which version on there are scopes")
	}
	if err := os.WriteFile(files[0], []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A child that code inside has stopped before it runs its program has the socket and the standard error of pid 1. This process stands
// for it.
func TestCloseDoesNotWaitForWhatHasTheDescriptorsOfADeadPid1(t *testing.T) {
	dir := kerneltest.StateDir(t)
	b := newBackend(t, dir)
	spec := newSpec(t, dir)
	s := sealed(t, b, environment(t), spec)
	pid1, err := unix.PidfdOpen(s.Handle().PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pid1)
	for _, fd := range []int{syscall.Stderr, firstFD} {
		held, err := unix.PidfdGetfd(pid1, fd, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(held)
	}
	if err := syscall.Kill(s.Handle().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A pid 1 that is stopped stands for one that does not go on for another reason.
func TestCloseEndsWhatPid1DoesNotEnd(t *testing.T) {
	dir := kerneltest.StateDir(t)
	s := sealed(t, newBackend(t, dir), environment(t), newSpec(t, dir))
	p, err := s.Start(t.Context(), kernel.Program{Args: []string{"/bin/sh", "-c", "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 100; done' & wait"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stderr().Close()
	defer p.Stdout().Close()
	kerneltest.StopProcess(t, s.Handle().PID)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if exit := p.Exit(); !exit.Lost {
		t.Errorf("%+v", exit)
	}
	// It ends when nobody is left who could write.
	if _, err := io.Copy(io.Discard, p.Stdout()); err != nil {
		t.Error(err)
	}
}

// Its network namespace is the machine's, where nothing may be created.
func TestThereIsNoWayOutToBeMade(t *testing.T) {
	dir := kerneltest.StateDir(t)
	s := sealed(t, newBackend(t, dir), environment(t), newSpec(t, dir))
	if _, err := s.(kernel.Networker).OpenEgress(t.Context()); err == nil || !strings.Contains(err.Error(), "the machine's") {
		t.Errorf("%v", err)
	}
}

func TestASandboxThatCannotBeStartedLeavesNoDirectory(t *testing.T) {
	dir := kerneltest.StateDir(t)
	b := newBackend(t, dir)
	env := environment(t)
	python := filepath.Join(t.TempDir(), "python")
	if err := os.Symlink(env.Python, python); err != nil {
		t.Fatal(err)
	}
	env.Python = python
	s, err := b.Create(t.Context(), env, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.Remove(python)); err != nil {
		t.Fatal(err)
	}
	if s, err := b.Create(t.Context(), env, true); err == nil {
		_ = s.Close()
		t.Fatal("a sandbox was made without an interpreter")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "sessions", ".own-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
