package kerneltest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

// call is a system call to try in a sandbox, with its arguments in Python syntax.
type call struct {
	name      string
	number    int
	arguments string
	want      unix.Errno // 0: it succeeds
}

// Where possible, the arguments are such that without a filter the call succeeds, or fails with a different error.
var calls = []call{
	{"ptrace of nobody", unix.SYS_PTRACE, "16, 999999, 0, 0", unix.EPERM},
	{"ptrace by the parent", unix.SYS_PTRACE, "0, 0, 0, 0", unix.EPERM},
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV, "os.getpid(), 0, 0, 0, 0, 0", unix.EPERM},
	{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, "os.getpid(), 0, 0, 0, 0, 0", unix.EPERM},
	{"kcmp", unix.SYS_KCMP, "os.getpid(), os.getpid(), 0, 0, 1", unix.EPERM},
	{"pidfd_getfd", unix.SYS_PIDFD_GETFD, "-1, 0, 0", unix.EPERM},
	{"move_pages", unix.SYS_MOVE_PAGES, "0, 0, 0, 0, 0, 0", unix.EPERM},
	{"migrate_pages", unix.SYS_MIGRATE_PAGES, "0, 0, 0, 0", unix.EPERM},
	{"unshare of users", unix.SYS_UNSHARE, "0x10000000", unix.EPERM},
	{"unshare of mounts", unix.SYS_UNSHARE, "0x00020000", unix.EPERM},
	{"unshare of time", unix.SYS_UNSHARE, "0x80", unix.EPERM},
	{"unshare of files", unix.SYS_UNSHARE, "0x400", 0},
	{"setns", unix.SYS_SETNS, "-1, 0", unix.EPERM},
	{"clone into a network", unix.SYS_CLONE, "0x40000000 | 17, 0, 0, 0, 0", unix.EPERM},
	{"clone into users, with a high bit", unix.SYS_CLONE, "0x10000000 | 17 | 1 << 32, 0, 0, 0, 0", unix.EPERM},
	{"clone3", unix.SYS_CLONE3, "0, 0", unix.ENOSYS},
	{"add_key", unix.SYS_ADD_KEY, "b'user', b'a', b'b', 1, -3", unix.EPERM},
	{"request_key", unix.SYS_REQUEST_KEY, "b'user', b'a', 0, 0", unix.EPERM},
	{"keyctl", unix.SYS_KEYCTL, "0, -3, 0", unix.EPERM},
	{"bpf", unix.SYS_BPF, "0, 0, 0", unix.EPERM},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, "0, 0, -1, -1, 0", unix.EPERM},
	{"userfaultfd", unix.SYS_USERFAULTFD, "1", unix.EPERM},
	{"memfd_secret", unix.SYS_MEMFD_SECRET, "0", unix.EPERM},
	{"vmsplice", unix.SYS_VMSPLICE, "-1, 0, 0, 0", unix.EPERM},
	{"fanotify_init", unix.SYS_FANOTIFY_INIT, "0x200, 0", unix.EPERM},
	{"syslog", unix.SYS_SYSLOG, "10, 0, 0", unix.EPERM},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, "1, bytes(120)", unix.ENOSYS},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER, "-1, 0, 0, 0, 0, 0", unix.ENOSYS},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER, "-1, 0, 0, 0", unix.ENOSYS},
	{"mount", unix.SYS_MOUNT, "b'none', b'/nowhere', b'tmpfs', 0, 0", unix.EPERM},
	{"umount2", unix.SYS_UMOUNT2, "b'/tmp', 1 << 30", unix.EPERM},
	{"pivot_root", unix.SYS_PIVOT_ROOT, "b'/', b'/'", unix.EPERM},
	{"chroot", unix.SYS_CHROOT, "b'/nowhere'", unix.EPERM},
	{"open_tree", unix.SYS_OPEN_TREE, "-100, b'/tmp', 0", unix.EPERM},
	{"open_tree_attr", unix.SYS_OPEN_TREE_ATTR, "-100, b'/tmp', 0, 0, 0", unix.EPERM},
	{"move_mount", unix.SYS_MOVE_MOUNT, "-1, b'', -1, b'', 0", unix.EPERM},
	{"fsopen", unix.SYS_FSOPEN, "b'nothing', 0", unix.EPERM},
	{"fsconfig", unix.SYS_FSCONFIG, "-1, 0, 0, 0, 0", unix.EPERM},
	{"fsmount", unix.SYS_FSMOUNT, "-1, 0, 0", unix.EPERM},
	{"fspick", unix.SYS_FSPICK, "-100, b'/nowhere', 0", unix.EPERM},
	{"mount_setattr", unix.SYS_MOUNT_SETATTR, "-100, b'/nowhere', 0, 0, 0", unix.EPERM},
	{"statmount", unix.SYS_STATMOUNT, "0, 0, 0, 0", unix.ENOSYS},
	{"listmount", unix.SYS_LISTMOUNT, "0, 0, 0, 0", unix.ENOSYS},
	{"quotactl", unix.SYS_QUOTACTL, "0, 0, 0, 0", unix.EPERM},
	{"quotactl_fd", unix.SYS_QUOTACTL_FD, "-1, 0, 0, 0", unix.EPERM},
	{"swapon", unix.SYS_SWAPON, "b'/nowhere', 1 << 30", unix.EPERM},
	{"swapoff", unix.SYS_SWAPOFF, "b'/nowhere'", unix.EPERM},
	{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, "-100, b'/tmp', 0, 0, 0", unix.EPERM},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, "-100, 0, 0", unix.EPERM},
	{"personality without random addresses", unix.SYS_PERSONALITY, "0x40000", unix.EPERM},
	{"personality as it is", unix.SYS_PERSONALITY, "0xffffffff", 0},
	{"clock_settime", unix.SYS_CLOCK_SETTIME, "99, 0", unix.EPERM},
	{"clock_adjtime", unix.SYS_CLOCK_ADJTIME, "0, bytes(256)", unix.EPERM},
	{"settimeofday", unix.SYS_SETTIMEOFDAY, "0, 1", unix.EPERM},
	{"adjtimex", unix.SYS_ADJTIMEX, "bytes(256)", unix.EPERM},
	{"sethostname", unix.SYS_SETHOSTNAME, "b'x', 1", unix.EPERM},
	{"setdomainname", unix.SYS_SETDOMAINNAME, "b'x', 1", unix.EPERM},
	{"init_module", unix.SYS_INIT_MODULE, "0, 0, 0", unix.EPERM},
	{"finit_module", unix.SYS_FINIT_MODULE, "-1, 0, 0", unix.EPERM},
	{"delete_module", unix.SYS_DELETE_MODULE, "b'x', 0", unix.EPERM},
	{"kexec_load", unix.SYS_KEXEC_LOAD, "0, 0, 0, 0", unix.EPERM},
	{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, "-1, -1, 0, 0, 0", unix.EPERM},
	{"reboot", unix.SYS_REBOOT, "0, 0, 0, 0", unix.EPERM},
	{"acct", unix.SYS_ACCT, "0", unix.EPERM},
	{"vhangup", unix.SYS_VHANGUP, "", unix.EPERM},
	{"ioctl to type into a terminal", unix.SYS_IOCTL, "0, 0x5412, 0", unix.EPERM},
	{"ioctl to type into a terminal, with a high bit", unix.SYS_IOCTL, "0, 0x5412 | 1 << 32, 0", unix.EPERM},
	{"ioctl of the console", unix.SYS_IOCTL, "0, 0x541c | 1 << 63, 0", unix.EPERM},
	{"ioctl for a protocol on a terminal", unix.SYS_IOCTL, "0, 0x5423, 0", unix.EPERM},
	{"setrlimit", unix.SYS_SETRLIMIT, "4, struct.pack('QQ', 0, 0)", unix.EPERM},
	{"prlimit64 to change", unix.SYS_PRLIMIT64, "0, 4, struct.pack('QQ', 0, 0), 0", unix.EPERM},
	{"prlimit64 to read", unix.SYS_PRLIMIT64, "0, 4, 0, ctypes.create_string_buffer(16)", 0},
	{"socket of the internet", unix.SYS_SOCKET, "2, 1, 0", 0},
	{"socket of the internet's sixth version", unix.SYS_SOCKET, "10, 2, 17", 0},
	{"socket of SCTP", unix.SYS_SOCKET, "2, 1, 132", unix.EPROTONOSUPPORT},
	{"socket of netlink", unix.SYS_SOCKET, "16, 3, 0", unix.EAFNOSUPPORT},
	{"socket of netlink, with a high bit", unix.SYS_SOCKET, "16 | 1 << 32, 3, 0", unix.EAFNOSUPPORT},
	{"socket of packets", unix.SYS_SOCKET, "17, 3, 0", unix.EAFNOSUPPORT},
	{"socket of keys", unix.SYS_SOCKET, "15, 3, 2", unix.EAFNOSUPPORT},
	{"socket of ciphers", unix.SYS_SOCKET, "38, 5, 0", unix.EAFNOSUPPORT},
	{"socket of virtual machines", unix.SYS_SOCKET, "40, 1, 0", unix.EAFNOSUPPORT},
	{"socket of Bluetooth", unix.SYS_SOCKET, "31, 3, 1", unix.EAFNOSUPPORT},
	{"socket of CAN", unix.SYS_SOCKET, "29, 3, 1", unix.EAFNOSUPPORT},
	{"socket of TIPC", unix.SYS_SOCKET, "30, 1, 0", unix.EAFNOSUPPORT},
	{"socket of RDS", unix.SYS_SOCKET, "21, 5, 0", unix.EAFNOSUPPORT},
	{"socket of XDP", unix.SYS_SOCKET, "44, 3, 0", unix.EAFNOSUPPORT},
	{"socketpair of TIPC", unix.SYS_SOCKETPAIR, "30, 1, 0, bytes(8)", unix.EAFNOSUPPORT},
	{"a call of some day", 100_000, "0", unix.ENOSYS},
}

