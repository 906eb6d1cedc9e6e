"""One execution of a cell, as the host asked for it, and whose output is whose."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _contextvars import ContextVar
from _thread import get_ident
from sys import modules


class Execution:
    """What the host asked for, and its outcome. Slots instead of a dataclass: importing those costs 10 ms."""

    __slots__ = (
        "id", "code", "count", "silent", "allow_stdin",
        "expressions", "unread", "started", "status", "interrupts", "interrupt_requested", "interrupted",
    )

    def __init__(self, id: str, code: str, count: int, silent: bool, allow_stdin: bool, unread: bool = False) -> None:
        self.id = id
        self.code = code
        self.expressions: dict[str, str] = {}  # to be evaluated after the code, by name
        self.unread = unread  # memory was too full for its code, which is empty here
        self.count = count
        self.silent = silent
        self.allow_stdin = allow_stdin
        self.started = False  # its code may have run: it is never run again
        self.status: str | None = None  # "ok" or "error" when its code has ended
        self.interrupts = 0  # that the host asked for
        self.interrupt_requested = False  # by the host, and not delivered yet
        self.interrupted = False  # a KeyboardInterrupt was delivered


# The execution that this context writes for. Tasks inherit it from the cell that created them; a thread
# starts without it, and looks it up from where it was started.
current: ContextVar[Execution | None] = ContextVar("execution", default=None)

_last = Execution("", "", 0, True, False)


def begin(execution: Execution) -> None:
    """Makes it the execution that the main thread writes for, and the owner of output of unknown origin."""
    global _last
    _last = execution
    current.set(execution)


def owner() -> Execution:
    """The execution that started this task or thread; if that is not known, the present or last one."""
    execution = current.get()
    if execution is not None:
        return execution
    threading = modules.get("threading")
    thread = threading and threading._active.get(get_ident())
    execution = getattr(thread, "_started_in", None)
    if execution is None:
        return _last
    current.set(execution)
    return execution


def follow_threads(threading: object) -> None:
    """Makes threads remember which execution started them. threading is the module."""
    start = threading.Thread.start

    def start_in(self: object, *args: object, **kwargs: object) -> None:
        self._started_in = owner()
        start(self, *args, **kwargs)

    disguise(start_in, start)
    threading.Thread.start = start_in


def follow_pools(module: object) -> None:
    """Makes work given to a ThreadPoolExecutor belong to the execution that gave it, whichever started the
    thread. module is concurrent.futures.thread."""
    make, run = module._WorkItem.__init__, module._WorkItem.run

    def make_in(self: object, *args: object, **kwargs: object) -> None:
        self._started_in = owner()
        make(self, *args, **kwargs)

    def run_in(self: object, *args: object) -> None:
        before = current.set(self._started_in)
        try:
            run(self, *args)
        finally:
            current.reset(before)

    disguise(make_in, make)
    disguise(run_in, run)
    module._WorkItem.__init__, module._WorkItem.run = make_in, run_in


def disguise(function: object, original: object) -> None:
    """Gives function the name and documentation of what it replaces."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(function, name, getattr(original, name))
