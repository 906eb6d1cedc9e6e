"""Parking: the root of a sandbox, built on a tmpfs of our own from an allow-list of read-only binds.

The tree that is built first may be shared by many sandboxes; what is made afterwards belongs to each one.
"""

import functools
import glob
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from . import linux, places
from .step import step

# In this tier all sandboxes have the same.
LIBRARY = places.library
CACHE = places.cache
WORKSPACE = places.workspace
PACKAGES = places.packages
HOME = places.home
# The directory of all sessions is here until a sandbox is sealed, and is covered before any other code runs.
SESSIONS = "/opt/talaria/sessions"
WRITABLE = ("/tmp", "/dev/shm", HOME)
# The directories that sessions may mount folders of, by number; covered like the sessions.
MOUNTS = "/opt/talaria/mounts"
MOUNT_TOPS = ("/data", "/mnt")  # where mounts may go
EMPTY = "/opt/talaria/empty"  # to cover others with
# Holds files of /etc that each sandbox has for itself, though many may share the tree.
OWN = "/run"
OWN_FILES = ("hostname", "hosts")

_DIRECTORIES = (SESSIONS, MOUNTS, EMPTY, WORKSPACE, PACKAGES, HOME, OWN, "/dev/shm", "/etc", "/proc", "/tmp", "/var")
_OWN_NAMESPACES = (
    linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS | linux.CLONE_NEWCGROUP
)

_ALIASES = ("/home/user", "/mnt/data")  # the workspace, to code that was written for the sandboxes of E2B and LibreChat
_OOM_SCORE = 300  # a sandbox is killed before the host when the machine is out of memory
_READ_ONLY = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
_TMPFS = linux.MS_NOSUID | linux.MS_NODEV
TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Without the machine's profile, which would hide the programs of the environment and of packages from login shells.
_ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "fonts", "inputrc", "java-*-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic",
    "magic.mime", "matplotlibrc", "mime.types", "os-release", "pki/ca-trust/extracted", "pki/tls/certs",
    "pki/tls/openssl.cnf", "protocols", "python3*", "services", "ssl/certs", "ssl/openssl.cnf",
    "terminfo", "timezone",
)  # fmt: skip
_FILES = {
    "passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
    "user:x:1000:1000:user:/home/talaria:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    # Nothing answers there unless the session was given a network.
    "resolv.conf": "nameserver 10.0.2.3\noptions timeout:5 attempts:1\n",
    "group": "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
    "protocols: files\nservices: files\n",
}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEV_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
# Files that os.getloadavg, top and psutil read stay: loadavg, meminfo, stat, uptime. sysinfo(2) reveals most
# of that anyway.
_PROC_MASKED = (
    "acpi", "asound", "buddyinfo", "cmdline", "config.gz", "diskstats", "interrupts", "kallsyms", "kcore", "key-users",
    "keys", "kmsg", "latency_stats", "modules", "pagetypeinfo", "partitions", "pressure", "sched_debug", "schedstat",
    "scsi", "slabinfo", "softirqs", "swaps", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo", "vmstat",
    "zoneinfo",
)  # fmt: skip
_PROC_READ_ONLY = ("bus", "fs", "irq", "sys")


@dataclass
class Park:
    """The host's description of a sandbox that belongs to no session yet."""

    sessions: str  # the directory that all workspaces lie in
    library: str  # this package and the runner
    cache: str  # read-only caches of the environment, or ""
    prefixes: list[str]  # directories outside /usr that the interpreter needs
    roots: list[str]  # directories that sessions may mount folders of
    scratch: str = ""  # the private directory of a keeper without a tree


@dataclass
class Root:
    """The facts about a tree that was built."""

    hidden: list[str]  # directories of the interpreter that a sandbox's own /tmp and home cover


def park(spec: Park) -> int:
    """Makes this process a whole sandbox. Returns a descriptor of /proc/sys/user, read-only by its path."""
    with step("new cgroup namespace"):
        linux.unshare(linux.CLONE_NEWCGROUP)
    with step("raise oom score"):
        raise_oom_score()
    return _furnish(build(spec))


