"""What would differ in a copy of the interpreter although it could be the same: random numbers, positions in files,
libraries with threads of their own. Each repair is done for what is loaded, and no more."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from os import SEEK_CUR, SEEK_SET
from fcntl import F_GETFD, F_GETFL, F_SETFD, fcntl
from posix import O_CREAT, O_EXCL, O_RDWR, O_TRUNC, close, dup2, lseek, open
from sys import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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
        for fd in descriptors.files:
            try:
                self._positions[fd] = lseek(fd, 0, SEEK_CUR)
            except OSError:
                pass  # closed meanwhile

    def part(self) -> None:
        """Makes the copy independent, while it waits: it holds no connection open that the interpreter may want to
        close, and no lock of a file."""
        null = open("/dev/null", O_RDWR)
        for fd, _ in self._descriptors.streams:
            _replace(null, fd)
        close(null)
        for fd in self._positions:
            self._open_again(fd)

    def _open_again(self, fd: int) -> None:
        """Gives a file a position of its own. A file that cannot be opened again shares the position."""
        try:
            own = open(f"/proc/self/fd/{fd}", fcntl(fd, F_GETFL) & ~(O_CREAT | O_EXCL | O_TRUNC))
        except OSError:
            return
        _replace(own, fd)
        close(own)

    def restore(self) -> None:
        """Puts everything back, in the copy that has become the interpreter."""
        if self._random is not None:
            type(self._generator).setstate(self._generator, self._random)
        for fd, position in self._positions.items():
            try:
                lseek(fd, position, SEEK_SET)
            except OSError:
                pass  # it has none
        _renew_fonts()
        _renew_pools()


def _replace(source: int, fd: int) -> None:
    flags = fcntl(fd, F_GETFD)
    dup2(source, fd)
    fcntl(fd, F_SETFD, flags)


def _renew_fonts() -> None:
    """Fonts that matplotlib keeps open cannot be used in another process than the one that opened them."""
    manager = modules.get("matplotlib.font_manager")
    clear: Callable[[], None] | None = getattr(getattr(manager, "_get_font", None), "cache_clear", None)
    if clear is not None:
        clear()


def _renew_pools() -> None:
    """Lets pools of threads start new threads: asyncio's own is made anew when it is needed next."""
    asyncio, pools = modules.get("asyncio"), modules.get("concurrent.futures.thread")
    if asyncio is None or pools is None:
        return
    try:
        loop = asyncio.get_event_loop_policy()._local._loop
        if loop is not None and isinstance(loop._default_executor, pools.ThreadPoolExecutor):
            loop._default_executor = None
    except AttributeError:
        pass  # no loop, or one of another kind
