"""The thread that reads what the host says."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from _thread import LockType, allocate_lock
from posix import _exit, readv

from select import POLLIN, poll

from talaria_runner import frames
from talaria_runner.asks import Asks
from talaria_runner.descriptors import wait_for
from talaria_runner.execution import Execution
from talaria_runner.interrupts import Interrupts
from talaria_runner.outbox import GONE
from talaria_runner.programs import Programs
from talaria_runner.requests import Requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_REPEAT_MS = 1
_LAST_REPEAT_MS = 250
_CATCH_UP = 0.5  # s at most
_BUFFER = 32 << 10


class Reader:
    def __init__(
        self,
        fd: int,
        interrupts: Interrupts,
        asks: Asks,
        requests: Requests,
        programs: Programs,
        programs_fd: int,
        accept: Callable[[Execution], None],
    ) -> None:
        self._fd = fd
        self._interrupts = interrupts
        self._asks = asks
        self._requests = requests
        self._programs = programs
        self._accept = accept
        self._rest = bytearray()
        # Made ahead, since user code may take all memory.
        self._buffers = [bytearray(_BUFFER)]
        self._ready = poll()
        self._ready.register(fd, POLLIN)
        if programs_fd >= 0:  # else no program can ask
            self._ready.register(programs_fd, POLLIN)
        self._never = allocate_lock()
        self._never.acquire()
        self._at_work = False
        self._waiter: LockType | None = None  # released when what had come is handled

    def catch_up(self) -> None:
        """Returns when what the host has said by now is handled. Called by the main thread, after C code that let no
        other thread run."""
        waiter = allocate_lock()
        waiter.acquire()
        self._waiter = waiter
        if self._at_work or wait_for(self._fd, timeout_ms=0):
            waiter.acquire(True, _CATCH_UP)

    def run(self) -> None:
        """The reading thread. Never returns; ends the process when the host is gone."""
        repeat = _FIRST_REPEAT_MS
        while True:
            execution = self._interrupts.execution
            if execution is not None and execution.interrupts:
                if not self._ready.poll(repeat):
                    # Read again, since the execution may have ended in the meantime.
                    if self._interrupts.execution is execution:
                        self._interrupts.repeat(execution)
                    repeat = min(2 * repeat, _LAST_REPEAT_MS)
                    continue
            try:
                if not self._is_called():
                    continue
                self._at_work = True
                size = readv(self._fd, self._buffers)
                if not size:
                    _exit(GONE)
                self._take(size)
                for line in self._lines(size):
                    self._handle(line)
                    repeat = _FIRST_REPEAT_MS
            except BlockingIOError:
                pass
            except OSError:
                _exit(GONE)
            except MemoryError:
                self._rest_a_while()
            self._at_work = False
            waiter, self._waiter = self._waiter, None
            if waiter is not None:
                waiter.release()

    def _is_called(self) -> bool:
        """Waits, and serves programs. True is that the host says something."""
        called = False
        for fd, events in self._ready.poll():
            if fd == self._fd:
                called = True
            elif not self._programs.hear(events):
                self._ready.unregister(fd)
        return called

    def _take(self, size: int) -> None:
        """Takes what was read. User code that took all memory gets the exception as well, and gives some back."""
        while True:
            try:
                self._rest += memoryview(self._buffers[0])[:size]
                return
            except MemoryError:
                self._rest_a_while()

    def _rest_a_while(self) -> None:
        self._never.acquire(True, 0.05)

    def _lines(self, size: int) -> list[bytearray]:
        """The lines that are whole with the last so many bytes."""
        last = self._rest.rfind(b"\n", len(self._rest) - size)
        if last < 0:
            return []
        lines = self._rest[:last].split(b"\n")
        del self._rest[:last + 1]
        return [line for line in lines if line]

    def _handle(self, line: bytearray) -> None:
        try:
            frame = frames.decode(line)
            kind = frame["type"]
            if kind == "execute":
                execution = Execution(
                    frame["id"], frame["code"], frame["count"], frame["silent"], frame["allow_stdin"]
                )
                self._accept(execution)
            elif kind == "interrupt":
                execution = self._interrupts.execution
                if execution is not None and execution.id == frame["id"]:
                    self._interrupts.request(execution)
            elif kind == "progress":
                self._asks.progress(frame["ask"], frame["text"])
            elif kind == "answer":
                self._asks.answer(frame["ask"], frame.get("body", {}), frame.get("error", ""))
            else:
                self._requests.put(kind, frame)
        except (KeyError, TypeError, ValueError, StopIteration):
            pass  # no frame of this contract