def build(spec: Park) -> Root:
    """Moves this process into a fresh tree. Afterwards only the allow-list of the old one is reachable. What
    each sandbox has for itself is not in the tree yet, so that sandboxes can share it."""
    with step("check threads"):
        check_threads()
    with step("private mounts"):
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    with step("open sources"):
        trees, links = _open_sources(spec)
        devices = _open_devices()
    with step("root tmpfs"):
        # Whatever this covers was opened above.
        new = next(d for d in ("/tmp", "/mnt", "/home", "/usr") if os.path.isdir(d))
        linux.mount("tmpfs", new, "tmpfs", _TMPFS, "mode=755,size=1m,nr_inodes=8k")
        os.umask(0o022)
        for directory in (*_DIRECTORIES, *MOUNT_TOPS):
            os.makedirs(new + directory, exist_ok=True)
        os.symlink("/tmp", new + "/var/tmp")
    with step("dev"):
        _make_dev(new, devices)
    with step("bind sources"):
        for target, link in links.items():
            _symlink(link, new + target)
        for target, tree in trees.items():
            _attach(tree, new + target)
        for alias in _ALIASES:
            if not os.path.lexists(new + alias):  # unless an interpreter lies there
                os.symlink(WORKSPACE, new + alias)
    with step("etc"):
        for name, text in _FILES.items():
            linux.write(f"{new}/etc/{name}", text.encode(), os.O_CREAT)
        for name in OWN_FILES:
            os.symlink(f"{OWN}/{name}", f"{new}/etc/{name}")
    with step("proc"):
        # The kernel allows it only while the old /proc is still visible.
        _mount_proc(new)
    with step("pivot root"):
        os.chdir(new)
        linux.pivot_root(".", ".")
        linux.umount(".", linux.MNT_DETACH)
        os.chdir("/")
    with step("root read-only"):
        linux.mount_setattr("/", _READ_ONLY)
    return Root([target for target in trees if _below(target, WRITABLE)])


def share(root: Root) -> None:
    """Finishes the tree of the process that sandboxes are forked from. Of what each of them will have for
    itself, it has a home, and the unmasked /proc: a mask there would forbid them a /proc of their own, by the
    kernel's rules."""
    with step("tmp"):
        _cover((HOME,), root.hidden)
    with step("shared proc"):
        linux.mount_setattr("/proc", _READ_ONLY | linux.MOUNT_ATTR_NOEXEC)


def leave() -> None:
    """Gives a process that was forked as pid 1 of a new pid namespace the other namespaces too."""
    with step("new namespaces"):
        linux.unshare(_OWN_NAMESPACES)


def settle(root: Root) -> int:
    """Sets up the new namespaces."""
    with step("own proc"):
        # On top of the one of the process it was forked from, which nobody inside has the right to uncover.
        _mount_proc("")
    with step("raise oom score"):
        raise_oom_score()
    return _furnish(root)


def rehearse(root: Root) -> None:
    """Leaves and sets up, and goes back, except for the control group namespace, which is not ours to join."""
    before = [os.open("/proc/self/ns/" + kind, os.O_RDONLY) for kind in ("mnt", "net", "ipc", "uts")]
    leave()
    _mount_proc("")
    os.close(_furnish(root))
    for fd in before:
        linux.setns(fd, 0)
        os.close(fd)


