"""Values as text/plain: containers are broken over lines if they are wide and cut if they are long."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _collections import OrderedDict, defaultdict, deque
from sys import modules

from talaria_runner.run.deadline import LIMIT, Overdue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from talaria_runner.run.deadline import Deadline

WIDTH = 79
MOST = 1000  # items of one container
MOST_ITEMS = 200_000  # of all of them
DEEPEST = 100  # nested containers
MOST_TEXT = 16 << 20  # characters

_SCALARS = frozenset((int, float, bool, str, bytes, complex, type(None)))
_SETS = (set, frozenset)
_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_NAME = vars(type)["__name__"]


def pretty(value: object, deadline: Deadline | None = None) -> str:
    """The text of value, at most MOST_TEXT characters and a notice. Raises what its __repr__ raises."""
    if type(value) in _SCALARS:
        return cut(_scalar(value))
    writer = _Writer(deadline)
    if deadline is None:
        return writer.text(value)
    return deadline.run(writer.text, value)


def cut(text: str) -> str:
    """text, or as much of it as is shown, and a notice."""
    # Text that is not ASCII takes up to three times the space.
    most = MOST_TEXT if len(text) <= MOST_TEXT // 4 or text.isascii() else MOST_TEXT // 4
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[cut here: the first {most:,} of {len(text):,} characters are shown]"


class _Writer:
    """Makes the text of one value."""

    def __init__(self, deadline: Deadline | None) -> None:
        self._deadline = deadline
        self._items = MOST_ITEMS
        self._room = MOST_TEXT
        self._above: set[int] = set()  # ids of the containers around the current value
        self.slow = ""  # what took too long

    def text(self, value: object) -> str:
        """The text of value."""
        out: list[str] = []
        try:
            _write(self.node(value), 0, 0, out)
        except RecursionError:
            out = [_repr(value)]
        text = cut("".join(out))
        if self.slow:
            text += f"\n[cut here: the repr of {self.slow} took more than {LIMIT:g} s and was stopped]"
        return text

    def node(self, value: object) -> object:
        """A string, a group or a pair for value."""
        if type(value) in _SCALARS:
            return self._counted(_scalar(value))
        if self._deadline is not None:
            self._deadline.check()
        if self.slow or self._items <= 0 or self._room <= 0:
            return "..."
        try:
            return self._node(value)
        except Overdue:
            self.slow = f"{name_of(type(value))!r} object"
            return plain(value)

    def _counted(self, text: str) -> str:
        self._items -= 1
        self._room -= len(text)
        return text

    def _node(self, value: object) -> object:
        above = self._above
        kind = type(value)
        own = self._own_text(value)
        if own is not None:
            return self._counted(own)
        brackets = _brackets(value, kind)
        if brackets is None:
            return self._counted(_repr(value))
        base, open, close = brackets
        if id(value) in above or len(above) >= DEEPEST:
            return f"{open}...{close}"
        above.add(id(value))
        try:
            if issubclass(kind, dict):
                ordered = _most_common(value) if _is_counter(kind) else base.items(value)
                items = [_Pair(self.node(k), ": ", self.node(v)) for k, v in _first(ordered)]
            else:
                ordered = _sorted(base, value) if base in _SETS else base.__iter__(value)
                items = [self.node(item) for item in _first(ordered)]
        finally:
            above.discard(id(value))
        if base.__len__(value) > len(items):
            items.append("...")
        elif kind is tuple and len(items) == 1:
            close = "," + close
        return _Group(open, items, close)

    def _own_text(self, value: object) -> str | None:
        """The output of value's _repr_pretty_, which is written for IPython's printer."""
        if issubclass(type(value), type) or not callable(getattr(type(value), "_repr_pretty_", None)):
            return None
        if len(self._above) >= DEEPEST:
            return "..."
        printer = _Printer(self)
        cycle = id(value) in self._above
        self._above.add(id(value))
        try:
            value._repr_pretty_(printer, cycle)
        finally:
            if not cycle:
                self._above.discard(id(value))
        return "".join([part for part in printer.parts if type(part) is str])


def plain(value: object) -> str:
    """Like object.__repr__, whatever its class says."""
    return f"<{name_of(type(value))} object at 0x{id(value):x}>"


def name_of(kind: type) -> str:
    return _NAME.__get__(kind)


def _repr(value: object) -> str:
    represent = type(value).__repr__
    for base, unit in ((str, "characters"), (bytes, "bytes"), (bytearray, "bytes")):
        if represent is base.__repr__:
            return _text(value, base, unit)
    return str.__str__(repr(value))


def _scalar(value: object) -> str:
    if type(value) is str or type(value) is bytes:
        return _repr(value)
    return repr(value)


def _text(value: object, base: type, unit: str) -> str:
    size = base.__len__(value)
    if size <= MOST_TEXT:
        return base.__repr__(value)
    most = MOST_TEXT - 200  # so that the remark is not cut off
    return f"{base.__repr__(base.__getitem__(value, slice(most)))}... [{size - most:,} more {unit}]"


class _Group:
    """Items between two brackets. Its width is that on one line, or WIDTH + 1 if it does not fit on one."""

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


def _brackets(value: object, kind: type) -> tuple[type, str, str] | None:
    """The class by which value's items are read, and the brackets around them; None if its own __repr__ writes it."""
    represent = kind.__repr__
    if represent is dict.__repr__:
        return dict, "{", "}"
    if represent is list.__repr__:
        return list, "[", "]"
    if represent is tuple.__repr__:
        return tuple, "(", ")"
    if represent is set.__repr__:
        if kind is set:
            return (set, "{", "}") if set.__len__(value) else None
        return (set, f"{name_of(kind)}({{", "})") if set.__len__(value) else None
    if represent is frozenset.__repr__:
        return (frozenset, f"{name_of(kind)}({{", "})") if frozenset.__len__(value) else None
    if represent is defaultdict.__repr__:
        return dict, f"{name_of(kind)}({_repr(defaultdict.default_factory.__get__(value))}, {{", "})"
    if represent is deque.__repr__:
        most = deque.maxlen.__get__(value)
        return deque, f"{name_of(kind)}([", "])" if most is None else f"], maxlen={most})"
    if represent is OrderedDict.__repr__ and dict.__len__(value) > MOST:
        return dict, f"{name_of(kind)}({{", "})"
    if kind in _VIEWS:
        return kind, f"{name_of(kind)}([", "])"
    array = getattr(modules.get("array"), "array", None)
    if type(array) is type and kind is array and array.__len__(value):
        return array, f"array({value.typecode!r}, [", "])"
    if _is_counter(kind) and dict.__len__(value):
        return dict, f"{name_of(kind)}({{", "})"
    return None


