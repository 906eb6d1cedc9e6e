"""The hint about a column that a table does not have."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.introspection.closest import closest

_NAMES = 8  # names that are listed
_COLUMNS = 2000  # columns that are examined
_FRAMES = 40


# Functions of pandas that look for a column; their variables with the table and, if it is not the error's,
# the key.
_LOOKUPS = {
    "__getitem__": ("self", "key"),
    "__delitem__": ("self", "key"),
    "_get_label_or_level_values": ("self", "key"),
    "get_grouper": ("obj", ""),
}


def find(error: KeyError) -> str | None:
    entry = vars(BaseException)["__traceback__"].__get__(error)
    for _ in range(_FRAMES):
        if entry is None:
            return None
        frame = entry.tb_frame
        lookup = _LOOKUPS.get(frame.f_code.co_name)
        if lookup is not None and "/pandas/" in frame.f_code.co_filename:
            values = frame.f_locals
            arguments = vars(BaseException)["args"].__get__(error)
            columns = columns_of(values.get(lookup[0]))
            if columns:
                return _said(columns, values.get(lookup[1], arguments[0] if arguments else None))
        entry = entry.tb_next
    return None


def columns_of(value: object) -> list[str]:
    """The names of the columns of value, if it is a pandas table."""
    table = getattr(modules.get("pandas"), "DataFrame", None)
    if not issubclass(type(table), type) or not issubclass(type(value), table):
        return []
    columns = table.columns.__get__(value, type(value))
    return [name for name in columns[:_COLUMNS].tolist() if type(name) is str]


def _said(names: list[str], key: object) -> str | None:
    wanted = key if type(key) is list else [key]
    missing = [name for name in wanted if type(name) is str and name not in names]
    if not missing:
        return None
    near = closest(missing[0], names, far=1 / 2)
    shown = [*near, *(name for name in names if name not in near)][:_NAMES]
    more = len(names) - len(shown)
    listed = "columns: " + ", ".join(map(repr, shown)) + (f" and {more} more" if more > 0 else "")
    return f"did you mean {near[0]!r}? {listed}" if near else listed
