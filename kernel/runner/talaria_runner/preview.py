"""What a value looks like, on one line, without asking it: builtin containers and numbers are written out, of
everything else its class is told, and what it consists of."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from itertools import islice
from sys import modules

from talaria_runner import lookup

WIDTH = 100
_ITEMS = 12  # that are looked at in one container
_BITS = 512  # of a number whose digits are written
_MORE = "…"

_WRITTEN = (float, complex, bool, type(None), type(Ellipsis), type(NotImplemented))
# Whose __repr__ is short, and asks nothing of the user's.
_LIBRARY = frozenset((
    ("datetime", "date"), ("datetime", "timedelta"), ("decimal", "Decimal"), ("fractions", "Fraction"),
    ("pathlib", "PosixPath"), ("pathlib", "PurePosixPath"), ("uuid", "UUID"), ("pandas", "Timestamp"),
    ("pandas", "Timedelta"),
))  # fmt: skip
_BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}


def preview(value: object, width: int = WIDTH) -> str:
    """At most width characters, without a line break."""
    return cut(_text(value, width, 0), width)


def cut(text: str, width: int) -> str:
    line = "".join([c if c.isprintable() else " " for c in text[:width + 1]])
    return line if len(line) <= width else line[:width - 1] + _MORE


def class_name(cls: type) -> str:
    """How a class is called, with its module where that tells something."""
    name = qualified_name(cls)
    module = module_of(cls)
    return name if module in ("builtins", "__main__", "") else f"{module}.{name}"


def qualified_name(cls: type) -> str:
    name = type.__dict__["__qualname__"].__get__(cls)
    return str.__str__(name)[:200]


def module_of(cls: type) -> str:
    module = lookup.names_of_class(cls).get("__module__")
    if type(module) is str:
        return module[:200]
    return "" if lookup.is_heap_class(cls) else "builtins"


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
        return _sequence(value, width, depth)
    if cls is dict:
        return _mapping(value, width, depth)
    if cls is range and max(map(int.bit_length, (value.start, value.stop, value.step))) <= _BITS:
        return repr(value)
    if lookup.derives(cls, type):
        return f"<class {class_name(value)}>"
    if _is_known(cls):
        try:
            return repr(value)
        except Exception:
            pass
    return _other(value, cls, width, depth)


def _sequence(value: object, width: int, depth: int) -> str:
    cls = type(value)
    if depth > 3:
        return f"<{cls.__name__} of {len(value)}>" if value else repr(value)
    if not value and cls in (set, frozenset):
        return repr(value)
    items = [_text(item, width // 2, depth + 1) for item in _first(value)]
    text = _joined(items, len(value), width)
    if cls is tuple and len(value) == 1:
        text += ","
    opening, closing = _BRACKETS[cls]
    text = f"{opening}{text}{closing}"
    return f"frozenset({text})" if cls is frozenset else text


def _mapping(value: dict, width: int, depth: int) -> str:
    if depth > 3:
        return f"<dict of {len(value)}>" if value else "{}"
    items = [
        f"{_text(key, width // 3, depth + 1)}: {_text(item, width // 2, depth + 1)}"
        for key, item in _first(value.items())
    ]
    return "{" + _joined(items, len(value), width) + "}"


def _first(items: object) -> list[object]:
    try:
        return list(islice(items, _ITEMS))
    except RuntimeError:
        return []  # another thread changes it


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


def _is_known(cls: type) -> bool:
    """Whether cls is what the library of that name holds, not only called so."""
    module, name = module_of(cls).partition("._")[0], qualified_name(cls)
    if (module, name) in _LIBRARY:
        return vars(modules.get(module, lookup)).get(name) is cls
    generic = vars(modules["numpy"]).get("generic") if "numpy" in modules else None
    return type(generic) is type and lookup.derives(cls, generic) and module == "numpy" and name != "void"


def _other(value: object, cls: type, width: int, depth: int) -> str:
    name = class_name(cls)
    if cls is lookup.Function or cls is lookup.Builtin:
        return f"<function {str.__str__(value.__name__)[:100]}>"
    if lookup.derives(cls, lookup.Module):
        found = lookup.get(lookup.own_names(value), "__name__")
        return f"<module {found[:100]}>" if type(found) is str else f"<{name}>"
    for builtin in (str, int, float, list, tuple, dict, set):
        if lookup.derives(cls, builtin):
            return f"<{name}, a {builtin.__name__}>"
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
