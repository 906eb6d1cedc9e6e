"""What there is: magics, cells so far, and objects (obj? and obj??)."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import builtins

from talaria_runner.ipython import magics
from talaria_runner.ipython.magics import as_it_is
from talaria_runner.ipython.magics.options import first_word, parse
from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.ipython.contract import Shell


class _Listing:
    """The names of all magics. It looks the same as text and as a value."""

    def __init__(self, shell: Shell) -> None:
        self._lines = magics.names(shell, "line")
        self._cells = magics.names(shell, "cell")

    def __repr__(self) -> str:
        lines = "  ".join(f"%{name}" for name in self._lines)
        cells = "  ".join(f"%%{name}" for name in self._cells)
        return f"Available line magics:\n{lines}\n\nAvailable cell magics:\n{cells}"


def line_lsmagic(shell: Shell, line: str) -> object:
    """Lists the magics."""
    return _Listing(shell)


def line_magic(shell: Shell, line: str) -> None:
    """Says what each magic does."""
    parts = []
    for kind, marks in (("line", "%"), ("cell", "%%")):
        for name in magics.names(shell, kind):
            text = (shell.find_magic(name, kind).__doc__ or "").strip()
            parts.append(f"{marks}{name}:\n    {text}")
    shell.page("\n\n".join(parts))


def line_history(shell: Shell, line: str) -> None:
    """%history [-n] [-l COUNT] [-g PATTERN] [-o] [RANGE…]: prints the cells so far, such as 2-5 or 7. -n adds their
    numbers, -g selects those that match, -o adds results."""
    options, rest = parse("history", line, "nol:g:ptuf:")
    sources = shell.cells.sources()
    chosen = _ranges(rest, sources) if rest else list(sources)
    if "l" in options and options["l"].isdecimal():
        chosen = chosen[-int(options["l"]):]
    if "g" in options:
        pattern = f"*{options['g']}*"
        chosen = [n for n in chosen if load("fnmatch").fnmatchcase(sources[n], pattern)]
    lines = []
    for number in chosen:
        text = sources[number]
        lines.append(f"{number:4}: {text}" if "n" in options or "g" in options else text)
        if "o" in options and number in builtins.Out:
            lines.append(repr(builtins.Out[number]))
    text = "\n".join(lines)
    if "f" in options:
        with open(options["f"], "w", encoding="utf-8") as file:
            file.write(text + "\n")
    elif text:
        print(text)


line_hist = line_history


def _ranges(text: str, sources: dict[int, str]) -> list[int]:
    chosen = []
    for part in text.split():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"%history takes numbers of cells, such as 3 or 2-5, not {part!r}")
        chosen.extend(n for n in range(int(first), int(last or first) + 1) if n in sources)
    return chosen


@as_it_is
def line_pinfo(shell: Shell, line: str) -> None:
    """obj?: says what an object is."""
    _show(shell, line.strip(), 0)


@as_it_is
def line_pinfo2(shell: Shell, line: str) -> None:
    """obj??: says what an object is, with its source."""
    _show(shell, line.strip(), 1)


line_pdoc, line_psource = line_pinfo, line_pinfo2


def _show(shell: Shell, name: str, detail: int) -> None:
    if name.startswith("%"):
        bundle = _magic(shell, name, detail)
    else:
        bundle = shell.inspector.bundle(name, detail)
    if bundle is None:
        print(f"Object `{name}` not found.")
    else:
        shell.display.display(bundle, raw=True, metadata={"pager": True})


def _magic(shell: Shell, name: str, detail: int) -> dict[str, object] | None:
    kind = "cell" if name.startswith("%%") else "line"
    function = shell.find_magic(name.lstrip("%"), kind)
    if function is None:
        return None
    return {"text/plain": f"{name}\n\n{load('inspect').getdoc(function) or '<no docstring>'}"}


@as_it_is
def line_psearch(shell: Shell, line: str) -> None:
    """*name*?: lists the names that match."""
    pattern, _ = first_word(line)
    head, _, last = pattern.rpartition(".")
    if head:
        if "*" in head:
            raise UsageError("only the last part of the name may have a *")
        value = eval(head, shell.user_ns)
        found = [f"{head}.{name}" for name in dir(value)]
    else:
        found = [*shell.user_ns, *vars(builtins)]
    hides = not last.startswith("_")
    matches = load("fnmatch").fnmatchcase
    first = len(head) + 1 if head else 0
    names = sorted({n for n in found if matches(n, pattern) and not (hides and n.startswith("_", first))})
    shell.page("\n".join(names) or f"Nothing matches {pattern}")
