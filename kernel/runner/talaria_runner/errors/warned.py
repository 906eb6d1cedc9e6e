"""Warnings raised while code of the runner runs, as when it drops the last reference to a value of a cell."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.own.ours import OURS
from talaria_runner.run.execution import disguise, owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from warnings import WarningMessage


def adopt(warnings: ModuleType) -> None:
    """Makes warnings, the module, name the cell instead of a line of the runner."""
    original = warnings._formatwarnmsg_impl

    def format_message(message: WarningMessage) -> str:
        if not str(message.filename).startswith(OURS):
            return original(message)
        _forget()
        head = f"{message.filename}:{message.lineno}: "
        message.line = ""
        text = original(message)
        count = owner().count
        return (f"<cell {count}>: " if count else "") + text.removeprefix(head)

    disguise(format_message, original)
    warnings._formatwarnmsg_impl = format_message


def _forget() -> None:
    """Lets the same warning appear again: it is not about a line of the runner."""
    for name, module in list(modules.items()):
        if name.startswith("talaria_runner."):
            vars(module).pop("__warningregistry__", None)
