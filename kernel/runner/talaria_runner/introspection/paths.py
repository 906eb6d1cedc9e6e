"""The names in a folder, for completing paths."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from posix import environ, scandir

from talaria_runner.introspection.budget import Budget

_MOST = 5000  # names of one folder that are examined


def paths(partial: str, budget: Budget) -> list[str]:
    """The last parts of the paths that begin with partial, folders with a trailing slash."""
    folder, _, prefix = partial.rpartition("/")
    if partial.startswith("/") and not folder:
        folder = "/"
    if folder == "~" or folder.startswith("~/"):
        folder = environ.get(b"HOME", b"/").decode("utf-8", "replace") + folder[1:]
    found = []
    for name, is_folder in entries(folder or ".", budget):
        if name.startswith(prefix) and (prefix or not name.startswith(".")):
            found.append(name + "/" if is_folder else name)
    return sorted(found)


def entries(folder: str, budget: Budget) -> list[tuple[str, bool]]:
    """Names in a folder, and which are folders: the first ones if there are many."""
    found = []
    try:
        with scandir(folder) as listing:
            for entry in listing:
                if len(found) >= _MOST or budget.is_over:
                    break
                found.append((entry.name, entry.is_dir()))
    except (OSError, ValueError):
        pass
    return found
