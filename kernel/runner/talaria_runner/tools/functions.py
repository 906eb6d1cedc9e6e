"""Functions that call tools, made from JSON Schema. Names and schemas come from outside: they are data, and no part of
them reaches the compiler but parameters that are plain identifiers."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.own.ours import OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

_FILE = OURS + "tools/functions.py"
_TYPES = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict, "null": type(None),
}  # fmt: skip
_KEYWORDS = frozenset(
    "False None True and as assert async await break class continue def del elif else except finally for from global if "
    "import in is lambda nonlocal not or pass raise return try while with yield".split()
)
_MOST = 250  # parameters
_ORIGIN = "_origin"  # a global variable of the functions


class _Parameter:
    def __init__(self, name: str, identifier: str, schema: dict[str, object], required: bool) -> None:
        self.name = name
        self.identifier = identifier
        self.required = required
        self.default = schema.get("default")
        self.nullable = "default" in schema and schema["default"] is None or type(None) in _types(schema)
        self.annotation = annotation(schema)
        if not required and self.default is None and self.annotation is not object:
            self.annotation = self.annotation | None


def annotation(schema: object) -> object:
    """The type that values of a schema have in Python; object where it does not say."""
    types = _types(schema)
    if not types:
        return object
    union = types[0]
    for other in types[1:]:
        union = union | other
    return union


def _types(schema: object) -> list[object]:
    if not isinstance(schema, dict):
        return []
    names = schema.get("type")
    types = [_TYPES[name] for name in (names if isinstance(names, list) else [names]) if isinstance(name, str) and name in _TYPES]
    items = schema.get("items")
    if types == [list] and isinstance(items, dict) and isinstance(items.get("type"), str) and items["type"] in _TYPES:
        return [list[_TYPES[items["type"]]]]
    return types


def identifier(name: str) -> str:
    """A Python name for a name of any kind."""
    plain = "".join(c if c == "_" or c.isalnum() and c.isascii() else "_" for c in name)
    if plain.startswith("__"):
        plain = plain.strip("_") + "_"
    if not plain or plain[0].isdigit():
        plain = "_" + plain
    return plain + "_" if plain in _KEYWORDS else plain


def make(spec: dict[str, object], call: Callable[[str, dict[str, object]], object], awaitable: bool = False) -> object:
    """The function that calls a tool with named arguments. call is a coroutine function for an awaitable one."""
    tool = spec["name"]
    parameters = _parameters(spec.get("parameters"))
    names = [p.identifier for p in parameters]
    send = "_send"
    while send in names:
        send += "_"
    head = ", ".join(name if p.required else name + "=None" for name, p in zip(names, parameters))
    wait, word = ("await ", "async def") if awaitable else ("", "def")
    pieces = "".join(name + ", " for name in names)
    rest = "{}"
    if _takes_others(spec.get("parameters")):
        rest = "arguments"
        while rest in names:
            rest += "_"
        head += (", **" if head else "**") + rest
    source = f"{word} tool({head}):\n return {wait}{send}(({pieces}), {rest})\n"

    def answer(values: tuple[object, ...], others: dict[str, object]) -> object:
        return call(tool, _arguments(parameters, values) | others)

    async def answer_soon(values: tuple[object, ...], others: dict[str, object]) -> object:
        return await call(tool, _arguments(parameters, values) | others)

    made = {_ORIGIN: (spec, awaitable), send: answer_soon if awaitable else answer}
    place = {**made, "__name__": "hermes_tools", "__builtins__": {}}
    exec(compile(source, _FILE, "exec"), place)
    function = place["tool"]
    function.__name__ = function.__qualname__ = identifier(tool)
    function.__doc__ = str(spec.get("description") or "") or f"Calls the tool {tool}."
    function.__defaults__ = tuple(p.default for p in parameters if not p.required) or None
    function.__annotations__ = {p.identifier: p.annotation for p in parameters}
    return function


def origin(function: FunctionType) -> tuple[dict[str, object], bool] | None:
    """The specification that make made a function of, and whether it is awaitable; None for any other function."""
    return function.__globals__.get(_ORIGIN) if function.__code__.co_filename == _FILE else None


def _takes_others(schema: object) -> bool:
    """Whether a tool takes arguments that its schema does not name: where it has none, or the schema names none at all."""
    return not isinstance(schema, dict) or "properties" not in schema and schema.get("additionalProperties") is not False


def _parameters(schema: object) -> list[_Parameter]:
    """Those that are required come first, as Python has it."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return []
    required = schema.get("required")
    required = set(filter(lambda name: isinstance(name, str), required)) if isinstance(required, list) else set()
    found: dict[str, _Parameter] = {}
    for name in list(properties)[:_MOST]:
        of = properties[name] if isinstance(properties[name], dict) else {}
        plain = identifier(name)
        while plain in found:
            plain += "_"
        found[plain] = _Parameter(name, plain, of, name in required)
    return sorted(found.values(), key=lambda p: not p.required)


def _arguments(parameters: list[_Parameter], values: tuple[object, ...]) -> dict[str, object]:
    """What is None and need not be given is left out."""
    return {
        p.name: value for p, value in zip(parameters, values) if p.required or value is not None or p.default is not None
    }
