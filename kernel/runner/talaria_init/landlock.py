"""Landlock: what processes may do with files, whatever the mounts and the owners of files allow."""

import errno
import functools
import os
import stat
from collections.abc import Iterable

from . import linux

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_MAKE_CHAR = 1 << 6
_MAKE_BLOCK = 1 << 11
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_IOCTL_DEV = 1 << 15

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICES = _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
# What a fence can grant.
READ = _READ
CHANGE = _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
ALL = ((1 << 15) - 1) & ~_DEVICES
_ALL_CONNECTIONS = 3  # to bind and to connect
_ALL_SCOPES = 3  # abstract sockets and signals
_SIGNALS = 2
# The first versions that have these two.
_CONNECTIONS = 4
SCOPES = 6
_NEWEST = 7
# How many rights there are from each version on. Version 1 is not used: with it, no file can move to another
# folder.
_RIGHTS = ((5, 16), (3, 15), (2, 14))


def restrict(version: int, writable: Iterable[str]) -> None:
    """Restricts this process and everything it starts: it reads everything in sight, and writes only to the
    devices and below the given directories.

    Signals and abstract sockets are not scoped: the namespaces already do that, and a scope would separate
    the runner and the commands of a sandbox, which are not forked from each other."""
    handled = _handled(version)
    ruleset = linux.landlock_ruleset(handled)
    try:
        linux.landlock_allow(ruleset, _READ, "/")
        linux.landlock_allow(ruleset, handled & (_WRITE_FILE | _IOCTL_DEV), "/dev")
        for directory in writable:
            linux.landlock_allow(ruleset, handled & ~_DEVICES, directory)
        linux.landlock_restrict_self(ruleset)
    finally:
        os.close(ruleset)


@functools.cache
def version() -> int:
    """The version to use; raises OSError if there is none."""
    return min(linux.landlock_version(), _NEWEST)


def fence(version: int, granted: Iterable[tuple[str, int]], alone: bool = False) -> None:
    """Confines this process and everything it starts to these files and directories, with these rights. If
    alone is set, it also forbids connections, and signals to processes that it has not started."""
    handled = _handled(version)
    connections = _ALL_CONNECTIONS if alone and version >= _CONNECTIONS else 0
    ruleset = linux.landlock_ruleset(handled, connections, _ALL_SCOPES if alone and version >= SCOPES else 0)
    try:
        for path, rights in granted:
            if not os.path.isdir(path):
                rights &= _OF_FILES
            linux.landlock_allow(ruleset, handled & rights, path)
        linux.landlock_restrict_self(ruleset)
    finally:
        os.close(ruleset)


def bound_signals() -> None:
    """Confines the signals of this process and everything it starts to processes that one of them has started."""
    # Each fence denies moves to another folder unless it says otherwise.
    ruleset = linux.landlock_ruleset(_REFER, 0, _SIGNALS)
    try:
        linux.landlock_allow(ruleset, _REFER, "/")
        linux.landlock_restrict_self(ruleset)
    finally:
        os.close(ruleset)


def _handled(version: int) -> int:
    return (1 << next(count for first, count in _RIGHTS if version >= first)) - 1


def verify(directory: str) -> None:
    """Tries to create a device in this directory, which is ours: Landlock refuses it with EACCES. Without Landlock, EPERM would
    say that the capability is missing."""
    path = f"{directory}/device"
    try:
        # Not the device with number zero, which Landlock lets everybody create in newer kernels (seen in Linux 6.1.192).
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError as e:
        if e.errno == errno.EACCES:
            return
        raise RuntimeError("Landlock is not in force: it did not refuse a device") from e
    os.unlink(path)
    raise RuntimeError("a device could be created")
