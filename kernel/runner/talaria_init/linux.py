"""Thin wrappers over the system calls that Python does not offer. Each raises OSError."""

import ctypes
import fcntl
import os
import socket
import struct
from types import SimpleNamespace

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long

# Numbers from 424 on are the same on every architecture; the older ones differ.
_OLD_NUMBERS = {
    "x86_64": {"pivot_root": 155, "keyctl": 250},
    "aarch64": {"pivot_root": 41, "keyctl": 219},
    "riscv64": {"pivot_root": 41, "keyctl": 219},
}
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_OPENAT2 = 437
_MOUNT_SETATTR = 442

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

CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUSER = 0x10000000

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x20080522
_PTHREAD_ATTR_BYTES = 256  # at least sizeof(pthread_attr_t) everywhere


def _check(result: int, path: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def _call(number: int, *args: object, path: str | None = None) -> int:
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return _check(_syscall(ctypes.c_long(number), *words), path)


def _old(name: str) -> int:
    try:
        return _OLD_NUMBERS[os.uname().machine][name]
    except KeyError:
        raise OSError(38, f"{name} is not known on {os.uname().machine}") from None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    result = _libc.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(data))
    _check(result, target)


def umount(target: str, flags: int) -> None:
    _check(_libc.umount2(_bytes(target), ctypes.c_int(flags)), target)


def open_tree(path: str, dir_fd: int = AT_FDCWD, flags: int = 0) -> int:
    """A detached copy of what is mounted at path, with everything below it."""
    how = OPEN_TREE_CLONE | os.O_CLOEXEC | AT_RECURSIVE | flags
    return _call(_OPEN_TREE, dir_fd, _bytes(path), how, path=path)


def move_mount(tree: int, target: str) -> None:
    _call(_MOVE_MOUNT, tree, b"", AT_FDCWD, _bytes(target), MOVE_MOUNT_F_EMPTY_PATH, path=target)


class _MountAttr(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def mount_setattr(path: str, attributes: int, dir_fd: int = AT_FDCWD, flags: int = 0) -> None:
    attr = _MountAttr(attributes, 0, 0, 0)
    _call(_MOUNT_SETATTR, dir_fd, _bytes(path), flags, ctypes.byref(attr), ctypes.sizeof(attr), path=path)


class _OpenHow(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("flags", "mode", "resolve")]


def open_beneath(dir_fd: int, path: str, flags: int) -> int:
    """Opens a path that may neither leave dir_fd nor pass a link."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    return _call(_OPENAT2, dir_fd, _bytes(path), ctypes.byref(how), ctypes.sizeof(how), path=path)


def pivot_root(new: str, old: str) -> None:
    _call(_old("pivot_root"), _bytes(new), _bytes(old))


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)))


def join_new_keyring() -> None:
    _call(_old("keyctl"), _KEYCTL_JOIN_SESSION_KEYRING, None)


def _prctl(option: int, *args: int) -> int:
    words = [ctypes.c_ulong(a) for a in (*args, 0, 0, 0, 0)[:4]]
    return _check(_libc.prctl(ctypes.c_int(option), *words))


def set_dumpable(value: bool) -> None:
    _prctl(_PR_SET_DUMPABLE, int(value))


def set_name(name: str) -> None:
    """Sets what tools show for this process, 15 bytes at most."""
    _check(_libc.prctl(ctypes.c_int(_PR_SET_NAME), name.encode(), *[ctypes.c_ulong(0)] * 3))


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_bounding_set() -> None:
    with open("/proc/sys/kernel/cap_last_cap") as f:
        last = int(f.read())
    for capability in range(last + 1):
        if _prctl(_PR_CAPBSET_READ, capability):
            _prctl(_PR_CAPBSET_DROP, capability)


def drop_capabilities() -> None:
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)))


def set_default_thread_stack(size: int) -> None:
    """Sets what threads made from now on get, those of C libraries included. Only glibc has it."""
    try:
        setter = _libc.pthread_setattr_default_np
    except AttributeError:
        return
    attr = ctypes.create_string_buffer(_PTHREAD_ATTR_BYTES)
    if _libc.pthread_attr_init(attr) == 0:
        _libc.pthread_attr_setstacksize(attr, ctypes.c_size_t(size))
        setter(attr)


def loopback_up() -> None:
    siocgifflags, siocsifflags, iff_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as s:
        request = fcntl.ioctl(s, siocgifflags, struct.pack("16sH22x", b"lo", 0))
        (flags,) = struct.unpack_from("H", request, 16)
        fcntl.ioctl(s, siocsifflags, struct.pack("16sH22x", b"lo", flags | iff_up))


def status() -> SimpleNamespace:
    """What the kernel says of this process in /proc/self/status, the fields that sealing must have changed."""
    fields = {}
    with open("/proc/self/status") as f:
        for line in f:
            name, _, value = line.partition(":")
            fields[name] = value.split()
    return SimpleNamespace(
        capabilities={n: int(fields[n][0], 16) for n in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
        no_new_privs=int(fields["NoNewPrivs"][0]),
        uids={int(u) for u in fields["Uid"]},
        gids={int(g) for g in fields["Gid"]},
        threads=int(fields["Threads"][0]),
    )
