"""%%writefile."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os

from talaria_runner.ipython.magics.options import parse
from talaria_runner.ipython.magics.usage import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.ipython.contract import Shell


def cell_writefile(shell: Shell, line: str, cell: str) -> None:
    """%%writefile FILE: writes the cell to a file. -a appends it."""
    options, path = parse("%writefile", line, "a", "append")
    append = "a" in options or "append" in options
    path = path.strip()
    if path[:1] in ('"', "'") and path[-1:] == path[:1]:
        path = path[1:-1]
    path = os.path.expanduser(path)
    if not path:
        raise UsageError("%%writefile needs the name of a file")
    text = cell if not cell or cell.endswith("\n") else cell + "\n"
    there = os.path.exists(path)
    with open(path, "a" if append else "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    print(f"{'Appending to' if append and there else 'Overwriting' if there else 'Writing'} {path}")


cell_file = cell_writefile
