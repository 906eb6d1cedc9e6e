"""How much memory a value keeps alive, roughly: in a bounded time, and without running code of its class."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from gc import get_referents
from itertools import islice
from sys import getsizeof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_OBJECTS = 1000  # that are examined for one value
_SAMPLE = 50  # items of a container
_HEAP_TYPE = 1 << 9
_BUFFERS = ("numpy", "torch", "pyarrow", "cupy", "jaxlib", "polars")  # whose values report their size
_PASSED = frozenset((type, type(sys), type(getsizeof), type(lambda: None), type(None), int, float, bool, complex))
_CONTAINERS = (list, tuple, set, frozenset, dict)
_FLAGS = vars(type)["__flags__"].__get__
_MRO = vars(type)["__mro__"].__get__
_MODULE = vars(type)["__module__"].__get__
_BASIC = vars(type)["__basicsize__"].__get__
_NAME = vars(type)["__name__"].__get__


def estimate(value: object, besides: Iterable[object] = ()) -> int:
    """Bytes, not counting what is reached through one of besides."""
    if type(value) in _PASSED:
        return 0
    seen = {id(other) for other in besides}
    return _Walk(seen).size(value)


class _Walk:
    def __init__(self, seen: set[int]) -> None:
        self._seen = seen
        self._left = _OBJECTS

    def size(self, value: object) -> int:
        total = 0
        waiting = [(value, 1.0)]
        while waiting and self._left > 0:
            value, weight = waiting.pop()
            kind = type(value)
            if id(value) in self._seen or kind in _PASSED or _NAME(kind) in ("frame", "code"):
                continue
            self._left -= 1
            self._seen.add(id(value))
            base = next((base for base in _CONTAINERS if issubclass(kind, base)), None)
            total += weight * _own(value, kind)
            items, share = _sample(value, base) if base is not None else _pointed(value, kind)
            if items:
                waiting.extend([(item, weight * share) for item in items])
            if kind is base or kind in (str, bytes, bytearray):
                continue
            waiting.extend([(other, weight) for other in get_referents(value)[:_SAMPLE]])
        return int(total)


def _own(value: object, kind: type) -> int:
    """The bytes of value alone, and of the memory that it is a view of."""
    for cls in _MRO(kind):
        if not _FLAGS(cls) & _HEAP_TYPE:
            module = _MODULE(cls)
            if module == "numpy" and _NAME(cls) == "ndarray":
                return _array(value, cls)
            return max(_BASIC(kind), cls.__sizeof__(value)) if cls is not object else _BASIC(kind)
        module = _MODULE(cls)
        if type(module) is str and module.partition(".")[0] in _BUFFERS:
            size = getattr(value, "nbytes", None)
            if type(size) is int:
                return size
            size = getattr(value, "estimated_size", None)
            return size() if callable(size) else _BASIC(kind)
    return _BASIC(kind)


def _array(value: object, ndarray: type) -> int:
    base, owner = value, value
    for _ in range(20):
        base = ndarray.base.__get__(owner)
        if not issubclass(type(base), ndarray):
            break
        owner = base
    return max(ndarray.nbytes.__get__(value) if base is None else 0, ndarray.nbytes.__get__(owner))


def _pointed(value: object, kind: type) -> tuple[list[object], float]:
    """Some of the objects that an array points to."""
    if _MODULE(kind) != "numpy" or _NAME(kind) != "ndarray" or not kind.dtype.__get__(value).hasobject:
        return [], 1.0
    return list(islice(kind.flat.__get__(value), _SAMPLE)), max(1.0, kind.size.__get__(value) / _SAMPLE)


def _sample(value: object, base: type) -> tuple[list[object], float]:
    """Some items, and how many each of them represents."""
    count = base.__len__(value)
    if base is dict:
        items = [one for pair in islice(dict.items(value), _SAMPLE) for one in pair]
        return items, max(1.0, count / _SAMPLE)
    return list(islice(base.__iter__(value), _SAMPLE)), max(1.0, count / _SAMPLE)


def biggest(namespace: dict[str, object], most: int) -> list[tuple[str, int]]:
    """The names of the largest values of more than a MiB, and their sizes."""
    sizes = []
    for name, value in list(namespace.items())[:500]:
        if type(name) is str and not name.startswith("_"):
            size = estimate(value, (namespace,))
            if size > 1 << 20:
                sizes.append((size, name))
    sizes.sort(reverse=True)
    return [(name, size) for size, name in sizes[:most]]


def readable(size: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            break
        size /= 1024
    else:
        unit = "GiB"
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
