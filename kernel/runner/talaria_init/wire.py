"""Messages between the host and pid 1: one JSON object per packet, descriptors only inward.

Most of the json module is bypassed: a process that is almost idle should touch little memory.
"""

import array
import os
from collections.abc import Sequence
from json.decoder import JSONDecoder
from json.encoder import encode_basestring_ascii as _quoted

import _socket

FIRST_FD = 3  # the descriptor of a process's channel
# A packet may carry the environment of a session. The sender's buffer is the real bound.
_MAX_PACKET = 1 << 20
_SPACE = _socket.CMSG_SPACE(3 * array.array("i").itemsize)


_scan = JSONDecoder().scan_once  # pyright: ignore[reportAttributeAccessIssue]  # typeshed leaves it out


def decode(packet: bytes) -> dict:
    """Decodes a message of the host, which has no spaces around it."""
    return _scan(packet.decode(), 0)[0]


def encode(**message: str | int) -> bytes:
    """Encodes a message to the host."""
    fields = [f'"{k}":{v if type(v) is int else _quoted(v)}' for k, v in message.items()]
    return ("{" + ",".join(fields) + "}").encode()


def pair() -> tuple[int, int]:
    """The descriptors of both ends of a channel."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    return ours.detach(), theirs.detach()


def move_up_front(fd: int) -> None:
    """Makes fd FIRST_FD, and closes all others except the standard ones."""
    if fd != FIRST_FD:
        os.dup2(fd, FIRST_FD)
    os.closerange(FIRST_FD + 1, 1 << 30)


class Channel:
    """One end of a SEQPACKET socket."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)

    @classmethod
    def only(cls, fd: int) -> "Channel":
        """The channel on fd, which becomes the only descriptor besides the standard ones."""
        move_up_front(fd)
        return cls(FIRST_FD)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> tuple[bytes, list[int]] | None:
        """The next packet with its descriptors, which the caller owns; None when the other side is gone."""
        try:
            packet, ancillary, _, _ = self._socket.recvmsg(_MAX_PACKET, _SPACE, _socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            return None
        if not packet:
            return None
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                fds.frombytes(data)
        return packet, list(fds)

    def send(self, packet: bytes, fds: Sequence[int] = ()) -> None:
        if fds:
            rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", fds))
            self._socket.sendmsg([packet], [rights])
        else:
            self._socket.send(packet)

    def close(self) -> None:
        self._socket.close()

    def forget(self) -> None:
        """In a child: gives the descriptor up without closing it, since its number may belong to another file
        by then."""
        self._socket.detach()
