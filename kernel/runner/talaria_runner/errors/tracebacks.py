"""Exceptions as users read them: with the sources of cells, without frames of the runner, and always finite."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.errors import hints, syntax_errors
from talaria_runner.errors.stacks import Stacks
from talaria_runner.own.ours import without_ours
from talaria_runner.own.reserve import Reserve
from talaria_runner.run.deadline import LIMIT, Deadline, Overdue
from talaria_runner.run.sources import Sources
from talaria_runner.wire.frames import Shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    # Name, message, the lines of the traceback, the frames in it, and a hint or "".
    Described = tuple[str, str, list[str], list[Shown], str]

MOST_FRAMES = 200
_MESSAGE = 1 << 20  # characters of a message in a traceback,
_FURTHER_MESSAGE = 64 << 10  # of one attached to it,
_MESSAGE_LINES = 10_000  # and its lines
_LINKS = 20  # exceptions of one chain; the middle ones of a longer chain are left out
_EXCEPTIONS = 100  # in one traceback
_WIDTH, _DEPTH = 15, 10  # of a group
_NOTES = 50
_NO_MESSAGE = "<exception str() failed>"
_LATE_MESSAGE = f"<exception str() took more than {LIMIT:g} s>"
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"

_BASE = vars(BaseException)
_TYPE = vars(type)


class Tracebacks:
    def __init__(self, sources: Sources, deadline: Deadline, reserve: Reserve) -> None:
        self._sources = sources
        self._deadline = deadline
        self._reserve = reserve
        self._stacks = Stacks(sources)
        self.loss = ""  # when and why the variables of an earlier kernel were lost, for hints
        self.gone: dict[str, str] = {}  # what the variables were that could not be saved, by name, for hints

    def describe(self, error: BaseException, hint: bool = False) -> Described:
        """Describes error. It calls __str__ of user classes, and removes the runner's frames from error's own
        traceback. With hint, the last lines say what to do about it, if that is known."""
        if issubclass(type(error), MemoryError):
            self._reserve.free()
        _set_traceback(error, self.strip(_traceback(error)))
        # First of all: an interrupt is raised here.
        message = self._message(error)
        try:
            advice = self._hint(error, message) if hint else None
            page = _Page(self, message, advice.inline if advice else "")
            page.write(error)
            if advice and advice.text and not advice.inline:
                page.add(f"Hint: {advice.text}")
            return name_of(error), message, page.lines, page.frames, advice.text if advice else ""
        except Exception:
            return bare(error, message)
        finally:
            self._stacks.forget()

    def strip(self, traceback: TracebackType | None) -> TracebackType | None:
        """The traceback from the first frame of a cell on, without the runner's frames."""
        entry = traceback
        while entry is not None and entry.tb_frame.f_code.co_filename not in self._sources:
            entry = entry.tb_next
        return without_ours(entry or traceback)

    def _message(self, error: BaseException) -> str:
        try:
            return str.__str__(self._deadline.run(str, error))
        except Overdue:
            return _LATE_MESSAGE
        except Exception:
            return _NO_MESSAGE

    def _hint(self, error: BaseException, message: str) -> object:
        try:
            return hints.find(error, message, self.loss, self.gone)
        except Exception:
            return None  # a hint must never fail


