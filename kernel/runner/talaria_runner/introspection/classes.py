"""What a class says about itself, bypassing what its metaclass makes of such questions."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import MappingProxyType

MISSING = object()  # there is none, or only the user's code could tell

_class_dict = type.__dict__["__dict__"].__get__
_class_mro = type.__dict__["__mro__"].__get__
_class_flags = type.__dict__["__flags__"].__get__
_class_name = type.__dict__["__qualname__"].__get__
_class_module = type.__dict__["__module__"].__get__
_HEAP = 1 << 9


def mro(cls: type) -> tuple[type, ...]:
    return _class_mro(cls)


def names_of_class(cls: type) -> MappingProxyType[str, object]:
    return _class_dict(cls)


def derives(cls: type, base: type) -> bool:
    return any(c is base for c in _class_mro(cls))


def one_of(cls: type, classes: Iterable[type]) -> bool:
    """Whether cls is one of these. "in" would ask the class of cls whether they are equal."""
    return any([cls is c for c in classes])


def is_heap_class(cls: type) -> bool:
    """Whether a class statement made it, and not C code."""
    return bool(_class_flags(cls) & (1 << 9))


def is_a(value: object, base: type) -> bool:
    """isinstance, without asking __class__ and __instancecheck__."""
    return derives(type(value), base)


def in_class(cls: type, name: str) -> object:
    """The value of that name in a class or the first of its bases that has it."""
    for c in _class_mro(cls):
        names = _class_dict(c)
        if name in names:
            return names[name]
    return MISSING


def qualified_name(cls: type) -> str:
    return str.__str__(_class_name(cls))[:200]


def module_of(cls: type) -> str:
    if is_heap_class(cls):
        module = names_of_class(cls).get("__module__")
    else:
        module = _class_module(cls)  # C code has it in the class's name
    return module[:200] if type(module) is str else ""


def comes_from(cls: type, *packages: str) -> bool:
    """Whether a module of one of these packages really holds cls, rather than only sharing its name."""
    module = module_of(cls)
    loaded = modules.get(module) if module.partition(".")[0] in packages else None
    return type(loaded) is _Module and vars(loaded).get(qualified_name(cls)) is cls


_Module = type(modules["sys"])
