"""The host's side, for tests: it starts a runner, exchanges frames, and orders pipes and frames by the marks."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import math
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

RUNNER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.environ.get("RUNNER_PYTHON", sys.executable)
ENGINE = os.environ.get("RUNNER_ENGINE", "stdlib")  # of all runners that are given no engine
PATIENCE = float(os.environ.get("PATIENCE", "60"))  # s after which a waiting test has failed

BOOT = "import sys; sys.path.append({lib!r}); from talaria_runner.main import run; sys.path.remove({lib!r}); run({fd}, {engine!r})"


@dataclass
class Outcome:
    """The outcome of one execution. happened holds (kind, value) in the order that users see."""

    frames: list[dict] = field(default_factory=list)
    happened: list[tuple[str, object]] = field(default_factory=list)

    def add_text(self, name: str, text: str) -> None:
        if text:
            self.happened.append((name, text))

    @property
    def events(self) -> list[tuple[str, object]]:
        """What happened, with adjacent text of one stream joined."""
        joined: list[tuple[str, object]] = []
        for kind, group in itertools.groupby(self.happened, lambda event: event[0]):
            values = [value for _, value in group]
            if kind in ("stdout", "stderr"):
                joined.append((kind, "".join(values)))
            else:
                joined.extend((kind, value) for value in values)
        return joined

    def _text(self, name: str) -> str:
        return "".join(str(value) for kind, value in self.happened if kind == name)

    @property
    def stdout(self) -> str:
        return self._text("stdout")

    @property
    def stderr(self) -> str:
        return self._text("stderr")

    def of(self, kind: str) -> list[dict]:
        """The frames of that type, or the asks of that kind."""
        return [frame for frame in self.frames if kind_of(frame) == kind]

    @property
    def order(self) -> list[str]:
        return [kind for kind, _ in self.events]

    @property
    def result(self) -> dict | None:
        return self.of("result")[0]["data"] if self.of("result") else None

    @property
    def text(self) -> str | None:
        return self.result["text/plain"] if self.result else None

    @property
    def error(self) -> dict | None:
        return self.of("error")[0] if self.of("error") else None

    @property
    def traceback(self) -> str:
        return "\n".join(self.error["traceback"]) if self.error else ""

    @property
    def displays(self) -> list[dict]:
        return [frame["data"] for frame in self.of("display")]

    @property
    def status(self) -> str:
        return self.of("done")[0]["status"]

    @property
    def interrupted(self) -> bool:
        return self.of("done")[0]["interrupted"]


def kind_of(frame: dict) -> str:
    return frame["kind"] if frame["type"] == "ask" else frame["type"]


_MARK = re.compile(rb"\x1e[0-9a-f]+:\d+\x1e")


class Pipe:
    """The read end of the pipe on fd 1 or 2."""

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.fd = fd
        self.data = b""
        self.passed: set[bytes] = set()  # marks for which take returned no text
        self.ended = False
        os.set_blocking(fd, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.fd, 1 << 16):
                self.data += chunk

    def until(self, mark: bytes) -> bytes:
        """The bytes before the mark, which were written before the frame that names it."""
        if mark in self.passed:
            return b""
        self.drain()
        text, found, rest = self.data.partition(mark)
        assert found, f"mark {mark!r} is not in the pipe of {self.name}: {self.data[:200]!r}"
        self.data = rest
        return text

    def take(self) -> bytes:
        """Everything in the pipe. The frames of its marks may still be on their way."""
        self.drain()
        self.passed.update(_MARK.findall(self.data))
        text, self.data = _MARK.sub(b"", self.data), b""
        return text


class Runner:
    """One runner. Use it as a context manager."""

    def __init__(
        self, env: dict[str, str] | None = None, python: str = PYTHON, boot: str = BOOT, engine: str = ENGINE
    ) -> None:
        self.directory = tempfile.TemporaryDirectory()
        ours, theirs = socket.socketpair()
        pipes = [os.pipe(), os.pipe()]
        # As high as the real host's, so that user code does not close it by accident.
        control = fcntl.fcntl(theirs, fcntl.F_DUPFD, 900)
        self.process = subprocess.Popen(
            [python, "-I", "-S", "-c", boot.format(lib=RUNNER, fd=control, engine=engine)],
            stdin=subprocess.DEVNULL,
            stdout=pipes[0][1],
            stderr=pipes[1][1],
            pass_fds=[control],
            cwd=self.directory.name,
            env={"PATH": os.environ["PATH"], "HOME": self.directory.name, "LANG": "C.UTF-8", **(env or {})},
            start_new_session=True,
        )
        os.close(control)
        theirs.close()
        for _, write_end in pipes:
            os.close(write_end)
        self.control = ours
        self.pipes = [Pipe("stdout", pipes[0][0]), Pipe("stderr", pipes[1][0])]
        self._buffer = b""
        self._count = 0
        self._serial = 0
        self.mark = ""
        self.executions: dict[str, Outcome] = {}
        self.installs: list[dict] = []  # asks for packages, and frames that withdraw any ask
        self.installer = lambda frame: None  # called for each of them
        self._open: dict[str, list[str]] = {}  # the asks for input of each execution
        try:
            self.mark = self.next_frame()["mark"]
        except BaseException as e:
            self.__exit__(e)
            raise

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.control.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            if error[0] is None:
                raise
        for pipe in self.pipes:
            os.close(pipe.fd)
        self.directory.cleanup()

    def send(self, **frame: object) -> None:
        self.control.sendall(b"\n" + json.dumps(frame).encode() + b"\n")

    def next_frame(self, patience: float = PATIENCE) -> dict:
        """The next frame. Meanwhile the pipes are read, as a full one would block the runner."""
        deadline = time.monotonic() + patience
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                if line.strip():
                    return json.loads(line)
                continue
            left = deadline - time.monotonic()
            pipes = [pipe.fd for pipe in self.pipes if not pipe.ended]
            ready = select.select([self.control, *pipes], [], [], max(0, left))[0]
            if not ready:
                raise TimeoutError(f"no frame from the runner (exit {self.process.poll()})")
            for pipe in self.pipes:
                if pipe.fd in ready:
                    size = len(pipe.data)
                    pipe.drain()
                    # At its end: the process is gone, or all others have closed the other end.
                    pipe.ended = len(pipe.data) == size
            if self.control in ready:
                chunk = self.control.recv(1 << 18)
                if not chunk:
                    self.pipes[1].drain()
                    raise EOFError(f"the runner closed the control socket: {self.pipes[1].data.decode()}")
                # A long line comes in many chunks.
                while b"\n" not in chunk and len(self._buffer) > 1 << 16:
                    more = self.control.recv(1 << 20)
                    chunk += more
                    if not more:
                        break
                self._buffer += chunk

    def start(self, code: str, silent: bool = False, allow_stdin: bool = False) -> str:
        self._serial += 1
        if not silent:
            self._count += 1
        id = f"e{self._serial}"
        self.executions[id] = Outcome()
        count = 0 if silent else self._count
        self.send(type="execute", id=id, code=code, count=count, silent=silent, allow_stdin=allow_stdin)
        return id

    def finish(
        self, id: str, answers: list[str | None] = (), until: str = "done", within: float = math.inf
    ) -> Outcome:
        """Reads frames until the execution is done, or until one of that type, but no longer than within
        seconds. None refuses a question."""
        answers = list(answers)
        deadline = time.monotonic() + within
        while True:
            frame = self.next_frame(min(PATIENCE, deadline - time.monotonic()))
            kind = kind_of(frame)
            if kind in ("install", "ask_end"):
                self.installs.append(frame)
                self.installer(frame)
                if frame.get("id") == id and until == "install":
                    return self.executions[id]
                continue
            outcome = self.executions[frame["id"]]
            outcome.frames.append(frame)
            self._place(outcome, frame)
            if kind == "input":
                self._open.setdefault(frame["id"], []).append(frame["ask"])
                if answers:
                    self.answer(frame, answers.pop(0))
            elif kind == "done":
                for ask in self._open.pop(frame["id"], ()):
                    self.send(type="answer", ask=ask, error="its cell has ended")
            if frame["id"] == id and kind == until:
                return outcome

    def answer(self, ask: dict, value: str | None) -> None:
        """Answers an ask for input."""
        if value is None:
            self.send(type="answer", ask=ask["ask"], error="nobody is there")
        else:
            self.send(type="answer", ask=ask["ask"], body={"value": value})

    def run(self, code: str, answers: list[str | None] = (), **how: bool) -> Outcome:
        return self.finish(self.start(code, **how), answers)

    def interrupt(self, id: str) -> None:
        self.send(type="interrupt", id=id)

    def _place(self, outcome: Outcome, frame: dict) -> None:
        kind = kind_of(frame)
        if "mark" in frame:
            mark = f"\x1e{self.mark}:{frame['mark']}\x1e".encode()
            for pipe in self.pipes:
                outcome.add_text(pipe.name, pipe.until(mark).decode("utf-8", "replace"))
        if kind in ("result", "error", "done", "input"):
            for pipe in self.pipes:
                outcome.add_text(pipe.name, pipe.take().decode("utf-8", "replace"))
        if kind == "stream":
            outcome.add_text(frame["name"], frame["text"])
        else:
            outcome.happened.append((kind, frame))


def kill(runner: Runner, number: int = signal.SIGKILL) -> None:
    runner.process.send_signal(number)


def ask(host: Runner, **frame: object) -> dict:
    """Saves or loads variables, and returns the answer."""
    host.send(request_id="r", **frame)
    while (answer := host.next_frame())["type"] not in ("saved", "loaded", "later"):
        host.executions[answer["id"]].frames.append(answer)
    return answer
