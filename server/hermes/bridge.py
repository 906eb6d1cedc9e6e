"""Carries the calls of tools of a hermes-agent's kernel out of its sandbox: accepts connections on a Unix socket, one at a time, and passes
what is said to the server on standard output, and the answers of standard input back."""

import os
import select
import socket

_CHUNK = 1 << 16


def _send(kind, data=b""):
    frame = kind + len(data).to_bytes(4, "big") + data
    while frame:
        frame = frame[os.write(1, frame):]


def _read(size):
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            os._exit(0)  # the server does not need us any more
        data += piece
    return data


def _receive():
    kind, size = _read(1), int.from_bytes(_read(4), "big")
    return kind, _read(size)


def _carry(client):
    """Carries a connection until both sides have closed it, each of which it tells the other once. A client that says no more can still
    get answers."""
    _send(b"O")
    here = there = True
    ready = select.poll()
    ready.register(0, select.POLLIN)
    ready.register(client, select.POLLIN)
    while there:
        events = dict(ready.poll())
        if client.fileno() in events:
            try:
                data = client.recv(_CHUNK)
                gone = not data and events[client.fileno()] & select.POLLHUP
            except OSError:
                data, gone = b"", True
            if data:
                _send(b"D", data)
            elif gone:
                here = False
                ready.unregister(client)
                _send(b"C")
            else:
                ready.modify(client, 0)  # which still tells when it is gone
                _send(b"E")
        if 0 in events:
            kind, data = _receive()
            if kind == b"C":
                there = False
            elif here:
                try:
                    client.sendall(data)
                except OSError:
                    here = False
                    ready.unregister(client)
                    _send(b"C")
    if here:
        _send(b"C")
    client.close()


def _main():
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), "hermes_rpc_%d" % os.getpid())
    os.mkdir(folder, 0o700)
    path = os.path.join(folder, "socket")
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(16)
    except OSError as e:
        os.write(2, str(e).encode())
        os._exit(1)  # as where a sandbox can have no sockets
    _send(b"R", os.fsencode(path))
    while True:
        if 0 in select.select((0, listener), (), ())[0]:
            _receive()  # nothing is said between connections, so this is the end
            return
        _carry(listener.accept()[0])


_main()
