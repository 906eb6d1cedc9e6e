"""Messages between the interpreter and its copies: a kind of one byte, the length of the body, the body."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from posix import read

from talaria_runner.wire.descriptors import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ASK = b"a"  # of a copy: a tool, or the list of them; JSON
ANSWER = b"A"  # to that; JSON
TOOL_END = b"e"  # of a copy: how a tool ended that it carried out itself; JSON
RESULT = b"r"  # of a copy, its last message; a pickle

MOST = 256 << 20  # bytes of a body
_HEAD = 9  # bytes before it
_CHUNK = 1 << 18


class TooLarge(Exception):
    """A message has more bytes than the limit."""


def send(fd: int, kind: bytes, body: bytes) -> None:
    """Writes a message, and waits until all of it is written. Raises TooLarge before it writes anything."""
    if len(body) > MOST:
        raise TooLarge(len(body))
    write_all(fd, head(kind, body))
    write_all(fd, body)


def head(kind: bytes, body: bytes) -> bytes:
    """What comes before the body of a message."""
    return kind + len(body).to_bytes(_HEAD - 1, "big")


class Incoming:
    """The messages that come from one descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()

    def read(self) -> bool:
        """Reads what there is, and waits where there is nothing and the descriptor blocks. False at the end."""
        try:
            data = read(self._fd, _CHUNK)
        except BlockingIOError:
            return True
        self._data += data
        return bool(data)

    def messages(self) -> Iterator[tuple[bytes, bytes]]:
        """The complete messages among what was read. Raises TooLarge."""
        while len(self._data) >= _HEAD:
            size = int.from_bytes(self._data[1:_HEAD], "big")
            if size > MOST:
                raise TooLarge(size)
            if len(self._data) < _HEAD + size:
                return
            kind, body = bytes(self._data[:1]), bytes(self._data[_HEAD:_HEAD + size])
            del self._data[:_HEAD + size]
            yield kind, body
