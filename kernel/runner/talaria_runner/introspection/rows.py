"""The first rows of a pandas frame as text, read from its blocks: the frame is not asked, which may be of a class of
the user, and change in another thread."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.introspection import tabular
from talaria_runner.introspection.classes import comes_from, qualified_name
from talaria_runner.introspection.preview import cut, preview

_ROWS = 5
_COLUMNS = 8
_WIDTH = 20  # characters of a value
_QUOTED = ("Timestamp('", "Timedelta('")


def first(value: object) -> str:
    """The index and the first columns of the first rows, a line each, below the names of the columns; empty where
    value is not a pandas frame, or has no rows."""
    if not tabular.is_genuine(value, "pandas", "DataFrame"):
        return ""
    try:
        names, index = tabular.axes(value)
        if not len(index) or not len(names):
            return ""
        table = [["", *_labels(index, _ROWS)]]
        held = tabular.manager(value)
        for at, name in enumerate(_labels(names, _COLUMNS)):
            array = held.blocks[held.blknos[at]].values
            table.append([name, *_texts(array[held.blklocs[at]] if len(array.shape) > 1 else array, _ROWS)])
    except Exception:
        return ""  # it holds what only code of the user could tell, or another thread is changing it
    if len(names) > _COLUMNS:
        table.append(["…"] * (_ROWS + 1))
    widths = [max([len(text) for text in column]) for column in table]
    lines = ["  ".join([text.rjust(width) for text, width in zip(row, widths)]) for row in zip(*table)]
    if len(index) > _ROWS:
        lines.append("…")
    return "\n".join(lines)


def _labels(index: object, count: int) -> list[str]:
    levels = getattr(index, "levels", None)
    if levels is None:
        return _texts(index.array, count)
    if any([_zoned(level) for level in levels]):
        raise TypeError
    return _texts(index[:count].values, count)


def _zoned(values: object) -> bool:
    """Whether they have a time zone, whose methods the user may have defined."""
    return getattr(values, "tz", None) is not None


def _texts(array: object, count: int) -> list[str]:
    if not comes_from(type(array), "pandas", "numpy"):
        raise TypeError
    array = array[:count]
    if _zoned(array):  # in UTC
        return [text.replace("T", " ") + "Z" for text in array._ndarray.astype("datetime64[s]").astype(str).tolist()]
    return [_text(value) for value in array.tolist()]


def _text(value: object) -> str:
    if type(value) is str:
        return cut(value, _WIDTH)
    if type(value) is float:
        return f"{value:.6g}"
    cls = type(value)
    if cls is tabular.of_library("pandas", "Timestamp") and value.tzinfo is not None:
        return _text(cls(value.value)) + "Z"
    if cls is tabular.of_library("pandas", "Period") or qualified_name(cls) == "NAType" and comes_from(cls, "pandas"):
        return str(value)
    text = preview(value, 2 * _WIDTH)
    return cut(text[len(_QUOTED[0]):-2] if text.startswith(_QUOTED) and text.endswith("')") else text, _WIDTH)
