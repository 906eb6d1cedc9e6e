"""Magics, commands and questions in a cell, written as the Python that runs them. Each line stays where it was."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.introspection.scanner import Scanner
from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SHELL = "get_ipython()"
_QUESTION = r"\s*(%{0,2}[^\W\d][\w]*(?:\.[^\W\d]\w*|\[[^\[\]?]*\])*|%{0,2}[\w.*]*\*[\w.*]*)\s*(\?\??)\s*$"

_LONGEST_QUESTION = 200  # characters


def rewrite(source: str) -> tuple[str, dict[int, str]] | None:
    """The source as Python, and by number the lines that were not Python; None if all of it is Python
    already, or meant to be. The source does not compile as it is."""
    if not any(mark in source for mark in ("!", "%", "?", ">>> ")) and not source.lstrip("\n\r")[:1].isspace():
        return None
    lines = _unprompted(_dedented(source.replace("\r\n", "\n").replace("\r", "\n").split("\n")))
    first = next((i for i, line in enumerate(lines) if line.strip()), len(lines) - 1)
    if lines[first].startswith("%%"):
        return _cell_magic(lines, first)
    whole = "\n".join(lines)
    changed: dict[int, str] = {}
    for number in _statements(lines):
        last, text = _joined(lines, number)
        python = _line(text)
        if python is not None:
            changed[number + 1] = lines[number]
            lines[number:last + 1] = [python, *[""] * (last - number)]
    if changed or whole != source:
        return "\n".join(lines), changed
    return None


def call(magic: str, rest: str) -> str:
    """The Python that runs a line magic."""
    return f"{_SHELL}.run_line_magic({magic!r}, {rest!r})"


def spread(tree: object, changed: dict[int, str]) -> None:
    """Makes the nodes of changed lines span everything that was written there: tracebacks mark no part of it."""
    if not changed:
        return
    pending = [tree]
    while pending:
        node = pending.pop()
        if getattr(node, "lineno", 0) in changed:
            line = changed[node.lineno]
            node.col_offset = len(line.encode()) - len(line.lstrip().encode())
            node.end_lineno, node.end_col_offset = node.lineno, len(line.rstrip().encode())
        pending.extend(_children(node))


def spread_over(tree: object, place: object) -> None:
    """Gives all nodes of tree the position of place."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if hasattr(node, "lineno"):
            node.lineno, node.end_lineno = place.lineno, place.end_lineno
            node.col_offset, node.end_col_offset = place.col_offset, place.end_col_offset
        pending.extend(_children(node))


def _children(node: object) -> list[object]:
    values = [getattr(node, name, None) for name in node._fields]
    return [n for value in values for n in (value if type(value) is list else (value,)) if hasattr(n, "_fields")]


def _cell_magic(lines: list[str], first: int) -> tuple[str, dict[int, str]]:
    name, _, rest = lines[first][2:].partition(" ")
    question = name.rstrip("?")
    if question != name and not any(line.strip() for line in lines[first + 1:]):
        python = call("pinfo2" if name.endswith("??") else "pinfo", f"%%{question}")
    else:
        body = "".join([f"{line}\n" for line in lines[first + 1:]])
        python = f"{_SHELL}.run_cell_magic({name.strip()!r}, {rest.strip()!r}, {body!r})"
    return "\n" * first + python, {first + 1: lines[first]}


def _line(text: str) -> str | None:
    """A logical line as Python; None if it is Python already, or meant to be."""
    stripped = text.lstrip()
    indent = text[:len(text) - len(stripped)]
    python = _escaped(stripped.rstrip())
    if python is None:
        at = _assigned(text)
        if at < 0:
            return None
        indent, python = text[:at], _escaped(text[at:].strip(), True)
        if python is None:
            return None
    return indent + python


def _escaped(text: str, assigned: bool = False) -> str | None:
    """text without indentation as Python, if it is not Python. A command whose output is assigned is not shown."""
    if text.startswith("!"):
        if text.startswith("!!") or assigned:
            return f"{_SHELL}.getoutput({text.lstrip('!')!r})"
        return f"{_SHELL}.system({text[1:]!r})"
    match = None
    if text.endswith("?") and not assigned and len(text) <= _LONGEST_QUESTION:
        match = load("re").match(_QUESTION, text)
    if match is not None:
        return _question(match[1], match[2])
    if text.startswith("?") and not assigned:
        name = text.lstrip("?").strip()
        return _question(name, text[:len(text) - len(text.lstrip("?"))])
    if text.startswith("%"):
        name, _, rest = text[1:].partition(" ")
        return call(name.rstrip(";"), rest.strip())
    return None


def _question(name: str, marks: str) -> str:
    if not name:
        return f"{_SHELL}.show_usage()"
    if "*" in name:
        return call("psearch", name)
    return call("pinfo2" if marks == "??" else "pinfo", name)


def _assigned(text: str) -> int:
    """The position in the line of the assigned value, if that is a magic or a command; else -1."""
    if "!" not in text and "%" not in text:
        return -1
    scanner = Scanner()
    place = text.find("=")
    while place >= 0:
        scanner.feed(text[scanner.at:place])
        if scanner.comment:
            break
        rest = text[place + 1:].lstrip()
        begins = rest.startswith("!") or (rest.startswith("%") and (rest[1:2].isalpha() or rest[1:2] == "_"))
        code = not scanner.quote and not scanner.brackets
        if begins and code and text[place - 1:place] not in tuple("=!<>:") and text[:place].strip():
            return len(text) - len(rest)
        place = text.find("=", place + 1)
    return -1


def _joined(lines: list[str], number: int) -> tuple[int, str]:
    """The line joined with those that continue it by a backslash, if it is not Python; and the number of the last."""
    text = lines[number]
    if not (text.lstrip().startswith(("!", "%")) or _assigned(text) >= 0):
        return number, text
    while text.endswith("\\") and number + 1 < len(lines):
        number += 1
        text = text[:-1] + " " + lines[number].strip()
    return number, text


def _statements(lines: list[str]) -> Iterator[int]:
    """The numbers of the lines where a logical line begins. Changes made meanwhile affect the lines after them."""
    scanner = Scanner()
    for number in range(len(lines)):
        if not scanner.is_open and lines[number].strip():
            yield number
        scanner.feed(lines[number] + "\n")


def _dedented(lines: list[str]) -> list[str]:
    """The lines without the indentation of the first one, as pasted from the middle of a program."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[:len(first) - len(first.lstrip())]
    if not indent:
        return lines
    return [line.removeprefix(indent) for line in lines]


def _unprompted(lines: list[str]) -> list[str]:
    """The lines without the prompts of the session that they were pasted from."""
    first = next((line for line in lines if line.strip()), "")
    if not first.startswith(">>> "):
        return lines
    return [line[4:] if line.startswith((">>> ", "... ")) else line[3:] if line in (">>>", "...") else line
            for line in lines]  # fmt: skip
