"""Memory kept back for the moment when user code has taken all the rest."""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

# Python takes memory for its objects, and malloc for everything else, a mebibyte at a time: one for each, and
# one to spare.
_SIZE = 3 << 20


class Reserve:
    """Its methods are safe in every thread.

    The block comes from the system and goes back to it. malloc would keep a freed one for the thread that took it:
    it has a heap for each thread, and gives larger blocks out of it, too, once it has freed a large one."""

    def __init__(self) -> None:
        self._block: mmap | None = _block(_SIZE)  # takes no memory until it is written to

    def free(self) -> bool:
        """Frees the memory for the next allocation, whoever makes it; False if it is already gone."""
        held = self._block is not None
        self._block = None
        return held

    def renew(self) -> None:
        """Takes a reserve again once there is room for it twice: otherwise it would be missing where it was freed."""
        if self._block is None:
            try:
                _block(2 * _SIZE).close()
                self._block = _block(_SIZE)
            except (MemoryError, OSError):
                pass


def _block(size: int) -> mmap:
    """Raises OSError where there is no room for it."""
    return mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS)
