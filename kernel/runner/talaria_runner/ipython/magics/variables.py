"""The variables of the cells: %who, %whos and %reset."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.ipython.magics.options import parse
from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.ipython.contract import Shell

_WIDTH = 76
_LONGEST = 60  # characters of a value in %whos


def line_who_ls(shell: Shell, line: str) -> list[str]:
    """Returns the names of all variables, or of those of the given types."""
    wanted = line.split()
    hidden = shell.user_ns_hidden
    names = [name for name, value in list(shell.user_ns.items())
             if type(name) is str and not name.startswith("_") and hidden.get(name, hidden) is not value
             and (not wanted or type(value).__name__ in wanted)]  # fmt: skip
    return sorted(names)


def line_who(shell: Shell, line: str) -> None:
    """Prints the names of all variables, or of those of the given types."""
    names = line_who_ls(shell, line)
    if not names:
        print("No variables match your requested type." if line.strip() else "Interactive namespace is empty.")
        return
    row = ""
    for name in names:
        if row and len(row) + len(name) > _WIDTH:
            print(row.rstrip())
            row = ""
        row += f"{name}\t "
    print(row.rstrip())


def line_whos(shell: Shell, line: str) -> None:
    """Prints the names, types and values of all variables, or of those of the given types."""
    names = line_who_ls(shell, line)
    if not names:
        line_who(shell, line)
        return
    rows = [(name, type(shell.user_ns[name]).__name__, _brief(shell.user_ns[name])) for name in names]
    first = max(len("Variable"), *(len(row[0]) for row in rows))
    second = max(len("Type"), *(len(row[1]) for row in rows))
    print(f"{'Variable':<{first}}   {'Type':<{second}}   Data/Info")
    print("-" * (first + second + 3 + 12))
    for name, kind, text in rows:
        print(f"{name:<{first}}   {kind:<{second}}   {text}")


def line_reset(shell: Shell, line: str) -> None:
    """%reset -f: deletes all variables. With in, out or array it forgets only the cells, the results or the arrays."""
    options, rest = parse("reset", line, "sf", "aggressive")
    if "f" not in options and not _agreed():
        print("Nothing done.")
        return
    parts = rest.split()
    if not parts:
        for name in [name for name in shell.user_ns if not (type(name) is str and name.startswith("__"))]:
            del shell.user_ns[name]
        shell.cells.forget(results=True, sources="s" not in options)
    for part in parts:
        if part == "array":
            for name in [n for n, v in shell.user_ns.items() if type(v).__name__ == "ndarray"]:
                del shell.user_ns[name]
        elif part in ("in", "out", "dhist"):
            shell.cells.forget(results=part == "out", sources=part == "in")
        else:
            raise UsageError(f"%reset accepts in, out, dhist and array, not {part!r}")


def line_xdel(shell: Shell, line: str) -> None:
    """%xdel NAME: deletes a variable, and the results of all cells, which may refer to its value."""
    name = line.strip()
    if name not in shell.user_ns:
        raise UsageError(f"there is no variable {name!r}")
    del shell.user_ns[name]
    shell.cells.forget(results=True, sources=False)


def _agreed() -> bool:
    answer = input("Once deleted, variables cannot be recovered. Proceed (y/[n])?  ")
    return answer.strip().lower() in ("y", "yes")


def _brief(value: object) -> str:
    kind = type(value)
    if kind in (list, tuple, dict, set, frozenset):
        return f"n={len(value)}"
    if kind.__name__ == "ndarray":
        return f"{'x'.join(map(str, value.shape))}: {value.size} elems, type `{value.dtype}`, {value.nbytes} bytes"
    try:
        text = load("reprlib").repr(value) if kind in (str, bytes) else str(value)
    except Exception as e:
        return f"<{type(e).__name__} in its str()>"
    text = " ".join(text[:1000].split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST // 2]}<...>{text[-_LONGEST // 2:]}"
