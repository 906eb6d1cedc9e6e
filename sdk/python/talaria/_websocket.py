"""A WebSocket (RFC 6455) of text messages, on the standard library."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import os
import socket
import struct
import threading
from typing import BinaryIO, Dict, Tuple

MAX_MESSAGE = 24 << 20
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x8, 0x9, 0xA


class Closed(ConnectionError):
    """The server closed the connection, with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the server closed the connection: {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


def handshake(subprotocol: str) -> Dict[str, str]:
    """The headers of a request that asks for a WebSocket."""
    return {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), "Sec-WebSocket-Protocol": subprotocol,
    }


class WebSocket:
    """A connection that was upgraded. One thread receives; any thread sends."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse,
                 headers: Dict[str, str]) -> None:
        expected = base64.b64encode(hashlib.sha1((headers["Sec-WebSocket-Key"] + _GUID).encode()).digest()).decode()
        if response.status != 101 or response.headers.get("Sec-WebSocket-Accept") != expected:
            raise ConnectionError(f"the server answered {response.status} instead of opening a WebSocket")
        self._connection = connection
        self._in: BinaryIO = response.fp  # what is in its buffer belongs to the first frames
        self._sending = threading.Lock()

    def send(self, message: bytes) -> None:
        """Sends a text message. It raises OSError when the connection is lost."""
        self._send(_TEXT, message)

    def _send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
        mask = os.urandom(4)
        with self._sending:
            if self._connection.sock is None:
                raise ConnectionError("the connection is closed")
            self._connection.sock.sendall(head + mask + _masked(payload, mask))

    def receive(self) -> bytes:
        """Waits for a text message. It raises Closed when the server ends, and OSError when the connection is lost."""
        message = b""
        while True:
            final, opcode, payload = self._frame(MAX_MESSAGE - len(message))
            if opcode == _PING:
                self._send(_PONG, payload)
            elif opcode == _CLOSE:
                code = struct.unpack("!H", payload[:2])[0] if len(payload) > 1 else 1005
                with contextlib.suppress(OSError):
                    self._send(_CLOSE, payload[:2])
                raise Closed(code, payload[2:].decode("utf-8", "replace"))
            elif opcode in (_TEXT, _CONTINUATION):
                message += payload
                if final:
                    return message

    def _frame(self, limit: int) -> Tuple[bool, int, bytes]:
        first, second = self._read(2)
        size = second & 0x7F
        if second & 0x80 or first & 0x70:
            raise ConnectionError("the server sent a malformed frame")
        if size == 126:
            size = struct.unpack("!H", self._read(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", self._read(8))[0]
        if size > limit:
            raise ConnectionError(f"the server sent a message of more than {MAX_MESSAGE} bytes")
        return bool(first & 0x80), first & 0x0F, self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._in.read(size)
        if len(data) < size:
            raise ConnectionError("the connection was cut")
        return data

    def close(self) -> None:
        """Sends a close frame, and closes the connection."""
        with contextlib.suppress(OSError):
            self._send(_CLOSE, struct.pack("!H", 1000))
        self.abandon()

    def abandon(self) -> None:
        """Closes the connection, which ends a thread that receives."""
        connected = self._connection.sock
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def _masked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")
