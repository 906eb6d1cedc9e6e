"""Messages between the host and pid 1: one JSON object for each packet, descriptors only inward."""

import array
import json
import socket

# A packet may carry the environment of a session. The host's send buffer is the real bound.
_MAX_PACKET = 1 << 20
_MAX_FDS = 3


class Channel:
    """The SEQPACKET socket to the host."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> tuple[dict, list[int]] | None:
        """The next message with its descriptors, which the caller owns; None when the host is gone."""
        space = socket.CMSG_SPACE(_MAX_FDS * array.array("i").itemsize)
        try:
            packet, ancillary, _, _ = self._socket.recvmsg(_MAX_PACKET, space, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            return None
        if not packet:
            return None
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data)
        return json.loads(packet), list(fds)

    def send(self, **message: object) -> None:
        self._socket.send(json.dumps(message).encode())

    def forget(self) -> None:
        """In a child: gives the descriptor up without closing it, since its number may be another's by then."""
        self._socket.detach()
