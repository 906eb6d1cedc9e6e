package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
	"talaria/kernel/python"
	"talaria/kernel/sandbox"
)

// interpreter is a runner that is given cells.
type interpreter struct {
	t       *testing.T
	sandbox kernel.Sandbox
	process kernel.Process
	frames  *bufio.Scanner
}

// interpret seals a sandbox and starts its runner.
func interpret(t *testing.T, s kernel.Sandbox, spec kernel.Spec) *interpreter {
	t.Helper()
	if err := s.Seal(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(t.Context(), kernel.Program{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStreams(p) })
	if err := p.Control().(net.Conn).SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	k := &interpreter{t: t, sandbox: s, process: p, frames: bufio.NewScanner(p.Control())}
	k.frames.Buffer(nil, 4<<20)
	if kind, _ := k.next()["type"].(string); kind != "ready" {
		t.Fatalf("the first frame is %q", kind)
	}
	return k
}

func (k *interpreter) next() map[string]any {
	k.t.Helper()
	for k.frames.Scan() {
		if len(k.frames.Bytes()) == 0 {
			continue
		}
		var frame map[string]any
		if err := json.Unmarshal(k.frames.Bytes(), &frame); err != nil {
			k.t.Fatal(err)
		}
		return frame
	}
	k.t.Fatalf("the runner is gone: %v", k.frames.Err())
	return nil
}

// run runs a cell and returns its output and the exception that ended it.
func (k *interpreter) run(code string) string {
	k.t.Helper()
	cell, err := json.Marshal(map[string]any{
		"type": "execute", "id": "e", "code": code, "count": 1, "silent": false, "allow_stdin": false,
	})
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := k.process.Control().Write(append(cell, '\n')); err != nil {
		k.t.Fatal(err)
	}
	var text strings.Builder
	for {
		switch frame := k.next(); frame["type"] {
		case "stream":
			text.WriteString(frame["text"].(string))
		case "error":
			fmt.Fprintf(&text, "%s: %s", frame["ename"], frame["evalue"])
		case "done":
			return strings.TrimSpace(text.String())
		}
	}
}

// create makes a sandbox, forked or not as requested, that is closed at the end of the test.
func create(t *testing.T, b *sandbox.Backend, env kernel.Environment, forked bool) kernel.Sandbox {
	t.Helper()
	s, err := b.Create(t.Context(), env, !forked)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if sandbox.Forked(s) != forked {
		t.Fatalf("forked: %v", !forked)
	}
	return s
}

// both returns an interpreter that was forked and one that was not.
func both(t *testing.T, b *sandbox.Backend, env kernel.Environment, dir string,
	changes ...func(*kernel.Spec)) (forked, cold *interpreter) {
	t.Helper()
	var made [2]*interpreter
	for i := range made {
		spec := newSpec(t, dir)
		for _, change := range changes {
			change(&spec)
		}
		made[i] = interpret(t, create(t, b, env, i == 0), spec)
	}
	return made[0], made[1]
}

func TestForkedSandboxesHaveTheSameLayersAndLibrariesLoaded(t *testing.T) {
	dir := stateDir(t)
	b, env := warm(t, dir)
	if skipped := b.Skipped(env); len(skipped) > 0 {
		t.Skipf("%+v", skipped)
	}
	forked, cold := both(t, b, env, dir, func(spec *kernel.Spec) {
		spec.Limits = kernel.Limits{MemoryBytes: 1 << 30, CPUs: 1, PIDs: 100, DiskBytes: 1 << 30, TmpBytes: 64 << 20}
	})
	if a, b := forked.sandbox.Layers(), cold.sandbox.Layers(); !slices.Equal(a, b) {
		t.Errorf("%q\nnot\n%q", a, b)
	}
	const loaded = `import sys; print([m in sys.modules for m in ("numpy", "pandas", "matplotlib.pyplot")])`
	if got := forked.run(loaded); got != "[True, True, True]" {
		t.Errorf("forked: %s", got)
	}
	if got := cold.run(loaded); got != "[False, False, False]" {
		t.Errorf("fresh: %s", got)
	}
}

// surroundings is code that prints what user code can see, one thing per line, the same in each kernel.
const surroundings = `
import numpy, pandas, matplotlib, matplotlib.pyplot
import atexit, builtins, gc, locale, logging, os, resource, signal, sys, threading, time, warnings
def show(name, value):
    print(name, repr(value))
show("globals", sorted(k for k in globals() if k not in ("show",)))
show("builtins", sorted(vars(builtins)))
show("name", __name__)
show("main", (sys.modules["__main__"].__dict__ is globals(), hasattr(sys.modules["__main__"], "__file__")))
show("argv", (sys.argv, sys.orig_argv, sys.flags, sys.warnoptions, sys._xoptions, sys.executable, sys.prefix))
show("path", sys.path)
show("finders", sorted({getattr(f, "__name__", type(f).__name__) for f in sys.meta_path}))
show("environ", sorted((k, len(v) if k == "HERMES_RPC_TOKEN" else v) for k, v in os.environ.items()))
show("cwd", (os.getcwd(), oct(os.umask(0o22))))
show("ids", (os.getpid() == os.getpgrp() == os.getsid(0), os.getppid(), os.getresuid(), os.getresgid()))
show("signals", sorted((s.name, str(getattr(signal.getsignal(s), "__name__", signal.getsignal(s)))) for s in
    set(signal.valid_signals()) & set(signal.Signals)))
show("blocked", signal.pthread_sigmask(signal.SIG_BLOCK, ()))
show("limits", [(n, resource.getrlimit(getattr(resource, n))) for n in dir(resource) if n.startswith("RLIMIT_")
    if n not in ("RLIMIT_NPROC",)])
show("locale", (locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), sys.stdout.encoding, time.tzname))
show("warnings", [(f[0], f[1] and f[1].pattern, f[2].__name__, f[3] and str(f[3]), f[4]) for f in warnings.filters])
show("logging", (logging.root.handlers, logging.root.level, time.time() - logging._startTime < 600))
show("atexit", atexit._ncallbacks())
show("gc", (gc.isenabled(), gc.get_threshold(), gc.callbacks))
show("threads", ([t.name for t in threading.enumerate()], threading.get_native_id() == os.getpid(),
    threading.main_thread().native_id == os.getpid(), threading.current_thread() is threading.main_thread()))
show("open", sorted(int(fd) < 3 or os.readlink("/proc/self/fd/" + fd).partition(":")[0]
    for fd in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + fd)))
show("hooks", (sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), sys.excepthook is sys.__excepthook__,
    sys.getswitchinterval(), sys.dont_write_bytecode, sys.pycache_prefix))
status = dict(line.rstrip("\n").split(":", 1) for line in open("/proc/self/status"))
show("status", [(k, status[k].split()) for k in status if k.startswith(("Name", "Umask", "State", "Groups", "Sig",
    "Cap", "NoNewPrivs", "Seccomp", "Threads", "Cpus_allowed_list")) and not k.startswith(("SigQ", "SigPnd"))])
show("dumpable", os.stat("/proc/self/mem").st_uid)
show("oom", open("/proc/self/oom_score_adj").read())
show("nice", (os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))))
show("etc", [(n, open("/etc/" + n).read()) for n in ("hostname", "hosts", "passwd")])
show("root", [(d, sorted(os.listdir(d))) for d in ("/", "/run", "/tmp", "/dev", "/dev/shm", "/home", "/etc",
    "/opt/talaria", "/proc/acpi" if os.path.isdir("/proc/acpi") else "/run", os.environ["HOME"],
    os.environ["HOME"] + "/.config")])
show("mounts", sorted({(m.split()[1], m.split()[2], m.split()[3].partition(",")[0]) for m in open("/proc/self/mounts")
    if m.split()[1] != "/proc"}))
show("write", [os.access(d, os.W_OK) for d in ("/", "/run", "/tmp", "/dev", "/dev/shm", "/etc", "/workspace",
    "/packages", "/proc/sys/kernel/hostname", "/proc/sys/user/max_user_namespaces")])
show("numpy", (numpy.geterr(), sorted(numpy.get_printoptions().items(), key=str), numpy.random.get_state()[2:]))
show("rcParams", sorted((k, str(v)) for k, v in matplotlib.rcParams.items()))
show("matplotlib", (matplotlib.get_backend(), matplotlib.get_cachedir(), matplotlib.get_configdir(),
    matplotlib.matplotlib_fname(), matplotlib.pyplot.get_fignums(), matplotlib.is_interactive()))
show("pandas", pandas.describe_option("display", False))
`

func TestForkedKernelsLookLikeFreshOnes(t *testing.T) {
	dir := stateDir(t)
	b, env := warm(t, dir)
	if skipped := b.Skipped(env); len(skipped) > 0 {
		t.Skipf("%+v", skipped)
	}
	for _, change := range []func(*kernel.Spec){
		func(*kernel.Spec) {},
		func(spec *kernel.Spec) {
			spec.Limits = kernel.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 100, DiskBytes: 1 << 30, TmpBytes: 64 << 20}
			spec.Env = map[string]string{"GREETING": "hello", "LANG": "de_DE.UTF-8", "PATH": "/bin"}
			spec.TZ, spec.Hostname = "Europe/Prague", "box"
		},
	} {
		forked, cold := both(t, b, env, dir, change)
		got, want := strings.Split(forked.run(surroundings), "\n"), strings.Split(cold.run(surroundings), "\n")
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Errorf("forked: %q\nfresh: %q", got[min(i, len(got)-1)], want[min(i, len(want)-1)])
			}
		}
		for _, code := range []string{
			"import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.title('t'); print(plt.gcf().number)",
			"import numpy; print((numpy.ones((300, 300)) @ numpy.ones((300, 300))).sum())",
			"import os; pid = os.fork()\nif not pid: os._exit(3)\nprint(os.waitpid(pid, 0)[1])",
			"import multiprocessing; print(multiprocessing.get_context('fork').Pool(2).map(abs, [-1, 2]))",
			"import pandas; print(pandas.DataFrame({'a': [1, 2]}).describe())",
			"import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout)",
			"import asyncio; await asyncio.sleep(0); print(asyncio.get_running_loop().is_running())",
		} {
			if got, want := forked.run(code), cold.run(code); got != want || got == "" {
				t.Errorf("%s\nforked: %q\nfresh: %q", code, got, want)
			}
		}
	}
}

