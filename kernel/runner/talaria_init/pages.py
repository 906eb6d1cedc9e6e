"""Copies pages of memory ahead of the first write to them, in processes that wait to be needed.

A process shares the memory of the fork server that it comes from, and the kernel copies each page when it is first
written to, which takes longer than the code that writes. The host finds out in a sandbox of its own which pages these
are, and tells the fork server. A fork keeps addresses, so they are the same in every process that is forked later.
"""

import select
import struct
from binascii import a2b_base64

from . import linux

_RANGE = struct.Struct("=QQ")  # an address and a length
_PATIENCE = 50  # milliseconds
_MOST = 64 << 10  # bytes of ranges for one process

# The ranges of pid 1 and of the interpreter, and zeros after them. They are filled in where they are: new objects would
# move what forked processes allocate later.
_ranges = {name: bytearray(_MOST) for name in ("init", "interpreter")}


def learn(ranges: dict[str, str]) -> None:
    """Takes the ranges, in base64, for this process and those that it forks."""
    for name, room in _ranges.items():
        packed = a2b_base64(ranges[name])
        if len(packed) > _MOST:
            raise ValueError(f"{len(packed)} bytes of ranges are too many")
        room[:] = packed + bytes(_MOST - len(packed))


def copy(name: str, channel: int) -> None:
    """Copies the pages that this process, which is pid 1 or the interpreter, will write to, until there is something to
    receive. A sandbox that is needed at once copies nothing here: to copy a page takes as long now as later."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    patience = _PATIENCE
    for address, length in _RANGE.iter_unpack(_ranges[name]):
        if not length or poll.poll(patience):
            return
        linux.copy_pages(address, length)
        patience = 0
