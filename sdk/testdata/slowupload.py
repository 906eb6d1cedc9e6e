"""Uploads a file for longer than a connection may be silent, to a server that never stops reading."""

import socket
import threading
import time

import talaria
from talaria import _http

SIZE = 16 << 20
_http.SILENCE = 1.0
received = []


def serve(listener):
    while True:
        connected, _ = listener.accept()
        with connected, connected.makefile("rb") as request:
            line, length = request.readline(), 0
            for header in iter(request.readline, b"\r\n"):
                name, value = header.split(b": ", 1)
                length = int(value) if name == b"Content-Length" else length
            began, left = time.monotonic(), length
            while left:
                left -= len(request.read(min(left, 1 << 20)))
                if length == SIZE:
                    time.sleep(max(0, began + 2 * (1 - left / SIZE) - time.monotonic()))  # two seconds in all
            received.append((line.split(b" ")[1], length))
            connected.sendall(b'HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n{"id": "s"}')


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
listener.bind(("127.0.0.1", 0))
listener.listen()
threading.Thread(target=serve, args=(listener,), daemon=True).start()
session = talaria.Talaria("http://127.0.0.1:%d" % listener.getsockname()[1], "t", outage=1).session("s")
session.files.write("a", b"x" * SIZE)
session.files.write("b", b"")
assert received[1:] == [(b"/v1/sessions/s/files/a", SIZE), (b"/v1/sessions/s/files/b", 0)], received
