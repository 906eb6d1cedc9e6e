"""Leaves no holes between objects in memory.

A forked process that allocates gets the holes left by freed objects, and has to copy a whole page for each,
with everything on it that it shares with its siblings. With the holes filled it gets fresh memory, in which
the objects that it needs are next to each other.
"""

import ctypes

_SMALL = 512  # size in bytes up to which Python allocates by itself, in classes of 16
_CLASS = 16
_IN_A_ROW = 4  # this many consecutive blocks are the beginning of fresh memory
_ENOUGH = 4 << 20  # bytes of one size, in case an allocator works differently

_libc = ctypes.CDLL(None)
_filling: list[object] = []


def fill() -> None:
    """Called last before a process is forked. The memory that it takes is never given back."""
    for size in range(_CLASS, _SMALL + 1, _CLASS):
        _fill_class(size)
    _fill_heap()


def _fill_class(size: int) -> None:
    last = row = 0
    made: list[object] = []
    _filling.append(made)
    while row < _IN_A_ROW and len(made) * size < _ENOUGH:
        made.append(_block(size, len(made)))
        address = id(made[-1])
        row = row + 1 if address == last + size else 0
        last = address


def _block(size: int, number: int) -> object:
    """An object of that size."""
    if size <= 2 * _CLASS:
        return object() if size == object.__basicsize__ else number + 0.5
    return bytes(size - bytes.__basicsize__)


def _fill_heap() -> None:
    """Fills the C library's heap, as far as it is glibc's and grows upwards."""
    if not hasattr(_libc, "malloc_trim"):
        return
    allocate = _libc.malloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    end = allocate(100_000)
    for size in (*(1 << bits for bits in range(16, 10, -1)), *range(1 << 10, 0, -_CLASS)):
        for _ in range(_ENOUGH // size):
            if (allocate(size) or end) >= end:
                break
