"""The built-in tool terminal: shell commands that share a working directory, variables and functions.

Each command runs in a shell and process group of its own, which begins with what the one before left. So a command that
is killed, or ends its shell, costs nothing of what was there before."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from _signal import SIGINT, SIGKILL, SIGPIPE, SIGTERM
from posix import close, killpg, pipe, posix_spawn, read, waitpid, waitstatus_to_exitcode
from time import monotonic, sleep

from talaria_runner.own.workspace import workspace
from talaria_runner.streams.bash_state import changes
from talaria_runner.tools.failures import ToolError, ToolTimeout
from talaria_runner.wire.descriptors import wait_for, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SHELL = "/bin/bash"
_STATE_IN, _STATE_OUT = 98, 99  # descriptors of the shell
_LOOK_MS = 20  # between looks for an interrupt
_GRACE_MS = 500  # from one signal to the next, less friendly one
_MOST_OUTPUT = 8 << 20  # bytes
_MOST_STATE = 4 << 20
# Readonly variables and those of bash itself cannot be set again; what it says of them is dropped.
_SCRIPT = f"""
IFS= read -r -d '' -u {_STATE_IN} __state; exec {_STATE_IN}<&-
eval "$__state" 2>/dev/null; unset __state
__save() {{ local code=$?; {{ printf 'cd -- %q\\n' "$PWD"; declare -p; declare -f; }} >&{_STATE_OUT}; exit $code; }}
trap __save EXIT
eval "$1" {_STATE_OUT}>&-
"""

_state = b""
_environment: dict[str, str] = {}  # with which the command began that left it


def terminal(
    check: Callable[[], None], command: str, timeout: float | None = None, workdir: str | None = None, **others: object
) -> dict[str, object]:
    """Runs a shell command and waits for it: {"output", "exit_code"}. workdir is for this command alone."""
    global _state, _environment
    before, variables = _state, dict(os.environ)
    if before:  # it has all variables as they were: cells may have changed some since
        before += b"\n" + changes(_environment, variables, _environment.keys() | variables.keys())
    if workdir is not None:
        folder = os.path.join(workspace(), workdir)
        if not os.path.isdir(folder):
            raise ToolError(f"workdir {workdir!r} is not a folder", "not_found")
        before += b"\ncd -- '" + os.fsencode(folder).replace(b"'", b"'\\''") + b"'\n"
    output, code, after = _run(command, before, timeout, check)
    if after and workdir is None:
        _state, _environment = after, variables
    return {"output": output, "exit_code": code}


def _run(command: str, state: bytes, timeout: float | None, check: Callable[[], None]) -> tuple[str, int, bytes]:
    state_in, state_out = _nameless(), _nameless()
    nothing = os.open("/dev/null", os.O_RDONLY)
    read_end, write_end = pipe()
    try:
        write_all(state_in, state)
        os.lseek(state_in, 0, 0)
        pid = posix_spawn(
            _SHELL, ["bash", "--norc", "--noprofile", "-c", _SCRIPT, "bash", command], dict(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, write_end, 1), (os.POSIX_SPAWN_DUP2, write_end, 2),
                (os.POSIX_SPAWN_DUP2, state_in, _STATE_IN), (os.POSIX_SPAWN_DUP2, state_out, _STATE_OUT),
            ],
            setpgroup=0, setsigmask=(), setsigdef=(SIGINT, SIGPIPE),
        )  # fmt: skip
        close(write_end)
        write_end = -1
        output, code = _follow(pid, read_end, timeout, check)
        os.lseek(state_out, 0, 0)
        after = read(state_out, _MOST_STATE + 1)
        return output, code, after if len(after) <= _MOST_STATE else b""
    finally:
        for fd in (state_in, state_out, nothing, read_end, write_end):
            if fd >= 0:
                close(fd)


def _nameless() -> int:
    """A file without a name in the session's temporary directory. Memory without a name is not allowed everywhere."""
    return os.open(os.environ.get("TMPDIR") or "/tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _follow(pid: int, fd: int, timeout: float | None, check: Callable[[], None]) -> tuple[str, int]:
    """What the shell prints until it ends, and its exit code. What it leaves running is not waited for."""
    deadline = None if timeout is None else monotonic() + timeout
    data, closed = bytearray(), False
    try:
        while True:
            check()
            if deadline is not None and monotonic() > deadline:
                raise ToolTimeout(f"the command did not end within {timeout:g} s; it was stopped", "timeout")
            if closed:
                sleep(_LOOK_MS / 1000)
            elif wait_for(fd, timeout_ms=_LOOK_MS):
                closed = not _take(fd, data)
            ended, status = waitpid(pid, os.WNOHANG)
            if ended:
                if not closed and wait_for(fd, timeout_ms=0):
                    _take(fd, data)  # what was printed since the last look: no more than a pipe holds
                return data.decode("utf-8", "replace"), waitstatus_to_exitcode(status)
    except BaseException:
        _stop(pid)
        raise


def _take(fd: int, data: bytearray) -> bool:
    """Reads what is there; False at the end."""
    chunk = read(fd, 1 << 16)
    data += chunk[: max(0, _MOST_OUTPUT - len(data))]
    return bool(chunk)


def _stop(pid: int) -> None:
    for number in (SIGINT, SIGTERM, SIGKILL):
        try:
            killpg(pid, number)
            until = monotonic() + _GRACE_MS / 1000
            while number != SIGKILL and monotonic() < until:
                if waitpid(pid, os.WNOHANG)[0]:
                    killpg(pid, SIGKILL)
                    return
                os.sched_yield()
            if number == SIGKILL:
                waitpid(pid, 0)
        except OSError:
            return
