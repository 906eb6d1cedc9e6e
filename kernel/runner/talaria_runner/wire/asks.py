"""Asking the outside, and waiting for the answer. Everything that code inside wants from the outside goes
this way: a line of input, packages.

Any thread may ask, and any number of asks may be open. The reading thread delivers what the host says about
them.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _collections import deque
from _thread import LockType, allocate_lock
from posix import urandom

from talaria_runner.run.execution import Execution, owner
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire import frames
from talaria_runner.wire.outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class Relay(Protocol):
        """The way from a forked child to the kernel, which asks in its place. Its methods are safe in every thread."""

        def ask(self, ask: Ask, kind: str, body: dict[str, object]) -> bool:
            """Settles the ask, or returns False if it passes on none of that kind."""

        def tool_ended(self, id: str, error: tuple[str, str] | None, duration_ms: int) -> None:
            """See Asks.tool_ended."""

FORKED = "forked"  # the code of an error in a forked process
ENDED = "ended"  # the code of one whose execution was interrupted, or has ended
_MOST_WAITING = 1 << 20  # characters of progress that nobody takes


def wait(lock: LockType) -> None:
    """Acquires the lock. The only place where an interrupt may raise in code of the runner."""
    lock.acquire()


class Ask:
    """One ask. Its answer is in body; error says why there is none, or is "", and code is the kind of error,
    if code may branch on it. One thread waits for it."""

    __slots__ = ("id", "answered", "body", "error", "code", "_in_child", "_texts", "_size", "_news", "_on_news")

    def __init__(self, in_child: str) -> None:
        self.id = urandom(16).hex()
        self.answered = False
        self.body: dict[str, object] = {}
        self.error = ""
        self.code = ""
        self._in_child = in_child
        self._texts: deque[str] = deque()
        self._size = 0  # characters of the texts
        self._news = allocate_lock()
        self._news.acquire()
        self._on_news: Callable[[], object] | None = None

    def wait(self) -> None:
        """Returns when there is, or may be, progress or the answer."""
        wait(self._news)

    def on_news(self, callback: Callable[[], object]) -> None:
        """Makes callback be called at once, and by the reading thread whenever there is progress or the answer."""
        self._on_news = callback
        callback()

    def progress(self, wait: Callable[[], object] | None = None) -> Iterator[str]:
        """Yields the progress as it arrives, until there is an answer. wait replaces the method."""
        answered = False
        while not answered:
            (wait or self.wait)()
            answered = self.answered  # read before the texts are taken, all of which arrived before the answer
            text = self._take()
            if text:
                yield text

    def add(self, text: str) -> None:
        size = len(text)
        if self._size < _MOST_WAITING:
            self._size += size
            self._texts.append(text)
        self._tell()

    def settle(self, body: dict[str, object], error: str, code: str) -> None:
        self.body = body
        self.error = error
        self.code = code
        self.answered = True
        self._tell()

    def settle_in_child(self) -> None:
        self._on_news = None  # it may wait for a lock of a thread that does not exist here
        self.settle({}, self._in_child, FORKED)

    def _tell(self) -> None:
        try:
            self._news.release()
        except RuntimeError:
            pass  # it was woken already
        if self._on_news is not None:
            self._on_news()

    def _take(self) -> str:
        parts = []
        while self._texts:
            part = self._texts.popleft()
            self._size -= len(part)
            parts.append(part)
        return "".join(parts)


class Asks:
    """The open asks. Its methods are safe in every thread."""

    def __init__(self, outbox: Outbox, interrupts: Interrupts) -> None:
        self._outbox = outbox
        self._interrupts = interrupts
        self._open: dict[str, Ask] = {}
        self._forked = False
        self.relay: Relay | None = None  # of a forked child that has one
        interrupts.waiting.add(wait.__code__)

    def execution(self) -> Execution | None:
        """The execution that this thread or task asks for, while it runs."""
        running = self._interrupts.execution
        return running if running is owner() else None

    def ask(self, kind: str, body: dict[str, object], execution: Execution | None, in_child: str) -> Ask:
        """Asks for something of that kind, for an execution or for code that belongs to none. The caller
        makes sure that end is called. In a forked process nobody hears, so the answer there is the error
        in_child, even if the process was forked later."""
        ask = Ask(in_child)
        if self._forked:
            if self.relay is None or not self.relay.ask(ask, kind, body):
                ask.settle_in_child()
            return ask
        self._open[ask.id] = ask
        self._outbox.add(frames.ask(execution, ask.id, kind, body))
        self._outbox.write()
        return ask

    def end(self, ask: Ask) -> None:
        """Nobody waits for it any longer."""
        self._open.pop(ask.id, None)
        if not ask.answered:
            self._outbox.put(frames.ask_end(ask.id))

    def check(self, ask: Ask) -> None:
        """Raises the interrupt that ended an ask, if this is the main thread: the answer may come before the signal."""
        if ask.code == ENDED:
            self._interrupts.deliver()

    def tool_ended(self, ask: Ask, execution: Execution, error: tuple[str, str] | None, duration_ms: int) -> None:
        """Reports how the call of a tool ended that was carried out here."""
        if self.relay is not None:
            self.relay.tool_ended(ask.id, error, duration_ms)
        self._outbox.put(frames.tool_end(execution, ask.id, error, duration_ms))

    def progress(self, id: str, text: str) -> None:
        """Called by the reader."""
        ask = self._open.get(id)
        if ask is not None:
            ask.add(text)

    def answer(self, id: str, body: dict[str, object], error: str, code: str) -> None:
        """Called by the reader."""
        ask = self._open.pop(id, None)
        if ask is not None:
            ask.settle(body, error, code)

    def revive(self) -> None:
        """In a copy that has become the interpreter nobody waits: those who did were threads."""
        self._open.clear()

    def become_child(self) -> None:
        """In a forked child no answer comes."""
        self._forked = True
        for ask in self._open.values():
            ask.settle_in_child()
        self._open = {}
