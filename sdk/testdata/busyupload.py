"""Uploads a file object to a server that is busy once: the call fails, or the whole file arrives."""

import http.server
import io
import threading

import talaria

arrived = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        chunked = "chunked" in self.headers.get("Transfer-Encoding", "")
        body = b""
        while chunked:
            size = int(self.rfile.readline(), 16)
            body += self.rfile.read(size + 2)[:-2]
            chunked = size > 0
        body += self.rfile.read(int(self.headers.get("Content-Length", 0)))
        arrived.append(body)
        if self.path.endswith("/sessions/s"):
            arrived.clear()
            self.answer(201, b'{"id": "s"}')
        elif len(arrived) == 1:
            self.answer(503, b'{"code": "not_ready", "detail": "starting"}')
        else:
            self.answer(201, b"{}")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
session = talaria.Talaria(f"http://127.0.0.1:{server.server_port}", "t").session("s")
try:
    session.files.write("a", io.BytesIO(b"data"))
except talaria.TalariaError as e:
    assert e.code == "not_ready", e
else:
    assert arrived[-1] == b"data", arrived
arrived.clear()
session.files.write("a", b"data")
assert arrived == [b"data", b"data"], arrived
