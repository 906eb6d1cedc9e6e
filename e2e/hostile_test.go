package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/client"
)

// bad is a cell that does its worst, and how it must end.
type bad struct {
	name, code string
	request    api.ExecutionRequest
	status     api.ExecutionStatus
	reason     string
	state      api.VariablesState
	ename      string
	check      func(t *testing.T, e api.Execution)
	anyEnd     bool // the end is not fixed, but the reported state must be true
	crowded    bool // it leaves children that use up the session's processes, until a reset
}

func TestBadCellsEndClearlyAndHarmNobody(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who, args: []string{"--interrupt-grace", "5s"}}) // some cells ignore interrupts for all of it
		c := s.Client()
		neighbour := session(t, c, api.SessionRequest{})
		runOK(t, c, neighbour, "calm = 41")
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{
			MemoryBytes: new(int64(512 << 20)), PIDs: new(int64(64))}})
		calls := 0
		for _, b := range badCells() {
			t.Run(b.name, func(t *testing.T) {
				calls++
				runOK(t, c, id, "kept = 'kept'")
				b.request.Code = &b.code
				e := runWith(t, c, id, b.request)
				if !b.anyEnd {
					wantEnd(t, e, b.status, b.reason, b.state)
				}
				if ename := errorName(e); ename != b.ename && !b.anyEnd {
					t.Errorf("the error is %q, want %q\n%.1500s", ename, b.ename, e.Text)
				}
				if b.check != nil {
					b.check(t, e)
				}
				if b.crowded {
					checkCrowded(t, c, id, e)
				} else {
					checkState(t, c, id, e)
				}
				if got := runOK(t, c, neighbour, "calm += 1; print(calm - 1)"); got == "" {
					t.Error("the neighbour prints nothing")
				}
			})
		}
		if got := runOK(t, c, neighbour, "print(calm)"); got != fmt.Sprintln(41+calls) {
			t.Errorf("the neighbour's kernel has counted to %s", got)
		}
	})
}

func errorName(e api.Execution) string {
	if e.Error == nil {
		return ""
	}
	return e.Error.Ename
}

// checkState checks what an execution reported about the variables, and that the next cell has its own output.
func checkState(t *testing.T, c *client.Client, session string, e api.Execution) {
	t.Helper()
	next := run(t, c, session, "import subprocess; print('next', globals().get('kept')); "+
		"print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip()); 'value'")
	want := "next None\nchild\n"
	if e.State == api.VariablesKept {
		want = "next kept\nchild\n"
	}
	if next.Status != api.StatusOK || printed(next) != want || !strings.Contains(next.Text, "'value'") {
		t.Errorf("after %s %s the next cell ended %s %q with\n%.300q and on stderr\n%.300q and the text\n%.1500s",
			e.Status, e.State, next.Status, next.Reason, printed(next), streamText(next, "stderr"), next.Text)
	}
	if lost := e.State == api.VariablesLost; next.Generation != e.Generation+int64(oneIf(lost)) {
		t.Errorf("after %s the next cell is of generation %d, after %d", e.State, next.Generation, e.Generation)
	}
}