func TestForkedKernelsDrawDifferentNumbers(t *testing.T) {
	dir := stateDir(t)
	b, env := warm(t, dir)
	seen := make(map[string]bool)
	const draw = `
import random, tempfile, uuid, secrets, multiprocessing
print(random.random(), uuid.uuid4(), uuid.uuid1(), secrets.token_hex(), next(tempfile._get_candidate_names()), sep="\n")
print(multiprocessing.current_process().authkey.hex())
try:
    import numpy
    print(numpy.random.random(), numpy.random.default_rng().random(), numpy.random.randn(), sep="\n")
except ImportError:
    pass
`
	const count = 5
	lines := 0
	for range count {
		k := interpret(t, create(t, b, env, true), newSpec(t, dir))
		for _, line := range strings.Split(k.run(draw), "\n") {
			seen[line] = true
			lines++
		}
	}
	if len(seen) != lines || lines < 6*count {
		t.Errorf("%d of %d are different", len(seen), lines)
	}
}

// A session's own files win over what was imported ahead, as in a fresh kernel.
func TestForkedKernelsHeedPackagesFilesVariablesAndSmallLimits(t *testing.T) {
	dir := stateDir(t)
	b, env := warm(t, dir)
	if skipped := b.Skipped(env); len(skipped) > 0 {
		t.Skipf("%+v", skipped)
	}
	layer := "current/lib/python" + env.Version[:strings.LastIndex(env.Version, ".")] + "/site-packages/"
	for name, c := range map[string]struct {
		change func(*kernel.Spec)
		code   string
		want   string
	}{
		"a package": {
			func(spec *kernel.Spec) { writeIn(t, spec.Packages, layer+"six.py", "mine = 1") },
			"import six; print(six.mine)", "1",
		},
		"another version of a library": {
			func(spec *kernel.Spec) { writeIn(t, spec.Packages, layer+"numpy/__init__.py", "__version__ = '99'") },
			"import numpy; print(numpy.__version__)", "99",
		},
		"other packages": {
			func(spec *kernel.Spec) { writeIn(t, spec.Packages, layer+"newcomer.py", "mine = 4") },
			"import newcomer, sys; print(newcomer.mine, 'numpy' in sys.modules)", "4 True",
		},
		"a file": {
			func(spec *kernel.Spec) { writeIn(t, spec.Workspace, "calendar.py", "mine = 2") },
			"import calendar; print(calendar.mine)", "2",
		},
		"data of that name": {
			func(spec *kernel.Spec) { writeIn(t, spec.Workspace, "calendar.csv", "1,2") },
			"import sys; print('pandas' in sys.modules)", "True",
		},
		"a backend": {
			func(spec *kernel.Spec) { spec.Env = map[string]string{"MPLBACKEND": "svg"} },
			"import matplotlib; print(matplotlib.get_backend())", "svg",
		},
		"settings": {
			func(spec *kernel.Spec) { writeIn(t, spec.Workspace, "matplotlibrc", "lines.linewidth: 7") },
			"import matplotlib; print(matplotlib.rcParams['lines.linewidth'])", "7.0",
		},
		"little memory": {
			func(spec *kernel.Spec) { spec.Limits.MemoryBytes = 100 << 20 },
			"import sys; x = bytearray(30 << 20); print('numpy' in sys.modules)", "False",
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := newSpec(t, dir)
			c.change(&spec)
			k := interpret(t, create(t, b, env, true), spec)
			if got := k.run(c.code); got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
			if got := k.run(`
import os, sys
print([m for m in sys.modules if m.startswith("talaria_init")], "TALARIA_LIBRARY" in os.environ, os.environ["HOME"])
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) < 100)[:3], os.getcwd(), sys.orig_argv[1:])
`); got != "[] False /home/talaria\n[0, 1, 2] /workspace []" {
				t.Errorf("an interpreter of its own: %s", got)
			}
		})
	}
}