// tryCalls returns code that makes the calls, and prints the results that are not as wanted.
func tryCalls(view View) string {
	var code strings.Builder
	code.WriteString(`
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def attempt(name, want, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    got = ctypes.get_errno() if result == -1 else 0
    if result == 0 and number == CLONE:
        os._exit(0)
    if got != want:
        print(name, "fails with", errno.errorcode.get(got, got), "and not with", errno.errorcode.get(want, want))
`)
	fmt.Fprintf(&code, "CLONE = %d\n", unix.SYS_CLONE)
	for _, c := range append(calls, callsHere...) {
		if view == OwnFiles && c.number == unix.SYS_SOCKET {
			c.want = unix.EAFNOSUPPORT
		}
		fmt.Fprintf(&code, "attempt(%q, %d, %d, %s)\n", c.name, int(c.want), c.number, c.arguments)
	}
	code.WriteString("print('tried')\n")
	return code.String()
}

func callsAreFiltered(t *testing.T, r *rig) {
	requireLayer(t, r, "system calls:")
	s := r.sealed(t)
	r.prints(t, s, tryCalls(r.view), "tried")
	// The runner enters the sandbox in a way of its own.
	runner(t, s).prints(tryCalls(r.view), "tried")
	runner(t, r.sealed(t)).prints(tryCalls(r.view), "tried")
}

