"""What one copy prints, bounded."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _collections import deque

MOST = 256 << 10  # bytes of one item's text that are kept
_HEAD = MOST * 2 // 5


class Text:
    """The first 40 % and the last 60 % of what is added."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._kept = 0  # bytes in the tail
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = _HEAD - len(self._head)
        self._head += data[:room] if room > 0 else b""
        if rest := data[max(room, 0):]:
            self._tail.append(rest)
            self._kept += len(rest)
        while self._kept > MOST - _HEAD:
            first = self._tail.popleft()
            over = min(len(first), self._kept - (MOST - _HEAD))
            self._kept -= over
            self._dropped += over
            if over < len(first):
                self._tail.appendleft(first[over:])

    def __str__(self) -> str:
        parts = [bytes(self._head), b"".join(self._tail)]
        if self._dropped:
            parts.insert(1, f"\n[{self._dropped:,} bytes that this item printed were left out]\n".encode())
        return b"".join(parts).decode("utf-8", "replace")