def _furnish(root: Root) -> int:
    """Gives a sandbox its own files. Returns a descriptor of /proc/sys/user, which is read-only by path."""
    with step("loopback up"):
        linux.loopback_up()
    with step("tmp"):
        _cover(WRITABLE, root.hidden)
        linux.mount("tmpfs", OWN, "tmpfs", _TMPFS | linux.MS_NOEXEC, "mode=755,size=64k,nr_inodes=8")
    with step("terminals"):
        flags = linux.MS_NOSUID | linux.MS_NOEXEC
        linux.mount("devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620,max=64")
    with step("mask proc"):
        user_limits = os.open("/proc/sys/user", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        _mask_proc()
    return user_limits


def _cover(directories: Iterable[str], hidden: list[str]) -> None:
    """Mounts an empty tmpfs on each directory, and puts the hidden directories back in their places."""
    trees = {path: linux.open_tree(path) for path in hidden if _below(path, directories)}
    for directory in directories:
        linux.mount("tmpfs", directory, "tmpfs", _TMPFS, f"mode={0o755 if directory == HOME else 0o1777:o}")
    for path, tree in trees.items():
        _attach(tree, path)


def _below(path: str, directories: Iterable[str]) -> bool:
    return any(path.startswith(directory + "/") for directory in directories)


def _mount_proc(new: str) -> None:
    linux.mount("proc", new + "/proc", "proc", _TMPFS | linux.MS_NOEXEC)


def etc() -> Iterator[str]:
    """Those of the allowed files of /etc that exist."""
    return (f for name in _ETC for f in glob.iglob("/etc/" + name))


def check_threads() -> None:
    if linux.lines_missing("/proc/self/status", (b"Threads:\t1",)):
        raise RuntimeError("the interpreter has started threads")


def raise_oom_score() -> None:
    path = "/proc/self/oom_score_adj"
    if int(linux.read(path)) < _OOM_SCORE:
        linux.write(path, str(_OOM_SCORE).encode())


def _open_sources(spec: Park) -> tuple[dict[str, int], dict[str, str]]:
    """Detached copies of the allowed trees by their targets, and the links that go next to them."""
    trees: dict[str, int] = {}
    links: dict[str, str] = {}

    def take(source: str, target: str, attributes: int = _READ_ONLY) -> None:
        tree = linux.open_tree(source)
        linux.mount_setattr("", attributes, tree, linux.AT_EMPTY_PATH | linux.AT_RECURSIVE)
        trees[target] = tree

    take("/usr", "/usr")
    for path in (*TOP, *etc()):
        if os.path.islink(path):
            links[path] = os.readlink(path)
        elif os.path.exists(path):
            take(path, path)
    for prefix in sorted(spec.prefixes):
        if not os.path.isabs(prefix) or any(f"{d}/".startswith(prefix.rstrip("/") + "/") for d in _DIRECTORIES):
            raise ValueError(f"the interpreter's directory {prefix} would hide what a sandbox has there")
        if not any(prefix == t or prefix.startswith(t + "/") for t in trees):
            take(prefix, prefix)
    take(spec.library, LIBRARY)
    if spec.cache:
        take(spec.cache, CACHE)
    take(spec.sessions, SESSIONS, linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV)
    for number, path in enumerate(spec.roots):
        take(path, f"{MOUNTS}/{number}", linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV)
    return trees, links


def _open_devices() -> dict[str, int]:
    trees = {}
    for name in _DEVICES:
        path = "/dev/" + name
        trees[path] = linux.open_tree(path)
        attributes = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NOEXEC
        linux.mount_setattr("", attributes, trees[path], linux.AT_EMPTY_PATH)
    return trees


def _attach(tree: int, target: str) -> None:
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    linux.move_mount(tree, target)
    os.close(tree)


def _make_dev(new: str, devices: dict[str, int]) -> None:
    dev = new + "/dev"
    linux.mount("tmpfs", dev, "tmpfs", linux.MS_NOSUID | linux.MS_NOEXEC, "mode=755,size=4k,nr_inodes=64")
    for path, tree in devices.items():
        _attach(tree, new + path)
    for name, link in _DEV_LINKS.items():
        os.symlink(link, f"{dev}/{name}")
    os.mkdir(dev + "/pts")
    os.mkdir(dev + "/shm")
    linux.mount_setattr(dev, linux.MOUNT_ATTR_RDONLY)


def _mask_proc() -> None:
    masks, read_only = _proc_parts()
    for path, mask in masks:
        linux.mount(mask, path, None, linux.MS_BIND)
    for path in read_only:
        linux.mount(path, path, None, linux.MS_BIND)
        linux.mount_setattr(path, _READ_ONLY | linux.MOUNT_ATTR_NOEXEC)


@functools.cache
def _proc_parts() -> tuple[list[tuple[str, str]], list[str]]:
    """The parts of this system's /proc to mask, and with what, and the parts to make read-only."""
    present = [p for p in ("/proc/" + name for name in _PROC_MASKED) if os.path.exists(p)]
    masks = [(p, EMPTY if os.path.isdir(p) else "/dev/null") for p in present]
    return masks, [p for p in ("/proc/" + name for name in _PROC_READ_ONLY) if os.path.isdir(p)]


def _symlink(link: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(link, path)
