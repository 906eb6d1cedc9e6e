"""Memory kept back for the moment when user code has taken all the rest."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

# Python takes memory for its objects, and malloc for everything else, a mebibyte at a time: one for each, and
# one to spare.
_SIZE = 3 << 20


class Reserve:
    """Its methods are safe in every thread."""

    def __init__(self) -> None:
        self._block: bytes | None = bytes(_SIZE)  # fresh zeros from the system take no memory until they are written to

    def free(self) -> bool:
        """Frees the memory for the next allocation, whoever makes it; False if it is already gone."""
        held = self._block is not None
        self._block = None
        return held

    def renew(self) -> None:
        """Takes a reserve again once there is room for it twice: otherwise it would be missing where it was freed."""
        if self._block is None:
            try:
                bytes(2 * _SIZE)
                self._block = bytes(_SIZE)
            except MemoryError:
                pass
