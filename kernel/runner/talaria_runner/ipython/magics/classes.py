"""IPython.core.magic for kernels without IPython: the decorators that make functions and methods magics."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.ipython.shell import InteractiveShell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Magics", "cell_magic", "line_cell_magic", "line_magic", "magics_class", "needs_local_scope", "no_var_expand",
    "register_cell_magic", "register_line_cell_magic", "register_line_magic",
]  # fmt: skip

_MARK = "_talaria_magic"


class Magics:
    """Magics that share something."""

    magics: dict[str, dict[str, str]] = {"line": {}, "cell": {}}
    registered = False

    def __init__(self, shell: InteractiveShell | None = None, **settings: object) -> None:
        self.shell = shell


def magics_class(cls: type) -> type:
    """Collects the methods that are marked as magics."""
    cls.registered = True
    cls.magics = {"line": {}, "cell": {}}
    for attribute in dir(cls):
        for kind, name in getattr(getattr(cls, attribute, None), _MARK, ()):
            cls.magics[kind][name] = attribute
    return cls


def _marker(kinds: str) -> Callable:
    def mark(given: Callable | str) -> Callable:
        name = given if isinstance(given, str) else given.__name__

        def put(function: Callable) -> Callable:
            setattr(function, _MARK, [(kind, name) for kind in kinds.split()])
            return function

        return put if isinstance(given, str) else put(given)

    return mark


def _registrar(kind: str) -> Callable:
    def register(given: Callable | str) -> Callable:
        name = given if isinstance(given, str) else given.__name__

        def put(function: Callable) -> Callable:
            InteractiveShell.instance().register_magic_function(function, kind, name)
            return function

        return put if isinstance(given, str) else put(given)

    return register


line_magic, cell_magic, line_cell_magic = _marker("line"), _marker("cell"), _marker("line cell")
register_line_magic, register_cell_magic, register_line_cell_magic = (
    _registrar("line"), _registrar("cell"), _registrar("line_cell")
)  # fmt: skip


def no_var_expand(function: Callable) -> Callable:
    """Has the magic get its text without $name and {expression} replaced."""
    function.takes_text_as_it_is = True
    return function


def needs_local_scope(function: Callable) -> Callable:
    """Accepted; the magic gets the variables of the cells as local_ns."""
    function.needs_local_scope = True
    return function


Magics.__module__ = "IPython.core.magic"
