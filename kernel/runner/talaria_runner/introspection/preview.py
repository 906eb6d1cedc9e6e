"""What a value looks like, on one line, without asking it: builtin containers and numbers are written out; of
everything else its class is named, and its size or shape."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from itertools import islice
from sys import modules

from talaria_runner.introspection import lookup, tabular
from talaria_runner.introspection.classes import module_of, qualified_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WIDTH = 100
_ITEMS = 12  # that are examined in one container
_BITS = 512  # of a number whose digits are written
_MORE = "…"

_WRITTEN = (float, complex, bool, type(None), type(Ellipsis), type(NotImplemented))
# Classes whose __repr__ is short, and asks no code of the user's.
_LIBRARY = frozenset((
    ("datetime", "date"), ("datetime", "timedelta"), ("datetime", "datetime"), ("datetime", "time"),
    ("decimal", "Decimal"), ("fractions", "Fraction"), ("pathlib", "PosixPath"), ("pathlib", "PurePosixPath"),
    ("uuid", "UUID"), ("pandas", "Timestamp"), ("pandas", "Timedelta"),
))  # fmt: skip
_SCALARS = (int, float, complex, bool, str, bytes)
_BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}


def preview(value: object, width: int = WIDTH) -> str:
    """At most width characters, without a line break."""
    return cut(_text(value, width, 0), width)


def cut(text: str, width: int) -> str:
    line = "".join([c if c.isprintable() else " " for c in text[:width + 1]])
    return line if len(line) <= width else line[:width - 1] + _MORE


def class_name(cls: type) -> str:
    """The name of a class, with its module if that is informative."""
    name = qualified_name(cls)
    module = module_of(cls)
    return name if module in ("builtins", "__main__", "") else f"{module}.{name}"


def _text(value: object, width: int, depth: int) -> str:
    cls = type(value)
    if cls is str:
        return repr(value[:width + 1])[:width + 2]
    if cls is bytes:
        return repr(value[:width + 1])
    if cls is bytearray:
        return f"bytearray({bytes(value[:width + 1])!r})"
    if cls is int:
        return repr(value) if value.bit_length() <= _BITS else f"<int of {value.bit_length()} bits>"
    if lookup.one_of(cls, _WRITTEN):
        return repr(value)
    if lookup.one_of(cls, _BRACKETS):
        return _sequence(cls, iter(value), len(value), width, depth)
    if cls is dict:
        return _mapping(iter(value.items()), len(value), width, depth)
    if cls is range and max(map(int.bit_length, (value.start, value.stop, value.step))) <= _BITS:
        return repr(value)
    if lookup.derives(cls, type):
        return f"<class {class_name(value)}>"
    if _is_known(value, cls):
        try:
            return repr(value)
        except Exception:
            pass
    return _other(value, cls, width, depth)


def _sequence(base: type, items: Iterator[object], count: int, width: int, depth: int) -> str:
    if depth > 3:
        return f"<{base.__name__} of {count}>" if count else repr(base())
    if not count and base in (set, frozenset):
        return repr(base())
    text = _joined([_text(item, width // 2, depth + 1) for item in _first(items)], count, width)
    if base is tuple and count == 1:
        text += ","
    opening, closing = _BRACKETS[base]
    text = f"{opening}{text}{closing}"
    return f"frozenset({text})" if base is frozenset else text


def _mapping(items: Iterator[tuple[object, object]], count: int, width: int, depth: int) -> str:
    if depth > 3:
        return f"<dict of {count}>" if count else "{}"
    pairs = [
        f"{_text(key, width // 3, depth + 1)}: {_text(item, width // 2, depth + 1)}" for key, item in _first(items)
    ]
    return "{" + _joined(pairs, count, width) + "}"


def _builtin_form(value: object, width: int, depth: int) -> str:
    """The text of value as an object of the builtin container, text or number that its class derives from,
    whatever that class makes of it; empty if it derives from none."""
    cls = type(value)
    if lookup.derives(cls, str):
        return _text(str.__getitem__(value, slice(width + 1)), width, depth)
    if lookup.derives(cls, bytes):
        return _text(bytes.__getitem__(value, slice(width + 1)), width, depth)
    for number in (int, float):
        if lookup.derives(cls, number):
            return _text(number.__getnewargs__(value)[0], width, depth)
    for base in _BRACKETS:
        if lookup.derives(cls, base):
            return _sequence(base, base.__iter__(value), base.__len__(value), width, depth)
    if lookup.derives(cls, dict):
        return _mapping(iter(dict.items(value)), dict.__len__(value), width, depth)
    if tabular.is_genuine(value, "collections", "deque"):
        base = tabular.of_library("collections", "deque")
        return _sequence(list, base.__iter__(value), base.__len__(value), width, depth)
    return ""


def _first(items: Iterable[object]) -> list[object]:
    try:
        return list(islice(items, _ITEMS))
    except RuntimeError:
        return []  # another thread is changing it


def _joined(items: list[str], count: int, width: int) -> str:
    kept = []
    room = width
    for item in items:
        room -= len(item) + 2
        if room < 0 and kept:
            break
        kept.append(item)
    if len(kept) < count:
        kept.append(f"{_MORE} {count} in all")
    return ", ".join(kept)


def _is_known(value: object, cls: type) -> bool:
    """Whether the library of that name really holds cls, rather than only sharing its name."""
    module, name = module_of(cls), qualified_name(cls)
    if module.startswith("pandas."):
        module = "pandas"
    if (module, name) not in _LIBRARY or module not in modules:
        return False
    if vars(modules[module]).get(name) is not cls:
        return False
    zone = value.tzinfo if name in ("datetime", "time", "Timestamp") else None
    return zone is None or type(zone) is vars(modules["datetime"]).get("timezone")


def _args(error: BaseException) -> tuple[object, ...]:
    return BaseException.__dict__["args"].__get__(error)


def _other(value: object, cls: type, width: int, depth: int) -> str:
    name = class_name(cls)
    if cls is lookup.Function or cls is lookup.Builtin:
        return f"<function {str.__str__(value.__name__)[:100]}>"
    if lookup.derives(cls, lookup.Module):
        found = lookup.get(lookup.own_names(value), "__name__")
        return f"<module {found[:100]}>" if type(found) is str else f"<{name}>"
    if lookup.derives(cls, BaseException):
        return f"{name}({', '.join([_text(arg, width // 2, depth + 1) for arg in _args(value)[:_ITEMS]])})"
    if tabular.is_genuine(value, "numpy", "generic"):
        item = tabular.of_library("numpy", "generic").item(value)
        return _text(item, width, depth) if lookup.one_of(type(item), _SCALARS) else f"<{name}>"
    if tabular.is_genuine(value, "enum", "Enum"):
        names = lookup.own_names(value)
        member = lookup.get(names, "_name_")
        if type(member) is str:
            return f"<{name}.{member}: {_text(lookup.get(names, '_value_'), width, depth + 1)}>"
    fields = lookup.in_class(cls, "_fields")
    if lookup.derives(cls, tuple) and type(fields) is tuple and len(fields) == tuple.__len__(value) and depth < 3:
        pairs = [f"{cut(k, 50)}={_text(v, width // 2, depth + 1)}"
                 for k, v in zip(fields[:_ITEMS], tuple.__iter__(value)) if type(k) is str]  # fmt: skip
        return f"{name}({_joined(pairs, len(fields), width)})"
    text = _builtin_form(value, width, depth + 1)
    if text:
        return f"{name}({text})"
    if depth > 2:
        return f"<{name}>"
    fields = []
    names = lookup.own_names(value)
    for key in _first(dict.keys(names)):
        if type(key) is str and not key.startswith("_"):
            fields.append(f"{key[:50]}={_text(lookup.get(names, key), width // 3, depth + 2)}")
    if not fields:
        return f"<{name}>"
    return f"<{name} {_joined(fields, len(fields), width)}>"
