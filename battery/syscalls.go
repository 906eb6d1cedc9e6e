package battery

// syscalls are calls that no program needs and that have been used to break kernels. Calls that would spoil the
// process are tried in a child. If a machine has no call of that name, there is nothing to refuse.
var syscalls = []Check{
	asks("syscalls/ptrace", `tried("ptrace", 0, 0, 0, 0)`, "EPERM"),
	asks("syscalls/process-vm-readv", `tried("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0)`, "EPERM"),
	asks("syscalls/process-vm-writev", `tried("process_vm_writev", os.getpid(), 0, 0, 0, 0, 0)`, "EPERM"),
	asks("syscalls/kcmp", `tried("kcmp", os.getpid(), os.getpid(), 0, 1, 2)`, "EPERM"),
	asks("syscalls/pidfd-getfd", `tried("pidfd_getfd", os.pidfd_open(os.getpid()), 0, 0)`, "EPERM"),
	asks("syscalls/keyctl", `tried("keyctl", 0, -3, 1)`, "EPERM", "ENOSYS"),
	asks("syscalls/add-key", `tried("add_key", b"user", b"name", b"secret", 6, -1)`, "EPERM", "ENOSYS"),
	asks("syscalls/request-key", `tried("request_key", b"user", b"name", b"", -1)`, "EPERM", "ENOSYS"),
	asks("syscalls/bpf", `tried("bpf", 0, ctypes.create_string_buffer(128), 128)`, "EPERM", "ENOSYS"),
	asks("syscalls/userfaultfd", `tried("userfaultfd", 1)`, "EPERM", "ENOSYS"),
	asks("syscalls/perf-event-open", `tried("perf_event_open", ctypes.create_string_buffer(struct.pack("=IIQ", 1,
    128, 0) + bytes(112)), 0, -1, -1, 0)`, "EPERM", "EACCES", "ENOSYS"),
	asks("syscalls/unshare-user", `tried("unshare", 0x10000000)`, "EPERM"),
	asks("syscalls/unshare-mount", `tried("unshare", 0x00020000)`, "EPERM"),
	asks("syscalls/unshare-pid", `tried("unshare", 0x20000000)`, "EPERM"),
	asks("syscalls/unshare-network", `tried("unshare", 0x40000000)`, "EPERM"),
	asks("syscalls/unshare-others", `sorted({tried("unshare", flag) for flag in (0x08000000, 0x04000000,
    0x02000000)})`, "[EPERM]"),
	asks("syscalls/setns", `tried("setns", os.open("/proc/self/ns/user", os.O_RDONLY), 0)`, "EPERM"),
	asks("syscalls/clone-namespaces", `sorted({tried("clone", flag | 17, 0, 0, 0, 0)
    for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x10020000)})`, "[EPERM]"),
	asks("syscalls/clone3", `tried("clone3", ctypes.create_string_buffer(struct.pack("=8Q", 0x10000000, 0, 0, 0, 17,
    0, 0, 0)), 64)`, "ENOSYS"),
	asks("syscalls/mount", `tried("mount", b"none", b"/tmp", b"tmpfs", 0, 0)`, "EPERM"),
	asks("syscalls/mount-bind", `tried("mount", b"/workspace", b"/tmp", 0, 0x1000, 0)`, "EPERM"),
	asks("syscalls/remount", `tried("mount", 0, b"/usr", 0, 0x1020, 0)`, "EPERM"),
	// One child for all mounts, because a fork may take a tenth of a second; it cannot read the list itself, since tier landlock
	// lets a process read the mounts of the kernel alone.
	asks("syscalls/umount", `(lambda points: inside(lambda: " ".join({call("umount2", point, 2) for point in points})))(
    [line.split()[1].encode() for line in open("/proc/self/mounts")]).split()`, "[EPERM]"),
	asks("syscalls/open-tree", `tried("open_tree", -100, b"/workspace", 1)`, "EPERM", "ENOSYS"),
	asks("syscalls/move-mount", `tried("move_mount", -100, b"/workspace", -100, b"/tmp", 0)`, "EPERM", "ENOSYS"),
	asks("syscalls/fsopen", `tried("fsopen", b"tmpfs", 0)`, "EPERM", "ENOSYS"),
	asks("syscalls/mount-setattr", `tried("mount_setattr", -100, b"/usr", 0,
    ctypes.create_string_buffer(struct.pack("=4Q", 0, 1, 0, 0)), 32)`, "EPERM", "ENOSYS"),
	asks("syscalls/pivot-root", `tried("pivot_root", b"/tmp", b"/tmp")`, "EPERM"),
	asks("syscalls/chroot", `tried("chroot", b"/workspace")`, "EPERM"),
	asks("syscalls/name-to-handle-at", `tried("name_to_handle_at", -100, b"/workspace",
    ctypes.create_string_buffer(struct.pack("=Ii", 120, 0) + bytes(120)), ctypes.byref(ctypes.c_int()), 0)`, "EPERM"),
	asks("syscalls/open-by-handle-at", `tried("open_by_handle_at", os.open("/workspace", os.O_RDONLY),
    ctypes.create_string_buffer(struct.pack("=Ii", 8, 1) + bytes(8)), 0)`, "EPERM"),
	asks("syscalls/io-uring", `[tried("io_uring_setup", 8, ctypes.create_string_buffer(120)),
    tried("io_uring_enter", -1, 0, 0, 0, 0, 0), tried("io_uring_register", -1, 0, 0, 0)]`, "[ENOSYS ENOSYS ENOSYS]"),
	asks("syscalls/personality", `tried("personality", 0x0040000)`, "EPERM"),
	asks("syscalls/syslog", `tried("syslog", 3, ctypes.create_string_buffer(64), 64)`, "EPERM"),
	asks("syscalls/clock-settime", `sorted({tried("clock_settime", 0, ctypes.create_string_buffer(16)),
    tried("settimeofday", ctypes.create_string_buffer(16), 0)})`, "[EPERM]"),
	asks("syscalls/adjtimex", `sorted({tried("adjtimex", ctypes.create_string_buffer(struct.pack("=I", 1) +
    bytes(252))), tried("clock_adjtime", 0, ctypes.create_string_buffer(struct.pack("=I", 1) + bytes(252)))})`,
		"[EPERM]"),
	asks("syscalls/sethostname", `sorted({tried("sethostname", b"x", 1), tried("setdomainname", b"x", 1)})`, "[EPERM]"),
	asks("syscalls/memfd-secret", `tried("memfd_secret", 0)`, "EPERM", "ENOSYS"),
	asks("syscalls/kexec", `sorted({tried("kexec_load", 0, 0, 0, 0), tried("kexec_file_load", -1, -1, 0, 0, 0)})`,
		"[EPERM]", "[ENOSYS]", "[EPERM ENOSYS]"),
	asks("syscalls/modules", `sorted({tried("init_module", b"", 0, b""), tried("finit_module", 0, b"", 0),
    tried("delete_module", b"x", 0)})`, "[EPERM]", "[ENOSYS]", "[EPERM ENOSYS]"),
	asks("syscalls/reboot", `tried("reboot", 0xfee1dead, 672274793, 0, 0)`, "EPERM"),
	asks("syscalls/swap", `sorted({tried("swapon", b"/workspace/x", 0), tried("swapoff", b"/workspace/x")})`,
		"[EPERM]", "[ENOSYS]", "[EPERM ENOSYS]"),
	asks("syscalls/acct", `tried("acct", 0)`, "EPERM", "ENOSYS"),
	asks("syscalls/quotactl", `[tried("quotactl", 0x800007 << 8, b"/dev/root", 0, 0), tried("quotactl_fd", 3,
    0x800007 << 8, 0, 0)]`, "[EPERM EPERM]", "[EPERM ENOSYS]"),
	asks("syscalls/ports", `sorted({tried("iopl", 3), tried("ioperm", 0, 1, 1)})`, "[EPERM]", "[absent]", "[ENOSYS]"),
	asks("syscalls/vhangup", `tried("vhangup")`, "EPERM"),
	asks("syscalls/modify-ldt", `tried("modify_ldt", 1, ctypes.create_string_buffer(16), 16)`,
		"EPERM", "ENOSYS", "absent"),
	asks("syscalls/obsolete", `sorted({tried("nfsservctl", 0, 0, 0), tried("lookup_dcookie", 0, 0, 0)})`,
		"[ENOSYS]", "[EPERM]", "[EPERM ENOSYS]"),
	// A program of another architecture uses other numbers for the same calls: a filter that takes them for its own is
	// useless.
	{Name: "syscalls/foreign-architecture", Quick: true, Cell: foreign,
		Judge: saw("saw", "SIGSYS", "SIGSEGV", "absent")},
	asks("syscalls/x32", `inside(lambda: libc.syscall(ctypes.c_long(0x40000000 | NR["getpid"]))) if
    os.uname().machine == "x86_64" else "absent"`, "SIGSYS", "-1", "absent"), // -1: a kernel without these numbers
	{Name: "syscalls/terminal-input", Quick: true, Cell: terminal,
		Judge: all(saw("tiocsti", "EPERM"), saw("tioclinux", "EPERM"))},
	// The kernel takes the low half of the request; so must a filter.
	{Name: "syscalls/terminal-input-high-bits", Quick: true, Cell: terminal,
		Judge: all(saw("tiocsti_high", "EPERM"), saw("tioclinux_high", "EPERM"))},
	asks("syscalls/setrlimit", `tried("setrlimit", resource.RLIMIT_NOFILE,
    ctypes.create_string_buffer(struct.pack("=QQ", 100, 100)))`, "EPERM"),
	asks("syscalls/prlimit", `tried("prlimit64", 0, resource.RLIMIT_NOFILE,
    ctypes.create_string_buffer(struct.pack("=QQ", 100, 100)), 0)`, "EPERM"),
	asks("syscalls/prlimit-read", `tried("prlimit64", 0, resource.RLIMIT_NOFILE, 0, ctypes.create_string_buffer(16))`,
		"ok"),
}

const terminal = `
try: _, fd = os.openpty()
except PermissionError: fd = 0 # the filter looks at the request only
say(tiocsti=tried("ioctl", fd, 0x5412, b"x"), tiocsti_high=tried("ioctl", fd, 0x1_0000_5412, b"x"),
    tioclinux=tried("ioctl", fd, 0x541c, b"\x02"), tioclinux_high=tried("ioctl", fd, 0x1_0000_541c, b"\x02"))
`

// foreign calls getpid the way a 32-bit program does.
const foreign = `
def foreign():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
say(saw=inside(foreign) if os.uname().machine == "x86_64" else "absent")
`
