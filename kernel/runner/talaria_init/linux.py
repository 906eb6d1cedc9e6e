"""Thin wrappers over the system calls that Python does not offer. Each raises OSError."""

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from binascii import a2b_base64
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_long, c_size_t, c_uint, c_ulong, c_ushort, c_void_p
from typing import NoReturn

import _socket

# Numbers from 424 on are the same on every architecture; the older ones differ.
_OLD_NUMBERS = {
    "x86_64": {"pivot_root": 155, "keyctl": 250, "seccomp": 317},
    "aarch64": {"pivot_root": 41, "keyctl": 219, "seccomp": 277},
    "riscv64": {"pivot_root": 41, "keyctl": 219, "seccomp": 277},
}
_NUMBERS = {
    "open_tree": 428,
    "move_mount": 429,
    "openat2": 437,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
    **_OLD_NUMBERS.get(os.uname().machine, {}),
}

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
AT_SYMLINK_NOFOLLOW = 0x100

OPEN_TREE_CLONE = 1
MOVE_MOUNT_F_EMPTY_PATH = 4

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_KEYCTL_JOIN_SESSION_KEYRING = 1
_SECCOMP_SET_MODE_FILTER = 1
# Without it, kernels before 5.16 run all code more slowly, to close a leak that filters have no part in.
_SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4
_SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
_INSTRUCTION_BYTES = 8
_LANDLOCK_RULE_PATH_BENEATH = 1
_LANDLOCK_CREATE_RULESET_VERSION = 1
_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)  # version 3, this process
_CAPABILITIES = 64  # that its sets have room for
_IFREQ = struct.Struct("16sH22x")
_PROC_BYTES = 1 << 16
_MADV_POPULATE_WRITE = 23
_PTHREAD_ATTR_BYTES = 256  # at least sizeof(pthread_attr_t) everywhere

_libc = ctypes.CDLL(None, use_errno=True)


# Functions are looked up here, so that no process forked later has to do it.
def _function(name: str, *arguments: type) -> Callable[..., int]:
    function = _libc[name]
    function.argtypes = arguments
    return function


def _syscall(name: str, *arguments: type) -> Callable[..., int]:
    function = _function("syscall", c_long, *arguments)
    function.restype = c_long
    number = _NUMBERS.get(name, -1)  # ENOSYS
    return lambda *values: function(number, *values)


_mount = _function("mount", c_char_p, c_char_p, c_char_p, c_ulong, c_char_p)
_umount = _function("umount2", c_char_p, c_int)
_unshare = _function("unshare", c_int)
_setns = _function("setns", c_int, c_int)
_prctl = _function("prctl", c_int, c_ulong, c_ulong, c_ulong, c_ulong)
_prctl_text = _function("prctl", c_int, c_char_p, c_ulong, c_ulong, c_ulong)
_capset = _function("capset", c_char_p, c_char_p)
_open_tree = _syscall("open_tree", c_int, c_char_p, c_uint)
_move_mount = _syscall("move_mount", c_int, c_char_p, c_int, c_char_p, c_uint)
_openat2 = _syscall("openat2", c_int, c_char_p, c_void_p, c_size_t)
_mount_setattr = _syscall("mount_setattr", c_int, c_char_p, c_uint, c_void_p, c_size_t)
_pivot_root = _syscall("pivot_root", c_char_p, c_char_p)
_keyctl = _syscall("keyctl", c_int, c_char_p)
_exit = _function("exit", c_int)
_madvise = _function("madvise", c_void_p, c_size_t, c_int)
_seccomp = _syscall("seccomp", c_uint, c_uint, c_void_p)
_landlock_create_ruleset = _syscall("landlock_create_ruleset", c_char_p, c_size_t, c_uint)
_landlock_add_rule = _syscall("landlock_add_rule", c_int, c_int, c_char_p, c_uint)
_landlock_restrict_self = _syscall("landlock_restrict_self", c_int, c_uint)
# Keeps the interpreter's lock, so that the child holds it too.
_fork = ctypes.PyDLL(None, use_errno=True).fork


