package battery

import (
	"fmt"
	"strings"
	"time"

	"talaria/api"
	"talaria/client"
)

// A watched workspace, unlike one whose limit is enforced, may exceed its limit for a second. The cells write so
// slowly, at most 40 MiB and 5,000 files per second, that a busy machine has time to look, and so much that these bounds
// are far less than what they would write unhindered.
const (
	overshootBytes  = 96 << 20
	overshootInodes = 12_000
)

// overshootMemory is how far a session may exceed its limit if its memory is watched rather than bounded: what can be
// allocated in a tenth of a second, which is how late a busy machine may look.
const overshootMemory = 448 << 20

// diskInodes is the limit of a session whose disk is fewInodes: a workspace may hold a file or folder for each 4 KiB
// of its bytes.
const diskInodes = 16 << 20 / 4096

var fewInodes = api.LimitsRequest{DiskBytes: new(int64(diskInodes * 4096))}

// exhaustion are attempts to take more than the session's share.
var exhaustion = []Check{
	{Name: "exhaustion/open-files", Quick: true, Cell: `
opened = []
try:
    while len(opened) < 100_000:
        opened.append(os.open("/dev/null", os.O_RDONLY))
except OSError as e:
    name = error_name(e.errno)
for fd in opened: os.close(fd)
say(error=name, few=len(opened) <= 4096)`, Judge: all(saw("error", "EMFILE"), saw("few", "true"))},
	{Name: "exhaustion/threads", Quick: true, Alone: true, Cell: `
stop = threading.Event()
started = []
try:
    for _ in range(1000):
        t = threading.Thread(target=stop.wait, daemon=True)
        t.start()
        started.append(t)
    error = "none"
except RuntimeError as e:
    error = str(e)
stop.set()
for t in started: t.join()
say(error=error, few=len(started) <= 64)`, Judge: all(saw("error", "can't start new thread"), saw("few", "true"), (*Trial).Works)},
	{Name: "exhaustion/processes", Quick: true, Alone: true, Cell: `
children = []
try:
    for _ in range(200):
        children.append(subprocess.Popen(["sleep", "100"]))
    error = "none"
except OSError as e:
    error = error_name(e.errno)
for p in children: p.kill(); p.wait()
say(error=error, few=len(children) <= 64)`, Judge: all(saw("error", "EAGAIN"), saw("few", "true"), (*Trial).Works)},
	{Name: "exhaustion/fork-bomb", Alone: true, Request: api.ExecutionRequest{TimeoutS: new(1.5)}, Cell: `
while True:
    try: os.fork()
    except OSError: pass`, Judge: judgeForkBomb},
	{Name: "exhaustion/memory-of-the-kernel", Quick: true, Alone: true, Cell: `
x = []
while True: x.append(bytearray(16 << 20))`, Judge: judgeMemoryError},
	{Name: "exhaustion/memory-of-a-child", Quick: true, Alone: true, Cell: `
def eat():
    x = []
    while True: x.append(bytearray(16 << 20))
say(saw=inside(eat))`, Judge: all(saw("saw", "MemoryError", "SIGKILL"), (*Trial).Works)},
	{Name: "exhaustion/memory-of-many", Alone: true, Cell: many("bytearray(160 << 20)"), Judge: judgeMemory},
	{Name: "exhaustion/memory-shared", Alone: true, Cell: many(`(m := mmap.mmap(-1, 160 << 20), [m.write(b"x" * (1 << 20)) for _ in range(160)])`),
		Judge: judgeMemory},
	{Name: "exhaustion/memory-in-files", Alone: true, Cell: `
held = []
for _ in range(20):
    fd = os.memfd_create("x")
    os.ftruncate(fd, 48 << 20)
    m = mmap.mmap(fd, 48 << 20)
    for _ in range(48): m.write(b"x" * (1 << 20))
    held.append(m)
say(held=960)`, Judge: judgeMemory},
	{Name: "exhaustion/memory-sysv", Alone: true, Cell: `
libc.shmat.restype = ctypes.c_void_p
for n in range(20):
    id = libc.shmget(0, ctypes.c_size_t(48 << 20), 0o1600)
    if id < 0: raise MemoryError
    at = libc.shmat(id, None, 0)
    if at in (None, ctypes.c_void_p(-1).value): raise MemoryError
    ctypes.memset(at, 1, 48 << 20)
say(held=960)`, Judge: judgeMemory},
	{Name: "exhaustion/tmp-bytes", Quick: true, Alone: true, Cell: temporary("/tmp"), Judge: judgeTemporary},
	{Name: "exhaustion/shm-bytes", Quick: true, Alone: true, Cell: temporary("/dev/shm"), Judge: func(t *Trial) error {
		if t.Server.ownFiles {
			return saw("error", "EACCES")(t)
		}
		return judgeTemporary(t)
	}},
	{Name: "exhaustion/home-bytes", Quick: true, Alone: true, Cell: temporary("/home/talaria"), Judge: judgeTemporary},
	{Name: "exhaustion/tmp-inodes", Alone: true, Limits: fewInodes, Cell: `
error, made = "none", 0
os.mkdir("/tmp/d")
try:
    for made in range(100_000):
        os.close(os.open(f"/tmp/d/{made}", os.O_CREAT))
        if not OWN_TREE and made % 500 == 0: time.sleep(0.1)
except OSError as e: error = error_name(e.errno)
say(error=error, few=made < 50_000)`, Judge: judgeTemporaryInodes},
	{Name: "exhaustion/workspace-bytes", Alone: true, Holds: NeedHeldDisk, Cell: `
error = "ok"
for n in range(80):
    begun = time.monotonic()
    error = attempt(os.mkdir, f"/workspace/{n}")
    if error == "ok": error, _ = fill(f"/workspace/{n}", 4 << 20, 4 << 20)
    if error != "ok": break
    time.sleep(0.1 + 2 * (time.monotonic() - begun))
say(error=error)`, Judge: judgeWorkspaceBytes},
	{Name: "exhaustion/workspace-inodes", Alone: true, Limits: fewInodes, Holds: NeedHeldDisk, Cell: `
error = "ok"
try:
    for folder in range(40):
        begun = time.monotonic()
        os.mkdir(f"/workspace/d{folder}")
        for n in range(500): os.close(os.open(f"/workspace/d{folder}/{n}", os.O_CREAT))
        time.sleep(0.1 + 2 * (time.monotonic() - begun))
except OSError as e: error = error_name(e.errno)
say(error=error)`, Judge: judgeWorkspaceInodes},
	{Name: "exhaustion/giant-file", Quick: true, Alone: true, Cell: `
with open("/workspace/giant", "wb", buffering=0) as f:
    def grow():
        while f.tell() < 128 << 20: f.write(bytes(1 << 20))
    error = attempt(grow)
size = os.path.getsize("/workspace/giant")
os.unlink("/workspace/giant")
say(error=error, few=size <= 64 << 20)`, Judge: all(saw("error", "EFBIG", "ENOSPC", "EDQUOT"), saw("few", "true"))},
	asks("exhaustion/sparse-file", `[attempt(os.truncate, os.open("/workspace/sparse", os.O_CREAT | os.O_RDWR), 1 <<
    40), os.unlink("/workspace/sparse")]`, "[EFBIG <nil>]"),
	{Name: "exhaustion/core-dump", Quick: true, Cell: `
pid = os.fork()
if not pid: os.abort()
_, end = os.waitpid(pid, 0)
say(dumped=os.WCOREDUMP(end), files=[n for d in ("/workspace", "/tmp") for n in os.listdir(d) if "core" in n])`,
		Judge: all(saw("dumped", "false"), saw("files", "[]"))},
	{Name: "exhaustion/many-entries", Alone: true, Cell: `
for n in range(10_000): os.close(os.open(f"/workspace/{n}", os.O_CREAT))
say(made=len(os.listdir("/workspace")))`, Judge: all(saw("made", "10000"), (*Trial).listsFiles, (*Trial).Works)},
	{Name: "exhaustion/deep-folder", Alone: true, Cell: `
os.chdir("/workspace")
try:
    for _ in range(2000):
        os.mkdir("d")
        os.chdir("d")
finally: os.chdir("/workspace")`, Judge: all((*Trial).listsFiles, judgeDeleted("/files/d"), (*Trial).Works)},
	{Name: "exhaustion/endless-line", Alone: true, Request: api.ExecutionRequest{TimeoutS: new(1.0)}, Cell: `
while True: sys.stdout.write("x" * 4096)`, Judge: judgeFlood},
	{Name: "exhaustion/endless-line-of-a-child", Alone: true, Request: api.ExecutionRequest{TimeoutS: new(1.0)}, Cell: `
subprocess.run(["cat", "/dev/zero"])`, Judge: judgeFlood},
	{Name: "exhaustion/tiny-writes", Cell: `
for _ in range(300_000): n = sys.stdout.write("x")`, Judge: judgeTinyWrites},
	{Name: "exhaustion/huge-repr", Alone: true, Limits: api.LimitsRequest{MemoryBytes: new(int64(512 << 20))}, Cell: `
class Huge:
    def __repr__(self): return "x" * (40 << 20)
Huge()`, Judge: judgeAnyEnd},
	{Name: "exhaustion/huge-picture", Alone: true, Limits: api.LimitsRequest{MemoryBytes: new(int64(512 << 20))}, Cell: `
class Picture:
    def _repr_png_(self): return b"\x89PNG\r\n\x1a\n" + os.urandom(18 << 20)
Picture()`, Judge: judgeAnyEnd},
	{Name: "exhaustion/display-of-itself", Quick: true, Alone: true, Cell: `
class Itself:
    def _repr_html_(self):
        display(self)
        return "x"
display(Itself())`, Judge: judgeAnyEnd},
	{Name: "exhaustion/cpu-share", Alone: true, Needs: []Need{NeedCPUGroup}, Limits: api.LimitsRequest{CPUs: new(0.5)}, Cell: `
end = time.monotonic() + 1.5
for _ in range(4):
    if not os.fork():
        while time.monotonic() < end: pass
        os._exit(0)
for _ in range(4): os.wait()`, Judge: judgeCPU},
	{Name: "exhaustion/pipes", Quick: true, Cell: `
held = []
try:
    while len(held) < 10_000: held += os.pipe()
except OSError as e: error = error_name(e.errno)
for fd in held: os.close(fd)
say(saw=error)`, Judge: saw("saw", "EMFILE", "ENFILE")},
	{Name: "exhaustion/terminals", Quick: true, Cell: `
held = []
try:
    while len(held) < 400: held += os.openpty()
    error = "none"
except OSError as e: error = "refused"
for fd in held: os.close(fd)
say(saw=error, few=len(held) <= 2 * 64)`, Judge: all(saw("saw", "refused"), saw("few", "true"))},
}

