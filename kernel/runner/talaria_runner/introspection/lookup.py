"""Reads objects of the user without running a line of their code: no property, no __getattr__, no __eq__ of
theirs.

The result is a value or, failing that, the class that the value would be an instance of.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import builtins
from _ast import Attribute, Call, Constant, Dict, JoinedStr, List, ListComp, Name, Set, Subscript, Tuple, UnaryOp, USub
from itertools import islice
from sys import modules, version_info

from talaria_runner.introspection import getters, tabular
from talaria_runner.introspection.classes import MISSING, derives, in_class, is_a, is_heap_class, mro, names_of_class, one_of
from talaria_runner.introspection.syntax import parse
from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

__all__ = [
    "MISSING", "Builtin", "Found", "Function", "Method", "Module", "Namespace", "annotations", "attribute",
    "derives", "each_name", "first", "function_of", "get", "in_class", "is_a", "is_heap_class", "mro",
    "names_of_class", "one_of", "own_names",
]  # fmt: skip

_LONGEST = 2000  # characters of an expression
_DEEPEST = 50  # levels of it

Function = type(parse)
Method = type(parse.__get__(0))
Builtin = type(len)
Module = type(builtins)
GetSet = type(type.__dict__["__dict__"])
Member = type(Module.__dict__["__dict__"])
_SLOT_CALLS = (type(object.__init__), type(str.join))
# What C code computes for any object without asking classes of the user.
_CHEAP = frozenset(("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides", "__doc__", "__name__"))
_LITERALS = {List: list, ListComp: list, Tuple: tuple, Set: set, Dict: dict, JoinedStr: str}


class Found:
    """What an expression stands for. If value is MISSING, only its class is known."""

    __slots__ = ("value", "cls", "bound")

    def __init__(self, value: object, cls: type | None = None, bound: bool = False) -> None:
        self.value = value
        self.cls = type(value) if cls is None else cls
        self.bound = bound  # the first parameter is bound: a method of an object


def own_names(value: object) -> dict[str, object]:
    """The __dict__ of an object other than a class, not a copy; an empty one if there is none."""
    descriptor = in_class(type(value), "__dict__")
    if type(descriptor) is GetSet or type(descriptor) is Member:
        try:
            found = descriptor.__get__(value)
        except Exception:
            return {}
        if is_a(found, dict):
            return found
    return {}


def get(names: dict[str, object], name: str) -> object:
    """An entry of a dict, whatever a subclass of dict would make of it."""
    return dict.get(names, name, MISSING)


def attribute(value: object, name: str, depth: int = 0) -> Found | None:
    """The attribute of an object. depth counts properties read in order to read others."""
    if is_a(value, type):
        found = in_class(value, name)
        if found is not MISSING:
            return _unwrapped(found, of_class=True)
    elif is_a(value, Module):
        return _in_module(value, name)
    in_type = in_class(type(value), name)
    if _is_data(in_type):
        return _read(in_type, value, name, depth)
    mine = MISSING if is_a(value, type) else get(own_names(value), name)
    if mine is not MISSING:
        return Found(mine)
    if in_type is not MISSING:
        return _axis(value, name) or _unwrapped(in_type, of_class=False)
    return _column(value, name)


def attribute_of_instance(cls: type, name: str) -> Found | None:
    """The attribute of an instance of that class when no instance is at hand."""
    found = in_class(cls, name)
    if found is MISSING:
        return None
    if _is_data(found):
        return _returned(_getter(found)) if is_a(found, property) else None
    return _unwrapped(found, of_class=False)


def _in_module(module: object, name: str) -> Found | None:
    found = get(own_names(module), name)
    if found is not MISSING:
        return Found(found)
    full = get(own_names(module), "__name__")
    submodule = modules.get(f"{full}.{name}") if type(full) is str else None
    return None if submodule is None else Found(submodule)


def _is_data(found: object) -> bool:
    return is_a(found, property) or one_of(type(found), (GetSet, Member))


def _getter(descriptor: object) -> object:
    return property.fget.__get__(descriptor)


def _read_on(owner: object, name: str, depth: int) -> object:
    found = attribute(owner, name, depth)
    if found is None or found.value is MISSING:
        raise getters.Other
    return found.value


def _read(descriptor: object, owner: object, name: str, depth: int) -> Found | None:
    if is_a(descriptor, property):
        try:
            return Found(getters.value_of(_getter(descriptor), owner, _read_on, depth))
        except getters.Other:
            return _returned(_getter(descriptor))
    if type(descriptor) is GetSet and name not in _CHEAP and descriptor.__objclass__ is not type(owner):
        return None  # it may call methods of a derived class
    try:
        return Found(descriptor.__get__(owner))
    except Exception:
        return None


def _returned(function: object) -> Found | None:
    """The declared return type of a function."""
    if type(function) is not Function:
        return None
    promised = get(annotations(function), "return")
    if type(promised) is str:
        promised, *rest = promised.split(".")[:4]
        named = get(function.__globals__, promised)
        promised = _public(function, promised) if named is MISSING else named
        for name in rest:
            promised = get(own_names(promised), name) if is_a(promised, Module) else MISSING
    return Found(MISSING, promised) if is_a(promised, type) else None


def _axis(value: object, name: str) -> Found | None:
    """The index of a pandas frame, or that of its columns."""
    if name not in ("index", "columns") or not tabular.is_genuine(value, "pandas", "DataFrame"):
        return None
    axes = tabular.axes(value)
    return Found(axes[name == "index"]) if axes else None


def _unwrapped(found: object, of_class: bool) -> Found | None:
    if type(found) is staticmethod:
        return Found(found.__func__)
    if type(found) is classmethod:
        return Found(found.__func__, bound=True)
    if type(found) is Function:
        return Found(found, bound=not of_class)
    accessor = get(own_names(found), "_accessor") if not is_a(found, type) else MISSING
    if not of_class and is_a(accessor, type) and tabular.is_genuine(found, "pandas.core.accessor", "CachedAccessor"):
        return Found(MISSING, accessor)  # as df.name.str
    if type(in_class(type(found), "__get__")) is Function:  # only running it would tell its value
        return _returned(get(own_names(found), "func"))  # as functools.cached_property
    return Found(found, bound=not of_class and one_of(type(found), _SLOT_CALLS))


def _column(value: object, name: str) -> Found | None:
    """A column of a data frame, which is an attribute as well."""
    column = tabular.column_class(value, name)
    return None if column is None else Found(MISSING, column)


def _public(function: object, name: str) -> object:
    """The meaning of a name in an annotation that only type checkers import."""
    module = get(function.__globals__, "__name__")
    package = modules.get(module.partition(".")[0]) if type(module) is str else None
    if package is not None and type(package) is Module and name in vars(package):
        return vars(package)[name]
    return vars(builtins).get(name)


def annotations(function: object) -> dict[str, object]:
    """The annotations of a Python function. From Python 3.14 on, those that would be evaluated only now are their text instead."""
    annotate = function.__annotate__ if version_info >= (3, 14) else None
    if annotate is None:
        return function.__annotations__
    if type(annotate) is not Function or not _is_compiled(annotate.__code__):
        return {}
    library = load("annotationlib")
    try:
        return library.call_annotate_function(annotate, library.Format.STRING)
    except Exception:
        return {}  # an expression that has no text


def _is_compiled(code: CodeType) -> bool:
    """Whether the compiler made this function of annotations: annotationlib calls it with names that stand for their own text."""
    return code.co_name == "__annotate__" and code.co_varnames[:1] == ("format",) and code.co_posonlyargcount == 1


def function_of(value: object) -> object:
    """The function behind methods, partial objects and decorators that declare what they wrap."""
    for _ in range(20):
        if type(value) is Method:
            value = value.__func__
            continue
        if type(value) is staticmethod or type(value) is classmethod:
            value = value.__func__
            continue
        wrapped = MISSING if is_a(value, type) else get(own_names(value), "__wrapped__")
        if wrapped is MISSING:
            return value
        value = wrapped
    return value


class Namespace:
    """The names visible to cells, and what expressions over them stand for."""

    def __init__(self, names: dict[str, object]) -> None:
        self.names = names

    def global_(self, name: str) -> Found | None:
        for names in (self.names, vars(builtins)):
            found = get(names, name)
            if found is not MISSING:
                return Found(found)
        return None

    def find(self, expression: str) -> Found | None:
        """What an expression of names, attributes, subscripts and literals stands for. Nothing is called."""
        if len(expression) > _LONGEST:
            return None
        try:
            tree = parse(expression.strip(), "eval")
            return self._node(tree.body, 0)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def _node(self, node: object, depth: int) -> Found | None:
        if depth > _DEEPEST:
            return None
        kind = type(node)
        if kind is Name:
            return self.global_(node.id)
        if kind is Constant:
            return Found(node.value)
        if kind in _LITERALS:
            return Found(MISSING, _LITERALS[kind])
        if kind is Attribute:
            return _member(self._node(node.value, depth + 1), node.attr)
        if kind is Subscript:
            return self._item(self._node(node.value, depth + 1), node.slice, depth)
        if kind is Call:
            return _made_by(self._node(node.func, depth + 1))
        return None

    def _item(self, owner: Found | None, index: object, depth: int) -> Found | None:
        if owner is None or owner.value is MISSING:
            return None
        if type(index) is UnaryOp and type(index.op) is USub and type(index.operand) is Constant:
            key = index.operand.value
            key = -key if type(key) is int else MISSING
        else:
            found = self._node(index, depth + 1)
            key = MISSING if found is None else found.value
        return item(owner.value, key)


def item(value: object, key: object) -> Found | None:
    """value[key] of the builtin containers, and of classes that do not override item access."""
    if not one_of(type(key), (str, int, bytes, float, bool, type(None))):
        return None
    method = in_class(type(value), "__getitem__")
    try:
        if method is dict.__getitem__:
            found = dict.get(value, key, MISSING)
            return None if found is MISSING else Found(found)
        for sequence in (list, tuple, str):
            if method is sequence.__getitem__ and type(key) is int:
                return Found(sequence.__getitem__(value, key))
    except Exception:
        return None
    return _column(value, key) if type(key) is str else None


def _member(owner: Found | None, name: str) -> Found | None:
    if owner is None:
        return None
    if owner.value is MISSING:
        return attribute_of_instance(owner.cls, name)
    return attribute(owner.value, name)


def _made_by(function: Found | None) -> Found | None:
    if function is None or function.value is MISSING:
        return None
    if is_a(function.value, type):
        return None if function.value is type else Found(MISSING, function.value)
    return _returned(function_of(function.value))


def each_name(owner: Found) -> Iterator[object]:
    """The keys under which owner's attributes are stored, with duplicates. Not all of them are strings."""
    value = owner.value
    if value is not MISSING:
        if is_a(value, type):
            for cls in mro(value):
                yield from list(names_of_class(cls))
        else:
            yield from first(own_names(value))
    if value is MISSING or not is_a(value, type):
        for cls in mro(owner.cls):
            yield from list(names_of_class(cls))


def first(names: dict[str, object], most: int = 50_000) -> list[object]:
    """The keys of a dict, read in one step that no other thread can interrupt. Of a huge one, the oldest
    quarter and the newest ones."""
    if dict.__len__(names) <= most:
        return list(dict.keys(names))
    old = list(islice(dict.keys(names), most // 4))
    return old + list(islice(dict.__reversed__(names), most - len(old)))
