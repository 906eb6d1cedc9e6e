"""The frames of one traceback as text, and the facts about each that a reader needs: which lines it has, and
whose code it is."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from _ast import Assign, BinOp, Call, Expr, Name, Return, Subscript
from itertools import islice
from sys import modules, version_info

from talaria_runner.own.ours import OURS
from talaria_runner.own.workspace import workspace
from talaria_runner.run.sources import Sources
from talaria_runner.wire.frames import Shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType, TracebackType

_ALIKE = 3  # identical consecutive frames that are shown
_ROOM = 8_000  # characters of one stack; the middle of a longer one is left out
_WIDEST = 500  # characters of a line of source
_LONGEST_NAME = 256
_ONLY_AST = 0x400
_Module = type(sys)
_HIDDEN = (OURS, "<frozen importlib")
_LIBRARIES = ("/site-packages/", "/dist-packages/")
_GENERATED = ("<frozen ", "<__", "<decorator-gen", "<attrs generated")


class Stacks:
    """Its methods are safe in every thread."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._files: dict[str, list[str]] = {}  # while one exception is described

    def forget(self) -> None:
        """Ends the description of one exception: files are read again for the next."""
        self._files.clear()

    def render(self, traceback: TracebackType | None) -> list[tuple[Shown | None, list[str]]]:
        """The lines of each frame, and of each remark between them, which has none."""
        entries: list[tuple[Shown | None, list[str]]] = []
        before: tuple[object, ...] = ()
        alike = 0
        user = True
        ends = _ends(traceback)
        for entry in ends:
            if entry is None:
                alike = _repeated(entries, alike)
                entries.append((None, ["  [... more frames are left out here ...]"]))
                continue
            frame, line = entry.tb_frame, entry.tb_lineno or 0
            code = frame.f_code
            file = code.co_filename
            if file.startswith(_HIDDEN):
                continue
            user = self._is_user(frame, file, user)
            if before == (file, line, code.co_name):
                alike += 1
                if alike >= _ALIKE:
                    continue
            else:
                _repeated(entries, alike)
                alike = 0
                before = (file, line, code.co_name)
            shown = Shown(_cut(file, 1024), line, _cut(code.co_name, _LONGEST_NAME), user, self._sources.cell(file))
            entries.append((shown, [_place(file, line, code.co_name), *self._marked(code, line, entry.tb_lasti)]))
        _repeated(entries, alike)
        return _shortened(entries)

    def _is_user(self, frame: FrameType, file: str, caller: bool) -> bool:
        """Whether the code is the user's: from a cell, from a file in the workspace, or text that such code
        executes."""
        if file in self._sources:
            return True
        if not file.startswith("/"):  # not the name of a file, or a name that Cython writes relative to the package
            if file.startswith(_GENERATED):
                return False
            name = dict.get(frame.f_globals, "__name__")
            module = modules.get(name) if type(name) is str and name != "__main__" else None
            path = vars(module).get("__file__") if type(module) is _Module else None
            return caller if type(path) is not str else _is_in_workspace(path)
        return _is_in_workspace(file)

    def source(self, file: str, line: int) -> str:
        """That line of that file, "" if it is not known."""
        lines = self._files.get(file)
        if lines is None:
            lines = self._files[file] = self._sources.lines(file)
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def _marked(self, code: CodeType, line: int, instruction: int) -> list[str]:
        """The source of the line, and below it marks under what was executed, unless that was all of it."""
        source = self.source(code.co_filename, line)
        text = source.strip()
        if not text:
            return []
        shown = ["    " + _cut(text, _WIDEST)]
        found = _columns(code, line, instruction)
        if found is None:
            return shown
        indent = len(source) - len(source.lstrip())
        data = source.encode("utf-8", "surrogatepass")
        begin = _characters(data, found[0])
        end = _characters(data, found[1]) if found[1] is not None else indent + len(text)
        marks = _anchors(source[begin:end]) if found[1] is not None else ""
        if "~" in marks and _is_plain_call(text, begin - indent, end - indent):
            return shown
        marks = marks or "^" * (end - begin)
        if begin < indent or not 0 < end - begin or end - indent > _WIDEST:
            return shown
        if end - begin < len(text) or "~" in marks:
            shown.append("    " + " " * (begin - indent) + marks)
        return shown