// many starts children that each allocate memory and keep it.
func many(memory string) string {
	return `
children = []
for _ in range(6):
    pid = os.fork()
    if not pid:
        try:
            held = ` + memory + `
            time.sleep(1)
            os._exit(0)
        except BaseException: os._exit(1)
    children.append(pid)
ends = [os.waitpid(pid, 0)[1] for pid in children]
say(held=160 * ends.count(0))`
}

// temporary fills a folder that is kept in memory.
func temporary(folder string) string {
	return fmt.Sprintf(`
size, pause = (8 << 20, 0) if OWN_TREE else (4 << 20, 0.1)
error, written = fill(%q, size, 320 << 20, pause)
say(error=error, written=written)
unfill(%[1]q)
say(error=error, written=written, few=written <= 65 << 20, again=fill(%[1]q, 4096, 4096)[0])`, folder)
}

// judgeTemporary checks a folder in memory against its size. If the folder counts as the workspace's, it checks it
// against that limit plus what a watched limit may be exceeded by. A cell that is interrupted for it reports nothing,
// and leaves what it has written.
func judgeTemporary(t *Trial) error {
	if !t.Server.ownFiles {
		return all(saw("error", "ENOSPC"), saw("few", "true"), saw("again", "ok"))(t)
	}
	left, err := t.See(t.Session, `say(bytes=sum(e.stat().st_size for d in ("/tmp", "/home/talaria") for e in os.scandir(d) if e.is_file()))`)
	if err != nil {
		return err
	}
	bytes, _ := left["bytes"].(float64)
	written := max(t.number("written"), int64(bytes))
	switch {
	case written <= 0 || written > diskBytes+overshootBytes:
		return fmt.Errorf("%d bytes were written, the limit is %d: %.300s", written, diskBytes, t.Execution.Text)
	case written > diskBytes:
		return bounded("%d bytes past the limit of %d", written-diskBytes, diskBytes)
	}
	return t.Works()
}

