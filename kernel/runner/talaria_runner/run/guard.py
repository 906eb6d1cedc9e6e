"""The frame below which everything is user code."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import _getframe, getprofile, getrecursionlimit, gettrace, setprofile, setrecursionlimit, settrace
from time import monotonic

from talaria_runner.run.execution import Execution
from talaria_runner.run.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


_LONG = 0.02  # s after which an interrupt may have arrived that C code kept the reader from seeing


class Guard:
    """Runs user code. Settings for its own frames, such as trace functions and recursion limit, apply to it alone."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._trace: object = None
        self._profile: object = None
        self._limit = self._default_limit = getrecursionlimit()

    def run(
        self,
        execution: Execution,
        first: Callable[[], object] | None,
        last: Callable[[], object] | None = None,
        show: Callable[[object], None] | None = None,
    ) -> BaseException | None:
        """Calls first, then show with the result of last, and returns the exception that was raised.

        CPython runs signal handlers after calls of C functions, at backward jumps and where a Python function
        begins. There is none of these between setting guard and the first instruction of user code, nor
        between its last one and clearing guard: an interrupt arrives before, inside or after, and never in
        between.
        """
        error = None
        began = monotonic()
        interrupts = self._interrupts
        try:
            self._enter()
            frame = _getframe()
            interrupts.guard = frame
            if execution.interrupt_requested:
                interrupts.guard = None
                execution.interrupt_requested = False
                execution.interrupted = True
                raise KeyboardInterrupt
            if first is not None:
                first()
            if last is not None:
                show(last())
            interrupts.guard = None
            if monotonic() - began > _LONG:
                interrupts.catch_up()
            if execution.interrupt_requested:
                execution.interrupt_requested = False
                execution.interrupted = True
                raise KeyboardInterrupt
        except BaseException as e:
            interrupts.guard = None
            error = e
        frame = None
        self._leave()
        try:
            return error
        finally:
            error = None  # the frames of user code lead to this one, and would keep themselves alive through it

    def _enter(self) -> None:
        if self._limit != self._default_limit:
            try:
                setrecursionlimit(self._limit)
            except RecursionError:
                pass  # too low even for this depth
        if self._profile is not None:
            profile, self._profile = self._profile, None  # what raises here is not set again
            if callable(profile):
                setprofile(profile)
            else:
                profile.enable()
        if self._trace is not None:
            settrace(self._trace)

    def _leave(self) -> None:
        self._trace = gettrace()
        if self._trace is not None:
            settrace(None)
        self._profile = getprofile()
        if self._profile is not None:
            self._stop_profile()
        self._limit = getrecursionlimit()
        if self._limit != self._default_limit:
            setrecursionlimit(self._default_limit)

    def _stop_profile(self) -> None:
        try:
            if not callable(self._profile):  # a profiler in C, such as that of cProfile
                self._profile.disable()
        except BaseException:
            self._profile = None
        setprofile(None)