// writeIn writes a file of the session into one of its directories.
func writeIn(t *testing.T, dir *os.File, name, text string) {
	t.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(path, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestForkedKernelsGoOnWithoutTheirForkServer(t *testing.T) {
	dir := stateDir(t)
	events := newEvents()
	b, env := warm(t, dir, events.into)
	k := interpret(t, create(t, b, env, true), newSpec(t, dir))
	k.run("x = 5")
	_, server := sandbox.Keepers(b, env)
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	events.await(t, "the fork server ended")
	// Whether there is a new fork server or not.
	s, err := b.Create(t.Context(), env, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	got := k.run("import subprocess; print(x, subprocess.run(['echo', 'y'], capture_output=True).stdout)")
	if got != "5 b'y\\n'" {
		t.Errorf("%q", got)
	}
	if err := b.Warm(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	other := interpret(t, create(t, b, env, true), newSpec(t, dir))
	if got := other.run("print(6 * 7)"); got != "42" {
		t.Errorf("%q", got)
	}
}

func TestCreateDoesWithoutAForkServerThatIsKilledMeanwhile(t *testing.T) {
	dir := stateDir(t)
	events := newEvents()
	b, env := warm(t, dir, events.into)
	_, server := sandbox.Keepers(b, env)
	// So that it cannot answer before it is killed.
	kerneltest.StopProcess(t, server)
	asked := groupIsMade(t, create(t, b, env, false))
	created := make(chan kernel.Sandbox)
	go func() {
		s, err := b.Create(t.Context(), env, false)
		if err != nil {
			t.Error(err)
		}
		created <- s
	}()
	asked()
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s := <-created
	if s == nil {
		return
	}
	defer s.Close()
	if sandbox.Forked(s) {
		t.Error("it was forked")
	}
	k := interpret(t, s, newSpec(t, dir))
	if got := k.run("print(6 * 7)"); got != "42" {
		t.Errorf("%q", got)
	}
}

// groupIsMade returns a function that waits until a control group is made next to that of a sandbox, which Create does
// once it has asked for a fork. Without control groups it does not wait.
func groupIsMade(t *testing.T, s kernel.Sandbox) func() {
	t.Helper()
	dirs := s.Handle().Cgroups
	if len(dirs) == 0 {
		return func() {}
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(dirs[0]), unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := unix.Read(fd, make([]byte, 4096)); err != nil {
			t.Error(err)
		}
	}
}

func TestForkServersAreRenewed(t *testing.T) {
	dir := stateDir(t)
	for name, change := range map[string]func(*sandbox.Config){
		"after so many sandboxes": func(cfg *sandbox.Config) { cfg.RenewAfter = 2 },
		"after some time":         func(cfg *sandbox.Config) { cfg.RenewEvery = 100 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			events := newEvents()
			b, env := warm(t, dir, events.into, change)
			hash := func() string {
				return interpret(t, create(t, b, env, true), newSpec(t, dir)).run("print(hash('a'))")
			}
			first := hash()
			hash()
			events.await(t, "renewed the fork server")
			if hash() == first {
				t.Error("the seed of hashes is the same")
			}
		})
	}
}

func TestSiblingsShareNothingButTheirHashSeed(t *testing.T) {
	dir := stateDir(t)
	b, env := warm(t, dir)
	one := interpret(t, create(t, b, env, true), newSpec(t, dir))
	two := interpret(t, create(t, b, env, true), newSpec(t, dir))
	if a, b := one.run("print(hash('a'))"), two.run("print(hash('a'))"); a != b {
		t.Errorf("they do not come from the same fork server: %s %s", a, b)
	}
	kinds, err := os.ReadDir("/proc/self/ns")
	if err != nil {
		t.Fatal(err)
	}
	namespaces := func(k *interpreter) map[string]int {
		found := make(map[string]int)
		pids, err := sandbox.PIDs(k.sandbox)
		if err != nil || len(pids) != 2 {
			t.Fatal(pids, err)
		}
		for _, pid := range pids {
			for _, kind := range kinds {
				name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind.Name()))
				if err != nil {
					t.Fatal(err)
				}
				found[name]++
			}
		}
		return found
	}
	a, z := namespaces(one), namespaces(two)
	for name, processes := range a {
		if z[name] > 0 && !strings.HasPrefix(name, "time:") {
			t.Errorf("both are in %s", name)
		}
		if processes%2 != 0 {
			t.Errorf("pid 1 and the runner are not both in %s", name)
		}
	}
}

func TestModulesThatCannotBePreloadedAreSkippedAndTold(t *testing.T) {
	dir := stateDir(t)
	venv := filepath.Join(dir, "venv")
	out, err := exec.Command(environment(t).Python, "-I", "-m", "venv", "--without-pip", venv).CombinedOutput()
	if err != nil {
		t.Skipf("no virtual environment can be made: %s", out)
	}
	env, _, err := python.DiscoverEnvironment(t.Context(),
		python.EnvironmentConfig{Python: filepath.Join(venv, "bin", "python3")})
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	for name, text := range map[string]string{
		"good.py":    "x = 1",
		"raises.py":  "raise RuntimeError('not today')",
		"exits.py":   "import sys; sys.exit('bye')",
		"dies.py":    "import os; os.abort()",
		"threads.py": "import threading, time; threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
	} {
		if err := os.WriteFile(filepath.Join(packages[0], name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env.Preload = []string{"raises", "missing", "dies", "threads", "exits", "good"}
	b := newBackend(t, dir)
	if len(b.Skipped(env)) > 0 {
		t.Error("something is skipped before it is tried")
	}
	if err := b.Warm(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, finding := range b.Skipped(env) {
		got = append(got, finding.Name+" | "+finding.Detail)
		if finding.OK || finding.Remedy == "" {
			t.Errorf("%+v", finding)
		}
	}
	want := []string{
		"preload raises | RuntimeError: not today",
		"preload missing | ModuleNotFoundError: No module named 'missing'",
		"preload dies | the interpreter ended",
		"preload threads | importing it starts threads",
		"preload exits | SystemExit: bye",
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("%q\nnot\n%q", got, want)
	}
	k := interpret(t, create(t, b, env, true), newSpec(t, dir))
	// The interpreter lies in /tmp, where the kernel has a /tmp of its own.
	if got := k.run(`
import os, sys
print("good" in sys.modules, sys.prefix, os.listdir(os.path.dirname(sys.prefix)), os.access("/tmp", os.W_OK))
`); got != "True "+venv+" ['venv'] True" {
		t.Errorf("%q", got)
	}
}

func TestKeeperThatDiesIsReplaced(t *testing.T) {
	dir := stateDir(t)
	events := newEvents()
	b, env := warm(t, dir, events.into)
	k := interpret(t, create(t, b, env, true), newSpec(t, dir))
	keeper, _ := sandbox.Keepers(b, env)
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-k.process.Done()
	if exit := k.process.Exit(); !exit.Lost {
		t.Errorf("%+v", exit)
	}
	events.await(t, "the fork server's sandbox ended, and the sandboxes forked from it with it")
	if err := b.Warm(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	create(t, b, env, true)
}

func TestWarmIsCalledOff(t *testing.T) {
	b := newBackend(t, stateDir(t))
	env := environment(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no longer wanted")
	cancel(why)
	if err := b.Warm(ctx, env); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	// It is under way nevertheless.
	if err := b.Warm(t.Context(), env); err != nil {
		t.Error(err)
	}
}

func TestWarmTellsWhyItCannot(t *testing.T) {
	b := newBackend(t, stateDir(t))
	env := environment(t)
	env.Python = "/bin/false"
	if err := b.Warm(t.Context(), env); err == nil || !strings.Contains(err.Error(), "/bin/false") {
		t.Errorf("%v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := stateDir(t)
	b, env := warm(t, dir)
	s := create(t, b, env, true)
	interpret(t, s, newSpec(t, dir))
	keeper, server := sandbox.Keepers(b, env)
	pids, err := sandbox.PIDs(s)
	if err != nil || len(pids) != 2 {
		t.Fatal(pids, err)
	}
	var open []int
	for _, pid := range append(pids, keeper, server) {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pidfd)
		open = append(open, pidfd)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, pidfd := range open {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 0); n != 1 {
			t.Errorf("a process is left, %v", err)
		}
	}
	if _, err := b.Create(t.Context(), env, false); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Create: %v", err)
	}
	if err := b.Warm(t.Context(), env); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Warm: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	checkNoGroups(t, s.Handle())
	if left, err := os.ReadDir(filepath.Join(dir, "sessions")); err != nil || len(left) != 1 {
		t.Errorf("beside this test's session: %v %v", left, err)
	}
}

func TestIdleForkedKernelsTakeLittleMemory(t *testing.T) {
	dir := stateDir(t)
	b, env := warm(t, dir)
	if skipped := b.Skipped(env); len(skipped) > 0 {
		t.Skipf("%+v", skipped)
	}
	s := create(t, b, env, true)
	interpret(t, s, newSpec(t, dir)).run("1 + 1") // copies as much as the fork server has it copy ahead
	create(t, b, env, true)                       // every write since then came from that fork server
	pids, err := sandbox.PIDs(s)
	if err != nil {
		t.Fatal(err)
	}
	dirty := 0
	for _, pid := range pids {
		dirty += rollup(t, pid, "Private_Dirty")
	}
	// Some 7000 kB with Debian 12's Python 3.11. It varies by 100 kB from run to run, with the addresses of the objects.
	if dirty > 7500 {
		t.Errorf("%d kB are its own, with the runner and pid 1", dirty)
	}
}

// events waits for what is logged.
type events struct{ logged chan string }

func newEvents() events { return events{logged: make(chan string, 100)} }

func (e events) into(cfg *sandbox.Config) { cfg.Log = slog.New(e) }

func (e events) Enabled(context.Context, slog.Level) bool { return true }

func (e events) Handle(_ context.Context, r slog.Record) error {
	select {
	case e.logged <- r.Message:
	default:
	}
	return nil
}

func (e events) WithAttrs([]slog.Attr) slog.Handler { return e }

func (e events) WithGroup(string) slog.Handler { return e }

func (e events) await(t *testing.T, message string) {
	t.Helper()
	var before []string
	for {
		select {
		case logged := <-e.logged:
			if logged == message {
				return
			}
			before = append(before, logged)
		case <-time.After(time.Minute):
			t.Fatalf("%q is not logged, but %q", message, before)
		}
	}
}
