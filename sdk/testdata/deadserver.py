"""Opens a connection, and checks that the system will notice within about a minute that the server is dead."""

import socket
import threading

from talaria._http import Stop, Transport


def serve(listener):
    connected, _ = listener.accept()
    connected.recv(64 << 10)
    connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nda")
    connected.recv(1)


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
stop = Stop()
with Transport("http://127.0.0.1:%d" % listener.getsockname()[1], "t", 1, None).open("GET", "/v1/f", stop=stop) as response:
    assert response.read(2) == b"da"
    connected = stop._socket
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), "nothing asks whether the server lives"
    idle, interval, count, unanswered = (connected.getsockopt(socket.IPPROTO_TCP, option) for option in (
        socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT))
    assert idle + interval * count <= 75 and 0 < unanswered <= 75_000, (idle, interval, count, unanswered)
