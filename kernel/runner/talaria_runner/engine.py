"""Executing a cell. Engine is what the runner asks of one; PlainEngine needs nothing but the standard library."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

import sys
from _ast import Expr, Expression

from talaria_runner import frames
from talaria_runner.display import Display
from talaria_runner.eventloop import EventLoop
from talaria_runner.execution import Execution
from talaria_runner.figures import Figures
from talaria_runner.guard import Guard
from talaria_runner.history import History
from talaria_runner.outbox import Outbox
from talaria_runner.sources import Sources
from talaria_runner.tracebacks import Tracebacks, bare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Protocol

    from talaria_runner.tracebacks import Described

    class Engine(Protocol):
        def run(self, execution: Execution) -> None:
            """Runs the cell, sends its result or error, and sets execution.status. Called in the main thread."""

        def fail(self, execution: Execution, error: BaseException) -> None:
            """Ends the execution with that error, which came from outside of its code."""


_ONLY_AST = 0x400
_TOP_LEVEL_AWAIT = 0x2000
_FUTURES = 0x1FE0000  # the flags of all from __future__ imports
_COROUTINE = 0x80

_Function = type(lambda: None)


class PlainEngine:
    def __init__(
        self,
        main: ModuleType,
        builtins: dict[str, object],
        guard: Guard,
        outbox: Outbox,
        display: Display,
        figures: Figures,
        loop: EventLoop,
        sources: Sources,
        tracebacks: Tracebacks,
    ) -> None:
        self._namespace = vars(main)
        self._builtins_module = self._namespace["__builtins__"]
        self._guard = guard
        self._outbox = outbox
        self._display = display
        self._figures = figures
        self._loop = loop
        self._sources = sources
        self._tracebacks = tracebacks
        self._history = History(builtins, self._namespace)
        self._futures = 0
        self._execution: Execution | None = None
        sys.displayhook = self._displayhook = self._show

    def run(self, execution: Execution) -> None:
        self._execution = execution
        self._namespace.setdefault("__builtins__", self._builtins_module)
        self._namespace.pop("__warningregistry__", None)
        if not execution.silent:
            self._history.add_source(execution.count, execution.code)
            if self._history.before():
                self._guard.run(execution, lambda: self._history.release(execution.code))
        self._loop.prepare()
        error = self._run(execution)
        if self._outbox.forked:
            if error is not None:
                raise error
            return
        if error is not None:
            self.fail(execution, error)
        late = self._guard.run(execution, self._figures.flush)
        if late is not None and error is None:
            self._end_with_figures(execution, late)
        error = late = None  # the frames of the cell lead to this one, and with them would keep themselves alive
        if self._history.holds:
            self._guard.run(execution, self._history.release)
        if execution.status is None:
            execution.status = "ok"

    def fail(self, execution: Execution, error: BaseException) -> None:
        described: list[Described] = []
        describe = self._tracebacks.describe
        if self._guard.run(execution, lambda: described.append(describe(error, hint=True))) is not None:
            described = [bare(error)]
        self._guard.run(execution, lambda: self._history.add_failure(error))
        self._outbox.put(frames.error(execution, *described[0]))
        execution.status = "error"

    def _end_with_figures(self, execution: Execution, late: BaseException) -> None:
        """A figure that cannot be drawn fails no cell; an interrupt while it is drawn does."""
        if isinstance(late, KeyboardInterrupt):
            self.fail(execution, late)
        else:
            self._guard.run(execution, lambda: self._display.report(late))

    def _run(self, execution: Execution) -> BaseException | None:
        """Runs the code, as functions: unlike exec they have nothing between the guard and the first instruction."""
        filename = self._sources.add(execution)
        try:
            first, last = self._compile(execution.code, filename)
        except BaseException as e:
            e.__traceback__ = None
            return e
        functions = [code and _Function(code, self._namespace) for code in (first, last)]
        if any(code is not None and code.co_flags & _COROUTINE for code in (first, last)):
            both = self._loop.awaiting(*[function for function in functions if function is not None])
            functions = [None, both] if last is not None else [both, None]
        return self._guard.run(execution, *functions, self._show_last)

    def _compile(self, source: str, filename: str) -> tuple[CodeType | None, CodeType | None]:
        """The code of all statements but the last, and of the last where it is an expression to be shown."""
        flags = self._futures | _TOP_LEVEL_AWAIT
        tree = compile(source, filename, "exec", flags | _ONLY_AST, True)
        body = tree.body
        value = None
        if body and type(body[-1]) is Expr and not _is_quiet(source, body[-1]):
            value = Expression(body.pop().value)
        first = last = None
        if body:
            first = compile(tree, filename, "exec", flags, True)
            flags |= first.co_flags & _FUTURES
        if value is not None:
            last = compile(value, filename, "eval", flags, True)
        self._futures = flags & _FUTURES
        return first, last

    def _show_last(self, value: object) -> None:
        if not self._execution.silent:
            sys.displayhook(value)

    def _show(self, value: object) -> None:
        """sys.displayhook, unless user code has its own."""
        execution = self._execution
        if value is None:
            return
        self._display.show_result(value)
        self._history.add_result(execution.count, value)


def _is_quiet(source: str, last: Expr) -> bool:
    """Whether a semicolon stands behind the last expression."""
    line = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")[last.end_lineno - 1]
    return line.encode()[last.end_col_offset:].lstrip(b" \t\f\\").startswith(b";")
