"""What came of one item of a map."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    # A display as the frame has it: data and metadata as JSON, its display_id, and whether it is an update.
    Display = tuple[str, str, str, bool]


class Outcome:
    """The outcome of one item. Slots instead of a dataclass: importing those costs 10 ms."""

    __slots__ = ("index", "status", "reason", "value", "value_type", "error", "text", "displays", "files", "duration_ms")

    def __init__(self, index: int, status: str, reason: str = "") -> None:
        self.index = index
        self.status = status  # "ok", "error", "timeout" or "died"
        self.reason = reason  # why it died, or what its time was
        self.value: object = None  # a pickle of the function's result, or JSON text of it
        self.value_type = ""  # "repr" if the JSON is a string with the repr of a value that JSON cannot express
        self.error: tuple[str, str, list[str]] | None = None  # the exception: name, message, lines of the traceback
        self.text = ""  # that it printed
        self.displays: list[Display] = []
        self.files: list[tuple[str, int]] = []  # in its folder: path in the workspace, size in bytes
        self.duration_ms = 0


class MapError(Exception):
    """An item of talaria.map failed. index is its place in the inputs; status is "error", "timeout" or "died"; ename,
    evalue and traceback, a text, describe the exception in the copy; text is what the item printed."""

    def __init__(self, message: str = "", index: int = -1, status: str = "error") -> None:
        super().__init__(message)
        self.index = index
        self.status = status
        self.ename = self.evalue = self.traceback = self.text = ""

    def __reduce__(self) -> object:
        return MapError, (str(self), self.index, self.status), self.__dict__


MapError.__module__ = "talaria"


def failure(outcome: Outcome) -> MapError:
    """The exception for an item that failed."""
    message = f"item {outcome.index}: {summary(outcome)}"
    if outcome.error is not None:
        message += "\n" + "\n".join(outcome.error[2])
    error = MapError(message, outcome.index, outcome.status)
    error.text = outcome.text
    if outcome.error is not None:
        error.ename, error.evalue = outcome.error[:2]
        error.traceback = "\n".join(outcome.error[2])
    return error


def summary(outcome: Outcome) -> str:
    """How a failed item ended, in one line."""
    if outcome.error is not None:
        name, message = outcome.error[:2]
        return f"{name}: {message}".partition("\n")[0][:500] if message else name
    if outcome.status == "timeout":
        return f"exceeded its timeout of {outcome.reason}"
    return f"its process died ({outcome.reason})"