class _Page:
    """The lines of one traceback while it is being written."""

    def __init__(self, tracebacks: Tracebacks, message: str, addition: str) -> None:
        self.lines: list[str] = []
        self.frames: list[Shown] = []
        self._tracebacks = tracebacks
        self._message = message  # of the main exception
        self._addition = addition  # text after it
        self._depth = 0  # of groups
        self._close = False
        self._left = _EXCEPTIONS
        self._seen: set[int] = set()

    def add(self, text: str, most: int = _MESSAGE, margin: str = "|") -> None:
        """Adds lines, after the margin of the group that they are in."""
        if len(text) > most:
            text = f"{text[:most]}\n[{len(text) - most} more characters]"
        lines = text.split("\n", _MESSAGE_LINES)
        if len(lines) > _MESSAGE_LINES:
            lines[-1] = f"[{len(lines[-1])} more characters]"
        before = "  " * self._depth + margin + " " if self._depth else ""
        self.lines.extend([before + line for line in lines])

    def write(self, error: BaseException, main: bool = True) -> None:
        """Adds error, below its cause."""
        chain: list[tuple[BaseException, str]] = []
        link: BaseException | None = error
        remark = ""
        if id(error) in self._seen:
            self.add(f"[{name_of(error)} is shown above]")
            return
        while link is not None and id(link) not in self._seen:
            self._seen.add(id(link))
            chain.append((link, remark))
            link, remark = _origin(link)
        if len(chain) > _LINKS:
            gone = len(chain) - _LINKS
            chain[_LINKS // 2:-_LINKS // 2] = []
        else:
            gone = 0
        for i in range(len(chain) - 1, -1, -1):
            link, remark = chain[i]
            self._write_one(link, main and i == 0)
            if remark:
                self.add(f"\n{remark}\n")
            if gone and i == _LINKS // 2:
                self.add(f"[... {gone} more exceptions ...]\n")

    def _write_one(self, error: BaseException, main: bool) -> None:
        if self._left <= 0 and not main:
            self.add("[... more exceptions ...]")
            return
        self._left -= 1
        if issubclass(type(error), BaseExceptionGroup):
            self._write_group(error, main)
            return
        self._write_stack(error, "Traceback (most recent call last):", "|")
        self._write_message(error, main)

    def _write_group(self, group: BaseExceptionGroup, main: bool) -> None:
        if self._depth > _DEPTH:
            self.add(f"... (groups more than {_DEPTH} deep are not shown)")
            return
        top = self._depth == 0
        if top:
            self._depth = 1
        self._write_stack(group, "Exception Group Traceback (most recent call last):", "+" if top else "|")
        self._write_message(group, main)
        members = vars(BaseExceptionGroup)["exceptions"].__get__(group)
        members = members if type(members) is tuple else ()
        shown = members[:_WIDTH] if self._left > 0 else ()
        titles = [str(i + 1) for i in range(len(shown))] + (["..."] if len(shown) < len(members) else [])
        self._close = False
        for i, title in enumerate(titles):
            if i == len(titles) - 1:
                self._close = True  # by the innermost group that ends here
            indent = "  " * self._depth
            self.lines.append(f"{indent}{'  ' if i else '+-'}+---------------- {title} ----------------")
            self._depth += 1
            if i < len(shown):
                self.write(shown[i], False)
            else:
                more = len(members) - len(shown)
                self.add(f"and {more} more exception{'s' if more > 1 else ''}")
            if self._close and i == len(titles) - 1:
                self.lines.append("  " * self._depth + "+------------------------------------")
                self._close = False
            self._depth -= 1
        if top:
            self._depth = 0

    def _write_stack(self, error: BaseException, head: str, margin: str) -> None:
        traceback = _traceback(error)
        if traceback is None:
            return
        entries = self._tracebacks._stacks.render(without_ours(traceback))
        if not entries:
            return
        self.add(head, margin=margin)
        for shown, lines in entries:
            first = len(self.lines)
            for line in lines:
                self.add(line)
            if shown is not None:
                shown.first, shown.behind = first, len(self.lines)
                self.frames.append(shown)
        if len(self.frames) > MOST_FRAMES:
            self.frames[MOST_FRAMES // 2:-MOST_FRAMES // 2] = []

    def _write_message(self, error: BaseException, main: bool) -> None:
        message = self._message if main else self._tracebacks._message(error)
        if issubclass(type(error), SyntaxError):
            place = syntax_errors.place(error, self._tracebacks._stacks.source)
            for line in place:
                self.add(line)
            if place:
                message = syntax_errors.message(error)
        if main:
            message += self._addition
        name = _full_name(type(error))
        self.add(f"{name}: {message}" if message else name, _MESSAGE if main else _FURTHER_MESSAGE)
        for note in _notes(error):
            self.add(note, _FURTHER_MESSAGE)


def bare(error: BaseException, message: str = _NO_MESSAGE) -> Described:
    """Like describe, with nothing that can fail or that user code can influence."""
    name = name_of(error)
    return name, message, [f"{name}: {message[:_MESSAGE]}"], [], ""


def name_of(error: BaseException) -> str:
    return _TYPE["__name__"].__get__(type(error))


def _full_name(kind: type) -> str:
    name = _TYPE["__qualname__"].__get__(kind)
    try:
        module = _TYPE["__module__"].__get__(kind)
    except Exception:
        module = None
    if type(module) is not str or module in ("__main__", "builtins"):
        return name
    return f"{module}.{name}"


# The interpreter's own values, whatever a subclass says about them.


def _traceback(error: BaseException) -> TracebackType | None:
    return _BASE["__traceback__"].__get__(error)


def _set_traceback(error: BaseException, traceback: TracebackType | None) -> None:
    _BASE["__traceback__"].__set__(error, traceback)


def _origin(error: BaseException) -> tuple[BaseException | None, str]:
    """The exception that error came from, and how to say so."""
    cause = _BASE["__cause__"].__get__(error)
    if cause is not None:
        return cause, _CAUSE
    if _BASE["__suppress_context__"].__get__(error):
        return None, ""
    context = _BASE["__context__"].__get__(error)
    return context, _CONTEXT if context is not None else ""


def _notes(error: BaseException) -> list[str]:
    notes = dict.get(_BASE["__dict__"].__get__(error), "__notes__")
    if type(notes) is not list:
        return []
    return [str.__str__(note) for note in notes[:_NOTES] if issubclass(type(note), str)]