// judgeTemporaryInodes does the same for empty files, about which an interrupted cell reports nothing.
func judgeTemporaryInodes(t *Trial) error {
	if !t.Server.ownFiles {
		return all(saw("error", "ENOSPC"), saw("few", "true"))(t)
	}
	saw, err := t.See(t.Session, `say(made=len(os.listdir("/tmp/d")))`)
	if err != nil {
		return err
	}
	if made, _ := saw["made"].(float64); made > diskInodes+overshootInodes {
		return fmt.Errorf("%.0f files were created; the limit is %d", made, diskInodes)
	}
	return bounded("the limit of %d files is watched", diskInodes)
}

func judgeMemoryError(t *Trial) error {
	if e := t.Execution; e.Status != api.StatusError || e.Error == nil || e.Error.Ename != "MemoryError" || e.State != api.VariablesKept {
		return fmt.Errorf("it ended %s %s %s: %.200s", e.Status, e.Reason, e.State, e.Text)
	}
	return t.Works()
}

// judgeMemory checks what all processes used together against the session's limit, however the cell ended.
func judgeMemory(t *Trial) error {
	e := t.Execution
	if e.Status == api.StatusDied && e.Reason == "out_of_memory" {
		return fmt.Errorf("the machine was out of memory, and not the session")
	}
	taken := max(e.Usage.PeakMemoryBytes, t.number("held")<<20)
	if taken > memoryBytes+overshootMemory {
		return fmt.Errorf("%d MiB were taken, the limit is %d MiB", taken>>20, memoryBytes>>20)
	}
	if err := t.Works(); err != nil {
		return err
	}
	if taken > memoryBytes+memoryBytes/16 { // the interpreter's own memory is counted a little later
		return bounded("%d MiB past the limit of %d MiB", (taken-memoryBytes)>>20, memoryBytes>>20)
	}
	return nil
}

