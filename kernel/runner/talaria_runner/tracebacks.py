"""Exceptions as users read them: with the sources of cells, without frames of the runner, and never endless."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.interrupts import OURS
from talaria_runner.library import load
from talaria_runner.sources import Sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_STACK = 12_000  # characters of one stack; the middle of a longer one is left out
_ALL = 1 << 20  # characters of the whole
_NO_MESSAGE = "<exception str() failed>"


class Tracebacks:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self, error: BaseException) -> tuple[str, str, list[str]]:
        """Name, message and lines. It calls __str__ of user classes, and shortens error's own traceback."""
        error.__traceback__ = self.strip(error.__traceback__)
        # First of all: an interrupt comes out of here, whereas the traceback module swallows it.
        message = _message(error)
        try:
            return type(error).__name__, message, self._lines(error)
        except Exception:
            return bare(error, message)

    def strip(self, traceback: TracebackType | None) -> TracebackType | None:
        """The traceback from the first frame of a cell on; where there is none, without the runner's at its head."""
        entry = traceback
        while entry is not None:
            if entry.tb_frame.f_code.co_filename in self._sources:
                return entry
            entry = entry.tb_next
        while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(OURS):
            traceback = traceback.tb_next
        return traceback

    def _lines(self, error: BaseException) -> list[str]:
        module = load("traceback")
        self._sources.fill(load("linecache"))
        whole = module.TracebackException(type(error), error, error.__traceback__, compact=True)
        _clean(whole, module, set())
        if not whole.stack:
            whole.stack = None
        text = "".join(whole.format())
        if len(text) > _ALL:
            text = f"{text[:_ALL]}\n[{len(text) - _ALL} more characters]"
        return text.rstrip("\n").split("\n")


def bare(error: BaseException, message: str = _NO_MESSAGE) -> tuple[str, str, list[str]]:
    """As describe, with nothing that can fail or that user code has a part in."""
    name = type(error).__name__
    return name, message, [f"{name}: {message}"]


def _message(error: BaseException) -> str:
    try:
        return str.__str__(str(error))
    except Exception:
        return _NO_MESSAGE


def _clean(part: object, module: object, seen: set[int]) -> None:
    """Takes the runner's frames and the import system's out of a TracebackException and all that hang on it."""
    if part is None or id(part) in seen:
        return
    seen.add(id(part))
    if part.stack is not None:
        kept = [f for f in part.stack if not f.filename.startswith((OURS, "<frozen importlib"))]
        part.stack = _shortened(module)(kept)
    for further in (part.__cause__, part.__context__, *(part.exceptions or ())):
        _clean(further, module, seen)


_classes: list[type] = []


def _shortened(module: object) -> type:
    """A StackSummary that leaves out the middle when it is long."""
    if not _classes:

        class Shortened(module.StackSummary):
            def format(self, **settings: object) -> list[str]:
                entries = super().format(**settings)
                head, tail = 0, len(entries)
                room = _STACK
                while room > 0 and head < tail:
                    room -= len(entries[head]) + len(entries[tail - 1])
                    head, tail = head + 1, tail - 1
                if head >= tail:
                    return entries
                return [*entries[:head], f"  [... {tail - head} more ...]\n", *entries[tail:]]

        _classes.append(Shortened)
    return _classes[0]
