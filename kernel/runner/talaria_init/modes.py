"""Changing the modes of files if sessions share a user.

Landlock has no say in modes, which depend on the owner of a file: a session could lock all others, and the
server, out of their files. So the filter of system calls hands such calls to pid 1, which makes the change
for files in the session's own directories, and refuses it for all others. It opens a file once and works on
the open file.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Iterable

from . import linux

_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif: id, pid, flags; number, architecture, address, arguments
_ANSWER = struct.Struct("=QqiI")  # struct seccomp_notif_resp: id, value, error, flags
_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_IS_VALID = 0x40082102
_NUMBERS = {
    "x86_64": {90: "chmod", 91: "fchmod", 268: "fchmodat"},
    "aarch64": {52: "fchmod", 53: "fchmodat"},
}
_CALLS = {452: "fchmodat2", **_NUMBERS.get(os.uname().machine, {})}
_AT_EMPTY_PATH = 0x1000
_MAX_PATH = 4096
_PAGE = 4096
_ALLOWED = 0o1777  # nothing that makes a program run as its owner


class Listener:
    """The calls of one process and everything it starts. Made from the descriptor that
    [linux.filter_calls_to] returned."""

    def __init__(self, fd: int, directories: Iterable[str]) -> None:
        self.fd = fd
        self._directories = tuple(directory + "/" for directory in directories)

    def answer(self) -> None:
        """Handles a call."""
        try:
            asked = fcntl.ioctl(self.fd, _RECEIVE, bytes(_NOTIFICATION.size))
        except FileNotFoundError:
            return  # the caller is gone
        id, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(asked)
        try:
            self._change(id, pid, _CALLS.get(number, ""), arguments)
            error = 0
        except OSError as e:
            error = e.errno or errno.EPERM
        except Exception:
            error = errno.EPERM
        try:
            fcntl.ioctl(self.fd, _SEND, _ANSWER.pack(id, 0, -error, 0))
        except OSError as e:
            if e.errno != errno.ENOENT:
                raise

    def _change(self, id: int, pid: int, call: str, arguments: list[int]) -> None:
        file = self._open(id, pid, call, arguments)
        try:
            name = f"/proc/self/fd/{file}"
            # Files in these directories stay in them, and nothing else gets in: Landlock ensures that.
            if not os.readlink(name).startswith(self._directories):
                raise PermissionError(errno.EPERM, "not the session's")
            os.chmod(name, arguments[2 if call.startswith("fchmodat") else 1] & _ALLOWED)
        finally:
            os.close(file)

    def _open(self, id: int, pid: int, call: str, arguments: list[int]) -> int:
        """A descriptor of the file, which is good only for its name and its mode."""
        if call == "fchmod":
            file = _open_descriptor(pid, arguments[0])
            self._check(id)
            return file
        at, flags = -1, 0
        if call != "chmod":
            at, *arguments = arguments
        if call == "fchmodat2":
            flags = arguments[2]
        path = _read_text(pid, arguments[0])
        if not path and flags & _AT_EMPTY_PATH:
            return self._open(id, pid, "fchmod", [at])
        link = flags & linux.AT_SYMLINK_NOFOLLOW
        cwd = call == "chmod" or at & 0xFFFFFFFF == linux.AT_FDCWD & 0xFFFFFFFF
        base = os.open(f"/proc/{pid}/cwd", os.O_PATH | os.O_CLOEXEC) if cwd else _open_descriptor(pid, at)
        try:
            self._check(id)
            return os.open(path, os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if link else 0), dir_fd=base)
        finally:
            os.close(base)

    def _check(self, id: int) -> None:
        """Checks that its process is still the caller, so that what was read from it belongs to the call."""
        fcntl.ioctl(self.fd, _IS_VALID, struct.pack("=Q", id))


def _open_descriptor(pid: int, number: int) -> int:
    return os.open(f"/proc/{pid}/fd/{number & 0xFFFFFFFF}", os.O_PATH | os.O_CLOEXEC)


def _read_text(pid: int, address: int) -> bytes:
    """The text at an address, up to its zero byte; page by page, since the next one may not be mapped."""
    text = b""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while len(text) < _MAX_PATH:
            part = os.pread(memory, _PAGE - address % _PAGE, address)
            found, zero, _ = part.partition(b"\0")
            text += found
            if zero:
                return text
            if not part:
                raise OSError(errno.EFAULT, "no text")
            address += len(part)
    except OSError as e:
        raise OSError(errno.EFAULT if e.errno == errno.EIO else e.errno, "no text") from None
    finally:
        os.close(memory)
    raise OSError(errno.ENAMETOOLONG, "a path is too long")
