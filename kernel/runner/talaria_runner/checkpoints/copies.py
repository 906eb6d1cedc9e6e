"""Makes copies of the interpreter, and makes a copy the interpreter.

A copy is forked between two cells. It has everything in memory as it was, and waits for a signal of pid 1 while the
interpreter goes on; memory that neither of them writes to exists once. When it gets the signal, the host has stopped the
interpreter for good, and the copy takes its place: with its control socket and its pipes, which it has inherited, and
threads of its own.

An interpreter that a copy is about to replace can also step aside: it waits as a copy does, for the same signal, without having
been forked. That takes equally long whatever its size.

While it waits, a copy also saves its variables when pid 1 wants that, in a fork of itself: the interpreter never notices.

It is a child of pid 1 (siblings.py): code of the user that waits for its children never sees it.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from _signal import (
    SIG_BLOCK, SIG_SETMASK, SIGRTMAX, SIGSTOP, pthread_sigmask, sigtimedwait, sigwaitinfo, valid_signals,
)  # fmt: skip
from posix import O_CLOEXEC, _exit, close, getpid, getppid, kill, pipe2, read, setsid, write
from sys import modules

from talaria_runner.checkpoints import losses, repairs, siblings
from talaria_runner.checkpoints.losses import Loss
from talaria_runner.own import mappings, openmp
from talaria_runner.wire.descriptors import wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


WAKE = SIGRTMAX  # makes a waiting copy the interpreter, if pid 1 sends it,
SAVE = SIGRTMAX - 1  # and makes it save its variables, and stop when it has, until pid 1 lets it go on
_SENT_BY_KILL = 0  # si_code
_KILL = 9
_PATIENCE_MS = 20_000  # until a copy that does not say that it waits is given up
_PR_SET_NAME = 15
_NAME = b"checkpoint"  # of the process, for lists of processes


_woken: repairs.Kept | None = None  # in a copy that has become the interpreter, until it is copied for the first time


class Made:
    """A copy that waits: its pid; or 0, and why there is none. losses are what it does not have."""

    __slots__ = ("pid", "reason", "losses")

    def __init__(self, pid: int, reason: str, losses: list[Loss]) -> None:
        self.pid = pid
        self.reason = reason
        self.losses = losses


def take(
    namespace: dict[str, object], ours: Iterable[int], quietly: Callable[[Callable[[], int]], int], save: Callable[[], None]
) -> Made | None:
    """Makes a copy, and returns None in the copy itself once it is to be the interpreter. Only in the main thread, while no
    user code runs in it. ours are the runner's descriptors; quietly calls the function that forks, so that the rest of the
    runner does not take the copy for a fork of the user's. save is called in the copy whenever it is to save its variables."""
    global _woken
    descriptors, lost = _look(namespace, ours)
    if descriptors.device:
        return Made(0, f"a GPU is in use ({descriptors.device}), whose state cannot be copied", lost)
    kept = repairs.Kept(descriptors)
    ready, tell = pipe2(O_CLOEXEC)
    try:
        signals = pthread_sigmask(SIG_BLOCK, ())
        if quietly(siblings.fork_sibling):
            _become_copy(kept, ready, tell, save, signals)
            _woken = kept
            return None
        close(tell)
        tell = -1
        made = _hear(ready)
    except BaseException as e:  # of the system, or of a signal handler of the user: nobody would know of the copy
        if tell >= 0:
            _close(tell)
            tell = -1
        made = _hear(ready)
        if made:
            kill(made, _KILL)
        if not isinstance(e, OSError):
            raise
        return Made(0, f"the process could not be copied: {e.strerror or type(e).__name__}", lost)
    finally:
        # The copy closes its own ends.
        for fd in (ready, tell):
            if fd >= 0:
                _close(fd)
    if not made:
        return Made(0, "the copy ended, for lack of memory or because of code that a library runs in forked processes", lost)
    strangers = losses.foreign_threads()
    if strangers:
        kill(made, _KILL)
        running = "a library thread is" if strangers == 1 else f"{strangers} library threads are"
        reason = f"{running} running{_suspects()}, which a copy would wait for forever"
        return Made(0, reason, lost)
    return Made(made, "", lost)


