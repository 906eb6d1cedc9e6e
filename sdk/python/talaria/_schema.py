"""JSON Schemas of functions, from their signatures, annotations and docstrings."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import json
import re
import sys
import types
import typing
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

Schema = Dict[str, Any]

_PLAIN: Dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_LISTS = (list, set, frozenset, tuple, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_UNIONS = (Union, getattr(types, "UnionType", Union))
_ANNOTATED = getattr(typing, "Annotated", None)
# NotRequired is typing's from Python 3.11 on, and typing_extensions' before.
_MARKS = ("Required", "NotRequired")


class Parameters:
    """The parameters of a function: their JSON Schema, and how a call's arguments become the function's.

    A parameter whose annotation is ``injected`` is left out of the schema; ``injected_name`` is its name.
    """

    def __init__(self, function: Callable[..., Any], descriptions: Dict[str, str], injected: type) -> None:
        self.injected_name: Optional[str] = None
        self._types: Dict[str, Any] = {}
        name = getattr(function, "__name__", repr(function))
        properties: Dict[str, Schema] = {}
        required: List[str] = []
        extra: Any = False
        hints = _hints(function, name)
        for p in inspect.signature(function).parameters.values():
            kind = hints.get(p.name, Any)
            if kind is injected:
                self.injected_name = p.name
                continue
            try:
                if p.kind is p.VAR_KEYWORD:
                    extra = schema_of(kind)
                    continue
                if p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY):
                    raise TypeError("a cell passes arguments by name, and this one has none; "
                                    "make it an ordinary parameter")
                if p.default is None and kind is not Any:
                    kind = Optional[kind]
                schema = schema_of(kind)
            except TypeError as e:
                raise TypeError(f"{name}: parameter {p.name!r}: {e}") from None
            self._types[p.name] = kind
            if p.name in descriptions:
                schema.setdefault("description", descriptions[p.name])
            if p.default is p.empty:
                required.append(p.name)
            elif _is_json(p.default):
                schema["default"] = p.default
            properties[p.name] = schema
        self.schema: Schema = {"type": "object", "properties": properties, "additionalProperties": extra}
        if required:
            self.schema["required"] = required

    def convert(self, arguments: Dict[str, Any]) -> Dict[str, Any]:
        """Makes the keyword arguments of the function from the arguments of a call."""
        return {name: convert(self._types.get(name, Any), value) for name, value in arguments.items()}


def _hints(function: Callable[..., Any], name: str) -> Dict[str, Any]:
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)
    try:
        return _all_hints(target)
    except Exception as e:  # an annotation is any expression
        raise TypeError(f"{name}: an annotation cannot be evaluated: {e}; pass parameters= instead") from e


def _all_hints(target: Any) -> Dict[str, Any]:
    if sys.version_info >= (3, 9):
        return typing.get_type_hints(target, include_extras=True)
    return typing.get_type_hints(target)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, enum.Enum)


def schema_of(kind: Any, within: Tuple[Any, ...] = ()) -> Schema:
    """Describes a type. ``within`` are the classes whose fields are being described."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is inspect.Parameter.empty or kind is object:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is _ANNOTATED and origin is not None:
        schema = schema_of(args[0], within)
        texts = [a for a in args[1:] if isinstance(a, str)]
        return {**schema, "description": texts[0]} if texts else schema
    if getattr(origin, "__name__", getattr(origin, "_name", None)) in _MARKS:
        return schema_of(args[0], within)
    if origin is typing.Literal:
        return _values(list(args))
    if origin in _UNIONS:
        return _union([schema_of(a, within) for a in args])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _values([member.value for member in kind])
    if (origin or kind) in _LISTS:
        return _list(origin or kind, args, within)
    if (origin or kind) in _MAPS:
        if args and args[0] is not str:
            raise TypeError(f"the keys of a JSON object are str, not {_named(args[0])}")
        values = schema_of(args[1], within) if args else {}
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if _is_record(kind):
        if kind in within:
            raise TypeError(f"{_named(kind)} contains itself; pass parameters= with a JSON Schema instead")
        return _record(kind, within + (kind,))
    raise TypeError(f"{_named(kind)} has no JSON Schema; use plain types, a dataclass or a TypedDict, or pass parameters=")


def _named(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)


def _values(values: List[Any]) -> Schema:
    kinds = {_PLAIN.get(type(v)) for v in values}
    if None in kinds:
        raise TypeError("the values to choose from must be text, numbers, booleans or None")
    only = kinds.pop() if len(kinds) == 1 else None
    return {"type": only, "enum": values} if only else {"enum": values}


