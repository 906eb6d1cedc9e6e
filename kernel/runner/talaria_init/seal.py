"""Sealing: a parked sandbox becomes one session's, and gives up every privilege."""

import errno
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import landlock, linux, mounts, root
from .environment import make_home
from .limits import Limits
from .mounts import Mount
from .step import step

USER = 1000  # the user and group id inside
_MIN_INODES = 4096
_BYTES_PER_INODE = 4096
_SEALED = (
    *(f"{kind}:{f'{chr(9)}{USER}' * 4}".encode() for kind in ("Uid", "Gid")),
    *(f"Cap{set}:\t{0:016x}".encode() for set in ("Inh", "Prm", "Eff", "Bnd", "Amb")),
    b"NoNewPrivs:\t1",
)
_FILTERED = b"Seccomp:\t2"
# What the nested user namespace may have of what the kernel counts for users, by names in /proc/sys/user. All
# of it also counts for the namespaces around it, up to the server's user on the host, who has 128 inotify
# instances by default.
_COUNTS = {
    **{f"max_{kind}_namespaces": 0 for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")},
    "max_fanotify_groups": 0,
    "max_fanotify_marks": 0,
    "max_inotify_instances": 16,
    "max_inotify_watches": 4096,
}


@dataclass
class Directory:
    """A directory below that of the sessions, by its path and by the identity that it must have. Without a
    path it is a mount that is not in any tree yet."""

    path: str
    device: int
    inode: int


@dataclass
class Confinement:
    """What confines a process that has no privileges, besides the namespaces."""

    landlock: int  # the version to use, or 0 for none
    calls: str  # the filter of system calls, or none
    modes: str  # the one that hands changes of modes to pid 1, or none
    writable: list[str]  # mounts that may be written to


@dataclass
class Seal:
    uid: int  # outside the nested user namespace
    killer: int  # the user id of nothing but what ends the processes of another user
    workspace: Directory
    packages: Directory
    mounts: list[Mount]
    hostname: str
    limits: Limits
    confinement: Confinement
    scratch: Directory | None = None  # for temporary files, if there is no tmpfs


def seal(spec: Seal, user_limits: int, nested: Callable[[], None], mounted: Sequence[int] = ()) -> None:
    """Binds what belongs to the session and drops all privileges; verified by reading them back. user_limits
    is the directory /proc/sys/user. nested is called when other processes of the sandbox can join. mounted is
    the workspace if it has no path; the caller keeps it."""
    with step("bind workspace"):
        attributes = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        if spec.workspace.path:
            _bind(spec.workspace, root.WORKSPACE, attributes)
        else:
            _attach(spec.workspace, mounted[0], root.WORKSPACE, attributes)
    with step("bind packages"):
        read_only = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        _bind(spec.packages, root.PACKAGES, read_only)
    with step("bind mounts"):
        mounts.bind(spec.mounts)
    with step("cover sessions"):
        # A mount on top is 0.1 ms, an unmount 6 ms; the nested user namespace can undo neither.
        linux.mount(root.EMPTY, root.SESSIONS, None, linux.MS_BIND)
    with step("size tmpfs"):
        _size_tmpfs(spec.limits.tmp)
        _give_home(spec.uid)
    with step("host name"):
        socket.sethostname(spec.hostname)
        _write_own("hostname", spec.hostname + "\n")
        _write_own("hosts", f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {spec.hostname}\n")
        linux.mount_setattr(root.OWN, linux.MOUNT_ATTR_RDONLY)
    _become_user(spec.uid)
    with step("nested user namespace"):
        _nest(spec.uid, spec.limits)
    with step("limit counts"):
        _limit_counts(user_limits)
    nested()
    _give_up_privileges()
    _confine(spec.confinement)
    with step("home"):
        make_home()
    with step("verify"):
        _verify(spec.confinement)


def join(uid: int, limits: Limits, confinement: Confinement) -> None:
    """Makes this process, which pid 1 forked before it was sealed, what it would be if forked later."""
    nested = os.open("/proc/1/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    _become_user(uid)
    with step("nested user namespace"):
        limits.apply_processes()
        linux.setns(nested, linux.CLONE_NEWUSER)
        os.close(nested)
    _give_up_privileges()
    _confine(confinement)
    with step("verify"):
        _verify(confinement)


def _become_user(uid: int) -> None:
    with step("user id"):
        if uid:
            os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    with step("new keyring"):
        linux.join_new_keyring()


def _give_up_privileges() -> None:
    with step("bounding set"):
        # A new user namespace gives a full set, so dropping it any earlier would be useless.
        linux.drop_bounding_set()
    with step("no new privileges"):
        linux.set_dumpable(False)
        linux.no_new_privileges()
    with step("capabilities"):
        linux.drop_capabilities()


def _confine(confinement: Confinement) -> None:
    if confinement.landlock:
        with step("landlock"):
            landlock.restrict(confinement.landlock, (root.WORKSPACE, *root.WRITABLE, *confinement.writable))
    if confinement.calls:
        with step("system call filter"):
            linux.filter_calls(confinement.calls)


def _bind(directory: Directory, target: str, attributes: int) -> None:
    sessions = os.open(root.SESSIONS, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    source = tree = -1
    try:
        source = linux.open_beneath(sessions, directory.path, os.O_PATH | os.O_DIRECTORY)
        tree = linux.open_tree("", source, linux.AT_EMPTY_PATH)
        _attach(directory, tree, target, attributes)
    finally:
        for fd in (tree, source, sessions):
            if fd >= 0:
                os.close(fd)


def _attach(directory: Directory, tree: int, target: str, attributes: int) -> None:
    found = os.fstat(tree)
    if (found.st_dev, found.st_ino) != (directory.device, directory.inode):
        raise RuntimeError(f"what is to be {target} is not the directory that was handed over")
    linux.mount_setattr("", attributes, tree, linux.AT_EMPTY_PATH | linux.AT_RECURSIVE)
    linux.move_mount(tree, target)


def _size_tmpfs(size: int) -> None:
    if not size:
        return
    inodes = max(_MIN_INODES, size // _BYTES_PER_INODE)
    for directory in root.WRITABLE:
        flags = linux.MS_REMOUNT | linux.MS_NOSUID | linux.MS_NODEV
        linux.mount(None, directory, None, flags, f"size={size},nr_inodes={inodes}")


def _give_home(uid: int) -> None:
    """The home belongs to the user, with the folders that lead to an interpreter in it, but not the interpreter."""
    device = os.stat(root.HOME).st_dev
    os.chmod(root.HOME, 0o700)
    for path, folders, _ in os.walk(root.HOME):
        folders[:] = [f for f in folders if os.lstat(os.path.join(path, f)).st_dev == device]
        os.chown(path, uid, uid)


def _nest(uid: int, limits: Limits) -> None:
    """A user namespace that owns none of the others: rights gained inside are not rights over them."""
    linux.set_dumpable(True)  # otherwise the maps belong to root; no user code runs in here yet
    if limits.processes:
        # The limit of a user namespace applies to what its creator's user has in the one around it. That one
        # contains nothing else, since other sandboxes may have the same user, and be in the same one until
        # now.
        _make_user_namespace(uid, uid)
        limits.apply_processes()
    _make_user_namespace(USER, uid)


def _make_user_namespace(inside: int, outside: int) -> None:
    linux.unshare(linux.CLONE_NEWUSER)
    linux.write("/proc/self/setgroups", b"deny")
    for ids in ("uid_map", "gid_map"):
        linux.write(f"/proc/self/{ids}", f"{inside} {outside} 1".encode())


def _limit_counts(user_limits: int) -> None:
    """Bounds the nested user namespace, and forbids namespaces below it. Each namespace has limits of its
    own, reached through the same file names in the same directory; so one is tested."""
    for name, most in _COUNTS.items():
        try:
            fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=user_limits)
        except FileNotFoundError:
            continue  # this kernel does not count it
        os.write(fd, str(most).encode())
        os.close(fd)
    os.close(user_limits)
    try:
        linux.unshare(linux.CLONE_NEWUSER)
    except OSError as e:
        if e.errno == errno.ENOSPC:
            return
        raise
    raise RuntimeError("a further user namespace could be made")


def _verify(confinement: Confinement) -> None:
    wanted = (*_SEALED, _FILTERED) if confinement.calls else _SEALED
    missing = linux.lines_missing("/proc/self/status", wanted)
    if missing:
        raise RuntimeError(f"/proc/self/status does not say {', '.join(missing)}")
    if confinement.landlock:
        landlock.verify(root.HOME)


def _write_own(name: str, text: str) -> None:
    linux.write(f"{root.OWN}/{name}", text.encode(), os.O_CREAT)
