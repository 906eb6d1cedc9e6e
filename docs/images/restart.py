#!/usr/bin/python3
"""Record what happens to a running cell when the server is killed, and draw it as an animated SVG.

Run by `make demo`. It starts the real server, runs a cell with `talaria exec`, kills the server with SIGKILL,
starts it again, and writes restart.svg (moving) and restart-still.svg (the last frame) beside this file. Times in the
picture are those of the run from the moment that the client starts; only the token is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from html import escape

FOLDER = os.path.dirname(os.path.abspath(__file__))
CELL = """import time
for i in range(1, 11):
    print(f"line {i:2} of 10, printed at", time.strftime("%H:%M:%S"))
    time.sleep(0.5)
"""
KILL_AFTER = 4  # lines
DOWN_FOR = 1.5  # seconds
LEAD_IN = 0.8  # seconds before the client starts, in which the server's first lines are there already
HOLD = 4.0  # seconds that the last frame stays

COLUMNS, WIDTH, LINE, PAD = 88, 760, 18, 16


@dataclass(frozen=True)
class Shown:
    """A line of one of the two terminals: when it appeared, and how it is drawn."""

    at: float
    pane: str
    text: str
    style: str = "out"


class Recorder:
    def __init__(self, binary: str, addr: str, state: str) -> None:
        self.binary, self.addr, self.state = binary, addr, state
        self.began = time.monotonic()
        self.lines: list[Shown] = []
        self.lock = threading.Lock()  # guards lines
        self.readers: list[threading.Thread] = []

    def show(self, pane: str, text: str, style: str = "out") -> None:
        with self.lock:
            self.lines.append(Shown(time.monotonic() - self.began, pane, text, style))

    def start(self, pane: str, *args: str, stdin: str = "") -> tuple[subprocess.Popen[str], threading.Semaphore]:
        """Start a command whose lines are recorded; the semaphore counts them."""
        process = subprocess.Popen(
            [self.binary, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "TALARIA_STATE_DIR": self.state},
        )
        count = threading.Semaphore(0)
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                self.show(pane, re.sub(r"\?token=\S+", "", line.rstrip("\n")))
                count.release()

        reader = threading.Thread(target=read)
        reader.start()
        self.readers.append(reader)
        return process, count

    def serve(self) -> subprocess.Popen[str]:
        self.show("server", "$ talaria serve", "in")
        process, lines = self.start("server", "serve", "--addr", self.addr)
        for _ in range(2):  # what it is, and its URL
            await_line(process, lines)
        return process


def await_line(process: subprocess.Popen[str], lines: threading.Semaphore) -> None:
    if not lines.acquire(timeout=60):
        process.kill()
        sys.exit(f"{process.args} printed nothing for a minute")


def record(binary: str, addr: str) -> list[Shown]:
    with tempfile.TemporaryDirectory(prefix="talaria-demo-") as state:
        r = Recorder(binary, addr, state)
        server = r.serve()
        try:
            subprocess.run([binary, "exec", "-c", "1"], env={**os.environ, "TALARIA_STATE_DIR": state}, check=True,
                           stdout=subprocess.DEVNULL)  # the first session builds caches
            time.sleep(1)
            r.show("client", "$ talaria exec --session demo - <<'EOF'", "in")
            for line in [*CELL.splitlines(), "EOF"]:
                r.show("client", line, "in")
            client, printed = r.start("client", "exec", "--session", "demo", "-", stdin=CELL)
            for _ in range(KILL_AFTER):
                await_line(client, printed)
            r.show("server", f"$ kill -9 {server.pid}", "in")
            server.send_signal(signal.SIGKILL)
            server.wait()
            r.show("server", "Killed", "bad")
            time.sleep(DOWN_FOR)
            server = r.serve()
            if client.wait(timeout=60) != 0:
                sys.exit(f"talaria exec ended with status {client.returncode}")
            r.show("client", "$", "in")
        finally:
            server.send_signal(signal.SIGINT)  # ends the kernels and their host as well
            server.wait(timeout=60)
            for reader in r.readers:
                reader.join()
        return [line for line in r.lines if line.style != "out" or line.text]


def check(lines: list[Shown]) -> None:
    """The picture must not claim more than what happened."""
    got = [line.text for line in lines if line.pane == "client" and line.style == "out"]
    for i, text in enumerate(got, 1):
        if not text.startswith(f"line {i:2} of 10"):
            sys.exit(f"line {i} is {text!r}")
    if len(got) != 10:
        sys.exit(f"{len(got)} of 10 lines arrived")


def wrapped(line: Shown) -> list[Shown]:
    """A line as a terminal of COLUMNS columns breaks it."""
    return [replace(line, text=line.text[i:i + COLUMNS]) for i in range(0, len(line.text), COLUMNS)]


def draw(recorded: list[Shown], moving: bool) -> str:
    lines = [part for line in recorded for part in wrapped(line)]
    start = min(line.at for line in lines if line.pane == "client") - LEAD_IN
    length = lines[-1].at - start + HOLD
    server_rows = sum(line.pane == "server" for line in lines)
    top = {"server": PAD + LINE, "client": PAD + LINE * (server_rows + 2.5)}
    height = PAD * 2 + LINE * (len(lines) + 1.5)
    style = [
        "svg{font:13.5px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}",
        ".out{fill:#d8dee9}.in{fill:#8fbcbb}.bad{fill:#ff6b6b;font-weight:bold}.title{fill:#7b8494;font-size:12px}",
    ]
    body = [
        f'<rect width="{WIDTH}" height="{height:g}" rx="8" fill="#171b22"/>',
        f'<path d="M0 {top["client"] - LINE * 1.5:g}H{WIDTH}" stroke="#2c3340"/>',
    ]
    for pane, title in (("server", "terminal 1: the server"), ("client", "terminal 2: a client")):
        body.append(f'<text class="title" x="{WIDTH - PAD}" y="{top[pane]:g}" text-anchor="end">{title}</text>')
    rows = {"server": 0, "client": 0}
    for n, line in enumerate(lines):
        y = top[line.pane] + LINE * rows[line.pane]
        rows[line.pane] += 1
        name = ""
        if moving and line.at > start:
            percent = (line.at - start) / length * 100
            style.append(f"@keyframes k{n}{{0%,{percent:.2f}%{{opacity:0}}{percent + 0.01:.2f}%,100%{{opacity:1}}}}"
                         f".k{n}{{animation:k{n} {length:.2f}s infinite}}")
            name = f" k{n}"
        body.append(f'<text class="{line.style}{name}" x="{PAD}" y="{y:g}" xml:space="preserve">{escape(line.text)}</text>')
    style.append("@media (prefers-reduced-motion:reduce){text{animation:none!important}}")
    label = "A cell prints lines. The server is killed and started again. The cell goes on, and no line is missing."
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" '
            f'role="img" aria-label="{label}"><style>{"".join(style)}</style>' + "\n".join(body) + "</svg>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="bin/talaria")
    parser.add_argument("--addr", default="127.0.0.1:8765")
    args = parser.parse_args()
    lines = sorted(record(os.path.abspath(args.binary), args.addr), key=lambda line: line.at)
    check(lines)
    for name, moving in (("restart.svg", True), ("restart-still.svg", False)):
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(draw(lines, moving))


if __name__ == "__main__":
    main()
