"""Parsing source that nobody asked to be run, without a word about it."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from sys import getrecursionlimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _ast import AST

_ONLY_AST = 0x400
_DONT_INHERIT = True
INCOMPLETE_ALLOWED = 0x4000  # the parser tells what could go on from what is wrong
# The recursion limit keeps the making of a deep tree within the stack of our threads; where user code raised it, only
# what is too short to be deep is parsed.
_USUAL_LIMIT = 2000
_SHORT = 6000
_ESCAPES = frozenset("\n\r\\'\"abfnrtv01234567NuUx")


def parse(source: str, mode: str, flags: int = 0) -> AST:
    """The tree of source. Raises SyntaxError, ValueError, RecursionError or MemoryError."""
    if len(source) > _SHORT and getrecursionlimit() > _USUAL_LIMIT:
        raise MemoryError
    return compile(quiet(source), "<source>", mode, flags | _ONLY_AST, _DONT_INHERIT)


def quiet(source: str) -> str:
    """source of the same length, with other characters for escapes that the parser would warn of on stderr."""
    at = source.find("\\")
    if at < 0:
        return source
    parts = []
    done = 0
    while 0 <= at < len(source) - 1:
        if source[at + 1] not in _ESCAPES:
            parts += source[done:at], "xx"
            done = at + 2
        at = source.find("\\", at + 2)
    parts.append(source[done:])
    return "".join(parts)
