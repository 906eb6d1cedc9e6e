"""A deadline for code of the user that is called to describe an object, like __repr__.

It is enforced with the signal of interrupts: it takes no timer and no signal that user code may want for
itself. A thread that is started for the first deadline watches the time. Code that catches all exceptions is
interrupted again and again; if it never ends, the timeout of the cell ends it like any other code.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _thread import allocate_lock
from sys import _getframe
from time import monotonic

from talaria_runner.own.threads import start
from talaria_runner.run.interrupts import Interrupts, Overdue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LIMIT", "Deadline", "Overdue"]

LIMIT = 2.0  # s
_AGAIN = 0.1  # s until code that goes on is interrupted again


class Deadline:
    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._until = 0.0
        self._kick = allocate_lock()
        self._kick.acquire()
        self._asleep = True
        self.started = False  # the thread

    def run(self, function: Callable[[object], object], argument: object) -> object:
        """Returns the result of function for argument. Raises Overdue if that takes longer than LIMIT. Code
        in threads other than the main one, and in a cell that handles SIGINT itself, has no deadline. A
        nested call has the outer one's deadline."""
        interrupts = self._interrupts
        if interrupts.limited is not None or not interrupts.can_limit() or not self.started and not self._start():
            return function(argument)
        try:
            self._until = monotonic() + LIMIT
            interrupts.limited = _getframe()
            if self._asleep:
                self._wake()
            return function(argument)
        finally:
            interrupts.end_deadline()

    def check(self) -> None:
        """Raises Overdue if the deadline has passed. For code of the runner that works for a long time."""
        self._interrupts.check_deadline()

    def leave(self) -> None:
        """Ends the thread. Called by the main thread, while nothing has a deadline; revive comes next."""
        if self.started:
            kick, self._kick = self._kick, allocate_lock()
            try:
                kick.release()
            except RuntimeError:
                pass  # it is awake

    def revive(self) -> None:
        """In a copy that has become the interpreter: the thread starts with the next deadline."""
        self._kick = allocate_lock()
        self._kick.acquire()
        self._asleep = True
        self.started = False

    def _wake(self) -> None:
        self._asleep = False
        try:
            self._kick.release()
        except RecursionError:  # it is a RuntimeError too: nobody was woken
            self._asleep = True
            raise
        except RuntimeError:
            pass  # it was awake

    def _start(self) -> bool:
        try:
            start(self._watch)
            self.started = True
        except RuntimeError:
            pass  # the limit of threads is reached
        return self.started

    def _watch(self) -> None:
        """The watching thread. It wakes at most once in LIMIT, and not while nothing has a deadline."""
        interrupts, kick = self._interrupts, self._kick
        while True:
            kick.acquire()
            while True:
                if self._kick is not kick:
                    return
                left = self._until - monotonic()
                if left > 0:
                    kick.acquire(True, left)
                    continue
                limited = interrupts.limited
                if limited is None:
                    # Asleep means that a thread that sets a deadline wakes us; so look once more after saying
                    # so.
                    self._asleep = True
                    if interrupts.limited is None:
                        break
                    self._asleep = False
                    continue
                if self._until <= monotonic():
                    interrupts.nudge(limited)
                limited = None
                kick.acquire(True, _AGAIN)
