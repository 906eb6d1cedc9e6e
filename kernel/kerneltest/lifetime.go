package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"talaria/kernel"
	"talaria/kernel/procfs"
)

func sealOnce(t *testing.T, r *rig) {
	s := r.create(t)
	if layers := s.Layers(); len(layers) != 0 {
		t.Errorf("layers before sealing: %q", layers)
	}
	if _, err := s.Start(t.Context(), r.pythonCommand("")); err == nil {
		t.Error("something started in an unsealed sandbox")
	}
	if err := s.Seal(t.Context(), r.newSpec(t)); err != nil {
		t.Fatal(err)
	}
	if len(s.Layers()) == 0 {
		t.Error("no layers after sealing")
	}
	if err := s.Seal(t.Context(), r.newSpec(t)); err == nil {
		t.Error("it was sealed twice")
	}
}

func foreignWorkspaceRefused(t *testing.T, r *rig) {
	spec := r.newSpec(t)
	elsewhere, err := os.OpenFile(t.TempDir(), oPath|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	spec.Workspace = elsewhere
	s := r.create(t)
	if err := s.Seal(t.Context(), spec); err == nil {
		t.Error("it was taken")
	}
}

// oPath is O_PATH, which package syscall does not have.
const oPath = 0x200000

func exitsAreReported(t *testing.T, r *rig) {
	s := r.sealed(t)
	for _, c := range []struct {
		code string
		want kernel.Exit
	}{
		{"", kernel.Exit{}},
		{"import os; os._exit(7)", kernel.Exit{Code: 7}},
		{"import os; os.abort()", kernel.Exit{Signal: syscall.SIGABRT}},
		{"import os, signal; os.kill(os.getpid(), signal.SIGKILL)", kernel.Exit{Signal: syscall.SIGKILL}},
		{"import ctypes; ctypes.string_at(0)", kernel.Exit{Signal: syscall.SIGSEGV}},
	} {
		if res := r.python(t, s, c.code); res.exit != c.want {
			t.Errorf("%q: %+v, not %+v", c.code, res.exit, c.want)
		}
	}
}

func missingCommand(t *testing.T, r *rig) {
	s := r.sealed(t)
	_, err := s.Start(t.Context(), kernel.Program{Args: []string{"/no/such/command"}})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	_, err = s.Start(t.Context(), kernel.Program{Args: []string{"true"}, Dir: "/no/such/folder"})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	r.prints(t, s, "print('still')", "still")
}

func secondCommand(t *testing.T, r *rig) {
	s := r.sealed(t)
	first := start(t, s, kernel.Program{Args: []string{"/bin/sh", "-c", "mkfifo fifo; echo ready; cat fifo"}})
	out := output(t, first)
	out.next()
	r.prints(t, s, "open('fifo', 'w').write('from the second')", "")
	if line := out.next(); line != "from the second" {
		t.Error(line)
	}
	wait(t, first)
}

func signalReachesOnlyItsProcess(t *testing.T, r *rig) {
	s := r.sealed(t)
	p := start(t, s, r.pythonCommand(`
import os, signal
hits = []
signal.signal(signal.SIGTERM, lambda *_: hits.append(1))
ask, answer = os.pipe(), os.pipe()
if os.fork() == 0:
    os.read(ask[0], 1)
    os.write(answer[1], str(len(hits)).encode())
    os._exit(0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
os.write(ask[1], b"?")
print("child has", os.read(answer[0], 1).decode(), flush=True)
`))
	bystander := start(t, s, r.pythonCommand("import sys, time; print('up', flush=True); time.sleep(1000)"))
	out := output(t, p)
	out.next()
	output(t, bystander).next()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if line := out.next(); line != "child has 0" {
		t.Error(line)
	}
	wait(t, p)
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to an ended process: %v", err)
	}
	select {
	case <-bystander.Done():
		t.Errorf("another process ended too: %+v", bystander.Exit())
	default:
	}
	if err := bystander.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, bystander)
	if exit := bystander.Exit(); exit != (kernel.Exit{Signal: syscall.SIGKILL}) {
		t.Errorf("%+v", exit)
	}
}

