"""Where a SyntaxError says that the source is wrong, as text."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WIDEST = 500  # characters of the line that are shown


def place(error: SyntaxError, source: Callable[[str, int], str]) -> list[str]:
    """File, line and marks. source returns the text of a line if error has none."""
    file = _member(error, "filename", str) or "<string>"
    line = _member(error, "lineno", int)
    if line is None:
        return []
    lines = [f'  File "{file[:1024]}", line {line}']
    text = _member(error, "text", str) or source(file, line)
    first = text.split("\n", 1)[0].rstrip("\r")
    shown = first.strip()
    if not shown:
        return lines
    lines.append("    " + shown[:_WIDEST])
    offset = _member(error, "offset", int)
    if offset is not None and offset > 0:
        lines.extend(_marks(first, len(shown), line, offset, error))
    return lines


def message(error: SyntaxError) -> str:
    return _member(error, "msg", str) or "<no detail available>"


def _marks(text: str, width: int, line: int, offset: int, error: SyntaxError) -> list[str]:
    end_line = _member(error, "end_lineno", int)
    end = _member(error, "end_offset", int)
    indent = len(text) - len(text.lstrip())
    if end_line is not None and end_line > line:
        end = indent + width + 1
    if end is None or end <= offset:
        end = offset + 1
    begin = offset - 1 - indent
    size = min(end - offset, max(1, width - begin))
    if begin < 0 or begin > width or begin + size > _WIDEST:
        return []
    blank = "".join(c if c.isspace() else " " for c in text[indent:offset - 1])
    return ["    " + blank + "^" * size]


def _member(error: SyntaxError, name: str, kind: type) -> object:
    """The value that the interpreter stored there, whatever a subclass says."""
    value = vars(SyntaxError)[name].__get__(error)
    return value if type(value) is kind else None
