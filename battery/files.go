package battery

import "fmt"

// files are parts of the host's and the system's files that must not be visible or changeable.
var files = []Check{
	asks("files/shadow", `contents("/etc/shadow")`, "ENOENT", "EACCES"),
	orInLandlock(asks("files/host-secret", `contents("OUTSIDE/secret")`, "ENOENT"), "EACCES"),
	asks("files/host-secret-through-links", `[contents(p) for p in ("/proc/self/root/OUTSIDE/secret",
    "/proc/self/cwd/../../../OUTSIDE/secret", "/proc/1/root/OUTSIDE/secret", "/proc/1/cwd/../OUTSIDE/secret") if
    contents(p) not in ("ENOENT", "EACCES", "EPERM")]`, "[]"),
	asks("files/homes", `[entries("/root") in ("ENOENT", "EACCES", []), entries("/home") in ("EACCES", "ENOENT",
    ["talaria", "user"])]`, "[true true]"),
	asks("files/write-root", `attempt(write, "/made")`, "EROFS", "EACCES"),
	asks("files/write-usr", `attempt(write, "/usr/made")`, "EROFS", "EACCES"),
	asks("files/write-etc", `sorted({attempt(write, p) for p in ("/etc/made", "/etc/passwd", "/etc/ld.so.preload",
    "/etc/hosts")} - {"EROFS", "EACCES"})`, "[]"),
	orInLandlock(asks("files/write-packages", `[attempt(write, "/packages/made"), attempt(os.chmod, "/packages", 0o777)]`,
		"[EROFS EROFS]", "[EACCES EACCES]"), "[EACCES EPERM]"),
	asks("files/write-interpreter", `attempt(write, os.path.realpath(sys.executable))`, "EROFS", "EACCES", "ETXTBSY"),
	asks("files/write-runner", `[p for p, _, files in os.walk("/opt") for f in files if attempt(write, p + "/" + f)
    not in ("EROFS", "EACCES")]`, "[]"),
	asks("files/write-dev", `attempt(write, "/dev/made")`, "EROFS", "EACCES"),
	asks("files/proc-sys", `[p for p in ("kernel/hostname", "kernel/core_pattern", "kernel/modprobe",
    "vm/overcommit_memory", "fs/binfmt_misc/register") if attempt(write, "/proc/sys/" + p) not in ("EROFS",
    "EACCES", "ENOENT", "EPERM")]`, "[]"),
	asks("files/sysrq", `attempt(write, "/proc/sysrq-trigger", "h")`, "EACCES", "ENOENT", "EROFS", "EPERM"),
	hidden("kallsyms"), hidden("keys"), hidden("kcore"), hidden("kmsg"), hidden("timer_list"), hidden("sched_debug"),
	asks("files/host-processes", `[p for p in entries("/proc") if p.isdigit() and int(p) > 100000]  + [status("Name", p)
    for p in entries("/proc") if p.isdigit() and status("Name", p) in ("systemd", "talaria", "sshd", "bash")]`, "[]"),
	asks("files/init-environment", `contents("/proc/1/environ")`, "EACCES", "EPERM", "nothing"),
	asks("files/init-memory", `[attempt(open, "/proc/1/mem", "rb"), attempt(open, "/proc/1/mem", "r+b")]`,
		"[EACCES EACCES]"),
	asks("files/init-root", `attempt(os.listdir, "/proc/1/root")`, "EACCES", "EPERM"),
	asks("files/init-cwd", `attempt(os.readlink, "/proc/1/cwd")`, "EACCES", "EPERM"),
	asks("files/init-descriptors", `sorted({f("/proc/1/fd/3") for f in (contents, lambda p: attempt(os.readlink, p),
    lambda p: attempt(os.open, p, os.O_RDWR))})`, "[EACCES]"),
	asks("files/old-root", `[p for p in ("/.old", "/old", "/oldroot", "/put_old", "/host", "/proc/self/root/..") if
    os.path.exists(p) and not os.path.samefile(p, "/")]`, "[]"),
	asks("files/sessions-of-others", `entries("/opt/talaria/sessions")`, "[]", "ENOENT", "EACCES"),
	asks("files/state-directory", `(lambda state: sorted({f(state + "/" + n) for f in (contents, lambda p:
    attempt(os.listdir, p), lambda p: attempt(os.chmod, p, 0), lambda p: attempt(os.rename, p, "stolen")) for n in ("token",
    "url", "lock", "talaria.db", "talaria.db-wal", "talaria.yaml", "hosts", "hosts/log", "artifacts", "sessions")} -
    {"EACCES", "ENOENT", "EPERM", "EROFS", "EXDEV", "ENOTDIR", "EINVAL"}))(os.path.normpath("/workspace/../../.."))`, "[]"),
	asks("files/mknod-block", `sorted({attempt(os.mknod, d + "/made", 0o60666, os.makedev(8, 0)) for d in ("/tmp",
    "/workspace", "/dev/shm")})`, "[EPERM]", "[EACCES]"),
	asks("files/mknod-char", `sorted({attempt(os.mknod, d + "/made", 0o20666, os.makedev(1, 1)) for d in ("/tmp",
    "/workspace", "/dev/shm")})`, "[EPERM]", "[EACCES]"),
	asks("files/set-user-id", `[line.split()[1] for line in open("/proc/self/mounts") if "nosuid" not in
    line.split()[3].split(",")]`, "[]"),
	{Name: "files/set-user-id-program", Quick: true, Cell: setUserID, Judge: saw("saw", "[true 1]")},
	asks("files/devices", `[n for n in (entries("/dev") if entries("/dev") != "EACCES" else []) if n not in ("null", "zero", "full", "random", "urandom",
    "tty", "fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm")]`, "[]"),
	asks("files/device-mounts", `[line.split()[1] for line in open("/proc/self/mounts") if "nodev" not in
    line.split()[3].split(",") and not line.split()[1].startswith("/dev") and attempt(os.path.samefile,
    line.split()[1], "/dev/null") == "ok" and not os.path.samefile(line.split()[1], "/dev/null")]`, "[]"),
	asks("files/sys", `[n for d in ("/sys", "/sys/kernel", "/sys/fs/cgroup", "/sys/class/net") for n in ([d] if
    entries(d) not in ("ENOENT", "EACCES", []) else [])]`, "[]"),
	asks("files/services", `[p for p in ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus", "/run/systemd",
    "/run/user", "/run/snapd.socket", "/var/lib", "/var/log", "/boot") if os.path.lexists(p)]`, "[]"),
	asks("files/hard-link", `sorted({attempt(os.link, p, "/workspace/made") for p in ("/etc/passwd", "/usr/bin/env",
    "/proc/self/status")})`, "[EXDEV]", "[EPERM]", "[EPERM EXDEV]", "[EACCES EXDEV]", "[EACCES]"),
	asks("files/loaded-code", `attempt(open, "/proc/self/exe", "r+b")`, "EROFS", "EACCES", "ETXTBSY"),
	asks("files/mount-table", `sorted({line.split()[8 if line.split()[6] == "-" else 7] for line in
    open("/proc/self/mountinfo")} & {"overlay", "cgroup", "cgroup2", "sysfs", "debugfs", "tracefs", "bpf",
    "securityfs", "fusectl"})`, "[]"),
}

// setUserID runs a shell that tries to become another user.
const setUserID = `
import shutil
shutil.copy("/bin/sh", "/workspace/made")
attempt(os.chmod, "/workspace/made", 0o6755)
look = "id -u; exec PYTHON -c 'import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))'".replace("PYTHON", sys.executable)
user, unprivileged = subprocess.run(["/workspace/made", "-c", look], capture_output=True, text=True).stdout.split()
os.unlink("/workspace/made")
say(saw=[int(user) == os.getuid(), int(unprivileged)])
`

// hidden checks a file of /proc that reveals something about the host's kernel, or lets it be changed.
func hidden(name string) Check {
	return asks("files/proc-"+name, fmt.Sprintf(`contents("/proc/%s")`, name), "nothing", "ENOENT", "EACCES", "EPERM")
}
