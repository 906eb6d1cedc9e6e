"""Parking: the root of a sandbox, built on a tmpfs of our own from an allow-list of read-only binds."""

import glob
import os
import stat
from dataclasses import dataclass

from . import linux
from .step import step

LIBRARY = "/opt/talaria/lib"
CACHE = "/opt/talaria/cache"
WORKSPACE = "/workspace"
PACKAGES = "/packages"
HOME = "/home/user"
# The directory of all sessions lies here until a sandbox is sealed, and is covered before any other code runs.
SESSIONS = "/opt/talaria/sessions"
WRITABLE = ("/tmp", "/dev/shm", HOME)

_DIRECTORIES = (SESSIONS, WORKSPACE, PACKAGES, HOME, "/dev/shm", "/etc", "/proc", "/run", "/tmp", "/var")

_OOM_SCORE = 300  # a sandbox goes before the host when the machine is out of memory
_READ_ONLY = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
_TMPFS = linux.MS_NOSUID | linux.MS_NODEV
_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "fonts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic",
    "magic.mime", "matplotlibrc", "mime.types", "os-release", "pki/ca-trust/extracted", "pki/tls/certs",
    "pki/tls/openssl.cnf", "profile", "protocols", "python3*", "services", "ssl/certs", "ssl/openssl.cnf",
    "terminfo", "timezone",
)  # fmt: skip
_FILES = {
    "passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
    "user:x:1000:1000:user:/home/user:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
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
_PROC_MASKED = (
    "acpi", "asound", "config.gz", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats",
    "sched_debug", "scsi", "slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo",
)  # fmt: skip
_PROC_READ_ONLY = ("bus", "fs", "irq", "sys")


@dataclass
class Park:
    """What the host says about a sandbox that is not yet anybody's."""

    sessions: str  # the directory that all workspaces lie in
    library: str  # this package and the runner
    cache: str  # read-only caches of the environment, or ""
    prefixes: list[str]  # directories outside /usr that the interpreter needs


def park(spec: Park) -> None:
    """Moves this process into a fresh tree. Nothing of the old one but the allow-list is reachable afterwards."""
    with step("check threads"):
        if linux.status().threads != 1:
            raise RuntimeError("the interpreter has started threads")
    with step("new cgroup namespace"):
        linux.unshare(linux.CLONE_NEWCGROUP)
    with step("loopback up"):
        linux.loopback_up()
    with step("raise oom score"):
        _raise_oom_score()
    with step("private mounts"):
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    with step("open sources"):
        trees, links = _open_sources(spec)
        devices = _open_devices()
    with step("root tmpfs"):
        # What this covers was opened above.
        new = next(d for d in ("/tmp", "/mnt", "/home", "/usr") if os.path.isdir(d))
        linux.mount("tmpfs", new, "tmpfs", _TMPFS, "mode=755,size=1m,nr_inodes=8k")
        os.umask(0o022)
        for directory in _DIRECTORIES:
            os.makedirs(new + directory, exist_ok=True)
        os.symlink("/tmp", new + "/var/tmp")
    with step("dev"):
        _make_dev(new, devices)
    with step("tmp"):
        for directory in WRITABLE:
            linux.mount("tmpfs", new + directory, "tmpfs", _TMPFS, f"mode={0o755 if directory == HOME else 0o1777:o}")
    with step("bind sources"):
        # An interpreter may lie in /tmp or a home, so these come after the tmpfs there.
        for target, link in links.items():
            _symlink(link, new + target)
        for target, tree in trees.items():
            _attach(tree, new + target)
        linux.mount_setattr(new + "/dev", linux.MOUNT_ATTR_RDONLY)
    with step("etc"):
        for name, text in _FILES.items():
            _write(f"{new}/etc/{name}", text)
    with step("proc"):
        # The kernel allows it only while the old /proc is still in sight.
        linux.mount("proc", new + "/proc", "proc", _TMPFS | linux.MS_NOEXEC)
    with step("pivot root"):
        os.chdir(new)
        linux.pivot_root(".", ".")
        linux.umount(".", linux.MNT_DETACH)
        os.chdir("/")
    with step("limit namespaces"):
        # Room for the one that sealing makes. It holds for all that is made below this user namespace.
        _write("/proc/sys/user/max_user_namespaces", "1")
    with step("mask proc"):
        _mask_proc()


def _raise_oom_score() -> None:
    with open("/proc/self/oom_score_adj", "r+") as f:
        if int(f.read()) < _OOM_SCORE:
            f.seek(0)
            f.write(str(_OOM_SCORE))


def _open_sources(spec: Park) -> tuple[dict[str, int], dict[str, str]]:
    """Detached copies of the allowed trees by where they go, and the links that go beside them."""
    trees: dict[str, int] = {}
    links: dict[str, str] = {}

    def take(source: str, target: str, attributes: int = _READ_ONLY) -> None:
        tree = linux.open_tree(source)
        linux.mount_setattr("", attributes, tree, linux.AT_EMPTY_PATH | linux.AT_RECURSIVE)
        trees[target] = tree

    take("/usr", "/usr")
    etc = [f for name in _ETC for f in glob.iglob("/etc/" + name)]
    for path in (*_TOP, *etc):
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
    flags = linux.MS_NOSUID | linux.MS_NOEXEC
    linux.mount("devpts", dev + "/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620,max=64")


def _mask_proc() -> None:
    for name in _PROC_MASKED:
        path = "/proc/" + name
        if os.path.isdir(path):
            flags = linux.MS_RDONLY | _TMPFS | linux.MS_NOEXEC
            linux.mount("tmpfs", path, "tmpfs", flags, "mode=555,size=4k,nr_inodes=2")
        elif os.path.exists(path):
            linux.mount("/dev/null", path, None, linux.MS_BIND)
    for name in _PROC_READ_ONLY:
        path = "/proc/" + name
        if os.path.isdir(path):
            linux.mount(path, path, None, linux.MS_BIND | linux.MS_REC)
            linux.mount_setattr(path, _READ_ONLY | linux.MOUNT_ATTR_NOEXEC)


def _symlink(link: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(link, path)


def _write(path: str, text: str) -> None:
    with open(path, "w") as f:
        f.write(text)
