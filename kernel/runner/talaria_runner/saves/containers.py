"""Containers of classes of cells: their content is saved and loaded as that of their base is, without their own methods.

pickle would call append, __setitem__ and so on, which the class may have changed, and __init__ for some.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.introspection.classes import derives, mro, one_of
from talaria_runner.own.stdlib import load
from talaria_runner.saves import rebuild

_collections = load("collections")
_BASES = (
    list, set, frozenset, _collections.OrderedDict, _collections.defaultdict, _collections.Counter, _collections.deque, dict,
)  # fmt: skip


def reduce(value: object, cls: type) -> object:
    """As __reduce__; None for what is not such a container, or has its own way of being pickled."""
    if not rebuild.is_of_cells(cls):
        return None
    base = next((found for found in mro(cls) if one_of(found, _BASES)), None)
    if base is None or cls.__reduce_ex__ is not object.__reduce_ex__ or cls.__reduce__ is not base.__reduce__:
        return None
    if hasattr(cls, "__getnewargs__") or hasattr(cls, "__getnewargs_ex__"):
        return None
    options, content = (), ()
    if derives(base, dict):
        content = [*base.keys(value)], [*base.values(value)]
        if base is _collections.defaultdict:
            options = (value.default_factory,)
    else:
        content = [*base.__iter__(value)]
        if base is _collections.deque:
            options = (), value.maxlen
    state = value.__getstate__()
    if base is frozenset:
        return rebuild.container, (cls, base, content), (base, (), (), state), None, None, rebuild.fill_container
    return rebuild.container, (cls, base), (base, options, content, state), None, None, rebuild.fill_container
