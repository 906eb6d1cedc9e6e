"""Asking for packages. The host asks the session, which installs them elsewhere."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.packages import layer
from talaria_runner.run.execution import Execution
from talaria_runner.wire.asks import Asks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from talaria_runner.packages.pip_arguments import Change

    class Waiter(Protocol):
        def wake(self) -> None: ...
        def wait(self) -> None: ...


_IN_CHILD = "%pip works only in the kernel itself, not in a process that it started: run the program pip there"


class InstallError(Exception):
    """Packages could not be installed. Nothing has changed then."""


InstallError.__module__ = "builtins"

shared: list[Installs] = []  # the one of this kernel


class Installs:
    """Its methods are safe in every thread."""

    def __init__(self, asks: Asks) -> None:
        self.off = ""  # why there are no installations, or ""
        self._asks = asks

    def install(self, change: Change, show: Callable[[str], object]) -> None:
        """Changes packages for the calling code. Raises InstallError."""
        error = self.change(change, self._asks.execution(), show)
        if error:
            raise InstallError(error)

    def change(
        self, change: Change, execution: Execution | None, show: Callable[[str], object], waiter: Waiter | None = None
    ) -> str:
        """Installs or removes packages, and waits for that, or until waiter is awake, if there is one.
        Meanwhile it shows the installer's output. Returns why nothing has changed, or ""."""
        if self.off:
            return f"packages cannot be installed here: {self.off}"
        loaded = layer.loaded()
        ask = self._asks.ask("install", change.fields(), execution, _IN_CHILD)
        try:
            if waiter is not None:
                ask.on_news(waiter.wake)
            for text in ask.progress(waiter and waiter.wait):
                show(text)
        finally:
            self._asks.end(ask)
        self._asks.check(ask)
        if not ask.error:
            layer.renew()
            for line in layer.conflicts(ask.body["packages"], loaded):
                show(line + "\n")
        return ask.error
