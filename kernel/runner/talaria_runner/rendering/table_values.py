"""The columns of a table as JSON: dates in ISO 8601, missing values as null, everything else as bounded text."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _json import encode_basestring_ascii as quoted
from math import inf
from sys import modules
from time import monotonic

from talaria_runner.introspection.classes import comes_from, qualified_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy import ndarray

TEXT = 500  # characters of one cell
STRANGERS = 200  # objects of one table whose text is asked for
PATIENCE = 0.25  # s that they may take together, the last one excepted
_EXACT = 2**53  # larger integers are not exact in most JSON readers
_NESTED = 20  # items of a list or dict in a cell
_DATES = frozenset(("datetime", "date", "time", "Timestamp"))
_MISSING = frozenset(("NAType", "NaTType"))
_LIBRARIES = ("datetime", "decimal", "fractions", "ipaddress", "numpy", "pandas", "pathlib", "uuid")


class Cells:
    """Makes the cells of one table."""

    def __init__(self, asks: bool = True) -> None:
        """Without asks, no object of the user is asked for its text, which would run the user's code."""
        self._asks = asks
        self._strangers = 0
        self._patience = PATIENCE

    def column(self, values: Iterable[object]) -> tuple[list[object], str]:
        """The values of a column and its type, in the terms of a table schema."""
        cells = [self.cell(value) for value in values]
        if any(type(cell) is int and not -_EXACT < cell < _EXACT for cell in cells):
            cells = [str(cell) if type(cell) is int else cell for cell in cells]
        return cells, _type_of(cells)

    def numbers(self, values: ndarray) -> tuple[list[object], str]:
        """The same for an array of numbers, booleans, dates or durations."""
        kind = values.dtype.kind
        if kind == "M":
            return _dates(values), "datetime"
        if kind == "m":
            return _durations(values), "duration"
        if kind == "f":
            plain = values.tolist()
            if values.dtype.itemsize != 8:  # 0.1 must not become 0.10000000149011612, and a longdouble is no float
                plain = [float(str(value)) for value in values]
            return [None if v != v or v in (inf, -inf) else v for v in plain], "number"
        if kind == "b":
            return values.tolist(), "boolean"
        return self.column(values.tolist())

    def cell(self, value: object) -> object:
        kind = type(value)
        if value is None or kind is bool or kind is int:
            return value
        if kind is str:
            return cut(value)
        if kind is float:
            return None if value != value or value in (inf, -inf) else value
        try:
            return self._library(value, kind)
        except Exception:
            return "<object>"

    def _library(self, value: object, kind: type) -> object:
        """Values of numpy, pandas, datetime, or of any other class."""
        if not self._asks and not comes_from(kind, *_LIBRARIES):
            return self.text(value, 3)
        name = kind.__name__
        home = kind.__module__.partition(".")[0] if isinstance(kind.__module__, str) else ""
        if name in _MISSING and home == "pandas":
            return None
        if name in _DATES and home in ("datetime", "pandas"):
            return _plain(value.isoformat())
        if home == "numpy" and getattr(value, "ndim", 1) == 0 and kind.__name__ != "void":
            plain = value.item()
            return cut(_plain(str(value))) if type(plain) is kind else self.cell(plain)
        return self.text(value, 3)

    def text(self, value: object, depth: int = 1) -> str:
        """value as text that is no longer than a cell may be. It is cut before it is made, if possible."""
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            open, close = {list: ("[", "]"), tuple: ("(", ",)" if len(value) == 1 else ")")}.get(kind, ("{", "}"))
            return cut(f"{open}{self._items(value, depth)}{close}")
        if kind is dict:
            return cut(f"{{{self._items(value.items(), depth)}}}")
        if kind in (str, bytes):
            return cut(repr(value[:TEXT]))
        if kind is int and value.bit_length() > 4 * TEXT:
            return "<int>"
        if kind in (bool, int, float, complex, type(None)):
            return repr(value)
        if not self._asks and not comes_from(kind, *_LIBRARIES):
            return f"<{qualified_name(kind)}>"
        self._strangers += 1
        if self._strangers > STRANGERS or self._patience < 0:
            return f"<{kind.__name__}>"
        before = monotonic()
        try:
            return cut(_plain(str(value)))
        except Exception:
            return f"<{kind.__name__}>"
        finally:
            self._patience -= monotonic() - before

    def _items(self, items: object, depth: int) -> str:
        if not depth:
            return "…"
        parts = []
        for item in items:
            if len(parts) == _NESTED:
                parts.append("…")
                break
            if type(items) is type({}.items()):
                key, value = item
                parts.append(f"{self.text(key, depth - 1)}: {self.text(value, depth - 1)}")
            else:
                parts.append(self.text(item, depth - 1))
        return ", ".join(parts)


def _plain(text: str) -> str:
    """text without what a class of its own could do."""
    return "".join((text, ""))


def cut(text: str) -> str:
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"


def size_of(cells: list[object]) -> list[int]:
    """The approximate number of bytes that each cell takes as JSON."""
    return [len(quoted(cell)) if type(cell) is str else 8 for cell in cells]


def _type_of(cells: list[object]) -> str:
    kinds = {type(cell) for cell in cells} - {type(None)}
    if len(kinds) == 1:
        return {str: "string", bool: "boolean", int: "integer", float: "number"}[kinds.pop()]
    return "number" if kinds == {int, float} else "any"


def _dates(values: ndarray) -> list[str | None]:
    """In ISO 8601, all with the precision that any of them needs."""
    numpy = modules["numpy"]
    missing = numpy.isnat(values)
    for coarse in ("D", "s", "ms", "us"):
        cast = values.astype(f"datetime64[{coarse}]")
        if ((cast == values) | missing).all():
            values = cast
            break
    texts = numpy.datetime_as_string(values).tolist()
    return [None if gone else text for text, gone in zip(texts, missing.tolist())]


def _durations(values: ndarray) -> list[str | None]:
    """In ISO 8601: days, and the rest in seconds."""
    numpy = modules["numpy"]
    found: list[str | None] = []
    for nanos, gone in zip(values.astype("timedelta64[ns]").astype("int64").tolist(), numpy.isnat(values).tolist()):
        days, rest = divmod(abs(nanos), 86_400_000_000_000)
        seconds = f"{rest // 1_000_000_000}.{rest % 1_000_000_000:09}".rstrip("0").rstrip(".")
        found.append(None if gone else f"{'-' if nanos < 0 else ''}P{days}DT{seconds}S")
    return found