def _is_counter(kind: type) -> bool:
    counter = getattr(modules.get("collections"), "Counter", None)
    return type(counter) is type and issubclass(kind, counter) and kind.__repr__ is counter.__repr__


def _first(items: Iterable[object]) -> Iterator[object]:
    left = MOST
    for item in items:
        if not left:
            return
        left -= 1
        yield item


def _most_common(counts: dict[object, object]) -> Iterable[tuple[object, object]]:
    if dict.__len__(counts) <= MOST:
        try:
            return sorted(dict.items(counts), key=lambda item: item[1], reverse=True)
        except Exception:
            pass
    return dict.items(counts)


def _sorted(base: type, items: object) -> Iterable[object]:
    if base.__len__(items) <= MOST:
        try:
            return sorted(base.__iter__(items))
        except Exception:
            pass
    return base.__iter__(items)


class _Printer:
    """As much of IPython's printer as _repr_pretty_ methods use."""

    def __init__(self, writer: _Writer) -> None:
        self.parts: list[str] = []
        self.indentation = 0
        self.max_width = WIDTH
        self.max_seq_length = MOST
        self._writer = writer

    def text(self, text: str) -> None:
        self.parts.append(text)

    def breakable(self, sep: str = " ") -> None:
        self.parts.append(sep)

    def break_(self) -> None:
        self.parts.append("\n" + " " * self.indentation)

    def pretty(self, value: object) -> None:
        out: list[str] = []
        _write(self._writer.node(value), self.indentation, self.indentation, out)
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
    """Writes node from column on, its further lines indented, and returns the column after it."""
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


def pretty_with(function: Callable[[object, object, bool], object], value: object) -> str:
    """The text that the function writes about value to the printer that it is given."""
    printer = _Printer(_Writer(None))
    function(value, printer, False)
    return "".join(printer.parts)