def _check(result: int, path: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    _check(_mount(_bytes(source), _bytes(target), _bytes(kind), flags, _bytes(data)), target)


def umount(target: str, flags: int) -> None:
    _check(_umount(_bytes(target), flags), target)


def open_tree(path: str, dir_fd: int = AT_FDCWD, flags: int = 0) -> int:
    """A detached copy of the mount at path, with everything below it."""
    return _check(_open_tree(dir_fd, _bytes(path), OPEN_TREE_CLONE | os.O_CLOEXEC | AT_RECURSIVE | flags), path)


def move_mount(tree: int, target: str) -> None:
    _check(_move_mount(tree, b"", AT_FDCWD, _bytes(target), MOVE_MOUNT_F_EMPTY_PATH), target)


class _MountAttr(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def mount_setattr(path: str, attributes: int, dir_fd: int = AT_FDCWD, flags: int = 0) -> None:
    attr = _MountAttr(attributes, 0, 0, 0)
    _check(_mount_setattr(dir_fd, _bytes(path), flags, byref(attr), ctypes.sizeof(attr)), path)


class _OpenHow(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("flags", "mode", "resolve")]


def open_beneath(dir_fd: int, path: str, flags: int) -> int:
    """Opens a path that may neither leave dir_fd nor pass through a link."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    return _check(_openat2(dir_fd, _bytes(path), byref(how), ctypes.sizeof(how)), path)


def pivot_root(new: str, old: str) -> None:
    _check(_pivot_root(_bytes(new), _bytes(old)))


def unshare(flags: int) -> None:
    _check(_unshare(flags))


def setns(fd: int, kind: int) -> None:
    """Joins the namespace behind a file of /proc/PID/ns."""
    _check(_setns(fd, kind))


def fork() -> int:
    """Like os.fork, for a single-threaded process, and without the handlers that libraries have registered
    for forks: these are of little use to such a process, and write to a megabyte of memory."""
    return _check(_fork())


def exit(status: int) -> NoReturn:
    """Ends the process as C programs end, with the exit functions of C libraries."""
    _exit(status)
    raise AssertionError


def join_new_keyring() -> None:
    _check(_keyctl(_KEYCTL_JOIN_SESSION_KEYRING, None))


def set_dumpable(value: bool) -> None:
    _check(_prctl(_PR_SET_DUMPABLE, value, 0, 0, 0))


def set_name(name: str) -> None:
    """Sets the name that tools show for this process, 15 bytes at most."""
    _check(_prctl_text(_PR_SET_NAME, name.encode(), 0, 0, 0))


def adopt_orphans() -> None:
    """Makes this process the parent of orphans among its descendants."""
    _check(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def no_new_privileges() -> None:
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def drop_bounding_set() -> None:
    for capability in range(_CAPABILITIES):
        if _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
            continue
        if ctypes.get_errno() != errno.EINVAL:
            _check(-1)
        return  # this kernel has no more


def drop_capabilities() -> None:
    _check(_prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
    _check(_capset(_CAPABILITY_HEADER, bytes(24)))


class _Program(ctypes.Structure):
    _fields_ = [("length", c_ushort), ("instructions", c_char_p)]


def filter_calls(program: str, flags: int = 0) -> int:
    """Installs a filter of system calls, given in base64, for good."""
    instructions = a2b_base64(program)
    filter = _Program(len(instructions) // _INSTRUCTION_BYTES, instructions)
    return _check(_seccomp(_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW | flags, byref(filter)))


def filter_calls_to(program: str) -> int:
    """Like filter_calls; the returned descriptor is for the process that handles the calls that the filter
    hands on."""
    return filter_calls(program, _SECCOMP_FILTER_FLAG_NEW_LISTENER)


def landlock_version() -> int:
    return _check(_landlock_create_ruleset(None, 0, _LANDLOCK_CREATE_RULESET_VERSION))


def landlock_ruleset(files: int, connections: int = 0, scopes: int = 0) -> int:
    """A set of rules about these rights, as a descriptor."""
    attr = struct.pack("=QQQ", files, connections, scopes)  # an older kernel accepts unknown fields that are 0
    return _check(_landlock_create_ruleset(attr, len(attr), 0))


def landlock_allow(ruleset: int, rights: int, path: str) -> None:
    """Adds a rule that gives rights to a directory and everything below it."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        attr = struct.pack("=Qi", rights, fd)
        _check(_landlock_add_rule(ruleset, _LANDLOCK_RULE_PATH_BENEATH, attr, 0), path)
    finally:
        os.close(fd)


def landlock_restrict_self(ruleset: int) -> None:
    _check(_landlock_restrict_self(ruleset, 0))


def set_default_thread_stack(size: int) -> None:
    """Sets the stack size of threads made from now on, including those of C libraries. Only glibc has it."""
    try:
        setter = _libc.pthread_setattr_default_np
    except AttributeError:
        return
    attr = ctypes.create_string_buffer(_PTHREAD_ATTR_BYTES)
    if _libc.pthread_attr_init(attr) == 0:
        _libc.pthread_attr_setstacksize(attr, c_size_t(size))
        setter(attr)


def trim_heap() -> None:
    """Gives free memory of the heap back. Only glibc has it."""
    with contextlib.suppress(AttributeError):
        _libc.malloc_trim(c_size_t(0))


def copy_pages(address: int, length: int) -> None:
    """Does what a write to each of these pages would do, without changing them: those that are shared since a fork are
    copied. Pages after one that cannot be written to are left alone, and so are all by Linux before 5.14."""
    _madvise(address, length, _MADV_POPULATE_WRITE)


def loopback_up() -> None:
    siocgifflags, siocsifflags, iff_up = 0x8913, 0x8914, 1
    s = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
    _, flags = _IFREQ.unpack(fcntl.ioctl(s, siocgifflags, _IFREQ.pack(b"lo", 0)))
    fcntl.ioctl(s, siocsifflags, _IFREQ.pack(b"lo", flags | iff_up))
    s.close()


def read(path: str) -> bytes:
    """A file of /proc."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _PROC_BYTES)
    finally:
        os.close(fd)


def write(path: str, text: bytes, create: int = 0) -> None:
    """Writes in one call: a file of /proc, or with O_CREAT a small file."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | create, 0o644)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def lines_missing(path: str, lines: tuple[bytes, ...]) -> list[str]:
    """Those of the lines that a file of /proc lacks."""
    text = b"\n" + read(path)
    return [line.decode() for line in lines if b"\n" + line + b"\n" not in text]