func processesAreLocated(t *testing.T, r *rig) {
	s := r.sealed(t)
	p := start(t, s, kernel.Program{Args: []string{"/bin/sh", "-c", "echo $$; exec sleep 1000"}})
	locator, ok := p.(kernel.ProcessLocator)
	if !ok {
		t.Skip("the backend's processes do not know their pids")
	}
	inside := output(t, p).next()
	place := locator.Locate()
	if strconv.Itoa(place.PID) != inside {
		t.Fatalf("a process with the pid %s is said to be %+v", inside, place)
	}
	if stat, err := procfs.ReadStat(place.HostPID); err != nil || stat.StartTime != place.StartTime || place.StartTime == 0 {
		t.Errorf("%+v is on the host %+v (%v)", place, stat, err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	if ended := locator.Locate(); ended != (kernel.ProcessPlace{PID: place.PID}) {
		t.Errorf("an ended process is at %+v", ended)
	}
}

func groupsEnd(t *testing.T, r *rig) {
	s := r.sealed(t)
	const member = `trap 'echo told; exit' TERM; echo up; while :; do sleep 0.1; done`
	for _, c := range []struct {
		what, leader string
		signal       syscall.Signal
		exit         kernel.Exit
	}{
		// The leader has its trap before the member runs, and does not ignore the signal, as the member would then, too.
		{"a signal", "trap : TERM; sh -c '" + strings.ReplaceAll(member, "'", `'"'"'`) + "' & wait; wait", syscall.SIGTERM, kernel.Exit{}},
		{"its end", "sleep 1000 & echo up", 0, kernel.Exit{}},
		{"its death", "sleep 1000 & echo up; exec sleep 1000", syscall.SIGKILL, kernel.Exit{Signal: syscall.SIGKILL}},
	} {
		p := start(t, s, kernel.Program{Args: []string{"/bin/sh", "-c", c.leader}, Group: true})
		out := output(t, p)
		out.next()
		if c.signal != 0 {
			if err := p.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
		}
		if c.signal == syscall.SIGTERM {
			if line := out.next(); line != "told" {
				t.Errorf("%s: %s", c.what, line)
			}
		}
		wait(t, p)
		if p.Exit() != c.exit {
			t.Errorf("%s: %+v", c.what, p.Exit())
		}
		if _, err := io.Copy(io.Discard, p.Stdout()); err != nil { // a member that lives has the pipe open
			t.Errorf("%s: the group is still there: %v", c.what, err)
		}
	}
}

// A signal to the group of a program reaches what the program has started.
func groupsAreSignalled(t *testing.T, r *rig) {
	s := r.sealed(t)
	p := start(t, s, kernel.Program{Args: []string{"/bin/sh", "-c", "sleep 1000 | cat & echo up; wait"}})
	output(t, p).next()
	leader, ok := p.(kernel.GroupSignaler)
	if !ok {
		t.Fatal("the backend's processes do not lead groups")
	}
	if err := leader.SignalGroup(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	if want := (kernel.Exit{Signal: syscall.SIGKILL}); p.Exit() != want {
		t.Errorf("the program ended with %+v", p.Exit())
	}
	if _, err := io.Copy(io.Discard, p.Stdout()); err != nil { // a member that lives has the pipe open
		t.Errorf("the group is still there: %v", err)
	}
	if err := leader.SignalGroup(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to a group without its leader: %v", err)
	}
}

func orphansAreReaped(t *testing.T, r *rig) {
	s := r.sealed(t)
	// Many grandchildren outlive their parents and end at once, before the end of the pipe is seen.
	r.prints(t, s, `
import os
hold, release = os.pipe()
read, write = os.pipe()
for _ in range(50):
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(release)
            os.close(read)
            os.read(hold, 1)
        os._exit(0)
    os.wait()
os.close(write)
os.close(release)
os.read(read, 1)
print("ended")
`, "ended")
	// Processes are started by the one that also reaps.
	if r.view == OwnFiles {
		r.prints(t, s, "", "")
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.Handle().PID))
		if err != nil || len(strings.Fields(string(text))) > 1 {
			t.Errorf("children of pid 1 are left: %s %v", text, err)
		}
		return
	}
	r.prints(t, s, `
import os
states = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    states.append(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0])
print("Z" in states)
`, "False")
}

// daemon leaves its parent, session and standard streams, ignores signals, and holds a lock in the workspace.
const daemon = `
import fcntl, os, signal, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in range(1, 65):
            try:
                signal.signal(n, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        lock = open("lock", "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(write, b"!")
        while True:
            time.sleep(1000)
    os._exit(0)
os.wait()
os.read(read, 1)
print("daemon is up")
`

func closeKillsDaemons(t *testing.T, r *rig) {
	s, spec := r.sealedSpec(t)
	r.prints(t, s, daemon, "daemon is up")
	lock, err := os.OpenFile(filepath.Join(hostPath(t, spec.Workspace), "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		t.Fatal("the daemon does not hold the lock, so that this test proves nothing")
	}
	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
				t.Errorf("the daemon outlived Close: %v", err)
			}
		})
	}
	closing.Wait()
}

func closedRefuses(t *testing.T, r *rig) {
	s := r.sealed(t)
	p := start(t, s, r.pythonCommand("import time; print('up', flush=True); time.sleep(1000)"))
	output(t, p).next()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	if exit := p.Exit(); exit != (kernel.Exit{Lost: true}) {
		t.Errorf("a process that was running: %+v", exit)
	}
	if err := p.Signal(syscall.SIGINT); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal: %v", err)
	}
	if _, err := s.Start(t.Context(), r.pythonCommand("")); err == nil {
		t.Error("Start works")
	}
	if _, err := s.Usage(t.Context()); err == nil {
		t.Error("Usage works")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func createCalledOff(t *testing.T, r *rig) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := r.backend.Create(ctx, r.env, false); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
		if err == nil {
			s.Close()
		}
	}
}

func twentyAtOnce(t *testing.T, r *rig) {
	const count = 20
	sandboxes := make([]kernel.Sandbox, count)
	var group sync.WaitGroup
	for i := range sandboxes {
		spec := r.newSpec(t)
		group.Go(func() {
			s, err := r.backend.Create(t.Context(), r.env, false)
			if err != nil {
				t.Error(err)
				return
			}
			sandboxes[i] = s
			if err := s.Seal(t.Context(), spec); err != nil {
				t.Error(err)
				return
			}
			p, err := s.Start(t.Context(), kernel.Program{Args: []string{"/bin/sh", "-c", fmt.Sprintf("echo %d > mine; cat mine", i)}})
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Stdout().Close()
			defer p.Stderr().Close()
			<-p.Done()
			buffer := make([]byte, 16)
			n, err := p.Stdout().Read(buffer)
			if got := strings.TrimSpace(string(buffer[:n])); got != fmt.Sprint(i) {
				t.Errorf("sandbox %d says %q %v", i, got, err)
			}
		})
	}
	group.Wait()
	for _, s := range sandboxes {
		if s == nil {
			continue
		}
		r.handles = append(r.handles, s.Handle())
		group.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
