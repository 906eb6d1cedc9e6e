"""A chat that runs what you type as Python, one session for each chat.

Start it with TALARIA_URL and TALARIA_TOKEN set, and open http://127.0.0.1:8000/. The token stays here: the page talks
to this server only.
"""

import base64
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from talaria import Talaria, TalariaError

if not (os.environ.get("TALARIA_URL") and os.environ.get("TALARIA_TOKEN")):
    raise SystemExit("set TALARIA_URL to the output of `talaria url`, and TALARIA_TOKEN to the output of `talaria token show`")
PAGE = Path(__file__).with_name("index.html").read_bytes()
talaria = Talaria(os.environ["TALARIA_URL"], os.environ["TALARIA_TOKEN"])


class Chat(BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        if found:
            self.wfile.write(PAGE)

    def do_POST(self):
        """Answers with one JSON object per line, as the cell produces them."""
        code = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.end_headers()
        try:
            self.run("chat:" + self.path.removeprefix("/chat/"), code)
        except TalariaError as error:
            self.say(type="error", text=error.message)

    def run(self, chat, code):
        session = talaria.session(chat)
        execution = session.run(
            code,
            on_stdout=lambda text: self.say(type="text", text=text),
            on_stderr=lambda text: self.say(type="text", text=text),
            on_display=self.display,
        )
        if execution.error:
            self.say(type="error", text=execution.error.traceback)

    def display(self, result):
        if result.png:
            self.say(type="image", data=base64.b64encode(result.png).decode())
        else:
            self.say(type="text", text=result.text + "\n")

    def say(self, **part):
        self.wfile.write(json.dumps(part).encode() + b"\n")
        self.wfile.flush()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Chat)
    print(f"open http://127.0.0.1:{server.server_address[1]}/", flush=True)
    server.serve_forever()
