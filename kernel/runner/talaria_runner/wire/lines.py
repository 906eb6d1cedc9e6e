"""Cuts the host's bytes into lines, and keeps them until they are handled, even while memory is full."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _collections import deque
from posix import readv

from talaria_runner.own.reserve import Reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.run.execution import Execution

_BUFFER = 32 << 10
_HEAD = 512  # bytes of a line that are kept in any case: they have its type and its ids
_NEWLINE = 10


class Line:
    __slots__ = ("data", "cut", "execution")

    def __init__(self, data: bytearray, cut: bool) -> None:
        self.data = data
        self.cut = cut  # only its head is left
        self.execution: Execution | None = None  # made from it

    def shorten(self) -> bool:
        """Drops everything except the head; False if nothing is left to drop."""
        if self.cut or len(self.data) <= _HEAD:
            return False
        del self.data[_HEAD:]
        self.cut = True
        return True


class Lines:
    """All methods may raise MemoryError, and are then called again: no byte is lost or taken twice.

    The reserve of memory is freed first. If that does not help, a line too long for what is left loses all
    but its head, so that later lines can be read.
    """

    def __init__(self, reserve: Reserve) -> None:
        self._reserve = reserve
        # Allocated ahead, since user code may take all memory.
        self._buffers = [bytearray(_BUFFER)]
        self._at = self._size = 0  # of the buffer, the part not taken yet
        self._rest = bytearray()  # the unfinished line
        self._cut = False  # it has lost its tail
        self._whole: deque[Line] = deque()

    @property
    def stuck(self) -> bool:
        """Whether there is something to do without reading."""
        return bool(self._whole) or self._at < self._size

    def read(self, fd: int) -> bool:
        """Reads once, unless earlier bytes have not been taken yet. False at the end."""
        if self._at >= self._size:
            size = readv(fd, self._buffers)
            if not size:
                return False
            self._at, self._size = 0, size
        self.take()
        return True

    def take(self) -> None:
        """Cuts the bytes read into lines."""
        buffer = self._buffers[0]
        while self._at < self._size:
            if buffer[self._at] == _NEWLINE:
                self._end_line()
            else:
                end = buffer.find(b"\n", self._at, self._size)
                self._extend(end if end >= 0 else self._size)

    def first(self) -> Line | None:
        return self._whole[0] if self._whole else None

    def drop_first(self) -> None:
        self._whole.popleft()

    def _end_line(self) -> None:
        following = self._at + 1
        if self._rest:
            fresh = bytearray()
            self._whole.append(Line(self._rest, self._cut))
            self._rest = fresh
        self._cut = False
        self._at = following

    def _extend(self, end: int) -> None:
        """Adds the buffer up to end to the line."""
        while not self._cut:
            try:
                self._rest += memoryview(self._buffers[0])[self._at:end]
                break
            except MemoryError:
                if not self._reserve.free():
                    self._extend_head(end)
        self._at = end

    def _extend_head(self, end: int) -> None:
        """Keeps the head of the line, which does not fit, and marks it as cut."""
        missing = _HEAD - len(self._rest)
        if missing >= end - self._at:
            raise MemoryError  # it is short: wait for memory
        if missing > 0:
            self._rest += memoryview(self._buffers[0])[self._at:self._at + missing]
        else:
            del self._rest[_HEAD:]
        self._cut = True
