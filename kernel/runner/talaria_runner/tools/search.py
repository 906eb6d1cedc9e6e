"""The built-in tool search_files."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from time import monotonic

from talaria_runner.own import stdlib
from talaria_runner.tools import files, places
from talaria_runner.tools.failures import ToolError, ToolTimeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LONGEST = 60.0  # s of one search
_MOST_CONTEXT = 100  # lines before and after a match
_NEWEST = ("newest", "mtime")  # and discovery: folder by folder, by name
_MODES = ("content", "files_only", "files", "count")  # files is another name of files_only


def search_files(
    check: Callable[[], None], pattern: str, target: str = "content", path: str = ".", file_glob: str | None = None,
    limit: int = 50, offset: int = 0, output_mode: str = "content", context: int = 0, order: str = "discovery",
) -> dict[str, object]:  # fmt: skip
    """Lines that match a regular expression, or files whose name matches a pattern: {"matches" or "files", "total"}. limit
    and offset choose a page; total counts all pages. Files that are not text are skipped."""
    if order != "discovery" and order not in _NEWEST:
        raise ToolError(f'order is {order!r}; it must be "discovery" or "newest"', "invalid_arguments")
    if output_mode not in _MODES:
        raise ToolError(f'output_mode is {output_mode!r}; it must be "content", "files_only" or "count"', "invalid_arguments")
    base = places.place(path)
    if not os.path.lexists(base):
        raise ToolError(f"{path} does not exist", "not_found")
    page = slice(max(0, offset), max(0, offset) + max(0, limit))
    check = _bounded(check)
    if target == "files":
        glob = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
        found = [places.name(file) for file in _files(base, glob, order, check)]
        return {"files": found[page], "total": len(found)}
    matches: list[dict[str, object]] = []  # of the page
    counts: dict[str, int] = {}
    total = 0
    for file, lines, number in _matches(pattern, _files(base, file_glob, order, check), check):
        counts[file] = counts.get(file, 0) + 1
        if page.start <= total < page.stop:
            matches.append(_match(file, lines, number, min(context, _MOST_CONTEXT)))
        total += 1
    if output_mode == "content":
        return {"matches": matches, "total": total}
    shown = list(counts)[page]
    result: dict[str, object] = {"files": shown, "total": len(counts)}
    if output_mode == "count":
        result["counts"] = {file: counts[file] for file in shown}
    return result


def _match(file: str, lines: list[str], number: int, context: int) -> dict[str, object]:
    match: dict[str, object] = {"path": file, "line": number + 1, "content": lines[number]}
    if context > 0:
        match["before"] = lines[max(0, number - context):number]
        match["after"] = lines[number + 1:number + 1 + context]
    return match


def _bounded(check: Callable[[], None]) -> Callable[[], None]:
    """check, which also ends a search that takes too long."""
    until = monotonic() + _LONGEST

    def checked() -> None:
        check()
        if monotonic() > until:
            raise ToolTimeout(f"the search took longer than {_LONGEST:g} s; narrow it with path or file_glob", "timeout")

    return checked


def _matches(pattern: str, found: list[str], check: Callable[[], None]) -> Iterator[tuple[str, list[str], int]]:
    """Each line that matches: its file, the file's lines, and its index there."""
    re = stdlib.load("re")
    try:
        expression = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as e:
        raise ToolError(f"the pattern is not a regular expression: {e}", "invalid_arguments") from None
    for file in found:
        try:
            lines = [line.removesuffix("\n").removesuffix("\r") for line in files.lines(files.read_text(file))]
        except (ToolError, OSError):
            continue
        for number, line in enumerate(lines):
            check()
            if expression.search(line):  # as in a cell, Python cannot be interrupted in one match
                yield places.name(file), lines, number


def _files(base: str, glob: str | None, order: str, check: Callable[[], None]) -> list[str]:
    """The files at or below a place, as absolute paths. Links are not followed, and hidden folders are left out."""
    fnmatch = stdlib.load("fnmatch").fnmatch
    # A pattern with a slash is one of the path below base, any other of the name alone.
    glob = glob.removeprefix("**/") if glob else glob

    def wanted(file: str) -> bool:
        return not glob or fnmatch(os.path.relpath(file, base) if "/" in glob else os.path.basename(file), glob)

    if not os.path.isdir(base):
        return [base] if wanted(base) else []
    found: list[str] = []
    for folder, folders, names in os.walk(base):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            check()
            file = os.path.join(folder, name)
            if wanted(file):
                found.append(file)
    if order in _NEWEST:
        found.sort(key=_modified, reverse=True)
    return found


def _modified(file: str) -> int:
    try:
        return os.lstat(file).st_mtime_ns
    except OSError:
        return 0  # it was deleted in the meantime