// requireLayer skips the test if the machine, and not the backend, lacks a layer.
func requireLayer(t *testing.T, r *rig, prefix string) {
	t.Helper()
	for _, layer := range r.sealed(t).Layers() {
		if strings.HasPrefix(layer, prefix) {
			return
		}
	}
	if prefix == "system calls:" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		t.Fatal("the sandbox has no filter of system calls")
	}
	if prefix == "landlock:" {
		if version, err := LandlockVersion(); err == nil && version >= 2 {
			t.Fatalf("the machine has Landlock %d, and the sandbox does not use it", version)
		}
	}
	t.Skipf("this machine has no layer %q", prefix)
}

// LandlockVersion returns the ABI of this machine's Landlock.
func LandlockVersion() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(version), nil
}

func foreignCallsKill(t *testing.T, r *rig) {
	requireLayer(t, r, "system calls:")
	s := r.sealed(t)
	r.prints(t, s, foreign, "True True")
	runner(t, s).prints(foreign, "True True")
}

func filesAreFenced(t *testing.T, r *rig) {
	requireLayer(t, r, "landlock:")
	const code = `
import ctypes, errno, os, stat
def attempt(name, f, want):
    try:
        f()
        got = 0
    except OSError as e:
        got = e.errno
    if got != want:
        print(name, errno.errorcode.get(got, got))
# Without Landlock, it would be EPERM, for lack of the capability.
attempt("device", lambda: os.mknod(os.environ["TMPDIR"] + "/w", stat.S_IFCHR, os.makedev(1, 3)), errno.EACCES)
attempt("device in the workspace", lambda: os.mknod(os.environ["TALARIA_WORKSPACE"] + "/w", stat.S_IFCHR, os.makedev(1, 3)), errno.EACCES)
# What a process may do without Landlock.
pid = os.fork()
if not pid:
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    attempt("comm", lambda: open("/proc/self/comm", "w"), errno.EACCES)
    attempt("oom_score_adj", lambda: open("/proc/self/oom_score_adj", "w"), errno.EACCES)
    attempt("mem", lambda: open("/proc/self/mem", "r+b"), errno.EACCES)
    os._exit(0)
os.waitpid(pid, 0)
print("tried")
`
	s := r.sealed(t)
	r.prints(t, s, code, "tried")
	runner(t, s).prints(code, "tried")
	runner(t, r.sealed(t)).prints(code, "tried")
}

