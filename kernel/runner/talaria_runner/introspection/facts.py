"""Shape, element type and size of arrays, frames, tensors and containers.

The data libraries are asked about their own objects. Of objects that only look like theirs, only attributes
are read that can be read without running code.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from itertools import islice
from sys import getsizeof, modules

from talaria_runner.introspection import lookup, tabular
from talaria_runner.introspection.classes import comes_from, qualified_name
from talaria_runner.introspection.lookup import MISSING
from talaria_runner.introspection.preview import class_name, preview

_SAMPLE = 50  # items of a container whose sizes represent all
_MOST = 2000  # objects that are measured for one answer
_LARGEST = (1 << 53) - 1  # that JSON carries everywhere
_DIMENSIONS = 32
_SCALARS = (int, float, complex, bool, str, bytes, bytearray, range)
_CONTAINERS = (list, tuple, set, frozenset, dict)
# Libraries whose properties with these names cost nothing and change nothing.
_LIBRARIES = frozenset((
    "cudf", "cupy", "dask", "geopandas", "jax", "jaxlib", "numpy", "pandas", "polars", "pyarrow", "scipy", "sparse",
    "tensorflow", "torch", "xarray", "zarr",
))  # fmt: skip


def columns(value: object) -> list[str]:
    """The columns of a frame, the fields of a structured array; empty for anything else."""
    if type(value) is tabular.of_library("numpy", "ndarray"):
        return list(value.dtype.names or ())
    return tabular.columns(value) or _texts(_read(value, "columns"))


class Facts:
    __slots__ = ("shape", "dtype", "size_bytes", "preview")

    def __init__(self) -> None:
        self.shape: list[int] | None = None
        self.dtype = ""
        self.size_bytes: int | None = None
        self.preview = ""


def of(value: object) -> Facts:
    """The known facts about value. It runs no code of the user."""
    facts = Facts()
    cls = type(value)
    if lookup.one_of(cls, _SCALARS):
        facts.size_bytes = getsizeof(value)
    elif lookup.one_of(cls, _CONTAINERS):
        facts.shape = [len(value)]
        facts.size_bytes = _size(value, [_MOST], 0)
    elif lookup.derives(cls, type) or lookup.one_of(cls, (lookup.Function, lookup.Builtin)):
        pass
    elif (container := _container(cls)) is not None:
        facts.shape = [container.__len__(value)]
        facts.size_bytes = container.__sizeof__(value)
    elif tabular.is_genuine(value, "pandas", "DataFrame"):
        _frame(value, facts)
    elif tabular.is_genuine(value, "pandas", "Series") or tabular.is_genuine(value, "pandas", "Index"):
        _series(value, facts)
    else:
        _array(value, facts)
    if facts.size_bytes is not None and not 0 <= facts.size_bytes <= _LARGEST:
        facts.size_bytes = None
    return facts


def _container(cls: type) -> type | None:
    """The builtin container, or deque, that cls derives from."""
    for container in (*_CONTAINERS, tabular.of_library("collections", "deque")):
        if container is not None and lookup.derives(cls, container):
            return container
    return None


def _size(value: object, left: list[int], depth: int) -> int:
    """Bytes of a builtin object and its contents, the latter estimated from its first items."""
    left[0] -= 1
    cls = type(value)
    if lookup.one_of(cls, _SCALARS) or value is None:
        return getsizeof(value)
    if not lookup.one_of(cls, _CONTAINERS):
        nbytes = _whole(_read(value, "nbytes"))
        return nbytes or object.__sizeof__(value)
    own = getsizeof(value)
    count = len(value)
    if not count or depth > 4:
        return own
    try:
        items = list(islice(value.items() if cls is dict else value, _SAMPLE))
    except RuntimeError:
        return own  # another thread is changing it
    held = measured = 0
    for item in items:
        if left[0] <= 0:
            break
        measured += 1
        parts = item if cls is dict else (item,)
        held += sum([_size(part, left, depth + 1) for part in parts])
    return own + (held * count // measured if measured else 0)


def _frame(value: object, facts: Facts) -> None:
    names, rows = tabular.axes(value)
    facts.shape = [len(rows), len(names)]
    kinds: dict[str, int] = {}
    size = 0
    for block in tabular.manager(value).blocks[:_MOST]:
        array = block.values
        if not comes_from(type(array), *_LIBRARIES):
            continue  # a kind of array that the user defined
        kind = _kind(array.dtype)
        kinds[kind] = kinds.get(kind, 0) + (array.shape[0] if len(array.shape) > 1 else 1)
        size += array.nbytes
    facts.dtype = ", ".join([f"{kind} × {count}" if count > 1 else kind for kind, count in kinds.items()])
    facts.size_bytes = int(size)
    first = ", ".join([name if type(name) is str else preview(name, 40) for name in names[:20].tolist()])
    facts.preview = f"{len(rows)} rows × {len(names)} columns: {first}"


def _series(value: object, facts: Facts) -> None:
    if comes_from(type(value), "pandas") and tabular.is_genuine(value, "pandas", "Index"):
        facts.shape = [len(value)]
        numbers = vars(value).get("_range")
        if isinstance(numbers, range):  # its array would have to be made, and stays in memory
            facts.dtype, facts.size_bytes = "int64", getsizeof(numbers)
            facts.preview = _elements(list(numbers[:12]), len(numbers))
            return
        array = value.array
    else:
        array = tabular.manager(value).array
    if not comes_from(type(array), *_LIBRARIES):
        return  # a kind of array that the user defined
    facts.shape = [len(array)]
    facts.dtype = _kind(array.dtype)
    facts.size_bytes = int(array.nbytes)
    facts.preview = _elements(list(array[:12]), len(array))


def _array(value: object, facts: Facts) -> None:
    shape = _read(value, "shape")
    if lookup.one_of(type(shape), _tuples()) and len(shape) <= _DIMENSIONS:
        whole = [_whole(n) for n in _items(shape)]
        facts.shape = whole if None not in whole else None
    dtype = _read(value, "dtype")
    if dtype is MISSING and facts.shape is not None:
        dtype = _read(value, "dtypes")
    facts.dtype = _kind(dtype)
    facts.size_bytes = _whole(_read(value, "nbytes"))
    if facts.size_bytes is None and facts.shape is not None:
        itemsize = _whole(_read(dtype, "itemsize")) if dtype is not MISSING else None
        if itemsize is not None:
            facts.size_bytes = itemsize
            for n in facts.shape:
                facts.size_bytes *= n
    if facts.size_bytes is None and comes_from(type(value), "polars") and hasattr(type(value), "estimated_size"):
        facts.size_bytes = _whole(value.estimated_size())
    if type(value) is tabular.of_library("numpy", "ndarray"):
        facts.preview = _elements(value.flat[:12].tolist(), value.size)
    elif tabular.is_genuine(value, "numpy", "generic"):
        facts.shape = None
    elif facts.shape is not None:
        names = columns(value)
        if names and len(facts.shape) == 2:
            facts.preview = f"{facts.shape[0]} rows × {facts.shape[1]} columns: {', '.join(names[:20])}"
        else:
            sides = " × ".join(map(str, facts.shape))
            facts.preview = f"<{class_name(type(value))} {sides} {facts.dtype}".rstrip() + ">"


def _elements(items: list[object], count: int) -> str:
    text = preview(items)
    return text if count <= len(items) else f"{text[:-1]}, … {count} in all]"


def _read(value: object, name: str) -> object:
    """An attribute, as far as it can be read without running code of the user."""
    found = lookup.attribute(value, name)
    if found is not None and found.value is not MISSING and not found.bound:
        return found.value
    return _ask_library(value, name)


def _ask_library(value: object, name: str) -> object:
    """A property of a class that really belongs to an imported data library."""
    for cls in lookup.mro(type(value)):
        descriptor = lookup.names_of_class(cls).get(name)
        if descriptor is None:
            continue
        module = lookup.names_of_class(cls).get("__module__")
        loaded = modules.get(module) if type(module) is str and module.partition(".")[0] in _LIBRARIES else None
        if loaded is None or type(descriptor) is not property:
            return MISSING
        getter = descriptor.fget
        if type(getter) is not lookup.Function or getter.__globals__ is not lookup.own_names(loaded):
            return MISSING
        if not _is_installed(loaded) or not comes_from(type(value), *_LIBRARIES):
            return MISSING
        try:
            return getter(value)
        except Exception:
            return MISSING
    return MISSING


def _is_installed(module: object) -> bool:
    """Whether it comes from where packages are installed, and not from the workspace."""
    file = lookup.get(lookup.own_names(module), "__file__")
    return type(file) is str and "-packages/" in file


def _tuples() -> tuple[type, ...]:
    torch = tabular.of_library("torch", "Size")
    return (tuple, list) if torch is None else (tuple, list, torch)


def _items(shape: object) -> list[object]:
    return list(tuple.__iter__(shape)) if lookup.is_a(shape, tuple) else list(shape)


def _whole(value: object) -> int | None:
    if type(value) is int and 0 <= value <= _LARGEST:
        return value
    return None


def _kind(dtype: object) -> str:
    """The name of an element type."""
    if dtype is MISSING or dtype is None:
        return ""
    if type(dtype) is str:
        return dtype
    if lookup.one_of(type(dtype), (list, tuple)) and len(dtype) <= 1000:
        kinds = list(dict.fromkeys([_kind(kind) for kind in dtype]))
        return ", ".join([kind for kind in kinds if kind])
    cls = type(dtype)
    if lookup.derives(cls, type):
        return qualified_name(dtype)
    if tabular.is_genuine(dtype, "numpy", "dtype") or comes_from(cls, *_LIBRARIES):
        return str(dtype)
    name = _read(dtype, "name")
    return name if type(name) is str else ""


def _texts(names: object) -> list[str]:
    if not lookup.one_of(type(names), (list, tuple)):
        return []
    return [name for name in names[:tabular.MOST_COLUMNS] if type(name) is str]