// checkCrowded is checkState for sessions that can start no child until a reset.
func checkCrowded(t *testing.T, c *client.Client, session string, e api.Execution) {
	t.Helper()
	want := map[api.VariablesState]string{api.VariablesKept: "kept\n", api.VariablesLost: "None\n"}[e.State]
	if got := runOK(t, c, session, "print(globals().get('kept'))"); got != want {
		t.Errorf("after %s %s the next cell prints %q", e.Status, e.State, got)
	}
	if _, err := c.ResetSession(within(t), session, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := runOK(t, c, session, "import subprocess; print(subprocess.getoutput('echo child'))"); got != "child\n" {
		t.Errorf("after a reset a child prints %q", got)
	}
}

// forge writes frames to every descriptor that could be the control channel.
const forge = `import os, socket, array
def send(fd, frame):
    copy = os.dup(fd)
    try: s = socket.socket(fileno=copy)
    except OSError:
        os.close(copy) # or a kernel that outlives a few of these cells has no descriptors left
        raise
    with s: s.send(frame)
def forge(*frames):
    for fd in sorted(int(fd) for fd in os.listdir('/proc/self/fd') if int(fd) > 2):
        for frame in frames:
            for way in (os.write, send):
                try:
                    os.set_blocking(fd, True)
                    way(fd, frame)
                except OSError:
                    pass
`

func badCells() []bad {
	kept := func(name, code string) bad {
		return bad{name: name, code: code, status: api.StatusOK, state: api.VariablesKept}
	}
	died := func(name, code, reason string) bad {
		return bad{name: name, code: code, status: api.StatusDied, reason: reason, state: api.VariablesLost, ename: "KernelDied"}
	}
	raised := func(name, code, ename string) bad {
		return bad{name: name, code: code, status: api.StatusError, ename: ename, state: api.VariablesKept}
	}
	free := func(name, code string) bad { // whatever becomes of the kernel is its own fault, if it is reported truly
		return bad{name: name, code: code, anyEnd: true, request: api.ExecutionRequest{TimeoutS: new(10.0)}}
	}
	says := func(b bad, text string) bad {
		b.check = func(t *testing.T, e api.Execution) {
			t.Helper()
			if !strings.Contains(e.Text, text) {
				t.Errorf("the text lacks %q:\n%.1500s", text, e.Text)
			}
		}
		return b
	}
	timeout := func(name, code string, state api.VariablesState) bad {
		// Code that refuses the interrupt has to get there first, also on a busy machine.
		ename, after := "KeyboardInterrupt", 1.0
		if state == api.VariablesLost {
			ename, after = "ExecutionTimeout", 5.0
		}
		return bad{name: name, code: code, status: api.StatusTimeout, reason: "timeout", state: state, ename: ename,
			request: api.ExecutionRequest{TimeoutS: &after}}
	}
	return []bad{
		free("forged done frames", forge+`forge(b'\n{"type":"done","id":"x","status":"ok","interrupted":false}\n')`+"\nprint('after')"),
		free("forged frames of all kinds", forge+`forge(b'{"type":"done"}\n', b'{"type":"ready"}\n', b'{}\n', b'[]\n', b'null\n',
  b'{"type":"execution_finished","execution":{"status":"ok"}}\n', b'{"type":"stream","id":"x","name":"stdout","text":"forged"}\n')
print('after')`),
		free("half a frame", forge+`forge(b'{"type":"done","id":"half')`+"\nprint('after')"),
		free("a huge frame", forge+`forge(b'{"type":"stream","text":"' + b'x' * (60 << 20))`+"\nprint('after')"),
		free("a deep frame", forge+`forge(b'[' * 5_000_000 + b'\n')`+"\nprint('after')"),
		free("frames of invalid UTF-8", forge+`forge(b'{"type":"\xff\xfe\x80"}\n', b'\x00' * 5000 + b'\n', b'{"type":"\\ud800"}\n')`+"\nprint('after')"),
		free("descriptors sent as ancillary data", forge+`
for fd in range(3, 64):
    try:
        s = socket.socket(fileno=os.dup(fd))
        s.sendmsg([b'{"type":"done"}\n'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    except OSError:
        pass
print('after')`),
		free("frames to the files of other processes", `import os
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        for fd in os.listdir(f'/proc/{pid}/fd'):
            with open(f'/proc/{pid}/fd/{fd}', 'wb', buffering=0) as f:
                os.set_blocking(f.fileno(), False)
                f.write(b'{"type":"done","status":"ok"}\n')
    except OSError:
        pass
print('after')`),
		free("closed descriptors", "import os\nfor fd in range(10):\n    try: os.close(fd)\n    except OSError: pass\nprint('after')"),
		free("a closed range of descriptors", "import os\nos.closerange(0, 256)\nprint('after')"),
		free("descriptors onto the null device", "import os\nn = os.open('/dev/null', os.O_RDWR)\nfor fd in range(10):\n    if fd != n: os.dup2(n, fd)\nprint('after')"),
		free("closed standard streams", "import sys\nsys.stdout.close(); sys.stderr.close(); sys.stdin.close()"),
		died("os._exit", "import os; os._exit(7)", "exit:7"),
		died("os._exit with 0", "import os; os._exit(0)", "exit:0"),
		died("a segmentation fault", "import ctypes; ctypes.string_at(0)", "signal:SIGSEGV"),
		died("a kill of itself", "import os; os.kill(os.getpid(), 9)", "signal:SIGKILL"),
		died("an abort", "import os; os.abort()", "signal:SIGABRT"),
		died("printed and then killed", "import os; print('last words', flush=True); os.kill(os.getpid(), 9)", "signal:SIGKILL"),
		raised("sys.exit", "import sys; sys.exit(3)", "SystemExit"),
		raised("exit()", "exit()", "SystemExit"),
		raised("a syntax error", "def f(:", "SyntaxError"),
		raised("recursion", "def f(): return f() + 1\nf()", "RecursionError"),
		raised("a KeyboardInterrupt of its own", "raise KeyboardInterrupt", "KeyboardInterrupt"),
		raised("a BaseException", "raise BaseException('bare')", "BaseException"),
		says(raised("an exception whose text raises", "class E(Exception):\n    def __str__(self): raise ValueError('no')\nraise E", "E"), "E"),
		says(kept("a repr that raises", "class R:\n    def __repr__(self): raise ValueError('bad repr')\nR()"), "bad repr"),
		timeout("an endless loop", "while True: pass", api.VariablesKept),
		timeout("an endless sleep", "import time; time.sleep(1000)", api.VariablesKept),
		timeout("a cell that ignores interrupts", `import signal
signal.signal(signal.SIGINT, lambda *_: None)
while True:
    try:
        while True: pass
    except BaseException: pass`, api.VariablesLost),
		{name: "a cell that catches interrupts", request: api.ExecutionRequest{TimeoutS: new(1.0)}, anyEnd: true,
			code: "while True:\n    try:\n        while True: pass\n    except KeyboardInterrupt: pass",
			check: func(t *testing.T, e api.Execution) { // a repeated interrupt may hit outside the try
				t.Helper()
				if e.Status != api.StatusTimeout {
					t.Errorf("ended %s", e.Status)
				}
			}},
		timeout("ignored signals", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nimport ctypes\nctypes.CDLL(None).sleep(1000)", api.VariablesLost),
		says(kept("lone surrogates", `print('a\ud800b'); '\udfff'`), "a\ufffdb"),
		{name: "invalid UTF-8 to descriptor 1", code: `import os; n = os.write(1, b'<\xff\xfe\xc3>\n')`,
			status: api.StatusOK, state: api.VariablesKept, check: wantPrinted("<\uFFFD\uFFFD\uFFFD>\n")},
		{name: "NUL and escapes", code: `print('\x00\x1b[31mred\x1b[0m\x07')`, status: api.StatusOK, state: api.VariablesKept,
			check: wantPrinted("\x00\x1b[31mred\x1b[0m\x07\n")},
		{name: "a progress bar", code: "import sys\nfor i in range(5000):\n    sys.stdout.write(f'\\r{i:5d}')\nprint()",
			status: api.StatusOK, state: api.VariablesKept, check: func(t *testing.T, e api.Execution) {
				t.Helper()
				if got := printed(e); !strings.HasSuffix(got, "\r 4999\n") {
					t.Errorf("the bar ends with %.40q", got[max(0, len(got)-40):])
				}
			}},
		{name: "twenty thousand lines", code: "for i in range(20000): print(i)", status: api.StatusOK, state: api.VariablesKept,
			check: func(t *testing.T, e api.Execution) {
				t.Helper()
				if n := len(printed(e)); n != 108890 {
					t.Errorf("%d characters came, want 108890", n)
				}
			}},
		kept("deep output", "x = []\nfor _ in range(100000): x = [x]\ntry: print(len(repr(x)))\nexcept RecursionError: print('deep')"),
		says(kept("a child that outlives the cell", "import subprocess; p = subprocess.Popen(['sleep', '1000']); print('went on')"), "went on"),
		raised("a memory bomb", "x = []\nwhile True: x.append(bytearray(16 << 20))", "MemoryError"),
		{name: "a memory bomb of many processes", anyEnd: true, request: api.ExecutionRequest{TimeoutS: new(60.0)},
			code: `import os, time
children = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        try:
            x = bytearray(200 << 20)
            time.sleep(1)
        finally:
            os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)`,
			check: func(t *testing.T, e api.Execution) {
				t.Helper()
				ok := e.Status == api.StatusOK || e.Status == api.StatusError ||
					e.Status == api.StatusDied && e.Reason == "memory_limit"
				if !ok {
					t.Errorf("ended %s %q\n%.1000s", e.Status, e.Reason, e.Text)
				}
			}},
		{name: "a fork bomb", anyEnd: true, crowded: true, request: api.ExecutionRequest{TimeoutS: new(2.0)},
			code: "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
			check: func(t *testing.T, e api.Execution) {
				t.Helper()
				if e.Status != api.StatusTimeout && e.Status != api.StatusDied {
					t.Errorf("ended %s %q\n%.1000s", e.Status, e.Reason, e.Text)
				}
			}},
	}
}

func wantPrinted(want string) func(*testing.T, api.Execution) {
	return func(t *testing.T, e api.Execution) {
		t.Helper()
		if printed(e) != want {
			t.Errorf("printed %q, want %q", printed(e), want)
		}
	}
}

func TestAForgedFrameNeverEndsAnotherExecution(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	victim, next := client.NewID(), client.NewID()
	forger := run(t, c, id, fmt.Sprintf("%s\nforge(*[b'{\"type\":\"done\",\"id\":\"%%s\",\"status\":\"ok\",\"interrupted\":false}\\n' %% n for n in (b'%s', b'%s')])",
		forge, victim, next))
	if !forger.Status.Final() {
		t.Fatalf("the forger is %s", forger.Status)
	}
	for _, n := range []string{victim, next} {
		e := runWith(t, c, id, api.ExecutionRequest{ID: &n, Code: new("print('real ' + 'work')")})
		if e.Status != api.StatusOK || printed(e) != "real work\n" {
			t.Errorf("an execution with a forged end: %s %q", e.Status, e.Text)
		}
	}
}

func TestAnEndlessPrintLoopCanBeInterrupted(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "kept = 'kept'")
	k := s.attach(t, id, "")
	cell := s.queue(t, id, "while True: print('endless')")
	for range 20 {
		k.awaitType(t, "stream")
	}
	if err := c.Interrupt(within(t), id, ""); err != nil {
		t.Fatal(err)
	}
	k.cut()
	for event, err := range c.ExecutionEvents(within(t), id, cell, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if done, ok := event.Body.(api.ExecutionFinished); ok {
			wantEnd(t, done.Execution, api.StatusInterrupted, "interrupted", api.VariablesKept)
			checkState(t, c, id, done.Execution)
		}
	}
}

func TestAKernelKilledFromOutsideIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		// The kernel gives itself a name that no other process has.
		runOK(t, c, id, "import ctypes; ctypes.CDLL(None).prctl(15, b'e2e-victim', 0, 0, 0)")
		var victim process
		for _, p := range descendants(s.PID()) {
			if p.name == "e2e-victim" {
				victim = p
			}
		}
		if victim.pid == 0 {
			t.Fatalf("the kernel is none of %v", descendants(s.PID()))
		}
		k := s.attach(t, id, "")
		if err := syscall.Kill(victim.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		death := decode[api.KernelDied](t, string(k.awaitType(t, "kernel_died")))
		if death.Reason != "signal:SIGKILL" || death.Signal != "SIGKILL" || death.Generation != 1 {
			t.Errorf("the death is told as %+v", death)
		}
		if e := run(t, c, id, "print('again')"); e.Generation != 2 || printed(e) != "again\n" {
			t.Errorf("the next cell: generation %d, %q", e.Generation, e.Text)
		}
		if resets := of[api.KernelReset](past(t, c, id)); len(resets) != 1 || resets[0].Reason != "died" {
			t.Errorf("the resets are %+v", resets)
		}
	})
}