def step_aside(
    namespace: dict[str, object], ours: Iterable[int], is_alone: Callable[[], bool], leave: Callable[[Made], None],
    save: Callable[[], None],
) -> Made | None:
    """Makes the interpreter itself a copy that waits, and returns None once it is to be the interpreter again. If that is not
    possible, it returns why, and nothing has changed. is_alone says whether there are no threads that would go on; leave gives
    the host that answer, and the streams to the interpreter that comes next. Otherwise like take."""
    global _woken
    signals = pthread_sigmask(SIG_BLOCK, valid_signals())  # from here on no handler of the user raises anything
    try:
        descriptors, lost = _look(namespace, ours)
        if descriptors.device or not is_alone():
            pthread_sigmask(SIG_SETMASK, signals)
            return Made(0, "it uses a GPU, or has threads", lost)
        kept = repairs.Kept(descriptors)
        kept.part()
    except BaseException:
        pthread_sigmask(SIG_SETMASK, signals)
        raise
    try:
        kept.stop_timers()
        name = _rename(_NAME)
        leave(Made(getpid(), "", lost))
    except BaseException:
        _exit(1)  # nobody could reach it any more
    _wait(kept, save, name, signals)
    _woken = kept
    return None


def _look(namespace: dict[str, object], ours: Iterable[int]) -> tuple[losses.Descriptors, list[Loss]]:
    """The descriptors of user code, and what a copy that is made now does not have."""
    global _woken
    if _woken is not None:
        _woken.find_files()  # the host has put them back before it asks for the next copy
        _woken = None
    descriptors = losses.Descriptors(ours)
    mapped = mappings.listed()
    lost = losses.of(namespace, descriptors, mapped)
    if not descriptors.device:
        openmp.pause(mapped)
    return descriptors, lost


def _become_copy(kept: repairs.Kept, ready: int, tell: int, save: Callable[[], None], signals: Iterable[int]) -> None:
    """Returns when the copy is to be the interpreter. signals are those that the interpreter blocked; all are blocked now."""
    try:
        close(ready)
        setsid()
        kept.part()
        name = _rename(_NAME)
        write(tell, b"%d" % getpid())
        close(tell)
    except BaseException:
        _exit(1)
    _wait(kept, save, name, signals)


def _wait(kept: repairs.Kept, save: Callable[[], None], name: bytes, signals: Iterable[int]) -> None:
    """Returns when this process is to be the interpreter, with the name and the blocked signals that it had."""
    try:
        while _next() != WAKE:
            kept.put_back()
            try:
                save()
            except BaseException:
                pass  # there is no answer, which says so
            kill(getpid(), SIGSTOP)  # pid 1 learns of that
        while sigtimedwait(valid_signals(), 0) is not None:
            pass  # what others sent meanwhile was not for the interpreter
        kept.restore()
        _rename(name)
        pthread_sigmask(SIG_SETMASK, signals)
    except BaseException:
        _exit(1)


def _next() -> int:
    """The next signal of pid 1. Others inside may send the same, but the system says who did."""
    while True:
        info = sigwaitinfo((WAKE, SAVE))
        if info.si_code == _SENT_BY_KILL and info.si_pid == getppid():
            return info.si_signo


def _hear(ready: int) -> int:
    """The pid of the copy once it waits, or 0 if there is none."""
    if not wait_for(ready, timeout_ms=_PATIENCE_MS):
        return 0
    said = read(ready, 32)
    return int(said) if said else 0


def _rename(name: bytes) -> bytes:
    """Changes the name of this process in lists of processes. Returns the one before."""
    try:
        from _ctypes import call_function, dlopen, dlsym

        fd = os.open("/proc/self/comm", os.O_RDONLY | O_CLOEXEC)
        try:
            before = read(fd, 64).strip()
        finally:
            close(fd)
        call_function(dlsym(dlopen(None, 2), "prctl"), (_PR_SET_NAME, name, 0, 0, 0))
        return before
    except (ImportError, OSError):
        return b"python"


def _suspects() -> str:
    names = [name for name in ("polars", "pyarrow", "torch", "tensorflow", "jax", "ray", "mkl") if name in modules]
    return f" ({', '.join(names)})" if names else ""


def _close(fd: int) -> None:
    try:
        close(fd)
    except OSError:
        pass
