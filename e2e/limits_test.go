package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/client"
)

// limited runs a cell that reaches a limit, and checks that it is told which one and that the state is kept.
func limited(t *testing.T, c *client.Client, session, code, limit string, enames ...string) api.Limit {
	t.Helper()
	runOK(t, c, session, "kept = 'kept'")
	e := run(t, c, session, code)
	if e.Status != api.StatusError || e.State != api.VariablesKept || e.Error == nil ||
		!strings.Contains(strings.Join(enames, " "), e.Error.Ename) ||
		!strings.Contains(e.Error.Evalue, "variables are kept") || !strings.Contains(e.Text, "variables are kept") {
		t.Fatalf("%s: ended %s %s %s %+v", limit, e.Status, e.Reason, e.State, e.Error)
	}
	if got := runOK(t, c, session, "print(kept)"); got != "kept\n" {
		t.Errorf("%s: the next cell prints %q", limit, got)
	}
	for _, event := range collect(t, c.ExecutionEvents(within(t), session, e.ID, 0)) {
		if failure, ok := event.Body.(api.ErrorEvent); ok {
			if failure.Limit == nil || failure.Limit.Name != limit || failure.Limit.Value <= 0 || failure.Limit.Used <= 0 ||
				!strings.Contains(failure.Evalue, inWords(limit, failure.Limit.Value)) {
				t.Fatalf("%s: the error is %+v with %+v", limit, failure.ErrorOutput, failure.Limit)
			}
			return *failure.Limit
		}
	}
	t.Fatalf("%s: no error event", limit)
	return api.Limit{}
}

// inWords returns a value of a limit as an error shows it.
func inWords(limit string, value int64) string {
	switch {
	case strings.HasSuffix(limit, "_bytes") && value%(1<<30) == 0:
		return fmt.Sprint(value>>30, " GiB")
	case strings.HasSuffix(limit, "_bytes"):
		return fmt.Sprint(value>>20, " MiB")
	}
	return fmt.Sprint(value)
}

// workspaceUse returns what a server's only session uses on the disk.
func workspaceUse(t *testing.T, s *Server) (bytes int64, files int) {
	t.Helper()
	root := filepath.Join(s.StateDir, "sessions")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if path == filepath.Join(root, ".ballast") { // it belongs to the server
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		files++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes, files
}

// imagesHere reports whether this machine can hold workspaces in images, which takes root.
func imagesHere(t *testing.T) bool {
	t.Helper()
	_, err := exec.LookPath("mkfs.ext4")
	control, openErr := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err := errors.Join(err, openErr); err != nil {
		t.Logf("workspaces are watched as root too: %v", err)
		return false
	}
	return control.Close() == nil
}

// isHeld reports whether the operating system enforces the limit of a session's workspace, and checks that it does if
// it can.
func isHeld(t *testing.T, c *client.Client, session string, who identity) (held bool) {
	t.Helper()
	runOK(t, c, session, "1") // it is known by then
	info, err := c.Session(within(t), session)
	if err != nil {
		t.Fatal(err)
	}
	layers := strings.Join(info.Isolation.Layers, "\n")
	held = strings.Contains(layers, "disk: loop image, ") || strings.Contains(layers, "disk: project quota, ")
	if !held && !strings.Contains(layers, "disk: watched, ") || !held && who == asRoot && info.Isolation.Tier == "namespace" && imagesHere(t) {
		t.Errorf("the layers are %q", info.Isolation.Layers)
	}
	return held
}

func TestAFullWorkspaceIsHeldAndToldAndCanBeEmptied(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(32 << 20))}})
		held := isHeld(t, c, id, who)
		least := int64(32 << 20)
		if held { // not a block more, and perhaps a few less
			least -= 64 << 10
		}
		const fill = `import os
for i in range(1000):
    with open(f"f{i}", "wb") as f:
        for _ in range(4):
            f.write(bytes(1 << 20))`
		limit := limited(t, c, id, fill, "disk_bytes", "DiskLimit", "OSError")
		if limit.Value != 32<<20 || limit.Used < least || held && limit.Used > 32<<20 {
			t.Errorf("the limit is told as %+v", limit)
		}
		// 64 MiB more, or what a busy machine writes in a second.
		if used, _ := workspaceUse(t, s); used > (32+256)<<20 {
			t.Errorf("the workspace has %d MiB", used>>20)
		}
		limited(t, c, id, "with open('more', 'w') as f: f.write('more')", "disk_bytes", "OSError", "DiskLimit")
		info, err := c.Session(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		if layers := strings.Join(info.Isolation.Layers, "\n"); !strings.Contains(layers, ", 32 MiB and 81") {
			t.Errorf("the layers are %q", layers)
		}
		if info.Usage.DiskBytes < least || info.Usage.PeakMemoryBytes <= 0 {
			t.Errorf("the usage is %+v", info.Usage)
		}

		if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{DiskBytes: new(int64(1 << 30))}}); err != nil {
			t.Fatal(err)
		}
		runOK(t, c, id, "open('more', 'w').write('more')")
		if info, err := c.Session(within(t), id); err != nil ||
			!strings.Contains(strings.Join(info.Isolation.Layers, "\n"), ", 1024 MiB and ") {
			t.Errorf("the layers are %q (%v)", info.Isolation.Layers, err)
		}
		if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{DiskBytes: new(int64(8 << 20))}}); err != nil {
			t.Fatal(err)
		}
		limited(t, c, id, "with open('more', 'w') as f: f.write('more')", "disk_bytes", "OSError", "DiskLimit")
		runOK(t, c, id, "import glob, os\nfor f in glob.glob('*'): os.unlink(f)")
		runOK(t, c, id, "open('again', 'wb').write(bytes(1 << 20))")
	})
}

