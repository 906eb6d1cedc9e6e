"""sys.stdout and sys.stderr: text goes to the outbox, in order, with the execution that wrote it."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _codecs import utf_8_decode
from io import BufferedIOBase, TextIOBase, UnsupportedOperation
from posix import write as _write_fd

from talaria_runner.run.execution import current, owner
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire.outbox import FULL, Outbox, printable

_current = current.get


class TextOut(TextIOBase):
    """One of the two streams. close and detach leave it usable: printing after them works."""

    encoding = "utf-8"
    errors = "replace"
    newlines = None
    line_buffering = False
    write_through = False
    mode = "w"
    closed = False

    def __init__(self, fd: int, outbox: Outbox, interrupts: Interrupts) -> None:
        self.kind = "stdout" if fd == 1 else "stderr"
        self.name = f"<{self.kind}>"
        self.buffer = BytesOut(self)
        self._fd = fd
        self._outbox = outbox
        self._interrupts = interrupts
        self._in_child: list[str] = []

    def write(self, text: str, /) -> int:
        if text.__class__ is not str:
            return self._write_slowly(text)
        execution = _current()
        size = len(text)
        outbox = self._outbox
        tail = outbox.tail
        if tail is None or tail.stream is not self or tail.execution is not execution:
            return self._write_slowly(text)
        outbox.size += size
        tail.parts.append(text)
        if outbox.credit:
            self._send_soon(text)
        elif outbox.size > FULL:
            self.flush()
        return size

    def _write_slowly(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        text = str.__str__(text)
        outbox = self._outbox
        if outbox.forked:
            self._write_in_child(text)
        elif text or outbox.tail is not None:
            outbox.open_segment(self, owner(), text)
            if outbox.size > FULL:
                self.flush()
            elif outbox.credit:
                self._send_soon(text)
            self._interrupts.deliver()
        return len(text)

    def _send_soon(self, text: str) -> None:
        """Sends text at once if it ends a line, or is a print without one; otherwise the outbox does, unless the rest follows soon."""
        outbox = self._outbox
        if not text or text[-1] == "\n":
            outbox.credit -= 1
            self.flush()
            if not outbox.credit:
                outbox.wake()  # its thread writes what follows, and gives new credit
        else:
            outbox.wake_for_line()

    def _write_in_child(self, text: str) -> None:
        self._in_child.append(text)
        if "\n" in text:
            self.flush()

    def flush(self) -> None:
        if self._outbox.forked:
            text, self._in_child = "".join(self._in_child), []
            data = memoryview(printable(text).encode())
            while data:
                data = data[_write_fd(self._fd, data):]
            return
        self._outbox.flush()
        self._interrupts.deliver()

    def close(self) -> None:
        self.flush()

    def detach(self) -> BytesOut:
        return self.buffer

    def reconfigure(self, **settings: object) -> None:
        """Accepted and ignored: what io.TextIOWrapper sets here does not apply."""

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name!r} mode='w' encoding='utf-8'>"

    def __del__(self) -> None:
        """Overrides the base class, which would close it."""


class BytesOut(BufferedIOBase):
    """sys.stdout.buffer: bytes are decoded and join the text."""

    mode = "wb"
    closed = False

    def __init__(self, text: TextOut) -> None:
        self._text = text
        self._rest = b""
        self.name = text.name

    @property
    def raw(self) -> BytesOut:
        return self

    def write(self, data: bytes, /) -> int:
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        taken = bytes(data)
        whole = self._rest + taken
        text, used = utf_8_decode(whole, "replace", False)
        self._rest = whole[used:]
        self._text.write(text)
        return len(taken)

    def flush(self) -> None:
        if self._rest:
            rest, self._rest = self._rest, b""
            self._text.write(rest.decode("utf-8", "replace"))
        self._text.flush()

    def close(self) -> None:
        self.flush()

    def detach(self) -> BytesOut:
        raise UnsupportedOperation("detach")

    def fileno(self) -> int:
        return self._text.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def __del__(self) -> None:
        """Overrides the base class, which would close it."""
