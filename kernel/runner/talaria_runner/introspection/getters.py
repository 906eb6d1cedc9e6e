"""The value of a property that only reads attributes, found by interpreting its byte code instead of running it."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from opcode import opname
from sys import version_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

_LONGEST = 400  # bytes of code
_DEEPEST = 5  # getters that read getters
_SIZED = (list, tuple, dict, set, frozenset, str, bytes, range)
_PASSED_OVER = frozenset(("RESUME", "NOP", "CACHE", "PUSH_NULL", "PRECALL", "NOT_TAKEN"))
_LOADS = frozenset(("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"))
_PAIRS = frozenset(("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"))
_CONSTANTS = frozenset(("LOAD_CONST", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL"))

_Function = type(lambda: None)
_shifted = version_info >= (3, 12)  # a flag is stored next to the attribute's name


class Other(Exception):
    """The getter does more than that."""


def value_of(getter: object, owner: object, read: Callable[[object, str, int], object], depth: int = 0) -> object:
    """What getter returns for owner. Raises Other if it does more than read attributes, constants, and the
    length of builtin containers. read reads an attribute, at the given depth, or raises Other."""
    if type(getter) is not _Function or depth > _DEEPEST:
        raise Other
    code = getter.__code__
    if len(code.co_code) > _LONGEST or code.co_argcount != 1 or code.co_nlocals != 1 or code.co_cellvars:
        raise Other
    stack: list[object] = []
    try:
        for name, argument in _instructions(code):
            if name in _PASSED_OVER:
                continue
            if name in _LOADS:
                stack.append(owner)
            elif name in _PAIRS:
                stack += [owner, owner]
            elif name in _CONSTANTS:
                stack.append(code.co_consts[argument])
            elif name == "LOAD_SMALL_INT":
                stack.append(argument)
            elif name == "LOAD_ATTR":
                stack.append(read(stack.pop(), code.co_names[argument >> _shifted], depth + 1))
            elif name in ("BUILD_TUPLE", "BUILD_LIST"):
                start = len(stack) - argument
                items = stack[start:]
                stack[start:] = [tuple(items) if name == "BUILD_TUPLE" else items]
            elif name == "LOAD_GLOBAL" and code.co_names[argument >> 1] == "len" and "len" not in getter.__globals__:
                stack.append(len)
            elif name == "CALL" and argument == 1 and stack[-2] is len and any(
                [type(stack[-1]) is cls for cls in _SIZED]
            ):
                stack[-2:] = [len(stack[-1])]
            elif name == "RETURN_VALUE":
                return stack.pop()
            elif name == "RETURN_CONST":
                return code.co_consts[argument]
            else:
                break
    except IndexError:
        pass
    raise Other


def _instructions(code: CodeType) -> Iterator[tuple[str, int]]:
    raw = code.co_code
    for at in range(0, len(raw), 2):
        yield opname[raw[at]], raw[at + 1]
