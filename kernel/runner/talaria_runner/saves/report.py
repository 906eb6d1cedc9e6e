"""What became of the variables of a session."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    Lost = tuple[str, str, str]  # the name, the type, and why


class Saved:
    """not_saved also names settings of the interpreter that could not be saved, like random.getstate()."""

    __slots__ = ("saved", "not_saved", "bytes", "digest")

    def __init__(self, saved: list[str], not_saved: list[Lost], bytes: int, digest: str) -> None:
        self.saved = saved
        self.not_saved = not_saved
        self.bytes = bytes  # of the file
        self.digest = digest  # SHA-256 of the file, in hexadecimal


class Restored:
    """not_restored includes what was not saved in the first place."""

    __slots__ = ("restored", "not_restored", "digest")

    def __init__(self, restored: list[str], not_restored: list[Lost], digest: str) -> None:
        self.restored = restored
        self.not_restored = not_restored
        self.digest = digest

    def gone(self) -> dict[str, str]:
        """For each name that there is no longer, what it was, as Tracebacks.gone needs it."""
        return {name: describe(kind, reason) for name, kind, reason in self.not_restored}


def describe(kind: str, reason: str) -> str:
    article = "an" if kind[:1].lower() in tuple("aeiou") else "a"
    return f"it was {article} {kind}, which could not be saved when the session hibernated ({reason})"
