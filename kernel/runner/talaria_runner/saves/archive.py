"""The file of saved variables: a head, the parts, an index of them in JSON, and a tail with a digest of all before it.

A part is a pickle stream, or the memory of an array. Both are written as they come, so that nothing is held twice. Every
byte is checked before anything of a file is used; what is inside is pickle, to be loaded only in a sandbox.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from errno import EDQUOT, EFBIG, ENOSPC
from io import BufferedReader, RawIOBase
from os import SEEK_SET, preadv
from posix import fstat, ftruncate, lseek, write

from talaria_runner.introspection.sizes import readable
from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_json = load("json")
_sha256 = load("hashlib").sha256

VERSION = 1
_MARK = b"Talaria variables\n"
_HEAD = len(_MARK) + 2  # the mark, and the version of the format
_OFFSET = 8  # bytes of the tail that say where the index begins; the digest follows
_TAIL = _OFFSET + 32
_LARGEST_INDEX = 64 << 20  # bytes
_STEP = 8 << 20  # bytes that are written or read at a time
_FULL = (ENOSPC, EDQUOT, EFBIG)  # the disk, a quota, the limit of a file


class Unusable(ValueError):
    """The file holds no variables that could be loaded: it is damaged, or something else. Nothing was loaded."""


class TooLarge(Exception):
    """There is no room for what was to be written."""


class Writer:
    """Writes the file behind fd, which must be open for reading too. check is called for every few megabytes, and may
    raise."""

    def __init__(self, fd: int, most: int, check: Callable[[], None]) -> None:
        self.fd = fd
        self.size = 0
        self.error: OSError | None = None  # why the file cannot be written, however much room there is
        self._most = most  # bytes of all parts
        self._check = check
        self._digest = _sha256()
        self._put(_MARK + VERSION.to_bytes(2, "big"))

    def write(self, data: object) -> int:
        """Adds to the current part. Raises TooLarge."""
        with memoryview(data) as view, view.cast("B") as octets:
            size = len(octets)
            if self.size + size > self._most:
                raise TooLarge(f"the saved variables would take more than the limit of {readable(self._most)}")
            for start in range(0, size, _STEP):
                self._check()
                try:
                    self._put(octets[start:start + _STEP])
                except OSError as e:
                    if is_full(e):
                        raise TooLarge(no_room(e)) from None
                    self.error = e
                    raise
        return size

    def state(self) -> object:
        return self.size, self._digest.copy()

    def rewind(self, state: object) -> None:
        """Removes everything that was written after state was taken."""
        self.size, digest = state
        self._digest = digest.copy()
        ftruncate(self.fd, self.size)
        lseek(self.fd, self.size, SEEK_SET)

    def finish(self, index: dict[str, object]) -> str:
        """Completes the file. Returns the SHA-256 of all of it, in hexadecimal. Raises OSError."""
        at = self.size
        self._put(_json.dumps(index, separators=(",", ":")).encode())
        self._put(at.to_bytes(_OFFSET, "big"))
        self._put(self._digest.digest())
        return self._digest.hexdigest()

    def _put(self, data: object) -> None:
        with memoryview(data) as octets:
            done = 0
            while done < len(octets):
                done += write(self.fd, octets[done:])
            self._digest.update(octets)
        self.size += done


def is_full(error: OSError) -> bool:
    """Whether a smaller file could have been written."""
    return error.errno in _FULL


def no_room(error: OSError) -> str:
    return f"there was no room left for it in the workspace: {error.strerror}"


class Reader:
    """The file behind fd, which is checked first. Raises Unusable."""

    def __init__(self, fd: int, digest: str | None = None) -> None:
        self.fd = fd
        size = fstat(fd).st_size
        head = _bytes(fd, 0, min(size, _HEAD))
        if not head.startswith(_MARK) or len(head) < _HEAD:
            raise Unusable("this is not a file of saved variables, or it is cut off")
        version = int.from_bytes(head[len(_MARK):], "big")
        if version != VERSION:
            raise Unusable(
                f"the variables were saved in version {version} of the format, and this Talaria reads version {VERSION}; "
                "load them with the one that saved them, or run the cells again"
            )
        if size < _HEAD + _TAIL:
            raise Unusable("the file of saved variables is cut off")
        self.digest = self._check(size, digest)
        at = int.from_bytes(_bytes(fd, size - _TAIL, _OFFSET), "big")
        if not _HEAD <= at <= size - _TAIL or size - _TAIL - at > _LARGEST_INDEX:
            raise Unusable("the file of saved variables has no index")
        try:
            self.index = _json.loads(_bytes(fd, at, size - _TAIL - at))
        except (ValueError, RecursionError):
            raise Unusable("the index of the saved variables cannot be read") from None

    def _check(self, size: int, digest: str | None) -> str:
        whole, start = _sha256(), 0
        buffer = memoryview(bytearray(min(_STEP, size)))
        inner = size - 32
        while start < inner:
            part = buffer[:min(len(buffer), inner - start)]
            read_into(self.fd, part, start)
            whole.update(part)
            start += len(part)
        stored = _bytes(self.fd, inner, 32)
        if whole.digest() != stored:
            raise Unusable("the file of saved variables is damaged: its digest does not match its content")
        whole.update(stored)
        if digest is not None and whole.hexdigest() != digest:
            raise Unusable("the file of saved variables is not the one that was written: its digest differs")
        return whole.hexdigest()


class Part(RawIOBase):
    """Some bytes of a file, as a file."""

    def __init__(self, fd: int, start: int, size: int) -> None:
        self._fd = fd
        self._at = start
        self._end = start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)[:self._end - self._at]
        count = preadv(self._fd, [view], self._at) if len(view) else 0
        self._at += count
        return count


def opened(fd: int, start: int, size: int) -> BufferedReader:
    return BufferedReader(Part(fd, start, size), 1 << 16)


def read_into(fd: int, view: memoryview, start: int) -> None:
    """Fills view with the bytes from start on. Raises Unusable if there are fewer."""
    done = 0
    while done < len(view):
        count = preadv(fd, [view[done:done + _STEP]], start + done)
        if not count:
            raise Unusable("the file of saved variables is cut off")
        done += count


def _bytes(fd: int, start: int, size: int) -> bytes:
    data = bytearray(size)
    read_into(fd, memoryview(data), start)
    return bytes(data)