func judgeForkBomb(t *Trial) error {
	if e := t.Execution; e.Status != api.StatusTimeout && e.Status != api.StatusDied {
		return fmt.Errorf("it ended %s %s", e.Status, e.Reason)
	}
	session, err := t.Server.Client.Session(t.ctx, t.Session)
	if err != nil {
		return fmt.Errorf("look at the session: %w", err)
	}
	if session.Usage.PIDs > pids+1 { // plus pid 1
		return fmt.Errorf("there are %d processes, the limit is %d", session.Usage.PIDs, pids)
	}
	if _, err := t.Server.Client.ResetSession(t.ctx, t.Session, api.ResetRequest{}); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	saw, err := t.See(t.Session, `say(child=subprocess.getoutput("echo child"))`)
	if err == nil && saw["child"] != "child" {
		err = fmt.Errorf("after a reset a child says %v", saw["child"])
	}
	return err
}

// used is what the workspace holds, counted inside after the cell.
const used = `
taken = entries = 0
for path, folders, files in os.walk("/workspace"):
    for name in folders + files:
        entries += 1
        try: taken += os.lstat(f"{path}/{name}").st_blocks * 512
        except OSError: pass
say(bytes=taken, entries=entries)`

// emptied removes all files, after which writing has to work.
const emptied = `
import shutil
for name in os.listdir("/workspace"):
    path = f"/workspace/{name}"
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
say(written=len(os.listdir("/workspace")))`

