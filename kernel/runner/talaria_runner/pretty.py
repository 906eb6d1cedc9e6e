"""Values as text/plain: containers are broken over lines when they are wide and cut when they are long."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WIDTH = 79
MOST = 1000  # items of one container

_SCALARS = frozenset((int, float, bool, str, bytes, complex, type(None)))


def pretty(value: object) -> str:
    """The text of value. Raises what its __repr__ raises."""
    if type(value) in _SCALARS:
        return repr(value)
    out: list[str] = []
    try:
        _write(_node(value, set()), 0, 0, out)
    except RecursionError:
        return repr(value)
    return "".join(out)


class _Group:
    """Items between two brackets. Its width is that on one line; it is WIDTH + 1 where it cannot be on one."""

    __slots__ = ("open", "items", "close", "width")

    def __init__(self, open: str, items: list[object], close: str) -> None:
        self.open = open
        self.items = items
        self.close = close
        self.width = min(WIDTH + 1, len(open) + len(close) + sum(map(_width, items)) + 2 * max(0, len(items) - 1))


class _Pair:
    """A key, or a name with "=", and its value."""

    __slots__ = ("key", "sign", "value", "width")

    def __init__(self, key: object, sign: str, value: object) -> None:
        self.key = key
        self.sign = sign
        self.value = value
        self.width = min(WIDTH + 1, _width(key) + len(sign) + _width(value))


def _width(node: object) -> int:
    if type(node) is str:
        return WIDTH + 1 if "\n" in node else len(node)
    return node.width


def _node(value: object, above: set[int]) -> object:
    """A string, a group or a pair for value. above holds the ids of the containers around it."""
    kind = type(value)
    if kind in _SCALARS:
        return repr(value)
    own = _own_text(value, above)
    if own is not None:
        return own
    brackets = _brackets(value, kind)
    if brackets is None:
        return repr(value)
    open, close = brackets
    if id(value) in above:
        return f"{open}...{close}"
    above.add(id(value))
    try:
        if isinstance(value, dict):
            items = [_Pair(_node(k, above), ": ", _node(v, above)) for k, v in _first(value.items())]
        else:
            ordered = _sorted(value) if isinstance(value, (set, frozenset)) else value
            items = [_node(item, above) for item in _first(ordered)]
    finally:
        above.discard(id(value))
    if len(value) > MOST:
        items.append("...")
    elif kind is tuple and len(items) == 1:
        close = "," + close
    return _Group(open, items, close)


def _brackets(value: object, kind: type) -> tuple[str, str] | None:
    """What value is written between; None where its own __repr__ writes it."""
    represent = kind.__repr__
    if represent is dict.__repr__:
        return "{", "}"
    if represent is list.__repr__:
        return "[", "]"
    if represent is tuple.__repr__:
        return "(", ")"
    if represent is set.__repr__:
        if kind is set:
            return ("{", "}") if value else None
        return (f"{kind.__name__}({{", "})") if value else None
    if represent is frozenset.__repr__:
        return (f"{kind.__name__}({{", "})") if value else None
    collections = modules.get("collections")
    if collections is None:
        return None
    if represent is collections.defaultdict.__repr__:
        return f"{kind.__name__}({value.default_factory!r}, {{", "})"
    if represent is collections.Counter.__repr__ and value:
        return f"{kind.__name__}({{", "})"
    if represent is collections.deque.__repr__ and value.maxlen is None:
        return f"{kind.__name__}([", "])"
    return None


def _first(items: Iterable[object]) -> Iterator[object]:
    left = MOST
    for item in items:
        if not left:
            return
        left -= 1
        yield item


def _sorted(items: Iterable[object]) -> Iterable[object]:
    try:
        return sorted(items)
    except Exception:
        return items


def _own_text(value: object, above: set[int]) -> str | None:
    """What value's _repr_pretty_ writes, which is made for IPython's printer."""
    if isinstance(value, type) or not callable(getattr(type(value), "_repr_pretty_", None)):
        return None
    printer = _Printer(above)
    cycle = id(value) in above
    above.add(id(value))
    try:
        value._repr_pretty_(printer, cycle)
    finally:
        if not cycle:
            above.discard(id(value))
    return "".join(printer.parts)


class _Printer:
    """As much of IPython's printer as _repr_pretty_ methods use."""

    def __init__(self, above: set[int]) -> None:
        self.parts: list[str] = []
        self.indentation = 0
        self.max_width = WIDTH
        self.max_seq_length = MOST
        self._above = above

    def text(self, text: str) -> None:
        self.parts.append(text)

    def breakable(self, sep: str = " ") -> None:
        self.parts.append(sep)

    def break_(self) -> None:
        self.parts.append("\n" + " " * self.indentation)

    def pretty(self, value: object) -> None:
        out: list[str] = []
        _write(_node(value, self._above), self.indentation, self.indentation, out)
        self.parts.extend(out)

    def begin_group(self, indent: int = 0, open: str = "") -> None:
        self.parts.append(open)
        self.indentation += indent

    def end_group(self, dedent: int = 0, close: str = "") -> None:
        self.indentation -= dedent
        self.parts.append(close)

    def group(self, indent: int = 0, open: str = "", close: str = "") -> _PrinterGroup:
        return _PrinterGroup(self, indent, open, close)

    def indent(self, indent: int) -> _PrinterGroup:
        return _PrinterGroup(self, indent, "", "")


class _PrinterGroup:
    def __init__(self, printer: _Printer, indent: int, open: str, close: str) -> None:
        self._printer = printer
        self._indent = indent
        self._open = open
        self._close = close

    def __enter__(self) -> None:
        self._printer.begin_group(self._indent, self._open)

    def __exit__(self, *error: object) -> None:
        self._printer.end_group(self._indent, self._close)


def _write(node: object, column: int, indent: int, out: list[str]) -> int:
    """Writes node from column on, its further lines indented, and returns the column behind it."""
    if type(node) is str:
        lines = node.split("\n")
        out.append(("\n" + " " * indent).join(lines))
        return column + len(node) if len(lines) == 1 else indent + len(lines[-1])
    if type(node) is _Pair:
        column = _write(node.key, column, indent, out)
        out.append(node.sign)
        return _write(node.value, column + len(node.sign), indent, out)
    inner = indent + len(node.open)
    separator = ", " if column + node.width <= WIDTH else ",\n" + " " * inner
    out.append(node.open)
    column += len(node.open)
    for i, item in enumerate(node.items):
        if i:
            out.append(separator)
            column = inner if separator[1] == "\n" else column + 2
        column = _write(item, column, inner, out)
    out.append(node.close)
    return column + len(node.close)
