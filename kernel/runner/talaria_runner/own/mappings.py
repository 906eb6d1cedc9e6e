"""What is mapped into the memory of this process."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from posix import O_RDONLY, close, open, read

_AT_ONCE = 1 << 18  # bytes


def listed() -> bytes:
    """/proc/self/maps, whose reading takes the system a microsecond for each line; empty if it cannot be read."""
    parts = []
    try:
        fd = open("/proc/self/maps", O_RDONLY)
        try:
            while part := read(fd, _AT_ONCE):
                parts.append(part)
        finally:
            close(fd)
    except OSError:
        pass
    return b"".join(parts)
