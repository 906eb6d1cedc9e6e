"""Uploads more than the server takes: it answers early and cuts the connection, and write raises what it answered."""

import io
import socket
import struct
import threading

import talaria

REFUSAL = b'{"code": "disk_limit", "detail": "the disk is full"}'
requests = []


def serve(listener):
    while True:
        connected, _ = listener.accept()
        start = connected.recv(64 << 10)
        requests.append(start.split(b" ")[0])
        if start.startswith(b"PUT /v1/sessions/s HTTP"):
            answer(connected, b"201 Created", b'{"id": "s"}')
        elif b"/files/lost" in start:
            reset(connected)
        else:
            answer(connected, b"507 Insufficient Storage", REFUSAL)
            reset(connected)
        connected.close()


def answer(connected, status, body):
    connected.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))


def reset(connected):
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
session = talaria.Talaria("http://127.0.0.1:%d" % listener.getsockname()[1], "t", outage=0.3).session("s")
for data in (b"x" * (60 << 20), io.BytesIO(b"x" * (60 << 20))):
    requests.clear()
    try:
        session.files.write("large", data)
    except talaria.TalariaError as e:
        assert (e.code, e.status) == ("disk_limit", 507), e
    else:
        raise AssertionError("the upload succeeded")
    assert len(requests) == 1, requests
try:
    session.files.write("lost", b"x" * (60 << 20))
except talaria.TalariaError as e:
    assert e.code == "unreachable", e
else:
    raise AssertionError("the upload succeeded")
