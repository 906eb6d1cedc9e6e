package battery

import (
	"crypto/rand"
	"fmt"
	"slices"

	"talaria/api"
)

// lifetime are attempts to outlive the cell, the kernel or the session, and kernels that break.
var lifetime = []Check{
	outlives("lifetime/daemon-and-reset", "", "", resets),
	outlives("lifetime/daemon-and-delete", "", "", deletes),
	outlives("lifetime/stopped-and-delete", "", "kill -STOP $$;", deletes),
	outlives("lifetime/deaf-and-reset", "[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]", "", resets),
	outlives("lifetime/many-and-delete", "[os.fork() for _ in range(4)]", "", deletes),
	{Name: "lifetime/kill-everyone", Quick: true, Alone: true, Cell: `
children = [subprocess.Popen(["sleep", "100"]) for _ in range(3)]
attempt(os.kill, -1, signal.SIGKILL)
say(saw="alive")`, Judge: (*Trial).Works},
	{Name: "lifetime/stops-itself", Alone: true, Request: api.ExecutionRequest{TimeoutS: new(2.0)}, Cell: `
os.kill(os.getpid(), signal.SIGSTOP)`, Judge: ends(api.StatusTimeout, "timeout", api.VariablesLost)},
	{Name: "lifetime/ignores-interrupts", Alone: true, Request: api.ExecutionRequest{TimeoutS: new(2.0)}, Cell: `
signal.signal(signal.SIGINT, lambda *_: None)
while True:
    try:
        while True: pass
    except BaseException: pass`, Judge: ends(api.StatusTimeout, "timeout", api.VariablesLost)},
	{Name: "lifetime/blocks-signals", Alone: true, Request: api.ExecutionRequest{TimeoutS: new(2.0)}, Cell: `
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
libc.sleep(1000)`, Judge: ends(api.StatusTimeout, "timeout", api.VariablesLost)},
	{Name: "lifetime/holds-the-interpreter", Alone: true, Request: api.ExecutionRequest{TimeoutS: new(2.0)}, Cell: `
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True: ctypes.PyDLL(None).sleep(1000)`, Judge: ends(api.StatusTimeout, "timeout", api.VariablesLost)},
	{Name: "lifetime/endless-loop", Alone: true, Request: api.ExecutionRequest{TimeoutS: new(0.5)}, Cell: `
while True: pass`, Judge: ends(api.StatusTimeout, "timeout", api.VariablesKept)},
	{Name: "lifetime/exit", Quick: true, Alone: true, Cell: `os._exit(7)`,
		Judge: ends(api.StatusDied, "exit:7", api.VariablesLost)},
	{Name: "lifetime/abort", Quick: true, Alone: true, Cell: `os.abort()`,
		Judge: ends(api.StatusDied, "signal:SIGABRT", api.VariablesLost)},
	{Name: "lifetime/segmentation-fault", Quick: true, Alone: true, Cell: `ctypes.string_at(0)`,
		Judge: ends(api.StatusDied, "signal:SIGSEGV", api.VariablesLost)},
	{Name: "lifetime/kills-itself", Quick: true, Alone: true, Cell: `os.kill(os.getpid(), signal.SIGKILL)`,
		Judge: ends(api.StatusDied, "signal:SIGKILL", api.VariablesLost)},
	{Name: "lifetime/killed-by-a-child", Quick: true, Alone: true, Cell: `
subprocess.run(["sh", "-c", "kill -9 $PPID; sleep 100"])`, Judge: ends(api.StatusDied, "signal:SIGKILL", api.VariablesLost)},
	{Name: "lifetime/system-exit", Quick: true, Alone: true, Cell: `sys.exit(3)`,
		Judge: ends(api.StatusError, "", api.VariablesKept)},
	{Name: "lifetime/recursion", Quick: true, Alone: true, Cell: `
def f(): return f() + 1
f()`, Judge: ends(api.StatusError, "", api.VariablesKept)},
	{Name: "lifetime/closes-descriptors", Quick: true, Alone: true, Request: short, Cell: `
for fd in range(10): attempt(os.close, fd)`, Judge: endsSomehow},
	{Name: "lifetime/closes-all-descriptors", Quick: true, Alone: true, Request: short, Cell: `os.closerange(0, 65536)`,
		Judge: endsSomehow},
	{Name: "lifetime/replaces-descriptors", Quick: true, Alone: true, Request: short, Cell: `
null = os.open("/dev/null", os.O_RDWR)
for fd in range(4096):
    if fd != null and attempt(os.fstat, fd) == "ok": os.dup2(null, fd)`, Judge: endsSomehow},
	{Name: "lifetime/replaces-the-program", Quick: true, Alone: true, Request: short, Cell: `os.execv("/bin/true", ["true"])`,
		Judge: endsSomehow},
	{Name: "lifetime/pipe-held-by-a-grandchild", Quick: true, Alone: true, Cell: `
subprocess.Popen(["sh", "-c", "sleep 100 & sleep 100"], start_new_session=True)
say(saw="ended")`, Judge: all(saw("saw", "ended"), (*Trial).Works)},
	{Name: "lifetime/exit-handlers", Quick: true, Alone: true, Cell: `
import atexit
atexit.register(time.sleep, 1000)
threading.Thread(target=time.sleep, args=(1000,)).start()
say(saw="ended")`, Judge: all(saw("saw", "ended"), resets)},
}

