"""What would differ in a copy of the interpreter although it could be the same: random numbers, positions in files,
timers, libraries with threads of their own. Each repair is done for what is loaded, and no more."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _signal import (
    ITIMER_PROF, ITIMER_REAL, ITIMER_VIRTUAL, SIGALRM, SIGPROF, SIGVTALRM, getitimer, raise_signal, setitimer, sigpending,
)
from os import SEEK_CUR, SEEK_SET
from fcntl import F_GETFD, F_GETFL, F_SETFD, fcntl
from posix import O_CREAT, O_EXCL, O_RDWR, O_TRUNC, close, dup2, fstat, lseek, open, stat
from sys import modules

from talaria_runner.checkpoints.losses import is_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from posix import stat_result

    from talaria_runner.checkpoints.losses import Descriptors


class Kept:
    """What Python itself changes in a forked process, or shares with it, as it was when this was made."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        random = modules.get("random")
        self._generator = getattr(random, "_inst", None)
        self._random = None
        if type(self._generator) is getattr(random, "Random", None):
            self._random = type(self._generator).getstate(self._generator)
        self._positions: dict[int, int] = {}
        self._identities: dict[int, tuple[int, int]] = {}
        for fd in descriptors.files:
            try:
                self._identities[fd] = _identity(fstat(fd))
                self._positions[fd] = lseek(fd, 0, SEEK_CUR)
            except OSError:
                pass  # closed meanwhile
        self._timers = {which: getitimer(which) for which in (ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF)}
        self._expired: set[int] = set()

    def part(self) -> None:
        """Makes the copy independent, while it waits: it holds no connection open that the interpreter may want to
        close, and no lock of a file."""
        null = open("/dev/null", O_RDWR)
        for fd in self._descriptors.streams:
            try:
                _replace(null, fd)
            except OSError:
                pass  # a library closes it in forked processes, as multiprocessing does from Python 3.14 on
        close(null)
        for fd in self._positions:
            _open_again(fd, f"/proc/self/fd/{fd}")  # with a position of its own, if it can be opened

    def stop_timers(self) -> None:
        """Where this process itself waits: a forked one has inherited none."""
        for which in self._timers:
            setitimer(which, 0)
        # One that ended while all signals were blocked has sent its signal, which no handler has got yet.
        self._expired = {SIGALRM, SIGVTALRM, SIGPROF} & sigpending()

    def put_back(self) -> None:
        """Puts back what variables are made of, in the copy."""
        if self._random is not None:
            type(self._generator).setstate(self._generator, self._random)
        for fd, position in self._positions.items():
            try:
                lseek(fd, position, SEEK_SET)
            except OSError:
                pass  # it has none

    def restore(self) -> None:
        """Puts everything back, in the copy that has become the interpreter."""
        self.put_back()
        for which, (left, interval) in self._timers.items():
            if left:
                setitimer(which, left, interval)
        for signal in self._expired:
            raise_signal(signal)  # blocked until the interpreter goes on
        _renew_threads()
        _renew_fonts()
        _renew_pools()

    def find_files(self) -> None:
        """After the host has put back the files of the workspace: those that were replaced are opened again by their paths."""
        for fd, identity in self._identities.items():
            path = self._descriptors.files[fd]
            try:
                if is_outside(path) or _identity(fstat(fd)) != identity or _identity(stat(path)) == identity:
                    continue
                position = lseek(fd, 0, SEEK_CUR)
                if _open_again(fd, path):
                    lseek(fd, position, SEEK_SET)
            except OSError:
                pass  # one of them is gone


def _identity(status: stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _open_again(fd: int, path: str) -> bool:
    try:
        own = open(path, fcntl(fd, F_GETFL) & ~(O_CREAT | O_EXCL | O_TRUNC))
    except OSError:
        return False
    _replace(own, fd)
    close(own)
    return True


def _replace(source: int, fd: int) -> None:
    flags = fcntl(fd, F_GETFD)
    dup2(source, fd)
    fcntl(fd, F_SETFD, flags)


def _renew_threads() -> None:
    """Lets threads that have not begun begin: Python 3.13.0 takes them for ended in a forked process."""
    threading = modules.get("threading")
    make: Callable[[], object] | None = getattr(threading, "_ThreadHandle", None)
    if make is None:
        return
    for thread in list(threading._dangling):
        try:
            if not thread._started.is_set():
                thread._handle = make()
        except Exception:
            pass  # one of a class that is unlike Python's


def _renew_fonts() -> None:
    """Fonts that matplotlib keeps open cannot be used in another process than the one that opened them."""
    manager = modules.get("matplotlib.font_manager")
    clear: Callable[[], None] | None = getattr(getattr(manager, "_get_font", None), "cache_clear", None)
    if clear is not None:
        clear()


def _renew_pools() -> None:
    """Lets pools of threads start new threads: asyncio's own is made anew when it is needed next."""
    events, pools = modules.get("asyncio.events"), modules.get("concurrent.futures.thread")
    if events is None or pools is None:
        return
    try:
        loop = events._event_loop_policy._local._loop
        if loop is not None and isinstance(loop._default_executor, pools.ThreadPoolExecutor):
            loop._default_executor = None
    except AttributeError:
        pass  # no loop, or one of another kind