// ordinary is what programs do all day; no layer may disturb it.
const ordinary = `
import asyncio, ctypes, fcntl, mmap, multiprocessing, os, pathlib, pty, resource, select, shutil, signal, socket, sqlite3
import stat, subprocess, sys, tempfile, threading
from multiprocessing import shared_memory

# Files, between folders.
os.makedirs("a/b", exist_ok=True); os.makedirs("c", exist_ok=True)
pathlib.Path("a/b/one").write_text("1")
os.rename("a/b/one", "c/one"); os.link("c/one", "a/two"); os.symlink("../c/one", "a/link"); os.rename("a/b", "c/b")
assert pathlib.Path("a/link").read_text() == "1" and os.stat("a/two").st_nlink == 2
os.truncate("c/one", 0); shutil.move("c/one", "/tmp/one"); shutil.copytree("c", "/home/talaria/c"); shutil.rmtree("c")
os.mkfifo("/tmp/fifo"); os.chmod("/tmp/one", 0o755); os.utime("/tmp/one"); os.setxattr("a/two", "user.x", b"y")
pathlib.Path("/tmp/run").write_text("#!/bin/sh\necho ran\n"); os.chmod("/tmp/run", 0o700)
assert subprocess.run(["/tmp/run"], capture_output=True).stdout == b"ran\n"
db = sqlite3.connect("/workspace/db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(x)"); db.close()
with open("a/mapped", "w+b") as f:
    f.truncate(4096); m = mmap.mmap(f.fileno(), 4096); m[:1] = b"x"; m.flush(); fcntl.flock(f, fcntl.LOCK_EX)
mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
try:
    with open(os.memfd_create("m"), "wb") as f: f.write(b"x")
except OSError as e: assert e.errno == 38, e # ENOSYS: refused where no control group counts memory
with tempfile.TemporaryFile() as f: os.sendfile(f.fileno(), os.open("/etc/passwd", os.O_RDONLY), 0, 10)
for path in ("/dev/null", "/dev/zero", "/dev/full", "/dev/stdout", "/dev/stderr"):
    open(path, "w").close()
with open("/dev/null", "r+b", buffering=0) as f: assert not f.isatty()
os.urandom(3), open("/dev/urandom", "rb").read(3), os.listdir("/proc/self/fd"), open("/proc/self/maps").read()

# Processes.
ctypes.CDLL(None).personality.restype = ctypes.c_int
assert ctypes.CDLL(None).personality(ctypes.c_ulong(0xffffffff)) == 0
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1024
assert subprocess.run("ulimit -n; sleep 0 & wait; echo $(id -u)", shell=True, capture_output=True, text=True).stdout == "1024\n1000\n"
assert subprocess.run(["bash", "-c", "cat <(echo x) > /dev/stdout"], capture_output=True).stdout == b"x\n"
assert subprocess.run([sys.executable, "-c", "import time"], start_new_session=True, close_fds=True).returncode == 0
sleeper = subprocess.Popen(["sleep", "1000"]); sleeper.send_signal(signal.SIGTERM); assert sleeper.wait() == -15
threads = [threading.Thread(target=len, args=("",)) for _ in range(5)]; [t.start() for t in threads]; [t.join() for t in threads]
for method in ("fork", "spawn", "forkserver"):
    with multiprocessing.get_context(method).Pool(2) as pool: assert pool.map(abs, [-1, 2]) == [1, 2]
block = shared_memory.SharedMemory(create=True, size=100); block.buf[0] = 1; block.close(); block.unlink()

# Sockets and terminals.
here, there = socket.socketpair(); here.send(b"x"); assert there.recv(1) == b"x"
with socket.socket(socket.AF_UNIX) as s: s.bind("/tmp/socket"); s.listen()
with socket.socket(socket.AF_UNIX) as s: s.bind("\0abstract")
with socket.create_server(("127.0.0.1", 0)) as s: socket.create_connection(s.getsockname()).close()
with socket.create_server(("::1", 0), family=socket.AF_INET6) as s: pass
assert socket.getaddrinfo("localhost", 80)
async def main(): return await (await asyncio.create_subprocess_exec("true")).wait()
task = threading.Thread(target=lambda: asyncio.run(main())); task.start(); task.join()
master, slave = pty.openpty(); os.get_terminal_size(slave); os.ttyname(slave)
pid, fd = pty.fork()
if not pid:
    os.execvp("sh", ["sh", "-c", "tty; stty size; echo typed > /dev/tty"])
said = b""
try:
    while got := os.read(fd, 1000): said += got
except OSError: pass
os.waitpid(pid, 0)
assert b"/dev/pts/" in said and b"typed" in said, said
print("all of it")
`

func ordinaryProgramsWork(t *testing.T, r *rig) {
	s, spec := r.sealedSpec(t)
	main, ordinary := r.workspace(t, spec)+"/main.py", ordinary
	if r.view == OwnFiles {
		ordinary = strings.ReplaceAll(ordinaryInLandlock, "OWN_USER", ownUser())
	}
	r.prints(t, s, fmt.Sprintf("open(%q, 'w').write(%q)", main, "if __name__ == '__main__':\n"+indent(ordinary)), "")
	res := finish(t, start(t, s, kernel.Program{Args: []string{r.env.Python, main}}))
	if res.exit != (kernel.Exit{}) || strings.TrimSpace(res.stdout) != "all of it" {
		t.Errorf("%+v", res)
	}
	runner(t, r.sealed(t)).prints(strings.ReplaceAll(ordinary, `("fork", "spawn", "forkserver")`, `("fork", "spawn")`), "all of it")
}

func indent(code string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(code), "\n", "\n    ") + "\n"
}
