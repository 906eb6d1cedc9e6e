"""%%map: a cell, or a function, for each of many inputs."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.ipython.magics import as_it_is
from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.parallel.talaria_module import shared
from talaria_runner.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.ipython.contract import Shell

_FORM = (
    '%%map: the next line must be a JSON object with the list "inputs"; it may also have "concurrency", "timeout_s" and "on_error", and '
    '"function", the name of a function, instead of code on the lines below'
)


@as_it_is
def cell_map(shell: Shell, line: str, cell: str) -> None:
    """%%map: runs the cell, in copies of the interpreter, for each of the inputs in the JSON object on its first line. The code
    sees item and index."""
    first, _, code = cell.partition("\n")
    try:
        options = frames.parse(first)
        inputs = options.pop("inputs")
        function = options.pop("function", None)
        settings = [options.pop(name, default) for name, default in (("concurrency", None), ("timeout_s", None), ("on_error", "continue"))]
    except (ValueError, StopIteration, KeyError, AttributeError):
        raise UsageError(_FORM) from None
    if line.strip() or options or type(inputs) is not list or bool(function) == bool(code.strip()):
        raise UsageError(_FORM)
    shared[0]().run(_calling(shell, function) if function else _running(shell, code), inputs, *settings)


def _calling(shell: Shell, name: str) -> Callable[[object, int], object]:
    first, *further = name.split(".")
    if first in shell.user_ns:
        function = shell.user_ns[first]
    elif hasattr(shell.user_ns["__builtins__"], first):
        function = getattr(shell.user_ns["__builtins__"], first)
    else:
        raise NameError(f"name {first!r} is not defined", name=first)
    for part in further:
        function = getattr(function, part)
    if not callable(function):
        raise TypeError(f"{name} cannot be called: it is of type {type(function).__name__}")
    return lambda item, index: function(item)


def _running(shell: Shell, code: str) -> Callable[[object, int], object]:
    def run(item: object, index: int) -> object:
        shell.user_ns.update(item=item, index=index)
        return shell.cells.run_inside(code)

    return run
