"""What a name stands for, as text: how it is called, its documentation, type, file and source."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from posix import O_CLOEXEC, O_NONBLOCK, O_RDONLY, close, fstat, open, read

from talaria_runner.introspection import expressions, facts, lookup, rows
from talaria_runner.introspection.classes import qualified_name
from talaria_runner.introspection.documentation import LONGEST, documentation
from talaria_runner.introspection.lookup import MISSING, Found, Namespace
from talaria_runner.introspection.preview import class_name, preview
from talaria_runner.introspection.scanner import block
from talaria_runner.introspection.signatures import signature
from talaria_runner.own.ours import OURS
from talaria_runner.run.sources import Sources
from talaria_runner.wire.outbox import printable

_FILE = 4 << 20  # bytes of a source file
_REGULAR = 0o100000
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)


class Inspector:
    """Describes what names stand for. It runs no code of the user. Its methods are safe in every thread."""

    def __init__(self, namespace: dict[str, object], sources: Sources) -> None:
        self._namespace = Namespace(namespace)
        self._sources = sources

    def at(self, code: str, cursor: int, detail: int) -> dict[str, object] | None:
        """The MIME bundle for the name at that position in code, in characters, or for the function being
        called there."""
        for expression in expressions.at(code, cursor):
            found = self.bundle(expression, detail)
            if found is not None:
                return found
        return None

    def bundle(self, expression: str, detail: int) -> dict[str, object] | None:
        """The MIME bundle for an expression such as df.groupby or rows[0]; with detail 1 the source replaces
        the documentation if there is one. None if there is no such object, or only running the expression
        would tell."""
        expression = expression.strip()
        found = self._namespace.find(expression)
        if found is None:
            return None
        try:
            text = self._describe(expression, found, detail)
        except Exception:
            # The object is of an unforeseen kind, or changes while it is examined.
            text = _field("Type", class_name(found.cls))
        return {"text/plain": printable(text)}

    def _describe(self, expression: str, found: Found, detail: int) -> str:
        value = found.value
        is_class = value is not MISSING and lookup.is_a(value, type)
        fields = []
        if value is MISSING:
            fields.append(_field("Type", class_name(found.cls)))
            fields.append(_field("Docstring", documentation(found.cls) or "<no docstring>"))
            return "\n".join(fields)
        name = expression.rpartition(".")[2]
        called = signature(name if name.isidentifier() else "", found)
        if called is not None:
            fields.append(_field("Init signature" if is_class else "Signature", called))
        elif not _is_callable(value):
            fields.append(_field("Type", class_name(found.cls)))
            fields += self._content(value)
        file, source = self._source(value, called is not None or is_class, detail)
        if file.startswith(OURS):
            file = source = ""
        if detail and source:
            fields.append(_field("Source", "\n" + source[:LONGEST]))
        else:
            fields.append(_field("Docstring", documentation(value) or "<no docstring>"))
            init = _documentation_of_init(value) if is_class else None
            if init:
                fields.append(_field("Init docstring", init))
        if file:
            fields.append(_field("File", file))
        if called is not None or _is_callable(value):
            fields.append(_field("Type", class_name(found.cls)))
        return "\n".join(fields)

    def _content(self, value: object) -> list[str]:
        known = facts.of(value)
        fields = [_field("String form", known.preview or preview(value))]
        if lookup.one_of(type(value), _SIZED):
            return [*fields, _field("Length", str(len(value)))]
        if known.shape is not None:
            fields.append(_field("Shape", " × ".join(map(str, known.shape)) or "no dimensions"))
        if known.dtype:
            fields.append(_field("Dtype", known.dtype))
        table = rows.first(value)
        return [*fields, "First rows:\n" + table] if table else fields

    def _source(self, value: object, callable: bool, detail: int) -> tuple[str, str]:
        """The file that value comes from, and with detail its source, if they are known."""
        if lookup.is_a(value, lookup.Module):
            file = lookup.get(lookup.own_names(value), "__file__")
            return (file, "\n".join(self._lines(file)) if detail else "") if type(file) is str else ("", "")
        if not lookup.is_a(value, type):
            function = lookup.function_of(value)
            if type(function) is lookup.Function:
                code = function.__code__
                lines = self._lines(code.co_filename) if detail else []
                at = code.co_firstlineno - 1
                return code.co_filename, "\n".join(block(lines, at)) if 0 <= at < len(lines) else ""
            if callable:
                return "", ""
            value = type(value)
        file, end = self._file_of_class(value)
        if not file or not detail:
            return file, ""
        lines = self._lines(file)
        at = _line_of_class(lines[:end], value)
        return file, "" if at < 0 else "\n".join(block(lines, at))

    def _file_of_class(self, cls: type) -> tuple[str, int | None]:
        """The file and, if it is known, a line of it that comes after the beginning of the class."""
        qualified = qualified_name(cls)
        for member in lookup.names_of_class(cls).values():
            member = lookup.function_of(member)
            if type(member) is lookup.Function and member.__qualname__.startswith(qualified + "."):
                return member.__code__.co_filename, member.__code__.co_firstlineno
        module = lookup.names_of_class(cls).get("__module__")
        if module == "__main__":
            for name in self._sources.names():
                if _line_of_class(self._lines(name), cls) >= 0:
                    return name, None
        holder = modules.get(module) if type(module) is str else None
        file = MISSING if holder is None else lookup.get(lookup.own_names(holder), "__file__")
        return (file, None) if type(file) is str else ("", None)

    def _lines(self, file: str) -> list[str]:
        text = self._sources.text(file)
        if text is None:
            text = _read(file)
        return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _documentation_of_init(cls: type) -> str:
    method = lookup.in_class(cls, "__init__")
    return documentation(method) if type(method) is lookup.Function else ""


def _is_callable(value: object) -> bool:
    return lookup.in_class(type(value), "__call__") is not MISSING


def _field(name: str, text: str) -> str:
    return f"{name}:\n{text.lstrip(chr(10))}" if "\n" in text else f"{name + ':':<16}{text}"


def _line_of_class(lines: list[str], cls: type) -> int:
    """Where the class begins, its decorators included: the last position in lines; -1 if it is not in them."""
    name = qualified_name(cls).rpartition(".")[2]
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at].lstrip()
        if line.startswith("class ") and line[6:].lstrip().partition("(")[0].partition(":")[0].strip() == name:
            while at and lines[at - 1].lstrip().startswith("@"):
                at -= 1
            return at
    return -1


def _read(path: str) -> str:
    """The text of a source file; nothing for anything that is not a file or is too large for one."""
    try:
        fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        status = fstat(fd)
        if status.st_mode & 0o170000 != _REGULAR or status.st_size > _FILE:
            return ""
        parts = []
        while part := read(fd, 1 << 20):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        close(fd)