func TestACellThatWritesNothingGoesOnWhereTheWorkspaceIsFull(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who, config: "disk: watched\n"})
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "open('big', 'wb').write(bytes(12 << 20))")
		if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{DiskBytes: new(int64(8 << 20))}}); err != nil {
			t.Fatal(err)
		}
		// A new kernel, whose first look finds the workspace full; the cell runs long enough for several looks.
		if _, err := c.ResetSession(within(t), id, api.ResetRequest{}); err != nil {
			t.Fatal(err)
		}
		runOK(t, c, id, "import time\nfor _ in range(150): time.sleep(0.02)")
		limited(t, c, id, "with open('more', 'w') as f: f.write('more')", "disk_bytes", "OSError", "DiskLimit")
	})
}

func TestFilesThatAreManyDeletedOrDeepCountToo(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(16 << 20))}})
		held := isHeld(t, c, id, who)
		// Where a workspace is only watched, a writer rests for longer than it writes: otherwise a busy machine gives it all
		// the time that the watch needs, and its kernel is ended instead.
		limit := limited(t, c, id, `import time
for i in range(100_000):
    begin = time.monotonic()
    open(f"f{i}", "w").close()
    if i % 64 == 0: time.sleep(0.01 + 64 * (time.monotonic() - begin))`, "disk_inodes", "DiskLimit", "OSError")
		if limit.Value > 4096 || limit.Value < 4080 || !held && limit.Value != 4096 {
			t.Errorf("the limit is told as %+v", limit)
		}
		if _, files := workspaceUse(t, s); files > 4096+16384+100 {
			t.Errorf("the workspace has %d files", files)
		}
		runOK(t, c, id, "import os\nfor f in os.listdir('.'): os.unlink(f)")
		limited(t, c, id, `import os, time
held = []
for i in range(500):
    f = open("held", "wb", buffering=0)
    os.unlink("held")
    held.append(f)
    for _ in range(4):
        begin = time.monotonic()
        if f.write(bytes(1 << 20)) != 1 << 20: raise OSError("short")
        time.sleep(0.02 + 2 * (time.monotonic() - begin))`, "disk_bytes", "DiskLimit", "OSError")
		runOK(t, c, id, "for f in held: f.close()")
		if held { // neither depth nor a cell that continues regardless is a way past it
			e := run(t, c, id, `import mmap
f = open("sparse", "w+b")
for i in range(4):
    f.truncate((i + 1) << 23)
    m = mmap.mmap(f.fileno(), 0)
    for at in range(0, len(m), 4096): m[at] = 1`)
			wantEnd(t, e, api.StatusDied, "disk_limit", api.VariablesLost)
			return
		}
		limited(t, c, id, `import os, time
os.makedirs("d/" * 80)
while True:
    with open("more", "ab") as f: f.write(bytes(10))
    time.sleep(0.01)`, "disk_depth", "DiskLimit", "OSError")
		runOK(t, c, id, "import shutil; shutil.rmtree('d')")
		runOK(t, c, id, "open('again', 'w').write('again')")
		// A cell that ignores errors and interrupts is ended however deep it writes, even where nothing is measured.
		for _, depth := range []int{1, 80, 300} {
			e := run(t, c, id, fmt.Sprintf(`import os
i = made = 0
while True:
    try:
        if made < %d:
            if not os.path.isdir("d"): os.mkdir("d") # an interrupt may come anywhere
            os.chdir("d")
            made += 1
            continue
        i += 1
        open(f"f{i}", "w").close()
    except BaseException:
        pass`, depth))
			wantEnd(t, e, api.StatusDied, "disk_limit", api.VariablesLost)
			if _, files := workspaceUse(t, s); depth < 300 && files > 4096+3*16384 {
				t.Errorf("a cell that ignores the interrupt left %d files %d folders deep", files, depth)
			}
			if err := c.DeleteFile(within(t), id, "d"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestEachLimitIsNamedInTheErrorOfItsCell(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who, args: []string{"--interrupt-grace", "5s"}})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{
			MemoryBytes: new(int64(256 << 20)), PIDs: new(int64(24)), DiskBytes: new(int64(1 << 30))}})
		if l := limited(t, c, id, "x = bytearray(1 << 30)", "memory_bytes", "MemoryError"); l.Value != 256<<20 {
			t.Errorf("memory: %+v", l)
		}
		limited(t, c, id, "open('/tmp/big', 'wb').write(bytes(100 << 20))", "tmp_bytes", "OSError")
		runOK(t, c, id, "import os; os.unlink('/tmp/big')")
		limited(t, c, id, `import subprocess
held = []
while True: held.append(subprocess.Popen(['sleep', '1000']))`, "pids", "BlockingIOError")
		runOK(t, c, id, "for p in held: p.kill(); p.wait()")
		limited(t, c, id, `import threading
go = threading.Event()
while True: threading.Thread(target=go.wait).start()`, "pids", "RuntimeError")
		runOK(t, c, id, "go.set()")
		if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{ExecutionCPUS: new(int64(1))}}); err != nil {
			t.Fatal(err)
		}
		runOK(t, c, id, "import time; time.sleep(1.2)")
		if l := limited(t, c, id, "while True: pass", "execution_cpu_s", "CPULimit"); l.Value != 1 || l.Used < 1 || l.Used > 20 {
			t.Errorf("CPU time: %+v", l)
		}
		stubborn := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{ExecutionCPUS: new(int64(1))}})
		wantEnd(t, run(t, c, stubborn, `while True:
    try:
        n = 0 # or a jump back to the beginning of the try would not be inside
        while True: n += 1
    except BaseException: pass`), api.StatusDied, "cpu_limit", api.VariablesLost)
		if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{ExecutionCPUS: new(int64(0))}}); err != nil {
			t.Fatal(err)
		}
		e := runWith(t, c, id, api.ExecutionRequest{Code: new("while True: pass"), TimeoutS: new(0.5)})
		wantEnd(t, e, api.StatusTimeout, "timeout", api.VariablesKept)
		if !strings.Contains(e.Text, "timeout of 0.5 s") {
			t.Errorf("a time-out says %q", e.Text)
		}
	})
}

func TestAChildThatTakesTooMuchMemoryGoesBeforeTheKernel(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{MemoryBytes: new(int64(256 << 20))}})
		e := run(t, c, id, `import os, signal
def child():
    x = b"x" * (120 << 20)
    signal.pause()
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        try: child()
        finally: os._exit(0)
    children.append(pid)
pid, status = os.wait()
print(os.waitstatus_to_exitcode(status))
for p in children:
    if p != pid: os.kill(p, signal.SIGKILL); os.waitpid(p, 0)`)
		if e.Status != api.StatusOK || !strings.HasPrefix(printed(e), "-9\n") {
			t.Fatalf("ended %s %s: %s", e.Status, e.Reason, e.Text)
		}
		if !strings.Contains(e.Text, "killed: limits.memory_bytes is 256 MiB") {
			t.Errorf("the cell is told %q", e.Text)
		}
		// What it has outlived does not explain its end.
		wantEnd(t, run(t, c, id, "os.kill(os.getpid(), signal.SIGKILL)"), api.StatusDied, "signal:SIGKILL", api.VariablesLost)
	})
}
