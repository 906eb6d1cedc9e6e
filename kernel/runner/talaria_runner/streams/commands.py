"""Commands of a cell, as !cmd and %%bash run them: each in a process group of its own, without input."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
import sys
from _codecs import utf_8_decode
from _signal import SIGINT, SIGKILL, SIGPIPE, SIGTERM
from errno import ENOSPC
from fcntl import fcntl, ioctl
from select import poll
from sys import byteorder
from posix import close, killpg, memfd_create, pipe, posix_spawn, posix_spawnp, read, waitpid, waitstatus_to_exitcode, write

from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire.descriptors import wait_for, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE_MS = 2000  # from the interrupt to the next, harsher signal
_INTERRUPTED = 130
_CHUNK = 1 << 16  # also the size of a pipe unless it is enlarged
_F_SETPIPE_SZ = 1031
_FIONREAD = 0x541B


class Commands:
    """Runs commands for the cell."""

    def __init__(self, interrupts: Interrupts) -> None:
        interrupts.waiting.update((_wait.__code__, _read.__code__, _poll.__code__))

    def run(
        self, arguments: list[str], text: str | None = None, out: object = None, err: object = None,
        variables: dict[str, str] | None = None, actions: tuple[tuple[int, ...], ...] = (),
    ) -> int:  # fmt: skip
        """Runs a program and returns its exit code, negative for a signal. Its input is text, or nothing. out
        and err receive its output as text, through a method write; None means where the kernel itself writes.
        variables are its
        environment, unless that is environment(); actions are further ones of posix_spawn.
        When the cell is interrupted, so is the program, and KeyboardInterrupt is raised when it has ended."""
        streams = _Streams(out, err)
        source = _input(text)
        try:
            pid = _spawn(arguments, variables or environment(), [(os.POSIX_SPAWN_DUP2, source, 0), *streams.actions, *actions])
        finally:
            close(source)
            streams.started()
        handle = _handle(pid)
        try:
            streams.copy(handle)
            return _wait(pid)
        except KeyboardInterrupt as e:
            e.exit_code = _end(pid, handle)
            streams.drain()
            print("^C")
            raise
        except BaseException:
            _end(pid, handle)
            raise
        finally:
            streams.close()
            if handle >= 0:
                close(handle)

    def shell(self, command: str) -> list[str]:
        """The program and arguments that run a command like a shell does."""
        path = os.environ.get("SHELL", "")
        return [path if path.startswith("/") and os.access(path, os.X_OK) else "/bin/sh", "-c", command]

    def system(self, command: str) -> int:
        """Runs a shell command and returns its exit code. Its output is shown as it arrives, unless the cell
        has a sys.stdout of its own: then it goes there."""
        return self._run_on(self.shell(command), *redirected())

    def output(self, command: str) -> tuple[str, int]:
        """Runs a shell command and returns all of its output, and its exit code."""
        parts = _Parts()
        code = self._run_on(self.shell(command), parts, parts)
        return "".join(parts.texts), code

    def _run_on(self, arguments: list[str], out: object, err: object) -> int:
        """Like run; an interrupt ends the command and not the cell, as in a terminal."""
        try:
            return self.run(arguments, None, out, err)
        except KeyboardInterrupt as e:
            code = getattr(e, "exit_code", None)
            if code is None:
                raise
            return code


def redirected() -> tuple[object, object]:
    """sys.stdout and sys.stderr if the cell has replaced them, else None for each."""
    return tuple(
        None if stream is None or getattr(stream, "fileno", None) and _descriptor(stream) == fd else stream
        for stream, fd in ((sys.stdout, 1), (sys.stderr, 2))
    )


class _Parts:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, text: str) -> None:
        self.texts.append(text)


class _Streams:
    """The pipes for captured output. A receiver of both gets the output in the order in which it was written."""

    def __init__(self, out: object, err: object) -> None:
        self._takers: dict[int, Callable[[str], object]] = {}
        self._rests: dict[int, bytes] = {}
        self._write_ends: list[int] = []
        self.actions: list[tuple[int, ...]] = []
        shared = out is not None and out is err
        for fd, taker in ((1, out), (2, None if shared else err)):
            if taker is not None:
                read_end, write_end = pipe()
                self._takers[read_end] = taker.write
                self._rests[read_end] = b""
                self._write_ends.append(write_end)
                self.actions.append((os.POSIX_SPAWN_DUP2, write_end, fd))
        if shared:
            self.actions.append((os.POSIX_SPAWN_DUP2, self._write_ends[0], 2))

    def started(self) -> None:
        for fd in self._write_ends:
            close(fd)
        self._write_ends.clear()

    def copy(self, handle: int) -> None:
        """Passes on output until the process with that handle ends, or all have closed the pipes. It does not
        wait for processes that it leaves running."""
        if not self._takers:
            return
        poller = poll()
        for fd in self._takers:
            poller.register(fd)
        if handle >= 0:
            poller.register(handle)
        left = len(self._takers)
        while left:
            for fd, _ in _poll(poller):
                if fd == handle:
                    self.drain()
                    return
                data = _read(fd)
                self._take(fd, data)
                if not data:
                    poller.unregister(fd)
                    left -= 1

    def drain(self) -> None:
        """Passes on what is in the pipes by now, and no more: a process that the command left running may go on printing."""
        for fd in self._takers:
            left = int.from_bytes(ioctl(fd, _FIONREAD, bytes(4)), byteorder)
            while left > 0 and (data := read(fd, min(left, _CHUNK))):
                left -= len(data)
                self._take(fd, data)

    def close(self) -> None:
        self.started()
        for fd in self._takers:
            close(fd)
        self._takers.clear()

    def _take(self, fd: int, data: bytes) -> None:
        whole = self._rests[fd] + data
        text, used = utf_8_decode(whole, "replace", not data)
        self._rests[fd] = whole[used:]
        if text:
            self._takers[fd](text)


def environment() -> dict[str, str]:
    """The environment variables of commands."""
    # Python programs buffer what they print to a pipe until they end. Pagers wait for a key.
    return {"PYTHONUNBUFFERED": "1", "PAGER": "cat", "GIT_PAGER": "cat", **os.environ}


def _spawn(arguments: list[str], variables: dict[str, str], actions: list[tuple[int, ...]]) -> int:
    start = posix_spawn if "/" in arguments[0] else posix_spawnp
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError):
            pass  # none, or closed
    return start(
        arguments[0], arguments, variables,
        file_actions=actions, setpgroup=0, setsigmask=(), setsigdef=(SIGINT, SIGPIPE),
    )  # fmt: skip


def _input(text: str | None) -> int:
    """A descriptor that text is read from, or nothing."""
    if text is None:
        return os.open("/dev/null", os.O_RDONLY)
    data = text.encode("utf-8", "surrogateescape")
    try:
        fd = memfd_create("input")
    except OSError:
        return _piped(data)  # if memory that no process maps is refused
    write_all(fd, data)
    os.lseek(fd, 0, 0)
    return fd


def _piped(data: bytes) -> int:
    """A pipe that already contains all of data."""
    read_end, write_end = pipe()
    try:
        if len(data) > _CHUNK:
            fcntl(write_end, _F_SETPIPE_SZ, len(data))
        os.set_blocking(write_end, False)
        if data and write(write_end, data) < len(data):
            raise OSError(ENOSPC, "the input of a command is too long")
    except OSError:
        close(read_end)
        raise
    finally:
        close(write_end)
    return read_end


def _handle(pid: int) -> int:
    """A descriptor that becomes readable when the process has ended, or -1 if there are none."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _end(pid: int, handle: int) -> int:
    """Ends the whole process group, gently first, and returns the exit code of the process."""
    for number in (SIGINT, SIGTERM, SIGKILL):
        try:
            killpg(pid, number)
        except OSError:
            break  # it has ended
        if handle < 0 or wait_for(handle, timeout_ms=_GRACE_MS):
            break
    try:
        return waitstatus_to_exitcode(waitpid(pid, 0)[1])
    except ChildProcessError:
        return _INTERRUPTED


def _wait(pid: int) -> int:
    """An interrupt may raise here, as in the next two."""
    try:
        return waitstatus_to_exitcode(waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0  # somebody else has waited for it


def _read(fd: int) -> bytes:
    return read(fd, _CHUNK)


def _poll(poller: object) -> list[tuple[int, int]]:
    return poller.poll()


def _descriptor(stream: object) -> int:
    try:
        return stream.fileno()
    except Exception:
        return -1
