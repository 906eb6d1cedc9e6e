"""The working directory: %cd, %pwd and the stack of pushd."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os

from talaria_runner.ipython.magics.options import parse
from talaria_runner.ipython.magics.usage import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.ipython.contract import Shell

_been: list[str] = []  # directories, the last one last


def line_cd(shell: Shell, line: str) -> None:
    """Changes the working directory: %cd DIR, %cd - for the previous one, %cd alone for the home directory. -q
    prints nothing."""
    path, quiet = line.strip(), False
    if path.startswith("-q"):
        options, path = parse("cd", line, "q")
        quiet = "q" in options
    if path[:1] in ('"', "'") and path[-1] == path[0]:
        path = path[1:-1]
    if path == "-":
        if not _been:
            raise UsageError("%cd -: there is no previous directory")
        path = _been[-1]
    try:
        before = os.getcwd()
    except OSError:
        before = ""  # it was deleted
    os.chdir(os.path.expanduser(path or "~"))
    if before:
        _been.append(before)
        del _been[:-100]
    if not quiet:
        print(os.getcwd())


def line_pwd(shell: Shell, line: str) -> str:
    """Returns the working directory."""
    return os.getcwd()


def line_pushd(shell: Shell, line: str) -> list[str]:
    """Changes to a directory; %popd returns from it."""
    shell.dir_stack.insert(0, os.getcwd())
    try:
        line_cd(shell, line)
    except BaseException:
        del shell.dir_stack[0]
        raise
    return shell.dir_stack


def line_popd(shell: Shell, line: str) -> None:
    """Returns to the directory where %pushd was used."""
    if not shell.dir_stack:
        raise UsageError("%popd: nothing was pushed")
    line_cd(shell, shell.dir_stack.pop(0))


def line_dirs(shell: Shell, line: str) -> list[str]:
    """Returns the directories that %pushd has saved."""
    return shell.dir_stack


def line_bookmark(shell: Shell, line: str) -> None:
    """Bookmarks are kept by IPython."""
    raise UsageError("%bookmark needs IPython; this kernel runs without it (engine stdlib)")
