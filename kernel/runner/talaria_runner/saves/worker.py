"""A process that runs code of users, which may hang, crash or end it; then another begins without what did that."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import gc
import sys
from io import open as open_text
from os import O_CLOEXEC, O_RDWR, WEXITSTATUS, WIFSIGNALED, WTERMSIG
from posix import _exit, close, dup2, fork, kill, open, pipe2, read, waitpid, write
from time import monotonic

from talaria_runner.own.stdlib import load
from talaria_runner.saves.reasons import NO_TIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Tell = Callable[[str | None], None]
    Work = Callable[[dict[str, str], Tell], object]

_json = load("json")
_select = load("select")

_SHARE = 0.25  # of the time that is left may go to one variable; less after others failed
_LEAST = 0.2  # s for one, in any case
_LONGEST = 256 << 20  # bytes of a result
_KILL = 9


def run(work: Work, deadline: float) -> tuple[object, dict[str, str], str]:
    """Returns the result of work, which must be JSON, and why some variables were left out. The result is None if there
    was none until the deadline, which is of time.monotonic(); the last value is then the reason for all the others.
    Raises OSError if work does, or if no process can be started.

    work runs in a fork. It gets the variables to leave out, and a function that it calls with the name of each variable
    before it runs that one's code, and with None before it does something else that takes long."""
    gone: dict[str, str] = {}
    while True:
        result, name, reason = _attempt(work, gone, deadline)
        if result is not None or not name or monotonic() > deadline:
            return result, gone, NO_TIME if monotonic() > deadline else reason
        gone[name] = reason


def _attempt(work: Work, gone: dict[str, str], deadline: float) -> tuple[object, str, str]:
    """The result; or the variable at which the process ended, and how."""
    source, sink = pipe2(O_CLOEXEC)
    process = fork()
    if not process:
        _be_worker(work, gone, sink)
    close(sink)
    try:
        result, name, late = _follow(source, deadline, _SHARE / (1 + len(gone)))
    finally:
        close(source)
        status = end(process)
    if late:
        return result, name, "saving it took too long"
    if WIFSIGNALED(status) and WTERMSIG(status) == _KILL:
        return result, name, "the process that saved it was killed, perhaps for lack of memory"
    if WIFSIGNALED(status):
        return result, name, f"the process that saved it crashed with signal {WTERMSIG(status)}"
    return result, name, f"its code ended the process that saved it, with status {WEXITSTATUS(status)}"


def end(process: int) -> int:
    """Ends a child that has ended already, or never will, and returns its status. That is 0 where it is lost: code of users may
    ignore SIGCHLD, or wait for all children."""
    try:
        kill(process, _KILL)
        return waitpid(process, 0)[1]
    except OSError:
        return 0


def _follow(source: int, deadline: float, share: float) -> tuple[object, str, bool]:
    """Reads what the worker tells, until it ends or takes too long. Returns its result, the variable that it was at, and
    whether it took too long."""
    poll = _select.poll()
    poll.register(source, _select.POLLIN)
    name, until = "", deadline
    data = bytearray()
    while True:
        left = min(until, deadline) - monotonic()
        if left <= 0 or not poll.poll(left * 1000 + 1):
            return None, name, True
        chunk = read(source, 1 << 16)
        if not chunk or len(data) > _LONGEST:
            return None, name, False
        data += chunk
        if b"\n" not in chunk:
            continue
        *lines, rest = data.split(b"\n")
        data = bytearray(rest)
        for line in lines:
            try:
                kind, value = _json.loads(line)
            except ValueError:
                return None, name, False  # something else wrote to our pipe
            if kind == "result":
                return value, name, False
            if kind == "error":
                raise OSError(*value)
            name, now = value or "", monotonic()
            until = now + max((deadline - now) * share, _LEAST) if name else deadline


def _be_worker(work: Work, gone: dict[str, str], sink: int) -> None:
    """The rest of the worker's life."""
    try:
        _silence()
        gc.freeze()
        _send(sink, "result", work(gone, lambda name: _send(sink, "at", name)))
    except OSError as e:
        _send(sink, "error", [e.errno, e.strerror])
    finally:
        _exit(0)


def _silence() -> None:
    """What users' code prints while it is saved goes nowhere."""
    null = open("/dev/null", O_RDWR | O_CLOEXEC)
    for fd in range(3):
        dup2(null, fd)
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = open_text(null, "w", encoding="utf-8")


def _send(sink: int, kind: str, value: object) -> None:
    data = memoryview(_json.dumps([kind, value]).encode() + b"\n")
    while data:
        data = data[write(sink, data):]
