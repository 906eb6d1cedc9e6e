"""Objects of the data libraries, told from objects that only look like them by where their classes come from."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.introspection.classes import MISSING, comes_from, in_class, is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

MOST_COLUMNS = 2000

_Module = type(modules["sys"])
_OTHERS = (("polars", "DataFrame", "columns"), ("pyarrow", "Table", "column_names"))


def is_genuine(value: object, module: str, name: str) -> bool:
    """Whether value is an instance of that class of that library."""
    cls = of_library(module, name)
    return cls is not None and is_a(value, cls)


def of_library(module: str, name: str) -> type | None:
    library: ModuleType | None = modules.get(module)
    cls = vars(library).get(name) if type(library) is _Module else None
    return cls if cls is not None and is_a(cls, type) else None


def manager(value: object) -> object:
    """What holds the data of pandas' frames and series; MISSING if it is not pandas' own."""
    descriptor = in_class(type(value), "__dict__")
    try:
        held = dict.get(descriptor.__get__(value), "_mgr", MISSING)
    except Exception:
        return MISSING
    return held if held is not MISSING and comes_from(type(held), "pandas") else MISSING


def axes(value: object) -> list[object]:
    """The indexes of a pandas frame: that of its columns, then that of its rows."""
    held = manager(value)
    if held is MISSING:
        return []
    found = list(held.axes)
    return found if len(found) == 2 and all([comes_from(type(axis), "pandas") for axis in found]) else []


def columns(value: object) -> list[str]:
    """The first columns of a frame that have string names; empty for anything else."""
    try:
        if is_genuine(value, "pandas", "DataFrame"):
            found = axes(value)[0][:MOST_COLUMNS].tolist()
        else:
            found = _other_columns(value)[:MOST_COLUMNS]
    except Exception:
        return []
    return [column for column in found if type(column) is str]


def _other_columns(value: object) -> list[object]:
    for module, name, attribute in _OTHERS:
        if is_genuine(value, module, name) and comes_from(type(value), module):
            return list(getattr(value, attribute))
    return []


def column_class(value: object, column: str) -> type | None:
    """The class of that column of a frame; None if there is none."""
    for library in ("pandas", "polars"):
        if is_genuine(value, library, "DataFrame"):
            return of_library(library, "Series") if column in columns(value) else None
    return None
