"""What cells can ask for about checkpoints. The session answers at once, and does it when the cell has ended."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _thread import get_ident

from talaria_runner.run.ending import CellEnded
from talaria_runner.wire.asks import Asks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from talaria_runner.wire.asks import Ask

_LONGEST = 1000  # characters of each text, of which the session takes fewer
_IN_CHILD = "talaria.{} works only in the kernel itself, not in an item of a map or another process that it started"
_IN_THREAD = "talaria.rollback works only in the thread that runs the cell, because it ends the cell"


class CheckpointError(RuntimeError):
    """A checkpoint cannot be made, or the session cannot go back to it. Nothing has changed."""


CheckpointError.__module__ = "talaria"


class Checkpoints:
    """The checkpoints of this kernel."""

    def __init__(self, asks: Asks, main: int) -> None:
        """main is the identity of the main thread."""
        self._asks = asks
        self._main = main

    def checkpoint(self, name: str | None, level: str | None) -> str:
        """See the function that talaria_module.py makes of it. Safe in every thread."""
        texts = {"name": name, "level": level}
        return self._ask("checkpoint", {key: _text("checkpoint", key, value) for key, value in texts.items() if value is not None})

    def rollback(self, to: str, what: str, keep_user_edits: bool) -> NoReturn:
        """See the function that talaria_module.py makes of it."""
        body: dict[str, object] = {key: _text("rollback", key, value) for key, value in {"to": to, "what": what}.items()}
        if get_ident() != self._main:
            raise CheckpointError(_IN_THREAD)
        self._ask("rollback", {**body, "keep_user_edits": bool(keep_user_edits)})
        raise CellEnded

    def _ask(self, action: str, body: dict[str, object]) -> str:
        ask = self._asks.ask("after", {"action": action, **body}, self._asks.execution(), _IN_CHILD.format(action))
        try:
            self._wait(ask)
        finally:
            self._asks.end(ask)
        self._asks.check(ask)
        if ask.error:
            raise CheckpointError(ask.error)
        return ask.body["checkpoint_id"]

    def _wait(self, ask: Ask) -> None:
        while not ask.answered:
            ask.wait()


def _text(function: str, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"talaria.{function}: {name} must be a str, not {type(value).__name__}")
    return value[:_LONGEST]