def _ends(traceback: TracebackType | None) -> list[TracebackType | None]:
    """The entries, without the middle ones if there are very many; None stands for these."""
    count, entry = 0, traceback
    while entry is not None:
        count, entry = count + 1, entry.tb_next
    entries: list[TracebackType | None] = []
    number, entry = 0, traceback
    while entry is not None:
        if number < 2000 or number >= count - 2000:
            entries.append(entry)
        elif number == 2000:
            entries.append(None)
        number, entry = number + 1, entry.tb_next
    return entries


def _repeated(entries: list[tuple[Shown | None, list[str]]], alike: int) -> int:
    """Adds the remark about identical consecutive frames that are not shown."""
    more = alike - _ALIKE + 1
    if more > 0:
        entries.append((None, [f"  [Previous line repeated {more} more time{'s' if more > 1 else ''}]"]))
    return 0


def _shortened(entries: list[tuple[Shown | None, list[str]]]) -> list[tuple[Shown | None, list[str]]]:
    head, tail = 0, len(entries)
    room = _ROOM
    while room > 0 and head < tail:
        room -= sum(map(len, entries[head][1])) + sum(map(len, entries[tail - 1][1]))
        head, tail = head + 1, tail - 1
    if head >= tail:
        return entries
    return [*entries[:head], (None, [f"  [... {tail - head} more ...]"]), *entries[tail:]]


def _place(file: str, line: int, function: str) -> str:
    return f'  File "{_cut(file, 1024)}", line {line}, in {_cut(function, _LONGEST_NAME)}'


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "..."


def _is_in_workspace(path: str) -> bool:
    if any(folder in path for folder in _LIBRARIES):
        return False
    return not path.startswith("/") or path.startswith(workspace() + "/")


def _columns(code: CodeType, line: int, instruction: int) -> tuple[int, int | None] | None:
    """Where on the line the instruction's source begins and ends, in bytes; the end is None if it is on a
    later line."""
    if instruction < 0:
        return None
    for start, end, first, last in islice(code.co_positions(), instruction // 2, instruction // 2 + 1):
        if start == line and first is not None and last is not None:
            return first, (last if end == start else None)
    return None


def _characters(data: bytes, count: int) -> int:
    return len(data[:count].decode("utf-8", "replace"))


def _is_plain_call(text: str, begin: int, end: int) -> bool:
    """Whether a line only returns or assigns the result of the call on it. Python 3.13 and later do not mark
    such calls."""
    if version_info < (3, 13) or end != len(text) or not text.isascii():
        return False
    try:
        statement = compile("def f():\n " + text, "<line>", "exec", _ONLY_AST, True).body[0].body[0]
    except Exception:
        return False
    if type(statement) is Return:
        plain = type(statement.value) is Call and type(statement.value.func) is Name
    else:
        plain = (
            type(statement) is Assign and type(statement.value) is Call
            and len(statement.targets) == 1 and type(statement.targets[0]) is Name
        )
    return plain and statement.value.col_offset == begin + 1


def _anchors(segment: str) -> str:
    """Returns marks that distinguish the operator, the subscript or (from Python 3.13 on) the arguments from
    their operands, or ""."""
    try:
        body = compile(segment, "<segment>", "exec", _ONLY_AST, True).body
    except Exception:
        return ""
    if len(body) != 1 or type(body[0]) is not Expr or "\n" in segment:
        return ""
    data = segment.encode()
    expression = body[0].value
    if type(expression) is BinOp:
        left = _characters(data, expression.left.end_col_offset)
        while left < len(segment) and (segment[left].isspace() or segment[left] == ")"):
            left += 1
        right = left + 1
        if right < len(segment) and segment[right] == segment[left] and segment[left] in "*/<>":
            right += 1
    elif type(expression) is Subscript:
        left = _characters(data, expression.value.end_col_offset)
        while left < len(segment) and segment[left] != "[":
            left += 1
        right = len(segment)
    elif type(expression) is Call and version_info >= (3, 13):
        left = _characters(data, expression.func.end_col_offset)
        while left < len(segment) and segment[left] != "(":
            left += 1
        right = len(segment)
    else:
        return ""
    return "~" * left + "^" * (right - left) + "~" * (len(segment) - right)
