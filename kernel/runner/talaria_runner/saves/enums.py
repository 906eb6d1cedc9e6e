"""Enums of cells: their members are made of what they hold, without the __new__ and __init__ that made them the first time."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.introspection.classes import derives, names_of_class
from talaria_runner.own.stdlib import load
from talaria_runner.saves import rebuild
from talaria_runner.saves.reasons import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from enum import Enum, EnumMeta

_VALUES = (tuple, str, int, float, bytes, complex)
_new_object = load("copyreg").__newobj__
_PROTOCOL = 5


def member(value: Enum, cls: EnumMeta) -> object:
    """As __reduce__; None for what is no member with a name, such as a combination of flags."""
    if not rebuild.is_enum(cls) or not rebuild.is_of_cells(cls):
        return None
    name = vars(value).get("_name_")
    if type(name) is not str or names_of_class(cls)["_member_map_"].get(name) is not value:
        return None
    return rebuild.enum_member, (cls, name)


def reduce(cls: EnumMeta, first: dict[str, object], own: dict[str, object], registered: tuple[type, ...]) -> object:
    """As __reduce__. first are the names that making the class depends on, and own are all."""
    members = names_of_class(cls)["_member_map_"]
    contents = {name: (*_content(one, cls), one._value_) for name, one in members.items()}
    own = {name: value for name, value in own.items() if name not in members and name not in rebuild.OF_MEMBERS}
    known = set(map(id, members.values()))
    values = [(value, one._name_) for value, one in names_of_class(cls)["_value2member_map_"].items() if id(one) in known]
    attributes = {name: vars(one) for name, one in members.items() if one._name_ == name}
    made = (type(cls), cls.__name__, cls.__bases__, first, contents, own.get("_boundary_"))
    return rebuild.enum_class, made, (own, attributes, values, registered), None, None, rebuild.fill_enum


def _content(one: Enum, cls: EnumMeta) -> tuple[type, tuple[object, ...]]:
    """The class that holds the data of a member, and what its __new__ takes."""
    for base in _VALUES:
        if derives(cls, base):
            return base, base.__getnewargs__(one)
    base = cls._member_type_
    make, args, state, *items = (*base.__reduce_ex__(one, _PROTOCOL), None, None, None)[:5]
    if make is _new_object:
        args = args[1:]
    elif make is not cls:
        items = [make]
    if type(state) is tuple or any(items):
        raise Refused(f"the members of the enum {cls.__qualname__} cannot be made again from their {base.__qualname__}")
    return base, args
