"""Starts the runner's own threads."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _signal import SIG_BLOCK, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, pthread_sigmask, valid_signals
from _thread import get_native_id, stack_size, start_new_thread
from posix import getpid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 64  # that are remembered as ending
_STACK = 1 << 20  # bytes for each: the memory limit counts the whole stack

running: set[int] = set()  # the ids that the system has given to them
starting: set[object] = set()  # one object for each that does not have its id yet
ending: set[int] = set()  # those of threads that are about to be gone, or are


def main() -> int:
    """The id that the system has given to the main thread."""
    return getpid()


def forget() -> None:
    """In a forked process, where none of them is."""
    starting.clear()
    running.clear()
    ending.clear()


def leave() -> None:
    """Called when all that run now have been told to end, which some do only when the host says something."""
    ending.update(running)
    running.clear()


def start(function: Callable[[], object]) -> None:
    """Starts a thread that threading does not know and to which no signal is delivered. Raises RuntimeError
    if there can be no more threads."""

    def run() -> None:
        pthread_sigmask(SIG_BLOCK, valid_signals() - {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV})
        id = get_native_id()
        running.add(id)
        starting.discard(run)
        try:
            function()
        finally:
            if len(ending) >= _MOST:
                ending.clear()  # all but the last are gone
            ending.add(id)
            running.discard(id)

    before = stack_size(_STACK)
    starting.add(run)
    try:
        start_new_thread(run, ())
    except BaseException:
        starting.discard(run)
        raise
    finally:
        stack_size(before)