def _union(schemas: List[Schema]) -> Schema:
    if all(list(s) == ["type"] and isinstance(s["type"], str) for s in schemas):
        return {"type": [s["type"] for s in schemas]}
    return {"anyOf": schemas}


def _list(kind: Any, args: Tuple[Any, ...], within: Tuple[Any, ...]) -> Schema:
    schema: Schema = {"type": "array"}
    if kind in (set, frozenset):
        schema["uniqueItems"] = True
    if kind is tuple and args and args[-1] is not Ellipsis:
        return {**schema, "prefixItems": [schema_of(a, within) for a in args], "minItems": len(args), "maxItems": len(args)}
    items = schema_of(args[0], within) if args else {}
    return {**schema, "items": items} if items else schema


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or _is_typed_dict(kind))


def _is_typed_dict(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__")


def _record(kind: Any, within: Tuple[Any, ...]) -> Schema:
    properties: Dict[str, Schema] = {}
    required: List[str] = []
    hints = _all_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init} if dataclasses.is_dataclass(kind) else {}
    for name, hint in hints.items():
        if fields and name not in fields:
            continue
        properties[name] = schema_of(hint, within)
        if name in fields:
            f = fields[name]
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                required.append(name)
            elif f.default is not dataclasses.MISSING and _is_json(f.default):
                properties[name]["default"] = f.default
        elif _is_required(kind, name, hint):
            required.append(name)
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    # Where annotations are strings, __required_keys__ does not know NotRequired.
    mark = getattr(typing.get_origin(hint), "__name__", getattr(typing.get_origin(hint), "_name", None))
    return mark == "Required" or mark != "NotRequired" and name in kind.__required_keys__


def convert(kind: Any, value: Any) -> Any:
    """Makes a value of the type from its JSON, which satisfies the type's schema."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is _ANNOTATED and origin is not None or getattr(origin, "__name__", getattr(origin, "_name", None)) in _MARKS:
        return convert(args[0], value)
    if origin in _UNIONS:
        return _convert_union(args, value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if isinstance(value, dict):
        if _is_record(kind):
            hints = _all_hints(kind)
            return kind(**{k: convert(hints.get(k, Any), v) for k, v in value.items()})
        if (origin or kind) in _MAPS and args:
            return {k: convert(args[1], v) for k, v in value.items()}
    if isinstance(value, list) and (origin or kind) in _LISTS:
        make: Any = origin or kind
        if make is tuple and args and args[-1] is not Ellipsis:
            return tuple(convert(a, v) for a, v in zip(args, value))
        items = [convert(args[0], v) if args else v for v in value]
        return make(items) if make in (set, frozenset, tuple) else items
    return value


def _convert_union(args: Tuple[Any, ...], value: Any) -> Any:
    for kind in args:
        if _fits(kind, value):
            return convert(kind, value)
    return value


def _fits(kind: Any, value: Any) -> bool:
    origin = typing.get_origin(kind) or kind
    if origin in _PLAIN:
        return type(value) is origin or origin is float and type(value) is int
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return value in [member.value for member in kind]
    if _is_record(kind):
        schema = _record(kind, (kind,))
        return isinstance(value, dict) and set(schema.get("required", ())) <= set(value) <= set(schema["properties"])
    if origin in _LISTS:
        return isinstance(value, list)
    return origin in _MAPS and isinstance(value, dict)


_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_PARAMETER = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)$")
_FIELD = re.compile(r"^:param(?:\s+[^:]*?)?\s+(\w+):\s*(.*)$")


def read_docstring(function: Callable[..., Any]) -> Tuple[str, Dict[str, str]]:
    """Splits a docstring into its text and the descriptions of parameters, in Google's form or as ``:param x:``."""
    text: List[str] = []
    found: Dict[str, List[str]] = {}
    section: Optional[int] = None  # the indentation of its parameters, -1 before the first one
    current: Optional[List[str]] = None
    for line in (inspect.getdoc(function) or "").splitlines():
        indent = len(line) - len(line.lstrip())
        if section is not None and line.strip() and indent == 0:
            section = current = None
        if section is None and _SECTION.match(line):
            section, current = -1, None
            continue
        field = _FIELD.match(line)
        if field:
            current = found.setdefault(field[1], [field[2]])
        elif section is not None:
            section = indent if section < 0 and line.strip() else section
            entry = _PARAMETER.match(line.strip()) if indent == section else None
            if entry:
                current = found.setdefault(entry[1], [entry[2]])
            elif current is not None:
                current.append(line.strip())
        elif current is not None and indent > 0:
            current.append(line.strip())
        elif not re.match(r"^:\w+.*:", line):
            current = None
            text.append(line)
    return "\n".join(text).strip(), {name: " ".join(filter(None, lines)) for name, lines in found.items()}
