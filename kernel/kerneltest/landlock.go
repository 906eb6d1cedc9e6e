package kerneltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// ownUser returns, as a Python literal, whether each session has a user of its own, which takes root.
func ownUser() string {
	if os.Geteuid() == 0 {
		return "True"
	}
	return "False"
}

// filesAndSignalsAreApart checks what two sandboxes that see the same machine must not be able to do to each other,
// though each knows exactly where the other is.
func filesAndSignalsAreApart(t *testing.T, r *rig) {
	a, spec := r.sealedSpec(t)
	b := r.sealed(t)
	p := start(t, a, r.pythonCommand(`
import os, time
path = os.environ["TMPDIR"] + "/mine"
open(path, "w").write("a")
os.chmod(path, 0o666)
print(os.getpid(), path, flush=True)
time.sleep(1000)
`))
	pid, temporary, _ := strings.Cut(output(t, p).next(), " ")
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatal(err)
	}
	attack := closed + fmt.Sprintf(`
import signal
pid, theirs, workspace = %[1]s, %[2]q, %[3]q
tried = {attempt(os.kill, pid, s) for s in (0, signal.SIGTERM, signal.SIGSTOP)}
tried |= {attempt(open, f"/proc/{pid}/{n}", "rb") for n in ("environ", "mem", "maps", "cmdline", "status", "stat", "fd/1",
    "root/etc/passwd", "task", "comm", "auxv")}
tried |= {attempt(os.readlink, f"/proc/{pid}/{n}") for n in ("exe", "cwd", "root", "fd/1")}
tried |= {attempt(os.listdir, f"/proc/{pid}/{n}") for n in ("", "fd", "task", "cwd")}
tried |= {attempt(open, f"/proc/{pid}/{n}", "w") for n in ("oom_score_adj", "clear_refs", "comm", "timerslack_ns")}
tried |= {attempt(open, theirs), attempt(open, theirs, "w"), attempt(os.unlink, theirs), attempt(os.truncate, theirs, 0)}
tried |= {attempt(os.rename, theirs, "stolen"), attempt(os.link, theirs, "stolen")} - {"OSError"} # to another device, as it were
tried |= {attempt(os.listdir, workspace), attempt(os.mkdir, workspace + "/made"), attempt(os.symlink, "x", workspace + "/made")}
tried |= {attempt(os.chmod, workspace, 0), attempt(os.chmod, theirs, 0), attempt(os.chmod, "../../../sessions", 0),
    attempt(os.fchmod, os.open(workspace, os.O_PATH), 0), attempt(os.fchmod, os.open(os.environ["TALARIA_PACKAGES"], 0), 0), attempt(os.setxattr, theirs, "user.x", b"y")} - {"OSError"}
tried |= {attempt(os.sched_setaffinity, pid, [0])}
print(tried)
`, pid, temporary, hostPath(t, spec.Workspace))
	r.prints(t, b, attack, "{'PermissionError'}")
	runner(t, b).prints(attack, "{'PermissionError'}")
	// Nor with a signal to all processes, which the kernel does not report as an error if it reaches none.
	r.prints(t, b, closed+"attempt(os.kill, -1, 9); print('alive')", "alive")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
		t.Errorf("the other sandbox's process ended: %+v", p.Exit())
	default:
	}
	content := filepath.Dir(temporary)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(content); len(left) > 0 {
		t.Errorf("temporary files are left in %v", left)
	}
}

// ordinaryInLandlock is what programs do all day and can do in this tier as well.
const ordinaryInLandlock = `
import asyncio, ctypes, fcntl, mmap, os, pathlib, resource, select, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, threading
from concurrent.futures import ThreadPoolExecutor

temporary, home = os.environ["TMPDIR"], os.environ["HOME"]
os.makedirs("a/b", exist_ok=True); os.makedirs("c", exist_ok=True)
pathlib.Path("a/b/one").write_text("1")
os.rename("a/b/one", "c/one"); os.link("c/one", "a/two"); os.symlink("../c/one", "a/link"); os.rename("a/b", "c/b")
assert pathlib.Path("a/link").read_text() == "1" and os.stat("a/two").st_nlink == 2
os.truncate("c/one", 0); os.rename("c/one", temporary + "/one"); os.rename("c", home + "/c"); shutil.rmtree(home + "/c")
os.mkfifo(temporary + "/fifo"); os.utime(temporary + "/one")
db = sqlite3.connect("db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(x)"); db.close()
with open("a/mapped", "w+b") as f:
    f.truncate(4096); m = mmap.mmap(f.fileno(), 4096); m[:1] = b"x"; m.flush(); fcntl.flock(f, fcntl.LOCK_EX)
mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
try:
    with open(os.memfd_create("m"), "wb") as f: f.write(b"x")
except OSError as e: assert e.errno == 38, e # ENOSYS: refused where no control group counts memory
with tempfile.TemporaryFile() as f: os.sendfile(f.fileno(), os.open("/etc/passwd", os.O_RDONLY), 0, 10)
with tempfile.NamedTemporaryFile() as f: assert f.name.startswith(temporary)
for path in ("/dev/null", "/dev/zero", "/dev/full", "/dev/stdout", "/dev/stderr"):
    open(path, "w").close()
os.urandom(3), open("/dev/urandom", "rb").read(3), open("/proc/meminfo").read(), open("/proc/cpuinfo").read()
os.listdir("/proc/self/fd"), open("/proc/self/maps").read(), open("/proc/self/status").read()

assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1024
assert subprocess.run("ulimit -n; sleep 0 & wait", shell=True, capture_output=True, text=True).stdout == "1024\n"
assert subprocess.run(["bash", "-c", "cat <(echo x) > /dev/stdout"], capture_output=True).stdout == b"x\n"
assert subprocess.run([sys.executable, "-c", "import time"], start_new_session=True, close_fds=True).returncode == 0
sleeper = subprocess.Popen(["sleep", "1000"]); sleeper.send_signal(signal.SIGTERM); assert sleeper.wait() == -15
with ThreadPoolExecutor(5) as pool: assert list(pool.map(abs, [-1, 2])) == [1, 2]
here, there = socket.socketpair(); here.send(b"x"); assert there.recv(1) == b"x"
async def main(): return await (await asyncio.create_subprocess_exec("true")).wait()
task = threading.Thread(target=lambda: asyncio.run(main())); task.start(); task.join()
pathlib.Path(temporary + "/run").write_text("#!/bin/sh\necho ran\n"); os.chmod(temporary + "/run", 0o700)
assert subprocess.run([temporary + "/run"], capture_output=True).stdout == b"ran\n"
shutil.copytree("a", temporary + "/copy", symlinks=True); shutil.copy2("/bin/sh", "sh"); os.chmod("sh", 0o750)
assert os.stat("sh").st_mode & 0o7777 == 0o750
folder = os.open("a", os.O_RDONLY); os.fchmod(folder, 0o711); os.chmod("two", 0o640, dir_fd=folder)
assert os.stat("a").st_mode & 0o7777 == 0o711 and os.stat("a/two").st_mode & 0o7777 == 0o640
assert subprocess.run("cp -p /bin/true t && install -m 700 t u && ./u && chmod 600 u", shell=True).returncode == 0
if OWN_USER: # terminals are for users who have none in common
    import pty
    master, slave = pty.openpty(); os.get_terminal_size(slave); os.ttyname(slave)
print("all of it")
`
