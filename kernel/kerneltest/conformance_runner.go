package kerneltest

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/kernel"
)

// kernelRig talks to a runner.
type kernelRig struct {
	t       *testing.T
	process kernel.Process
	frames  *bufio.Scanner
}

// frame is what these tests look at of a frame.
type frame struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Text   string `json:"text"`
	Status string `json:"status"`
	Ename  string `json:"ename"`
	Evalue string `json:"evalue"`

	Ask  string `json:"ask"`
	Kind string `json:"kind"`
	Body struct {
		Requirements []string `json:"requirements"`
	} `json:"body"`
}

// runner starts the runner and waits until it is ready.
func runner(t *testing.T, s kernel.Sandbox) *kernelRig {
	t.Helper()
	return runnerAs(t, s, kernel.Program{})
}

func runnerAs(t *testing.T, s kernel.Sandbox, as kernel.Program) *kernelRig {
	t.Helper()
	p := start(t, s, as)
	if p.Control() == nil {
		t.Fatal("the runner has no control stream")
	}
	if conn, ok := p.Control().(net.Conn); ok {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	k := &kernelRig{t: t, process: p, frames: bufio.NewScanner(p.Control())}
	if f, ok := k.next(); !ok || f.Type != "ready" {
		k.process.Stderr().SetReadDeadline(time.Now().Add(time.Second))
		buffer := make([]byte, 4096)
		n, _ := k.process.Stderr().Read(buffer)
		t.Fatalf("the runner is not ready: %+v %s", f, buffer[:n])
	}
	return k
}

func (k *kernelRig) next() (frame, bool) {
	k.t.Helper()
	for k.frames.Scan() {
		if len(k.frames.Bytes()) == 0 {
			continue
		}
		var f frame
		if err := json.Unmarshal(k.frames.Bytes(), &f); err != nil {
			k.t.Fatalf("%q: %v", k.frames.Bytes(), err)
		}
		return f, true
	}
	return frame{}, false
}

// send gives the runner a cell.
func (k *kernelRig) send(code string) {
	k.t.Helper()
	cell, err := json.Marshal(map[string]any{
		"type": "execute", "id": "e1", "code": code, "count": 1, "silent": false, "allow_stdin": false,
	})
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := k.process.Control().Write(append(append([]byte("\n"), cell...), '\n')); err != nil {
		k.t.Fatal(err)
	}
}

// prints runs a cell that must succeed and print want.
func (k *kernelRig) prints(code, want string) {
	k.t.Helper()
	k.send(code)
	if got := k.ends(); got != want {
		k.t.Errorf("printed %q, not %q", got, want)
	}
}

// ends waits for the end of a cell that must succeed, and returns what it printed, without blanks around it.
func (k *kernelRig) ends() string {
	k.t.Helper()
	var text strings.Builder
	for {
		f, ok := k.next()
		switch {
		case !ok:
			k.t.Fatalf("the runner is gone: %v", k.frames.Err())
		case f.Type == "stream":
			text.WriteString(f.Text)
		case f.Type == "error":
			k.t.Errorf("%s: %s", f.Ename, f.Evalue)
		case f.Type == "done":
			if f.Status != "ok" {
				k.t.Errorf("status %s", f.Status)
			}
			return strings.TrimSpace(text.String())
		}
	}
}

func runnerAnswers(t *testing.T, r *rig) {
	k := runner(t, r.sealed(t))
	k.prints("print(6 * 7)", "42")
	k.prints("x = 5", "")
	k.prints("print(x)", "5")
}

func runnerBeside(t *testing.T, r *rig) {
	s := r.sealed(t)
	first := runner(t, s)
	first.prints("import os; x = 1; os.mkdir('below'); print('from the first', end='', file=open('below/a', 'w'))", "")
	other := runnerAs(t, s, kernel.Program{Beside: true, Dir: "below"})
	other.prints("import os; print(open('a').read(), 'x' in globals())", "from the first False")
	other.prints(`
import subprocess
own = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(os.path.exists(os.environ["TALARIA_INSTALLS"] + "/asks"))
print(own.pid, file=open("pid", "w"))`, "True")
	first.prints(`
def lives():
    try:
        os.kill(int(open("below/pid").read()), 0)
    except ProcessLookupError:
        return False
    except PermissionError: # without namespaces, processes of one cannot signal those of the other
        pass
    return True
print(os.path.exists(os.environ['TALARIA_INSTALLS'] + '/asks'), lives())`, "True True")
	if err := other.process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-other.process.Done()
	first.prints(`
import time
end = time.monotonic() + 30
while lives() and time.monotonic() < end: # until somebody has waited for it
    time.sleep(0.01)
print(lives(), x)`, "False 1")
	third := runnerAs(t, s, kernel.Program{Beside: true, Dir: "absent"}) // which does not matter
	third.send("import os; os._exit(7)")
	<-third.process.Done()
	if exit := third.process.Exit(); exit.Code != 7 || exit.Lost {
		t.Errorf("it ended with %+v", exit)
	}
	first.prints("print(x)", "1")
}

// runnerBesideWaits has a runner in a call that cannot be interrupted, and from which it returns when its child has opened a file.
func runnerBesideWaits(t *testing.T, r *rig) {
	s := r.sealed(t)
	first := runner(t, s)
	first.prints("import os; os.mkfifo('fifo')", "")
	other := runnerAs(t, s, kernel.Program{Beside: true})
	threads := func() int64 {
		usage, err := s.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return usage.PIDs
	}
	before := threads()
	other.send("import os; os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, 'fifo', os.O_RDONLY, 0)])")
	for end := time.Now().Add(patience); threads() == before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := other.process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, other.process)
	runnerAs(t, s, kernel.Program{Beside: true}).prints("print(1)", "1")
	first.prints("print(1)", "1")
}

