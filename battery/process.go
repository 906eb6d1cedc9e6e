package battery

// processState is the state and the rights of a process inside.
var processState = []Check{
	asks("process/capabilities", `[s for s in ("Inh", "Prm", "Eff", "Bnd", "Amb") if status("Cap" + s).strip("0")]`,
		"[]"),
	asks("process/capabilities-of-children", `subprocess.run([sys.executable, "-c", """
import ctypes, struct
sets = ctypes.create_string_buffer(24)
print(ctypes.CDLL(None).capget(struct.pack("Ii", 0x20080522, 0), sets), any(sets.raw))"""], capture_output=True,
    text=True).stdout.strip()`, "0 False"),
	asks("process/no-new-privileges", `status("NoNewPrivs")`, "1"),
	asks("process/seccomp", `status("Seccomp")`, "2"),
	orInLandlock(asks("process/seccomp-of-init", `result(status, "Seccomp", 1)`, "2"), "EACCES"), // there it does not belong to the session
	{Name: "process/landlock", Quick: true, Cell: landlock, Judge: saw("saw", "restricted")},
	asks("process/user", `[len(set(os.getresuid())), len(set(os.getresgid())), os.getuid() * os.getgid() > 0,
    0 in os.getgroups()]`, "[1 1 true false]"),
	asks("process/become-root", `[attempt(os.setuid, 0), attempt(os.setgid, 0), attempt(os.setgroups, [0])]`,
		"[EINVAL EINVAL EPERM]", "[EPERM EPERM EPERM]"),
	alone(asks("process/descriptors", `sorted({re.sub(r"\[\d+\]", "", result(os.readlink, f"/proc/self/fd/{n}")) for n in range(4096)
    if attempt(os.fstat, n) == "ok"} - {"pipe:", "socket:", "anon_inode:[eventpoll]", "/dev/null", "EACCES", "ENOENT",
    os.environ["HOME"] + "/.talaria/asks"})`, "[]")), // the last one is where programs inside ask for packages
	asks("process/descriptors-of-children", `subprocess.run([sys.executable, "-c", """
import os
for fd in range(4096):
    try: os.fstat(fd)
    except OSError: continue
    print(fd)"""], capture_output=True, text=True).stdout.split()`, "[0 1 2]"),
	asks("process/raise-limits", `[r for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE,
    resource.RLIMIT_MEMLOCK, resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO) if inside(resource.setrlimit, r,
    (resource.getrlimit(r)[1] + 1,) * 2) != "ValueError"]`, "[]"),
	asks("process/raise-file-size", `inside(lambda: attempt(resource.setrlimit, resource.RLIMIT_FSIZE,
    (resource.RLIM_INFINITY,) * 2))`, "ValueError", "EPERM"),
	asks("process/core-limit", `list(resource.getrlimit(resource.RLIMIT_CORE))`, "[0 0]"),
	asks("process/locked-memory", `resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] <= 1 << 20`, "true"),
	asks("process/nice", `attempt(os.nice, -1)`, "EPERM", "EACCES"),
	asks("process/real-time", `[attempt(os.sched_setscheduler, 0, p, os.sched_param(1)) for p in (os.SCHED_FIFO,
    os.SCHED_RR)]`, "[EPERM EPERM]"),
	// It must not be possible to turn the machine's choice of whom to kill against others.
	asks("process/oom-score", `(lambda before: [attempt(write, "/proc/self/oom_score_adj", v) for v in ("-1000",
    "0", "100")] and int(read("/proc/self/oom_score_adj")) >= before)(int(read("/proc/self/oom_score_adj")))`, "true"),
	asks("process/environment", `[n for n in os.environ if n.startswith("TALARIA_") and n[8:] not in ("WORKSPACE", "PACKAGES", "INSTALLS", "PYTHON") or
    n in ("SSH_AUTH_SOCK", "SUDO_USER", "DBUS_SESSION_BUS_ADDRESS")]`, "[]"),
	asks("process/first-arguments", `[p for p in entries("/proc") if p.isdigit() and b"--state-dir" in
    read(f"/proc/{p}/cmdline", 4096)]`, "[]"),
	asks("process/host-name", `attempt(socket.sethostname, "x")`, "EPERM"),
	asks("process/own-namespaces", `[n for n in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup") if not
    os.path.islink("/proc/self/ns/" + n) and attempt(os.readlink, "/proc/self/ns/" + n) not in ("EACCES", "EPERM")]`,
		"[]"),
	asks("process/identities-mapped", `[len(open("/proc/self/uid_map").read().splitlines()),
    open("/proc/self/uid_map").read().split()[2]]`, "[1 1]"),
	{Name: "process/kill-init", Quick: true, Cell: `
for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGINT):
    attempt(os.kill, 1, sig)
say(saw="alive")`, Judge: all(saw("saw", "alive"), (*Trial).Works)},
	{Name: "process/group-limits", Quick: true, Cell: `
say(saw=[p for p in ("/sys/fs/cgroup", "/proc/self/cgroup") if attempt(write, p) == "ok"])`, Judge: saw("saw", "[]")},
}

// landlock counts how often a process can restrict itself further: sixteen domains can be nested, and one fewer is
// left if there is one already.
const landlock = `
def layers():
    fd = libc.syscall(ctypes.c_long(444), struct.pack("=Q", 1 << 2), ctypes.c_size_t(8), 0)
    if fd < 0: return "absent"
    n = 0
    while n < 20 and libc.syscall(ctypes.c_long(446), fd, 0) == 0: n += 1
    return "restricted" if n < 16 else "free"
say(saw=inside(layers))
`