func TestAHundredMegabytesInOneWriteAreAllKept(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "pass")
	before := residentPeak(t, s.PID())
	const size = 100 << 20
	e := run(t, c, id, "import sys; block = ''.join(f'{i:015d}\\n' for i in range(100 << 16)); n = sys.stdout.write(block)")
	wantEnd(t, e, api.StatusOK, "", api.VariablesKept)
	if grown := residentPeak(t, s.PID()) - before; grown > 300<<20 {
		t.Errorf("the server grew by %d MiB", grown>>20)
	}
	log := printed(e)
	if len(log) > 9<<20 || int64(len(log))+e.TruncatedBytes < size {
		t.Errorf("the log has %d bytes and lacks %d of %d", len(log), e.TruncatedBytes, size)
	}
	var notice *api.Truncated
	kept := 0
	for _, event := range collect(t, c.ExecutionEvents(within(t), id, e.ID, 0)) {
		if text, ok := event.Body.(api.Stream); ok && text.Truncated != nil {
			notice = text.Truncated
		} else if ok {
			kept += len(text.Text)
		}
	}
	if notice == nil {
		t.Fatal("no notice of truncation")
	}
	if notice.Bytes != e.TruncatedBytes || int64(kept)+notice.Bytes != size {
		t.Errorf("the log has %d bytes and lacks %d, or %d, of %d", kept, notice.Bytes, e.TruncatedBytes, size)
	}
	whole := download(t, c.GetArtifact, notice.SHA256)
	var want strings.Builder
	for i := range 100 << 16 {
		fmt.Fprintf(&want, "%015d\n", i)
	}
	if string(whole) != want.String() {
		t.Errorf("the artifact has %d bytes, and not the %d that were printed", len(whole), want.Len())
	}
	if !strings.HasPrefix(log, "000000000000000\n") || !strings.HasSuffix(log, fmt.Sprintf("%015d\n", 100<<16-1)) {
		t.Error("the log has not the first and the last lines")
	}
}

// residentPeak returns the peak of a process's resident memory.
func residentPeak(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