func startsAreStopped(t *testing.T, r *rig) {
	s := r.sealed(t)
	stopper := start(t, s, r.pythonCommand(`
import os, signal
print("up", flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError: # where processes can signal only what they have started
        pass
`))
	output(t, stopper).next()
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		p, err := s.Start(ctx, kernel.Program{Args: []string{"true"}})
		cancel()
		if err != nil {
			break
		}
		p.Stdout().Close()
		p.Stderr().Close()
	}
	if err := stopper.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, stopper)
	runner(t, s).prints("print(1)", "1")
}

func runnerDescriptors(t *testing.T, r *rig) {
	k := runner(t, r.sealed(t))
	// A runner may have anonymous descriptors of its own, out of the way of user code, the pipe that programs ask for
	// packages by, the control socket and the one that they call tools on, but no other socket, file or folder.
	k.prints(descriptors+`
sockets = [fd for fd, name in opened.items() if name.startswith("socket:")]
print([fd for fd in opened if fd < 100], len(sockets) - ("HERMES_RPC_SOCKET" in os.environ), min(sockets) > 100)
print([name for fd, name in opened.items() if 2 < fd and name.startswith("/")
    and not (fd > 100 and name == os.environ["TALARIA_INSTALLS"] + "/asks")])
`, "[0, 1, 2] 1 True\n[]")
}

func runnerIsOrdinary(t *testing.T, r *rig) {
	s := r.sealed(t, func(spec *kernel.Spec) { spec.Env = map[string]string{"GREETING": "hello"} })
	k := runner(t, s)
	k.prints(`
import os, sys
print(os.getpid() != 1, os.getcwd() == os.environ["TALARIA_WORKSPACE"], os.environ["GREETING"], "TALARIA_LIBRARY" in os.environ, __name__)
`, "True True hello False __main__")
	k.prints(`
import os, sys
print(any(p.startswith(os.environ["TALARIA_PACKAGES"] + "/current/lib/python") for p in sys.path), any(os.path.exists(p + "/talaria_init") for p in sys.path), any(m.startswith("talaria_init") for m in sys.modules))
`, "True False False")
	want, err := json.Marshal(r.env.Path)
	if err != nil {
		t.Fatal(err)
	}
	k.prints("print([p for p in "+string(want)+" if p not in sys.path])", "[]")
	k.prints(`import subprocess, sys; print(subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True).stdout)`, "1")
}

func runnerThreads(t *testing.T, r *rig) {
	k := runner(t, r.sealed(t, limits(kernel.Limits{MemoryBytes: 512 * mib, PIDs: 256})))
	k.prints(`
import threading
go = threading.Event()
threads = [threading.Thread(target=go.wait) for _ in range(60)]
for t in threads:
    t.start()
print(threading.active_count() > 60)
go.set()
`, "True")
}

func runnerDies(t *testing.T, r *rig) {
	k := runner(t, r.sealed(t))
	k.send("import os; os._exit(9)")
	wait(t, k.process)
	if exit := k.process.Exit(); exit != (kernel.Exit{Code: 9}) {
		t.Errorf("%+v", exit)
	}
	k = runner(t, r.sealed(t))
	k.send("import ctypes; ctypes.string_at(0)")
	wait(t, k.process)
	if exit := k.process.Exit(); exit != (kernel.Exit{Signal: syscall.SIGSEGV}) {
		t.Errorf("%+v", exit)
	}
}
