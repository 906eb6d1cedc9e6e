package kerneltest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/kernel"
)

const mib = 1 << 20

func limits(l kernel.Limits) func(*kernel.Spec) { return func(spec *kernel.Spec) { spec.Limits = l } }

// hog allocates memory until it cannot, and prints how many pieces of 8 MiB it got.
const hog = `
pieces = []
try:
    while len(pieces) < 512:
        pieces.append(bytearray(b"x" * (8 << 20)))
except MemoryError:
    taken = len(pieces)
    del pieces
    print(taken)
`

func memoryLimit(t *testing.T, r *rig) {
	s := r.sealed(t, limits(kernel.Limits{MemoryBytes: 256 * mib}))
	res := r.python(t, s, hog)
	switch {
	case res.exit == kernel.Exit{Signal: syscall.SIGKILL, Limit: "memory_limit"}:
	case res.exit == kernel.Exit{}:
		if n, err := strconv.Atoi(strings.TrimSpace(res.stdout)); err != nil || n < 10 || n > 32 {
			t.Errorf("%q pieces of 8 MiB fit into 256 MiB", res.stdout)
		}
	default:
		t.Errorf("%+v", res)
	}
	r.prints(t, s, "print('goes on')", "goes on")
}

func forkBombIsHeld(t *testing.T, r *rig) {
	const count = 40
	// Processes in other sandboxes do not count.
	other := r.sealed(t, limits(kernel.Limits{PIDs: count}))
	for range 5 {
		start(t, other, kernel.Program{Args: []string{"/bin/sh", "-c", "sleep 1000 & sleep 1000 & wait"}})
	}
	s := r.sealed(t, limits(kernel.Limits{PIDs: count}))
	p := start(t, s, r.pythonCommand(`
import os, resource, signal
try:
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
except (OSError, ValueError):
    pass
made = 1
try:
    while made < 2000:
        if os.fork() == 0:
            os.setsid()
            while True:
                signal.pause()
        made += 1
except OSError:
    pass
print(made, flush=True)
signal.pause()
`))
	line := output(t, p).next()
	for _, layer := range s.Layers() {
		if strings.HasPrefix(layer, "processes: ") && strings.Contains(layer, "shared") {
			// The limit was enforced, as the line shows, by the mechanism that the layers name.
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return
		}
	}
	if line != strconv.Itoa(count) {
		t.Errorf("%s processes were created, %d are allowed", line, count)
	}
	usage, err := s.Usage(t.Context())
	if err != nil || usage.PIDs != count {
		t.Errorf("usage says %d processes, %v", usage.PIDs, err)
	}
	if p, err := s.Start(t.Context(), r.pythonCommand("")); err == nil {
		p.Stdout().Close()
		p.Stderr().Close()
		t.Error("one more was started")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func fileSizeLimit(t *testing.T, r *rig) {
	s := r.sealed(t, limits(kernel.Limits{DiskBytes: 10 * mib}))
	r.prints(t, s, `
import errno
try:
    with open("big", "wb") as f:
        for _ in range(64):
            f.write(bytes(1 << 20))
except OSError as e:
    print(errno.errorcode[e.errno])
`, "EFBIG")
}

func tmpLimit(t *testing.T, r *rig) {
	r.needs(t, OwnTree, "temporary files count as the workspace's")
	s := r.sealed(t, limits(kernel.Limits{TmpBytes: 8 * mib}))
	for _, dir := range []string{"/tmp", "/dev/shm", "/home/talaria"} {
		r.prints(t, s, `
import errno
try:
    with open("`+dir+`/big", "wb") as f:
        for _ in range(64):
            f.write(bytes(1 << 20))
except OSError as e:
    print(errno.errorcode[e.errno])
`, "ENOSPC")
	}
}

func limitsChange(t *testing.T, r *rig) {
	old := kernel.Limits{MemoryBytes: 256 * mib, PIDs: 50, CPUs: 1, TmpBytes: 16 * mib}
	s := r.sealed(t, limits(old))
	changer, ok := s.(kernel.LimitChanger)
	if !ok {
		t.Skip("this backend's limits do not change")
	}
	p := start(t, s, r.pythonCommand(`
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("up", flush=True)
signal.sigwait([signal.SIGUSR1])
`+hog))
	out := output(t, p)
	out.next()

	impossible := old
	impossible.MemoryBytes, impossible.TmpBytes = 128*mib, 32*mib
	err := changer.ChangeLimits(t.Context(), impossible)
	if want := "tmp_bytes: " + kernel.ErrNeedsReset.Error(); !errors.Is(err, kernel.ErrNeedsReset) || err.Error() != want {
		t.Errorf("the error is %q, not %q", err, want) // the caller says what failed
	}

	lower := old
	lower.MemoryBytes = 128 * mib
	if err := changer.ChangeLimits(t.Context(), lower); err != nil {
		t.Fatal(err)
	}
	checkHog := func(what, text string) {
		t.Helper()
		if n, err := strconv.Atoi(text); err != nil || n > 16 {
			t.Errorf("%s: %q pieces of 8 MiB fit into 128 MiB", what, text)
		}
	}
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	checkHog("running", out.next())
	wait(t, p)
	checkHog("started later", strings.TrimSpace(r.python(t, s, hog).stdout))

	higher := old
	higher.MemoryBytes = 512 * mib
	higher.PIDs = 60
	err = changer.ChangeLimits(t.Context(), higher)
	if errors.Is(err, kernel.ErrNeedsReset) {
		checkHog("after a refused change", strings.TrimSpace(r.python(t, s, hog).stdout))
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(r.python(t, s, hog).stdout)); err != nil || n < 33 {
		t.Errorf("%d pieces of 8 MiB fit into 512 MiB, %v", n, err)
	}
}

func usageIsReal(t *testing.T, r *rig) {
	s := r.sealed(t)
	p := start(t, s, r.pythonCommand(`
import os, time
until = time.process_time() + 0.1
while time.process_time() < until:
    pass
block = bytearray(b"x" * (64 << 20))
print(os.getpid(), flush=True)
time.sleep(1000)
`))
	pid, err := strconv.Atoi(output(t, p).next())
	if err != nil {
		t.Fatal(err)
	}
	usage, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if usage.MemoryBytes < 64*mib || usage.MemoryBytes > 256*mib || usage.PeakMemoryBytes < 64*mib {
		t.Errorf("memory %d, peak %d", usage.MemoryBytes, usage.PeakMemoryBytes)
	}
	if usage.CPU.Milliseconds() < 80 {
		t.Errorf("CPU %v", usage.CPU)
	}
	if len(usage.Processes) != 1 || usage.Processes[0].PID != pid || !strings.HasPrefix(usage.Processes[0].Name, "python") {
		t.Errorf("%+v, not only %d", usage.Processes, pid)
	}
	if resetter, ok := s.(kernel.PeakResetter); ok {
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait(t, p)
		err := resetter.ResetPeak()
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		usage, err := s.Usage(t.Context())
		if err != nil || usage.PeakMemoryBytes >= 64*mib {
			t.Errorf("the peak is %d after a reset, %v", usage.PeakMemoryBytes, err)
		}
	}
	if self := os.Getpid(); usage.Processes[0].PID == self {
		t.Error("the pid is the host's")
	}
}

// usageIsCurrent checks that processes are listed with the names that they have now, as soon as they wait for something. The clock of
// the system ticks at least a hundred times a second.
func usageIsCurrent(t *testing.T, r *rig) {
	s := r.sealed(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	p := r.pythonCommand(`
import ctypes, os, signal, sys
def name(text):
    ctypes.CDLL(None).prctl(15, text.encode())
for step, line in enumerate(sys.stdin):
    name(f"step {step}")
    if step % 3 == 0:
        child = os.fork()
        if not child:
            name("child")
            signal.pause()
    elif step % 3 == 2:
        os.kill(child, 9)
        os.wait()
`)
	p.Stdin = read
	start(t, s, p)
	for step := range 30 {
		if _, err := write.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
		want := []string{fmt.Sprint("step ", step), "child"}
		if step%3 == 2 {
			want = want[:1]
		}
		deadline := time.Now().Add(patience)
		for {
			usage, err := s.Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, process := range usage.Processes {
				names = append(names, process.Name)
			}
			if slices.Equal(names, want) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the processes are %q, not %q", names, want)
			}
		}
	}
}

func watchedSandbox(t *testing.T, s kernel.Sandbox) kernel.Watched {
	t.Helper()
	w, ok := s.(kernel.Watched)
	if !ok {
		t.Skip("this backend holds all limits by itself")
	}
	return w
}

func writingStops(t *testing.T, r *rig) {
	s := r.sealed(t, limits(kernel.Limits{DiskBytes: 64 * mib}))
	w := watchedSandbox(t, s)
	const try = `
import errno
def attempt():
    try:
        with open(mode, "ab") as f:
            f.write(b"x")
        return "wrote"
    except OSError as e:
        return errno.errorcode[e.errno]
`
	p := start(t, s, r.pythonCommand("mode = 'running'"+try+`
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print(attempt(), flush=True)
for _ in range(2):
    signal.sigwait([signal.SIGUSR1])
    print(attempt(), flush=True)
`))
	out := output(t, p)
	if line := out.next(); line != "wrote" {
		t.Fatal(line)
	}
	for _, step := range []struct {
		stop bool
		want string
	}{{true, "EFBIG"}, {false, "wrote"}} {
		if err := w.StopWrites(t.Context(), step.stop); err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if line := out.next(); line != step.want {
			t.Errorf("stopped %v: a process that ran says %s", step.stop, line)
		}
		if !step.stop {
			r.prints(t, s, "mode = 'later'"+try+"print(attempt())", step.want)
		}
	}
}

// writingStopsForForks has processes that are always about to start another one. What they start inherits their limits.
func writingStopsForForks(t *testing.T, r *rig) {
	s := r.sealed(t, limits(kernel.Limits{DiskBytes: 64 * mib}))
	w := watchedSandbox(t, s)
	p := start(t, s, r.pythonCommand(`
import errno, os, time
for _ in range(5): os.fork()
while True:
    try:
        with open("f", "wb") as f: f.write(b"x")
        said = "wrote"
    except OSError as e:
        said = errno.errorcode[e.errno]
    os.write(1, said.encode() + b"\n")
    if not os.fork():
        time.sleep(0.05)
        os._exit(0)
    os.wait()
`))
	out := output(t, p)
	if line := out.next(); line != "wrote" {
		t.Fatal(line)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.StopWrites(t.Context(), true) }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	for line := out.next(); line != "EFBIG"; line = out.next() {
		if line != "wrote" {
			t.Fatal(line)
		}
	}
}

func namelessIsSeen(t *testing.T, r *rig) {
	s, spec := r.sealedSpec(t)
	w := watchedSandbox(t, s)
	var at syscall.Stat_t
	if err := syscall.Fstat(int(spec.Workspace.Fd()), &at); err != nil {
		t.Fatal(err)
	}
	p := start(t, s, r.pythonCommand(`
import ctypes, os, signal, socket
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def hold(name):
    f = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(f, bytes(4 << 20))
    os.fsync(f)
    os.unlink(name)
    return f
def step(word):
    print(word, flush=True)
    signal.sigwait([signal.SIGUSR1])
a, b = socket.socketpair()
c, d = socket.socketpair()
file = hold("sent")
socket.send_fds(a, [b"before"], [])
socket.send_fds(a, [b"x"], [file])
os.close(file)
socket.send_fds(c, [b"y"], [b.fileno()])  # a socket that holds it is on its way as well
b.close()
step("sent")
b = socket.socket(fileno=socket.recv_fds(d, 1, 1)[1][0])
assert b.recv(6) == b"before" and socket.recv_fds(b, 1, 1)[0] == b"x"  # nothing was taken away
a.close(), b.close()
for n in os.listdir("/proc/self/fd"):
    if int(n) > 2 and os.path.exists("/proc/self/fd/" + n) and os.fstat(int(n)).st_nlink == 0: os.close(int(n))
file = hold("mapped")
step("open")
libc = ctypes.CDLL(None)
libc.mmap(None, ctypes.c_size_t(4096), 1, 1, file, ctypes.c_long(0))
os.close(file)
step("mapped")
`))
	out := output(t, p)
	for _, how := range []string{"sent", "open", "mapped"} {
		if line := out.next(); line != how {
			t.Fatalf("%q, not %s", line, how)
		}
		bytes, inodes, err := w.Unlinked(t.Context(), uint64(at.Dev))
		if err != nil || bytes < 4*mib || bytes > 5*mib || inodes != 1 {
			t.Errorf("deleted and %s are %d bytes of %d files, %v", how, bytes, inodes, err)
		}
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, p)
}

func watchedSparesInterpreters(t *testing.T, r *rig) {
	s := r.sealed(t)
	w := watchedSandbox(t, s)
	first, other := runner(t, s), runnerAs(t, s, kernel.Program{Beside: true})
	other.prints("block = b'x' * (64 << 20)", "")
	if name, used, err := w.KillLargest(t.Context(), 0); err != nil || used <= 0 || name != "" {
		t.Errorf("killed %q (%v)", name, err)
	}
	other.prints("print(len(block))", "67108864")
	first.prints("print(1)", "1")
}

// watchedSharesPages forks children that have 64 MiB in common with their parent.
func watchedSharesPages(t *testing.T, r *rig) {
	s, _ := r.sealedSpec(t)
	w := watchedSandbox(t, s)
	p := start(t, s, r.pythonCommand(`
import os, time
block = bytearray(64 << 20)
for _ in range(4):
    if os.fork() == 0: time.sleep(1000)
print("up", flush=True)
time.sleep(1000)
`))
	output(t, p).next()
	if name, used, err := w.KillLargest(t.Context(), 200*mib); err != nil || used > 200*mib || name != "" {
		t.Errorf("killed %q (%v) although all together have about 100 MiB", name, err)
	}
	if name, used, err := w.KillLargest(t.Context(), 48*mib); err != nil || used <= 64*mib || !strings.HasPrefix(name, "python") {
		t.Errorf("killed %q (%v), although all together have more than 64 MiB", name, err)
	}
}

func watchedIsSeen(t *testing.T, r *rig) {
	s, spec := r.sealedSpec(t)
	w := watchedSandbox(t, s)
	var at syscall.Stat_t
	if err := syscall.Fstat(int(spec.Workspace.Fd()), &at); err != nil {
		t.Fatal(err)
	}
	p := start(t, s, r.pythonCommand(`
import os, time
f = open("held", "wb", buffering=0)
f.write(bytes(4 << 20))
os.fsync(f.fileno())
os.unlink("held")
block = b"x" * (64 << 20)
print("up", flush=True)
time.sleep(1000)
`))
	output(t, p).next()
	bytes, inodes, err := w.Unlinked(t.Context(), uint64(at.Dev))
	if err != nil || bytes < 4*mib || bytes > 5*mib || inodes != 1 {
		t.Errorf("deleted and open are %d bytes of %d files, %v", bytes, inodes, err)
	}
	if cpu, err := w.CPU(t.Context()); err != nil || cpu <= 0 {
		t.Errorf("CPU %v, %v", cpu, err)
	}
	if name, used, err := w.KillLargest(t.Context(), 1<<40); err != nil || used < 64*mib || name != "" {
		t.Errorf("killed %q where nothing is over, %v", name, err)
	}
	if name, used, err := w.KillLargest(t.Context(), 0); err != nil || used <= 0 || !strings.HasPrefix(name, "python") {
		t.Errorf("killed %q, %v", name, err)
	}
	wait(t, p)
	if exit := p.Exit(); exit.Signal != syscall.SIGKILL {
		t.Errorf("the largest process ended with %+v", exit)
	}
	if name, _, err := w.KillLargest(t.Context(), 0); err != nil || name != "" {
		t.Errorf("of none, killed %q, %v", name, err)
	}
}
