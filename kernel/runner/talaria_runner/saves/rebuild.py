"""What saved objects are made of again: the functions here are named in pickles.

They are part of the format: a change of what one takes requires a new archive.VERSION.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from _thread import RLock, allocate_lock
from marshal import loads
from sys import version_info

from _frozen_importlib_external import MAGIC_NUMBER

from talaria_runner.introspection.classes import derives, mro, names_of_class
from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CellType, CodeType, FunctionType, ModuleType

_Function = type(lambda: None)
_Cell = type((lambda x: lambda: x)(1).__closure__[0])
_INHERIT = "__init_subclass__"
# What the metaclass of an Enum makes anew from the members,
OF_MEMBERS = frozenset((
    "_member_names_", "_member_map_", "_value2member_map_", "_unhashable_values_", "_hashable_values_", "_unhashable_values_map_",
))  # fmt: skip
_OF_ENUM = OF_MEMBERS | {"_generate_next_value_", "_new_member_", "__new_member__", "_use_args_"}  # and from the class.
_OF_MAKING = ("__init__", "__new_member__", "__reduce_ex__")  # that an Enum has because of how enum_class makes it


def code(version: str, magic: bytes, text: bytes) -> CodeType:
    if magic != MAGIC_NUMBER:
        here = f"{version_info.major}.{version_info.minor}"
        raise ValueError(f"its code was compiled by Python {version}, and this is Python {here}")
    return loads(text)


def function(code: CodeType, names: dict[str, object] | str, name: str, closure: tuple[CellType, ...]) -> FunctionType:
    """names holds the global variables; it is the name of a module if they are those of a module."""
    if type(names) is str:
        names = vars(module(names))
    return _Function(code, names, name, None, closure)


def fill_function(made: FunctionType, state: tuple[dict[str, object], dict[str, object], tuple[object, ...]]) -> None:
    own, attributes, cells = state
    for cell, value in cells:
        cell.cell_contents = value
    for name, value in own.items():
        setattr(made, name, value)
    made.__dict__.update(attributes)


def make_class(meta: type, name: str, bases: tuple[type, ...], own: dict[str, object]) -> type:
    """The class with the names in own. fill_class adds the rest, which may refer to the class."""
    with _Quiet(bases):
        try:
            return _maker(meta)(meta, name, bases, own)
        except TypeError:
            return type.__new__(meta, name, bases, own)  # a TypedDict has other bases than it was made with


def make_enum(
    meta: type, name: str, bases: tuple[type, ...], own: dict[str, object], members: dict[str, object]
) -> type:
    """Only files of earlier versions name it."""
    names = meta.__prepare__(name, bases)
    for key, value in (*own.items(), *members.items()):
        names[key] = value
    with _Quiet(bases):
        return _maker(meta)(meta, name, bases, names)


def fill_class(made: type, state: tuple[dict[str, object], dict[str, dict[str, object]], tuple[type, ...]]) -> None:
    own, members, registered = state
    for name, value in own.items():
        if not members or name not in _OF_ENUM:
            type.__setattr__(made, name, value)
    for name, attributes in members.items():
        member = made._member_map_[name]
        member.__dict__.update(attributes)
        try:
            made._value2member_map_.setdefault(member._value_, member)
        except TypeError:
            pass  # its value has no hash
    for cls in registered:
        made.register(cls)


def enum_class(
    meta: type, name: str, bases: tuple[type, ...], own: dict[str, object],
    members: dict[str, tuple[type, tuple[object, ...], object]], boundary: object,
) -> type:
    """Each member is given by the class that holds its data, what that one's __new__ takes, and the value. fill_enum adds the rest."""
    def new(cls: type, name: str | tuple[str]) -> object:
        base, args, value = members[name if type(name) is str else name[0]]
        made = base.__new__(cls, *args)
        made._value_ = value
        return made

    names = meta.__prepare__(name, bases)
    for key, value in (*own.items(), ("__new__", new), ("__init__", lambda self, name: None), *zip(members, members)):
        names[key] = value
    with _Quiet(bases):
        if boundary is None:
            return _maker(meta)(meta, name, bases, names)
        return _maker(meta)(meta, name, bases, names, boundary=boundary)


def fill_enum(
    made: type, state: tuple[dict[str, object], dict[str, dict[str, object]], list[tuple[object, str]], tuple[type, ...]]
) -> None:
    own, members, values, registered = state
    for name in _OF_MAKING:
        if name in names_of_class(made) and name not in own:
            type.__delattr__(made, name)
    for name, value in own.items():
        type.__setattr__(made, name, value)
    for name, attributes in members.items():
        made._member_map_[name].__dict__.update(attributes)
    for value, name in values:
        made._value2member_map_.setdefault(value, made._member_map_[name])
    for cls in registered:
        made.register(cls)


def enum_member(cls: type, name: str) -> object:
    return cls._member_map_[name]


