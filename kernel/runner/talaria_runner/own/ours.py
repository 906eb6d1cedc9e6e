"""Which code is the runner's, and tracebacks without it."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import _getframe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

_FUNCTION = 0x2  # the flag of code that has variables of its own
OURS = __file__.rsplit("/", 2)[0] + "/"  # where its files are


def calling_frame(*others: str) -> FrameType | None:
    """The innermost frame that belongs neither to the runner nor to a file below one of the others."""
    frame = _getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((OURS, *others)):
        frame = frame.f_back
    return frame


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without the runner's frames."""
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    entry = traceback
    while entry is not None:
        following = entry.tb_next
        while following is not None and _is_ours(following):
            following = following.tb_next
        if following is not entry.tb_next:
            entry.tb_next = following
        entry = following
    return traceback


def _is_ours(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(OURS)


def calling_place(below: int = 0) -> tuple[str, int, dict[str, object] | None]:
    """The file and line of the calling cell, or of the caller that many frames below, and the variables of
    the calling function, if it is one."""
    frame = calling_frame()
    if frame is None:
        return "", 1, None
    names = frame.f_locals if frame.f_code.co_flags & _FUNCTION else None
    return frame.f_code.co_filename, frame.f_lineno + below, names
