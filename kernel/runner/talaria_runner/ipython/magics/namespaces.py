"""%%namespace: cells with variables of their own."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os

from talaria_runner.ipython.magics import as_it_is
from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.own.ours import calling_place
from talaria_runner.own.workspace import workspace
from talaria_runner.run.namespaces import Namespace, made

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.ipython.contract import Shell


@as_it_is
def cell_namespace(shell: Shell, line: str, cell: str) -> object:
    """%%namespace NAME [FOLDER]: runs the cell with the variables and the working directory of other cells with that name only.
    FOLDER, in the workspace, is where the first of them begins. All namespaces share the same modules."""
    name, _, folder = line.strip().partition(" ")
    if not name:
        raise UsageError("%%namespace needs a name, such as %%namespace draft")
    file, first, names = calling_place(1)
    if names is not None:
        raise UsageError("%%namespace is for cells; it cannot be used in a function")
    if name not in made:
        made[name] = Namespace(shell.cells.new_main(), os.path.join(workspace(), folder.strip()))
    return shell.cells.run_in(made[name], cell, file, first)


@as_it_is
def line_namespace(shell: Shell, line: str) -> None:
    """%namespace -d NAME: forgets the variables of a namespace."""
    words = line.split()
    if len(words) != 2 or words[0] != "-d":
        raise UsageError("%namespace takes -d and the name of the namespace to forget; %%namespace runs a cell in one")
    made.pop(words[1], None)
