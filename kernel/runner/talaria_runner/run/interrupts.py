"""KeyboardInterrupt in the user code of exactly the execution that the host named, and nowhere else.

The thread that reads the host's frames marks the execution and sends SIGINT. The handler, in the main thread,
checks where it landed: inside the guard and in user code, it raises. Anywhere else it raises nothing; the
request stays with the execution, and the reader sends the signal again, ever more slowly, until it is
delivered or the execution has ended. An undelivered request goes away with the execution.

Child processes get the signal as well, when the cell has ended or has had some time to end them itself: a
pool whose workers die of it while they hold its lock would never finish.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from _signal import SIG_UNBLOCK, SIGINT, default_int_handler, getsignal, pthread_kill, pthread_sigmask, signal
from _thread import get_ident
from posix import getpgrp, getpid, killpg
from sys import _getframe

from talaria_runner.own.ours import OURS, without_ours
from talaria_runner.run.execution import Execution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import TypeVar

    _T = TypeVar("_T")


class Overdue(BaseException):
    """Raised in user code that has exceeded its deadline."""


Overdue.__module__ = "builtins"


_REPEATS = 7  # after which children get the signal, and tasks that do not end: 127 ms, given the pauses


class Interrupts:
    def __init__(self) -> None:
        self.execution: Execution | None = None  # the one that was given and has not ended
        self.following: Execution | None = None  # given while a front end's message is handled, and not begun
        self.guard: FrameType | None = None  # below this frame is user code; None if none is running
        self.idle: FrameType | None = None  # below this frame background tasks run while no cell does
        self.cancel: Callable[[], bool] | None = None  # cancels the awaited task; False if it did so before
        self.catch_up: Callable[[], None] = lambda: None  # makes the reader handle the frames that have arrived
        self.elsewhere: Callable[[], bool] | None = None  # whether code other than the cell's is running while the cell awaits
        self.waiting: set[CodeType] = set()  # functions of ours that may be interrupted while they wait
        self.nested: set[CodeType] = set()  # functions of ours below which user code runs a loop of its own
        self.children = False  # some were started: they get the signal as well
        self.limited: FrameType | None = None  # below this frame user code has a deadline; None if there is none
        self._late: FrameType | None = None  # equals limited when the deadline has passed
        self._nudges = self._nudged = 0  # signals sent for deadlines; of these, how many the handler knows of
        self._children_wait = False  # for the signal
        self._repeats = 0  # since the last request
        self._main = get_ident()
        self._sent = 0  # signals that we sent
        self._seen = 0  # of these, how many the handler knows of
        self._cancelling = False
        self._held = False  # none is raised, wherever it lands
        self._forked = False
        self._handler = self._on_signal

    def install(self) -> None:
        """Makes SIGINT ours, even if user code took it. Only in the main thread."""
        if getsignal(SIGINT) is not self._handler:
            signal(SIGINT, self._handler)
        pthread_sigmask(SIG_UNBLOCK, (SIGINT,))

    def keep_unraisable(self) -> None:
        """Makes an interrupt that landed in a finaliser, where Python drops all exceptions, come again."""
        self._report_unraisable = sys.__unraisablehook__
        sys.unraisablehook = sys.__unraisablehook__ = self._on_unraisable

    def request(self, execution: Execution) -> None:
        """Interrupts this execution. Called by the reader, which also reads what may come after it."""
        execution.interrupts += 1
        grouped = self.children and getpgrp() == getpid()
        if getsignal(SIGINT) is not self._handler:
            # User code handles it itself, once for each request.
            if grouped:
                killpg(getpid(), SIGINT)
            else:
                pthread_kill(self._main, SIGINT)
            return
        execution.interrupt_requested = True
        self._sent += 1
        self._repeats = 0
        self._children_wait = grouped
        pthread_kill(self._main, SIGINT)

    def request_for(self, id: str) -> None:
        """Interrupts the execution with that id. If it waits for the handler of a front end's message to end, the
        handler is interrupted as well."""
        execution, following = self.execution, self.following
        if execution is not None and execution.id == id:
            self.request(execution)
        elif following is not None and following.id == id:
            following.interrupts += 1
            following.interrupt_requested = True
            if execution is not None:
                self.request(execution)

    def repeat(self, execution: Execution) -> None:
        """Called by the reader after growing pauses, while an interrupted execution keeps running."""
        if execution.interrupt_requested:
            self._sent += 1
            pthread_kill(self._main, SIGINT)
        self._repeats += 1
        if self._repeats == _REPEATS:
            self.reach_children()

    def reach_children(self) -> None:
        """Sends the signal to child processes that wait for it."""
        if self._children_wait:
            self._children_wait = False
            self._sent += 1
            killpg(getpid(), SIGINT)

    def deliver(self) -> None:
        """Raises an interrupt that could not be raised while our own code ran. Called by that code on the way
        back to user code."""
        execution = self.execution
        if execution is None or not execution.interrupt_requested or self.guard is None:
            return
        if get_ident() == self._main and self._inside(_getframe(), self.guard):
            self._raise(execution)

    def uninterrupted(self, work: Callable[..., _T], *args: object) -> _T:
        """Calls work, which an interrupt must not leave half-way: none is raised in it, also not in functions of the standard
        library that it calls, which count as user code elsewhere. The reader sends the signal again."""
        before, self._held = self._held, True
        try:
            return work(*args)
        finally:
            self._held = before

    def can_limit(self) -> bool:
        """Whether code called here can have a deadline: in the main thread, while SIGINT is ours."""
        return get_ident() == self._main and not self._forked and getsignal(SIGINT) is self._handler

    def nudge(self, limited: FrameType) -> None:
        """Makes Overdue be raised in user code below that frame. Called by the thread that watches the time."""
        if self.limited is limited:
            self._late = limited
            self._nudges += 1
            pthread_kill(self._main, SIGINT)

    def check_deadline(self) -> None:
        """Raises Overdue if the deadline has passed while our own code ran."""
        if self._late is not None and self._late is self.limited:
            self._late = None
            raise Overdue

    def end_deadline(self) -> None:
        self.limited = self._late = None

    def revive(self) -> None:
        """In a copy that has become the interpreter, between two cells."""
        self.execution = self.following = None
        self._sent = self._seen
        self._nudges = self._nudged
        self._children_wait = False
        self._repeats = 0

    def become_child(self) -> None:
        self._forked = True
        self.catch_up = lambda: None
        if getsignal(SIGINT) is self._handler:
            signal(SIGINT, default_int_handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if self._forked:
            raise KeyboardInterrupt
        if self._cancelling:
            return  # it came while the one before is handled, and comes again if there is more to it
        ours = self._sent != self._seen or self._nudges != self._nudged
        self._seen = self._sent
        self._nudged = self._nudges
        if self._held:
            return
        execution = self.execution
        late = self._late
        if late is not None and not (execution is not None and execution.interrupt_requested):
            landed = _getframe().f_back
            if late is self.limited and self._inside(landed, late) and self._is_user_code(landed):
                self._late = None
                raise Overdue
        if execution is None or (ours and not execution.interrupt_requested):
            return  # it came too late, or the request was delivered without the signal
        landed = _getframe().f_back
        if self.guard is None:
            if self.idle is not None and self._inside(landed, self.idle) and not self._awaits(landed):
                raise KeyboardInterrupt  # a background task that does not let the cell begin
            return
        if landed is self.guard or not self._inside(landed, self.guard):
            return
        if landed.f_code in self.waiting:
            self._raise(execution)
        if not self._is_user_code(landed):
            return
        if self.cancel is not None and self._awaits(landed):
            self.delivered(execution)
            if self._cancel():
                return
            raise KeyboardInterrupt
        if self.cancel is not None and self.elsewhere() and self._repeats < _REPEATS:
            self._cancel()  # a background task goes on, unless it does not yield
            return
        self._raise(execution)

    def _cancel(self) -> bool:
        self._cancelling = True
        try:
            return self.cancel()
        finally:
            self._cancelling = False

    def delivered(self, execution: Execution) -> None:
        execution.interrupt_requested = False
        execution.interrupted = True

    def _raise(self, execution: Execution) -> None:
        self.delivered(execution)
        raise KeyboardInterrupt

    def _on_unraisable(self, dropped: sys.UnraisableHookArgs) -> None:
        execution = self.execution
        if dropped.exc_type is Overdue:
            return  # it comes again
        if dropped.exc_type is KeyboardInterrupt and execution is not None and execution.interrupts:
            execution.interrupt_requested = True
        else:
            traceback = without_ours(dropped.exc_traceback)
            self._report_unraisable(
                type(dropped)((dropped.exc_type, dropped.exc_value, traceback, dropped.err_msg, dropped.object))
            )

    def _inside(self, frame: FrameType | None, outer: FrameType) -> bool:
        while frame is not None and frame is not outer:
            frame = frame.f_back
        return frame is not None

    def _is_user_code(self, frame: FrameType) -> bool:
        return not frame.f_code.co_filename.startswith(OURS)

    def _awaits(self, frame: FrameType) -> bool:
        """Whether the event loop itself was interrupted, with no user code on top of it."""
        while not frame.f_code.co_filename.startswith(OURS):
            name = frame.f_code.co_filename
            if "/asyncio/" not in name and not name.endswith("/selectors.py"):
                return False
            frame = frame.f_back
        return frame.f_code not in self.nested