func judgeWorkspaceBytes(t *Trial) error {
	return judgeWorkspace(t, "bytes", diskBytes, overshootBytes)
}

func judgeWorkspaceInodes(t *Trial) error {
	return judgeWorkspace(t, "entries", diskInodes, overshootInodes)
}

func judgeWorkspace(t *Trial, what string, limit, most int64) error {
	saw, err := t.See(t.Session, used)
	if err != nil {
		return fmt.Errorf("count what was written: %w", err)
	}
	n, _ := saw[what].(float64)
	taken := int64(n)
	if _, err := t.See(t.Session, emptied); err != nil {
		return fmt.Errorf("empty the workspace: %w", err)
	}
	switch {
	case t.Execution.Status == api.StatusOK && t.Saw["error"] == "ok", taken > limit+most:
		return fmt.Errorf("%d %s were written, the limit is %d", taken, what, limit)
	case taken > limit:
		err = bounded("%d %s past the limit of %d", taken-limit, what, limit)
	}
	// There has to be room again.
	if again, wrong := t.See(t.Session, `say(again=fill("/workspace", 4096, 40960)[0])`); wrong != nil || again["again"] != "ok" {
		return fmt.Errorf("with everything deleted, writing ends with %v (%v)", again["again"], wrong)
	}
	return err
}

func (t *Trial) listsFiles() error {
	if _, err := t.Server.Client.Files(t.ctx, t.Session, ""); err != nil {
		return fmt.Errorf("list the workspace: %w", err)
	}
	return nil
}

func judgeDeleted(path string) func(*Trial) error {
	return func(t *Trial) error {
		if a, err := t.Send("DELETE", path, ""); err != nil || a.Status != 204 {
			return fmt.Errorf("delete it: %d %s (%v)", a.Status, a.Code, err)
		}
		return nil
	}
}

// judgeFlood checks that the log holds no more of the output than it may, including output after the end, which has a
// limit of its own, and that the log is right about the kernel's fate.
func judgeFlood(t *Trial) error {
	e := t.Execution
	if e.Status != api.StatusTimeout {
		return fmt.Errorf("it ended %s %s", e.Status, e.Reason)
	}
	var logged, late int64
	over := false
	for event, err := range t.Server.Client.Events(t.ctx, t.Session, client.EventsQuery{Past: true}) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		switch b := event.Body.(type) {
		case api.ExecutionFinished:
			over = over || event.ExecutionID == e.ID
		case api.Stream:
			if over {
				late += int64(len(b.Text))
			} else {
				logged += int64(len(b.Text))
			}
		}
	}
	if max(logged, late) > outputBytes+64<<10 {
		return fmt.Errorf("the log holds %d bytes of output and %d that came late, the limit is %d", logged, late, outputBytes)
	}
	return t.goesOn()
}

func judgeTinyWrites(t *Trial) error {
	if e := t.Execution; e.Status != api.StatusOK || strings.Count(stdout(e), "x") != 300_000 {
		return fmt.Errorf("it ended %s with %d characters", e.Status, len(stdout(e)))
	}
	return nil
}

// judgeAnyEnd requires an end, whatever it is, and a session that still works.
func judgeAnyEnd(t *Trial) error {
	if t.Execution.Status == api.StatusTimeout {
		return fmt.Errorf("it ended %s", t.Execution.Status)
	}
	return t.Works()
}

func judgeCPU(t *Trial) error {
	u := t.Execution.Usage
	wall, cpu := time.Duration(u.DurationMS)*time.Millisecond, time.Duration(u.CPUMS)*time.Millisecond
	if cpu > wall*6/10+150*time.Millisecond {
		return fmt.Errorf("%v of CPU time in %v, with half a CPU", cpu, wall)
	}
	return nil
}