// short bounds cells that may make their own kernel deaf.
var short = api.ExecutionRequest{TimeoutS: new(3.0)}

// outlives makes a check of a daemon that has to be listed and then end. The daemon first runs the Python code, and
// then the shell's.
func outlives(name, python, shell string, end func(*Trial) error) Check {
	return Check{Name: name, Quick: true, Alone: true, Judge: func(t *Trial) error {
		mark := "86400" + rand.Text()
		e, err := t.Run(`
read, write = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        PYTHON
        os.dup2(write, 3)
        os.execv("/bin/sh", ["sh", "-c", "echo x >&3; SHELL while :; do sleep 100; done", "MARK"])
    os._exit(0)
os.wait()
os.read(read, 1)`, "PYTHON", python, "SHELL", shell, "MARK", mark)
		if err != nil || e.Status != api.StatusOK {
			return fmt.Errorf("start a daemon: %s %.300s (%v)", e.Status, e.Text, err)
		}
		session, err := t.Server.Client.Session(t.ctx, t.Session)
		if err != nil {
			return fmt.Errorf("look at the session: %w", err)
		}
		if len(session.Usage.Processes) < 2 {
			return fmt.Errorf("the daemon is not among the session's processes: %+v", session.Usage.Processes)
		}
		if len(running(mark)) == 0 {
			return cannotRun("the processes of a session cannot be seen from here")
		}
		if err := end(t); err != nil {
			return err
		}
		if left := running(mark); len(left) > 0 {
			return fmt.Errorf("processes %v outlive their kernel", left)
		}
		return nil
	}}
}

func resets(t *Trial) error {
	if _, err := t.Server.Client.ResetSession(t.ctx, t.Session, api.ResetRequest{}); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return t.Works()
}

func deletes(t *Trial) error {
	if err := t.Server.Client.DeleteSession(t.ctx, t.Session); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	t.mine = slices.DeleteFunc(t.mine, func(id string) bool { return id == t.Session })
	return nil
}

// ends returns a judge of how the cell ended, and that the session's state afterwards is as reported.
func ends(status api.ExecutionStatus, reason string, state api.VariablesState) func(*Trial) error {
	return func(t *Trial) error {
		e := t.Execution
		if e.Status != status || e.Reason != reason || e.State != state {
			return fmt.Errorf("it ended %s %q %s, want %s %q %s", e.Status, e.Reason, e.State, status, reason, state)
		}
		return t.goesOn()
	}
}

// endsSomehow checks that the report about the variables is true.
func endsSomehow(t *Trial) error { return t.goesOn() }

// goesOn checks that the next cell runs in the same kernel if, and only if, the variables were reported as kept.
func (t *Trial) goesOn() error {
	e, err := t.Run("print('real ' + 'work')")
	if err != nil {
		return err
	}
	if e.Status != api.StatusOK || stdout(e) != "real work\n" {
		return fmt.Errorf("the next cell ended %s %s with %.100q", e.Status, e.Reason, stdout(e))
	}
	same := e.Generation == t.Execution.Generation
	if kept := t.Execution.State == api.VariablesKept; kept != same {
		return fmt.Errorf("the variables were said to be %s, and the next cell has generation %d after %d",
			t.Execution.State, e.Generation, t.Execution.Generation)
	}
	return nil
}