class _Quiet:
    """While a class is made again, its bases that are made again too are not told: they were told the first time."""

    def __init__(self, bases: tuple[type, ...]) -> None:
        self._told = {
            cls: names_of_class(cls)[_INHERIT]
            for base in bases
            for cls in mro(base)
            if _INHERIT in names_of_class(cls) and is_of_cells(cls)
        }

    def __enter__(self) -> None:
        for cls in self._told:
            type.__setattr__(cls, _INHERIT, classmethod(lambda cls, **kwargs: None))

    def __exit__(self, *error: object) -> None:
        for cls, told in self._told.items():
            type.__setattr__(cls, _INHERIT, told)


def _maker(meta: type) -> object:
    """The __new__ of the first metaclass that a library made: those of cells did their work the first time."""
    return next(cls for cls in mro(meta) if not is_of_cells(cls)).__new__


def is_of_cells(cls: type) -> bool:
    return names_of_class(cls).get("__module__") == "__main__"


def module(name: str) -> object:
    __import__(name)
    return sys.modules[name]


def property_of(get: object, set: object, delete: object, text: object) -> property:
    return property(get, set, delete, text)


def cached(wrapped: object, most: int | None, typed: bool) -> object:
    return load("functools").lru_cache(most, typed)(wrapped)


def cached_property(wrapped: object, name: str | None, text: str | None) -> object:
    made = load("functools").cached_property(wrapped)
    made.attrname, made.__doc__ = name, text
    return made


def set_attributes(made: object, attributes: dict[str, object]) -> None:
    made.__dict__.update(attributes)


def with_value(cls: type, base: type, value: object) -> object:
    return base.__new__(cls, value)


def container(cls: type, base: type, *content: object) -> object:
    return base.__new__(cls, *content)


def fill_container(made: object, state: tuple[type, tuple[object, ...], object, object]) -> None:
    """Adds the content, which is a list of keys and one of values for a dict, and then the attributes, as pickle does."""
    base, options, content, attributes = state
    if options:
        base.__init__(made, *options)
    if derives(base, dict):
        for key, value in zip(*content):
            base.__setitem__(made, key, value)
    elif content:
        (base.update if base is set else base.extend)(made, content)
    if hasattr(type(made), "__setstate__"):
        if attributes is not None:
            made.__setstate__(attributes)
        return
    names, slots = attributes if type(attributes) is tuple else (attributes, None)
    if names:
        made.__dict__.update(names)
    for name, value in (slots or {}).items():
        setattr(made, name, value)


def logger(name: str) -> object:
    return module("logging").getLogger(name)


def configure_logger(made: object, state: tuple[type, dict[str, object]]) -> None:
    cls, attributes = state
    if type(made) is not cls:
        made.__class__ = cls
    made.__dict__.update(attributes)
    made.manager._clear_cache()


def lock() -> object:
    return allocate_lock()


def rlock() -> object:
    return RLock()


def view_of_memory(owner: object, format: str, shape: tuple[int, ...], readonly: bool) -> memoryview:
    view = memoryview(owner)
    if (view.format, view.shape) != (format, shape):
        view = view.cast("B").cast(format, shape) if len(shape) > 1 else view.cast("B").cast(format)
    return view.toreadonly() if readonly and not view.readonly else view


def type_variable(kind: type, name: str, constraints: tuple[object, ...], settings: dict[str, object]) -> object:
    made = kind(name, *constraints, **settings)
    made.__module__ = "__main__"
    return made


def new_type(name: str, base: object) -> object:
    made = module("typing").NewType(name, base)
    made.__module__ = "__main__"
    return made


def type_alias(name: str, value: object, parameters: tuple[object, ...]) -> object:
    return module("typing").TypeAliasType(name, value, type_params=parameters)


def new_module(name: str) -> ModuleType:
    return type(sys)(name)


def array(dtype: object, shape: tuple[int, ...], order: str, writable: bool, region: object) -> object:
    made = module("numpy").empty(shape, dtype, order)
    region.read_into(made)
    if not writable:
        made.flags.writeable = False
    return made


def array_view(
    owner: object, dtype: object, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, writable: bool
) -> object:
    numpy = module("numpy")
    if dtype.hasobject:
        first = owner.reshape(-1, order="A")[offset // dtype.itemsize:]
        made = numpy.lib.stride_tricks.as_strided(first, shape, strides)
    else:
        made = numpy.ndarray(shape, dtype, octets(owner), offset, strides)
    if not writable:
        made.flags.writeable = False
    return made


def array_of_class(cls: type, plain: object) -> object:
    return plain.view(cls)


def octets(array: object) -> object:
    """The memory of an array that is contiguous, as an array of bytes."""
    return array.reshape(-1, order="A").view(module("numpy").uint8)


def mapped_array(name: str, dtype: object, mode: str, offset: int, shape: tuple[int, ...], order: str) -> object:
    return module("numpy").memmap(name, dtype, mode, offset, shape, order)


def by_dill(data: bytes) -> object:
    return module("dill").loads(data)


def is_enum(cls: type) -> bool:
    enum = sys.modules.get("enum")
    return enum is not None and derives(type(cls), enum.EnumMeta)


def empty_cell() -> CellType:
    return _Cell()
