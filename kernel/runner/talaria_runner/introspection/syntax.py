"""Parses source that nobody asked to run, without any output about it."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import getrecursionlimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _ast import AST

_ONLY_AST = 0x400
_DONT_INHERIT = True
INCOMPLETE_ALLOWED = 0x4000  # lets the parser distinguish incomplete source from invalid source
# The recursion limit keeps building a deep tree within the stack of our threads; if user code raised it, only
# source that is too short to be deep is parsed.
_USUAL_LIMIT = 2000
_SHORT = 6000
_ESCAPES = frozenset("\n\r\\'\"abfnrtv01234567x")  # of strings and bytes alike
_LONGEST_NUMBER = 20  # characters
_MOST = 500  # such numbers in one source
_AFTER_NUMBERS = ("and", "else", "for", "if", "in", "is", "not", "or")


def parse(source: str, mode: str, flags: int = 0) -> AST:
    """The tree of source. Raises SyntaxError, ValueError, RecursionError or MemoryError."""
    if len(source) > _SHORT and getrecursionlimit() > _USUAL_LIMIT:
        raise MemoryError
    return compile(quiet(source), "<source>", mode, flags | _ONLY_AST, _DONT_INHERIT)


def quiet(source: str) -> str:
    """source with other text in place of what the parser would warn about on stderr: meaningless escapes, and
    numbers directly followed by a keyword."""
    return _apart(_without_escapes(source))


def _without_escapes(source: str) -> str:
    at = source.find("\\")
    if at < 0:
        return source
    parts = []
    done = 0
    while 0 <= at < len(source) - 1:
        last = at + 2
        if source[at + 1] == "N" and source[last:last + 1] == "{":
            last = source.find("}", last) + 1 or last
        if source[at + 1] not in _ESCAPES or source[at + 1] in "4567" and source[last:last + 2].isdigit():
            parts += source[done:at], "x" * (last - at)
            done = last
        at = source.find("\\", last)
    parts.append(source[done:])
    return "".join(parts)


def _apart(source: str) -> str:
    left = _MOST
    for keyword in _AFTER_NUMBERS:
        at = source.find(keyword)
        while at >= 0:
            start = at
            while start > max(0, at - _LONGEST_NUMBER) and (source[start - 1].isalnum() or source[start - 1] == "_"):
                start -= 1
            if start < at and source[start].isdigit():
                left -= 1
                if left < 0:
                    raise MemoryError  # nobody writes that
                source = f"{source[:at]} {source[at:]}"
            at = source.find(keyword, at + 2)
    return source
