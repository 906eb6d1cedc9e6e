"""Objects of the data libraries, told from objects that only look like them by where their classes come from."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

MOST_COLUMNS = 2000

_class_mro = type.__dict__["__mro__"].__get__
# Where the names of the columns stand.
_FRAMES = (
    ("pandas", "DataFrame", "columns"),
    ("polars", "DataFrame", "columns"),
    ("pyarrow", "Table", "column_names"),
)


def is_genuine(value: object, module: str, name: str) -> bool:
    """Whether value is an instance of that class of that library."""
    cls = of_library(module, name)
    return cls is not None and any(c is cls for c in _class_mro(type(value)))


def of_library(module: str, name: str) -> type | None:
    library = modules.get(module)
    if type(library) is not type(modules["sys"]):
        return None
    cls = vars(library).get(name)
    return cls if type(cls) is type or type(type(cls)) is type else None


def columns(value: object) -> list[str]:
    """The first columns of a frame of these libraries that are called by strings; empty for anything else."""
    for module, name, attribute in _FRAMES:
        if is_genuine(value, module, name):
            try:
                found = getattr(of_library(module, name), attribute).__get__(value)[:MOST_COLUMNS]
                return [column for column in list(found) if type(column) is str]
            except Exception:
                return []
    return []


def column_class(value: object, column: str) -> type | None:
    """The class of that column of a frame; None where there is none."""
    for module, name, series in (("pandas", "DataFrame", "Series"), ("polars", "DataFrame", "Series")):
        if is_genuine(value, module, name):
            return of_library(module, series) if column in columns(value) else None
    return None
