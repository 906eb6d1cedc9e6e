"""Cancels calls while the server is away: they end soon, with what cancelled them, and interrupt once it is back."""

import asyncio
import os
import queue
import signal
import socket
import threading
import time

import talaria
from talaria import _client
from talaria._aio import AsyncSession

_client.ABANDON = 0.5
interrupts = queue.Queue()


class Server:
    def __init__(self, port=0):
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connected, _ = self.listener.accept()
            except OSError:
                return
            with connected:
                start = connected.recv(64 << 10)
                if b"/interrupt " in start.split(b"\r\n")[0]:
                    interrupts.put(start)
                connected.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{"id": "s", "log_id": "l"}')

    def leave(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


server = Server()
session = talaria.Talaria(f"http://127.0.0.1:{server.port}", "t", outage=10).session("s")


def interrupted(call):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    call(session)


def cancelled(call):
    asyncio.run(asyncio.wait_for(call(AsyncSession(session)), 0.3))


for cancel, expected in (interrupted, KeyboardInterrupt), (cancelled, asyncio.TimeoutError):
    for call in (lambda s: s.run("1")), (lambda s: s.map("1", [1])):
        server.leave()
        began = time.monotonic()
        try:
            cancel(call)
        except expected:
            pass
        assert time.monotonic() - began < 3, "the call ended late"
        server = Server(server.port)
        interrupts.get(timeout=10)
