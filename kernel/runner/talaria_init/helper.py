"""Work that a process of the session's user has to do, since root in a container may not.

Without capabilities that a container's root lacks, only a process with the same user id may change the limits
of another process, or look at its open files.
"""

import errno
import marshal
import os
import resource
import select
import stat
import time
from collections.abc import Callable, Iterable

import _signal

from . import linux

_PATIENCE = 5.0  # s for a helper: processes of its user can stop it where Landlock does not bound signals


def as_user(uid: int, work: Callable[[], object]) -> object:
    """The result of work, done in a child that has become this user. Turns a failure there into OSError or
    RuntimeError, and so it does if the child takes too long."""
    read, write = os.pipe()
    try:
        pid = linux.fork()
    except OSError:  # the session has as many processes as it may have
        os.close(read)
        os.close(write)
        raise
    if not pid:
        try:
            _signal.set_wakeup_fd(-1)
            become(uid)
            said = (0, work())
        except OSError as e:
            said = (e.errno or 1, e.strerror)
        except BaseException as e:
            said = (-1, f"{type(e).__name__}: {e}")
        try:
            os.write(write, marshal.dumps(said))
        finally:
            os._exit(0)
    os.close(write)
    answer = _read(read, time.monotonic() + _PATIENCE)
    os.kill(pid, _signal.SIGKILL)  # in case that it was stopped
    os.waitpid(pid, 0)
    if not answer:
        raise RuntimeError("a helper ended")
    number, result = marshal.loads(answer)
    if number > 0:
        raise OSError(number, result)
    if number:
        raise RuntimeError(result)
    return result


def _read(fd: int, until: float) -> bytes:
    """What comes until the end, or nothing if that takes longer."""
    text = b""
    ready = select.poll()
    with open(fd, "rb", buffering=0) as f:
        ready.register(f, select.POLLIN)
        while ready.poll(max(0.0, until - time.monotonic()) * 1000):
            part = f.read(1 << 16)
            if not part:
                return text
            text += part
    return b""


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    linux.set_dumpable(True)


def kill_user(uid: int, killer: int) -> None:
    """Kills at once everything that a user runs. None of it can stop the process that does this: who may send signals to a
    process is decided by its real and its saved user id, and these are killer, which nothing else must have."""
    code = -_signal.SIGKILL
    while code == -_signal.SIGKILL:  # another one with this id, which ends another user's processes, has killed it
        pid = linux.fork()
        if not pid:
            try:
                _signal.set_wakeup_fd(-1)
                os.setresuid(killer, uid, killer)
                _check_powerless()
                kill_all()
                os._exit(0)
            except OSError as e:
                os._exit(e.errno or 1)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise RuntimeError(f"the processes of user {uid} could not be killed: {os.strerror(code)}")


def _check_powerless() -> None:
    """Raises PermissionError if this process has kept the right to send a signal to every process on the machine."""
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        return
    raise PermissionError(errno.EPERM, "root's processes can be signalled")


def kill_all() -> None:
    """Kills at once every process that this one may signal, so that none can fork in between."""
    try:
        os.kill(-1, _signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # there is none


def limit(pids: Iterable[int], soft: dict[int, int]) -> None:
    """Changes soft limits, as far as the hard ones allow; -1 means unlimited."""
    for pid in pids:
        try:
            for kind, value in soft.items():
                _, hard = resource.prlimit(pid, kind)
                if hard != resource.RLIM_INFINITY and (value < 0 or value > hard):
                    value = hard
                resource.prlimit(pid, kind, (value, hard))
        except ProcessLookupError:
            continue


def unlinked(pids: Iterable[int], device: int) -> tuple[int, int, int]:
    """The bytes and number of open files that have no name any more, and how many processes hide theirs."""
    taken = hidden = 0
    seen = set()
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            hidden += 1
            continue
        for name in names:
            try:
                found = os.stat(f"{folder}/{name}")
            except OSError:
                continue
            if found.st_nlink or found.st_dev != device or not stat.S_ISREG(found.st_mode) or found.st_ino in seen:
                continue
            seen.add(found.st_ino)
            taken += found.st_blocks * 512
    return taken, len(seen), hidden
