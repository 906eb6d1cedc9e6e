"""Callbacks of user code and libraries around each cell, as get_ipython().events."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.ipython.contract import Cells
    from talaria_runner.rendering.display import Display

_NAMES = ("pre_execute", "pre_run_cell", "post_execute", "post_run_cell", "shell_initialized")


class Info:
    """The argument of pre_run_cell."""

    def __init__(self, raw_cell: str, store_history: bool, silent: bool) -> None:
        self.raw_cell = raw_cell
        self.store_history = store_history
        self.silent = silent
        self.shell_futures = True
        self.cell_id = None


class Result:
    """The argument of post_run_cell, and the result of run_cell."""

    def __init__(self, info: Info, execution_count: int) -> None:
        self.info = info
        self.execution_count = execution_count
        self.error_before_exec: BaseException | None = None
        self.error_in_exec: BaseException | None = None
        self.result: object = None

    @property
    def success(self) -> bool:
        return self.error_before_exec is None and self.error_in_exec is None

    def raise_error(self) -> None:
        """Raises the error, if there was one."""
        error = self.error_before_exec or self.error_in_exec
        if error is not None:
            raise error


def run_into(result: Result, cells: Cells, display: Display, code: str, silent: bool) -> Result:
    """Runs code inside the running cell, and shows the value of its last expression. result, which may be
    IPython's, gets the value or the error."""
    try:
        result.result = cells.run_inside(code)
        if result.result is not None and not silent:
            sys.displayhook(result.result)
    except SyntaxError as e:
        result.error_before_exec = e
    except Exception as e:
        result.error_in_exec = e
    if not result.success:
        display.report(result.error_before_exec or result.error_in_exec)
    return result


class EventManager:
    """Calls callbacks in the order of registration. An exception in a callback is reported, and ends neither
    the cell nor the others."""

    def __init__(self, report: Callable[[BaseException], None]) -> None:
        self.callbacks: dict[str, list[Callable[..., object]]] = {name: [] for name in _NAMES}
        self._report = report

    def register(self, event: str, function: Callable[..., object]) -> None:
        if not callable(function):
            raise TypeError(f"Need a callable, got {function!r}")
        callbacks = self._of(event)
        if function not in callbacks:
            callbacks.append(function)

    def unregister(self, event: str, function: Callable[..., object]) -> None:
        callbacks = self._of(event)
        if function not in callbacks:
            raise ValueError(f"{function!r} is not registered for {event}")
        callbacks.remove(function)

    def trigger(self, event: str, *args: object) -> None:
        for function in list(self._of(event)):
            try:
                function(*args)
            except Exception as e:
                self._report(e)

    def _of(self, event: str) -> list[Callable[..., object]]:
        try:
            return self.callbacks[event]
        except KeyError:
            raise KeyError(f"there is no event {event!r}; available: {', '.join(_NAMES)}") from None
