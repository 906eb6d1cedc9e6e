import ctypes, errno, json, mmap, os, re, resource, signal, socket, stat, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)

def _numbers():
    common = dict(clone3=435, open_tree=428, move_mount=429, fsopen=430, fsconfig=431, fsmount=432, fspick=433,
        mount_setattr=442, io_uring_setup=425, io_uring_enter=426, io_uring_register=427, pidfd_open=434,
        pidfd_getfd=438, memfd_secret=447, quotactl_fd=443)
    x86_64 = dict(ptrace=101, process_vm_readv=310, process_vm_writev=311, kcmp=312, keyctl=250, add_key=248,
        request_key=249, bpf=321, userfaultfd=323, perf_event_open=298, unshare=272, setns=308, clone=56, mount=165,
        umount2=166, pivot_root=155, chroot=161, name_to_handle_at=303, open_by_handle_at=304, personality=135,
        syslog=103, clock_settime=227, settimeofday=164, adjtimex=159, clock_adjtime=305, sethostname=170,
        setdomainname=171, kexec_load=246, kexec_file_load=320, init_module=175, finit_module=313,
        delete_module=176, reboot=169, swapon=167, swapoff=168, acct=163, quotactl=179, iopl=172, ioperm=173,
        vhangup=153, modify_ldt=154, ioctl=16, setrlimit=160, prlimit64=302, getpid=39, nfsservctl=180,
        lookup_dcookie=212, timer_create=222, io_setup=206, mq_open=240)
    aarch64 = dict(ptrace=117, process_vm_readv=270, process_vm_writev=271, kcmp=272, keyctl=219, add_key=217,
        request_key=218, bpf=280, userfaultfd=282, perf_event_open=241, unshare=97, setns=268, clone=220, mount=40,
        umount2=39, pivot_root=41, chroot=51, name_to_handle_at=264, open_by_handle_at=265, personality=92,
        syslog=116, clock_settime=112, settimeofday=170, adjtimex=171, clock_adjtime=266, sethostname=161,
        setdomainname=162, kexec_load=104, kexec_file_load=294, init_module=105, finit_module=273,
        delete_module=106, reboot=142, swapon=224, swapoff=225, acct=89, quotactl=60, vhangup=58, ioctl=29,
        setrlimit=164, prlimit64=261, getpid=172, nfsservctl=42, lookup_dcookie=18, timer_create=107, io_setup=0, mq_open=180)
    return {**common, **dict(x86_64=x86_64, aarch64=aarch64).get(os.uname().machine, {})}

NR = _numbers()

def error_name(number):
    return errno.errorcode.get(number, str(number))

def call(name, *values):
    """Makes a system call: "ok", the name of its error, or "absent" where this machine has none of that name."""
    if name not in NR:
        return "absent"
    values = [ctypes.c_long(v) if isinstance(v, int) else v for v in values]
    ctypes.set_errno(0)
    libc.syscall.restype = ctypes.c_long
    return "ok" if libc.syscall(ctypes.c_long(NR[name]), *values) >= 0 else error_name(ctypes.get_errno())

def attempt(f, *values):
    """Calls f: "ok", or the name of its error."""
    try:
        f(*values)
        return "ok"
    except OSError as e:
        return error_name(e.errno) if e.errno else type(e).__name__
    except BaseException as e:
        return type(e).__name__

def result(f, *values):
    """The value of f, or the name of its error."""
    try:
        return f(*values)
    except OSError as e:
        return error_name(e.errno) if e.errno else type(e).__name__
    except BaseException as e:
        return type(e).__name__

def inside(f, *values):
    """Calls f in a child, for what may spoil its process: what it returns as text, or the signal that ended it."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(write, str(f(*values)).encode()[:4096])
        except BaseException as e:
            os.write(write, type(e).__name__.encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else text

def tried(name, *values):
    return inside(call, name, *values)

def status(field, pid="self"):
    with open(f"/proc/{pid}/status") as f:
        return next(line.split(":", 1)[1].strip() for line in f if line.startswith(field + ":"))

def read(path, size=200):
    with open(path, "rb") as f:
        return f.read(size)

def write(path, text="x"):
    with open(path, "r+" if os.path.exists(path) else "w") as f:
        f.write(text)

def contents(path):
    """Whether anything is to be read at a path: "nothing", "something", or the name of the error."""
    try:
        return "something" if read(path) else "nothing"
    except OSError as e:
        return error_name(e.errno)

def entries(path):
    try:
        return sorted(os.listdir(path))
    except OSError as e:
        return error_name(e.errno)

def sockets_of_ours():
    """The descriptors of this process that are sockets: one of them is the control channel."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd") if os.access("/proc/self/fd", os.R_OK) else range(3, 4096)):
        try:
            if fd > 2 and stat.S_ISSOCK(os.fstat(fd).st_mode):
                found.append(fd)
        except OSError:
            pass
    return found

def forge(*frames):
    """Writes frames to every descriptor that can be the control channel."""
    for fd in sockets_of_ours():
        for frame in frames:
            view = memoryview(frame)
            while view:
                try:
                    view = view[os.write(fd, view):]
                except BlockingIOError:
                    time.sleep(0.001)
                except OSError:
                    break

# Without a tree of its own, a session has no file systems in memory.
OWN_TREE = os.environ["TALARIA_WORKSPACE"] == os.path.join(os.sep, "workspace")

def fill(folder, size, most, pause=0):
    """Writes files of a size until one is refused or there are as many bytes as most: the error, and the bytes."""
    written = number = 0
    block = b"x" * size
    try:
        while written < most:
            path = f"{folder}/fill{number}"
            number += 1
            time.sleep(pause)
            with open(path, "wb", buffering=0) as f:
                view = memoryview(block)
                while view:
                    n = f.write(view)
                    written += n
                    view = view[n:]
        return "ok", written
    except OSError as e:
        return error_name(e.errno), written

def unfill(folder):
    for name in os.listdir(folder) if os.access(folder, os.R_OK) else []:
        if name.startswith("fill"):
            os.unlink(f"{folder}/{name}")

def say(**saw):
    print("\nSAW " + json.dumps(saw), flush=True)
