"""The thread that reads what the host says."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _thread import LockType, allocate_lock
from posix import _exit

from select import POLLIN, poll

from talaria_runner.own.reserve import Reserve
from talaria_runner.run.execution import Execution
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire import frames
from talaria_runner.wire.asks import Asks
from talaria_runner.wire.descriptors import wait_for
from talaria_runner.wire.lines import Line, Lines
from talaria_runner.wire.outbox import GONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    class Requests(Protocol):
        def put(self, kind: str, frame: dict[str, object]) -> None:
            """Has a question of a client answered."""

    class Door(Protocol):
        def fileno(self) -> int:
            """The descriptor that processes of the session ask on; -1 where none can ask."""

        def hear(self, events: int) -> bool:
            """Takes what they ask; False when none can ask any more."""

_WISHES = frozenset(("copy", "aside", "save", "load"))  # that the main thread fulfils between two cells
_FIRST_REPEAT_MS = 1
_LAST_REPEAT_MS = 250
_CATCH_UP = 0.5  # s at most
_MOMENT = 0.0001  # s
_NO_MEMORY_MS = 50  # until what there was no memory for is tried again
_NO_MEMORY = "memory is full: the answer could not be read"
_UNREADABLE = "the answer could not be read: a value is nested too deeply, or a number has too many digits"


class Reader:
    def __init__(
        self,
        fd: int,
        interrupts: Interrupts,
        asks: Asks,
        requests: Requests,
        doors: Iterable[Door],
        accept: Callable[[Execution], None],
        reserve: Reserve,
        take_comm: Callable[[dict[str, object]], None],
        take_wish: Callable[[dict[str, object]], None],
    ) -> None:
        self._fd = fd
        self._interrupts = interrupts
        self._asks = asks
        self._requests = requests
        self._accept = accept
        self._take_comm = take_comm
        self._take_wish = take_wish
        self._reserve = reserve
        self._lines = Lines(reserve)
        self._repeat = _FIRST_REPEAT_MS
        self._ready = poll()
        self._ready.register(fd, POLLIN)
        self._doors = {door.fileno(): door for door in doors if door.fileno() >= 0}
        for door in self._doors:
            self._ready.register(door, POLLIN)
        self._never = allocate_lock()
        self._never.acquire()
        self._at_work = False
        self._awake = False
        self._over = False
        self._waiter: LockType | None = None  # released when what had come is handled

    def catch_up(self) -> None:
        """Returns when what the host has said by now is handled. Called by the main thread, after C code that let no
        other thread run."""
        waiter = allocate_lock()
        waiter.acquire()
        self._waiter = waiter
        if self._at_work or wait_for(self._fd, timeout_ms=0):
            waiter.acquire(True, _CATCH_UP)

    @property
    def is_stuck(self) -> bool:
        """Whether there was no memory for something that the host has said."""
        return self._lines.stuck

    def leave(self) -> None:
        """Leaves what comes next to another process. The thread ends as soon as something comes. Called by the main thread."""
        self._over = True
        while self._awake:  # it sets that before it looks at the other
            self._never.acquire(True, _MOMENT)

    def run(self) -> None:
        """The reading thread. Ends the process when the host is gone."""
        while True:
            try:
                called = self._is_called()
                if self._over:
                    self._awake = False
                    return
                if not called and not self._lines.stuck:
                    continue
                self._at_work = True
                self._serve(called)
            except BlockingIOError:
                pass
            except OSError:
                _exit(GONE)
            except MemoryError:
                # User code that took all memory gets the exception as well, and gives some back.
                self._reserve.free()
                self._never.acquire(True, _NO_MEMORY_MS / 1000)
            self._at_work = False
            waiter, self._waiter = self._waiter, None
            if waiter is not None:
                waiter.release()

    def _is_called(self) -> bool:
        """Waits, and serves other processes. True is that the host says something."""
        self._awake = False
        execution = self._interrupts.execution
        interrupting = execution is not None and execution.interrupts > 0
        pause = self._repeat if interrupting else None
        if self._lines.stuck:
            pause = _NO_MEMORY_MS
        ready = self._ready.poll(pause)
        self._awake = True
        if self._over:
            return False
        if not ready and interrupting:
            # Read again, since the execution may have ended in the meantime.
            if self._interrupts.execution is execution:
                self._interrupts.repeat(execution)
            self._repeat = min(2 * self._repeat, _LAST_REPEAT_MS)
        called = False
        for fd, events in ready:
            if fd == self._fd:
                called = True
            elif not self._doors[fd].hear(events):
                self._ready.unregister(fd)
        return called

    def _serve(self, called: bool) -> None:
        """Reads what has come, and handles the lines in order. One that there is no memory for stays the next one."""
        lines = self._lines
        self._reserve.renew()
        try:
            if not called:
                lines.take()
            elif not lines.read(self._fd):
                _exit(GONE)
        finally:
            self._handle_all()

    def _handle_all(self) -> None:
        lines = self._lines
        while (line := lines.first()) is not None:
            try:
                self._handle(line)
            except MemoryError:
                if self._reserve.free() or line.shorten():
                    continue
                raise
            lines.drop_first()
            self._repeat = _FIRST_REPEAT_MS

    def _handle(self, line: Line) -> None:
        """May raise MemoryError, and is called again with that line then."""
        if line.cut:
            self._handle_head(line, _NO_MEMORY)
            return
        try:
            frame = frames.decode(line.data)
            kind = frame["type"]
            if kind == "execute":
                if line.execution is None:
                    line.execution = Execution(
                        frame["id"], frame["code"], frame["count"], frame["silent"], frame["allow_stdin"]
                    )
                    line.execution.expressions = dict(frame.get("expressions", ()))
                self._accept(line.execution)
            elif kind == "interrupt":
                self._interrupts.request_for(frame["id"])
            elif kind == "comm":
                self._take_comm(frame)
            elif kind in _WISHES:
                self._take_wish(frame)
            elif kind == "progress":
                self._asks.progress(frame["ask"], frame["text"])
            elif kind == "answer":
                self._asks.answer(frame["ask"], frame.get("body", {}), frame.get("error", ""), frame.get("code", ""))
            else:
                self._requests.put(kind, frame)
        except (KeyError, TypeError, ValueError, StopIteration, RecursionError):
            self._handle_head(line, _UNREADABLE)

    def _handle_head(self, line: Line, why: str) -> None:
        """Ends what waits for a frame that cannot be read. Questions of clients go without an answer."""
        kind, id = frames.short_field(line.data, "type"), frames.short_field(line.data, "id")
        if kind == "execute" and id:
            if line.execution is None:
                line.execution = Execution(id, "", 0, True, False, unread=True)
            self._accept(line.execution)
        elif kind == "answer":
            self._asks.answer(frames.short_field(line.data, "ask"), {}, why, "")
        elif kind == "comm" and id:  # to no comm: it is handled in its turn, since those after it wait for that
            self._take_comm({"id": id, "action": "msg", "comm": "", "target": "", "data": {}, "metadata": {}, "buffers": ()})
