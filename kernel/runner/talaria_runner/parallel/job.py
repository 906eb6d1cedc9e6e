"""What a map does, and the parts of the kernel that it works with."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.errors.tracebacks import Tracebacks
    from talaria_runner.rendering.display import Display
    from talaria_runner.rendering.figures import Figures
    from talaria_runner.run.interrupts import Interrupts
    from talaria_runner.wire.asks import Asks


class Parts:
    """The parts of the kernel that copies work with."""

    __slots__ = ("asks", "interrupts", "display", "figures", "tracebacks", "flush_c")

    def __init__(
        self, asks: Asks, interrupts: Interrupts, display: Display, figures: Figures, tracebacks: Tracebacks,
        flush_c: Callable[[], None],
    ) -> None:  # fmt: skip
        self.asks = asks
        self.interrupts = interrupts
        self.display = display
        self.figures = figures
        self.tracebacks = tracebacks
        self.flush_c = flush_c


class Job:
    """What a map does. work is called in the copies with the index of an item; folder gives the path of its folder."""

    __slots__ = ("parts", "id", "work", "folder", "count", "width", "timeout_s", "as_json")

    def __init__(
        self, parts: Parts, id: str, work: Callable[[int], object], folder: Callable[[int], str], count: int, width: int,
        timeout_s: float | None, as_json: bool,
    ) -> None:  # fmt: skip
        self.parts = parts
        self.id = id
        self.work = work
        self.folder = folder
        self.count = count  # of items
        self.width = width  # copies at a time, at most
        self.timeout_s = timeout_s
        self.as_json = as_json
