"""The thread that reads what the host says."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from _json import make_scanner
from posix import _exit, read

from talaria_runner.descriptors import wait_for
from talaria_runner.execution import Execution
from talaria_runner.interrupts import Interrupts
from talaria_runner.outbox import GONE
from talaria_runner.requests import Requests
from talaria_runner.stdin import Stdin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_REPEAT_MS = 1
_LAST_REPEAT_MS = 250


class Reader:
    def __init__(
        self,
        fd: int,
        interrupts: Interrupts,
        stdin: Stdin,
        requests: Requests,
        accept: Callable[[Execution], None],
    ) -> None:
        self._fd = fd
        self._interrupts = interrupts
        self._stdin = stdin
        self._requests = requests
        self._accept = accept
        self._rest = bytearray()

    def run(self) -> None:
        """The reading thread. Never returns; ends the process when the host is gone."""
        repeat = _FIRST_REPEAT_MS
        while True:
            execution = self._interrupts.execution
            if execution is not None and execution.interrupts:
                if not wait_for(self._fd, timeout_ms=repeat):
                    # Read again, since the execution may have ended in the meantime.
                    if execution.interrupt_requested and self._interrupts.execution is execution:
                        self._interrupts.repeat()
                    repeat = min(2 * repeat, _LAST_REPEAT_MS)
                    continue
            try:
                data = read(self._fd, 1 << 18)
            except BlockingIOError:
                wait_for(self._fd)
                continue
            except OSError:
                data = b""
            if not data:
                _exit(GONE)
            for line in self._lines(data):
                self._handle(line)
                repeat = _FIRST_REPEAT_MS

    def _lines(self, data: bytes) -> list[bytearray]:
        start = len(self._rest)
        self._rest += data
        last = self._rest.rfind(b"\n", start)
        if last < 0:
            return []
        lines = self._rest[:last].split(b"\n")
        del self._rest[:last + 1]
        return [line for line in lines if line]

    def _handle(self, line: bytearray) -> None:
        try:
            frame = _decode(line)
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
            elif kind == "input":
                self._stdin.answer(frame["request_id"], frame["value"])
            elif kind == "input_refused":
                self._stdin.refuse(frame["request_id"])
            else:
                self._requests.put(kind, frame)
        except (KeyError, TypeError, ValueError, StopIteration):
            pass  # no frame of this contract


class _Settings:
    """What the scanner asks for."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}


_scan = make_scanner(_Settings)


def _decode(line: bytearray) -> dict[str, object]:
    value, _ = _scan(line.decode("utf-8").strip(), 0)
    if not isinstance(value, dict):
        raise TypeError("a frame is an object")
    return value
