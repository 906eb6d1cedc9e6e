"""The life of a copy: it runs one item, tells the interpreter what came of it, and ends."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
import sys
from _thread import allocate_lock
from marshal import dumps
from sys import modules

from posix import dup2, scandir, setpgid

from talaria_runner.errors.tracebacks import bare
from talaria_runner.own.stdlib import load
from talaria_runner.own.workspace import workspace
from talaria_runner.parallel import messages
from talaria_runner.parallel.item import Outcome
from talaria_runner.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.parallel.item import Display
    from talaria_runner.parallel.job import Job
    from talaria_runner.wire.asks import Ask

METADATA = "talaria_map"  # names the map and the item in the metadata of what an item shows

_MOST_SHOWN = 16 << 20  # bytes of all displays of one item, encoded
_MOST_DISPLAYS = 100
_MOST_FILES = 1000
_MOST_VALUE = 1 << 20  # bytes of a value as JSON
_MOST_REPR = 64 << 10  # characters
_MOST_MESSAGE = 64 << 10  # characters of an error, and of its traceback
_RELAYED = ("tool", "tools")
_CO_COROUTINE = 0x80


def run(job: Job, index: int, up: int, down: int, out: int) -> None:
    """Runs one item in this process, which was forked for it, and sends the outcome."""
    _settle(job, up, down, out)
    displays = _Displays(job, index)
    job.parts.display.sinks[:] = [displays.add]
    outcome = Outcome(index, "ok")
    try:
        value = _awaited(job.work(index))
        job.parts.figures.flush()
        outcome.value, outcome.value_type = _as_json(value) if job.as_json else (load("pickle").dumps(value, 5), "")
        value = None
    except BaseException as e:
        _fail(job, outcome, e)
    _flush(job)
    outcome.displays, outcome.files = displays.all, _files(job.folder(index))
    try:
        messages.send(up, messages.RESULT, _packed(outcome))
    except messages.TooLarge as e:
        message = f"the result takes {e.args[0]:,} bytes; the limit is {messages.MOST >> 20} MiB; write it to a file in talaria.item_dir"
        outcome.status, outcome.value, outcome.displays = "error", None, []
        outcome.error = ("MemoryError", message, [f"MemoryError: {message}"])
        messages.send(up, messages.RESULT, _packed(outcome))


def _settle(job: Job, up: int, down: int, out: int) -> None:
    """Makes this process one of its own."""
    setpgid(0, 0)
    dup2(out, 1)
    dup2(out, 2)
    job.parts.asks.relay = _Relay(up, down)
    if "matplotlib.pyplot" in modules:
        modules["matplotlib.pyplot"].close("all")
    if "numpy.random" in modules:
        modules["numpy.random"].seed()  # random reseeds itself


def _awaited(value: object) -> object:
    """value, or what it returns if it is the coroutine of an async function."""
    code = getattr(value, "cr_code", None)
    if code is None or not code.co_flags & _CO_COROUTINE:
        return value
    return load("asyncio").run(value)


def _fail(job: Job, outcome: Outcome, error: BaseException) -> None:
    outcome.status, outcome.value = "error", None
    try:
        name, message, lines = job.parts.tracebacks.describe(error, hint=True)[:3]
    except BaseException:
        name, message, lines = bare(error)[:3]
    text = "\n".join(lines)
    if len(text) > _MOST_MESSAGE:
        text = f"{text[:_MOST_MESSAGE // 2]}\n[…]\n{text[-_MOST_MESSAGE // 2:]}"
    outcome.error = (_printable(name), _printable(message[:_MOST_MESSAGE]), _printable(text).split("\n"))
    try:
        job.parts.figures.flush()
    except BaseException:
        pass  # the item has an error already


def _flush(job: Job) -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except BaseException:
            pass  # the user's, which may do anything
    job.parts.flush_c()


def _packed(o: Outcome) -> bytes:
    """See unpack."""
    return dumps((o.status, o.value, o.value_type, o.error, o.displays, o.files))


def _as_json(value: object) -> tuple[str, str]:
    """value as JSON, or its repr as a JSON string and "repr"."""
    try:
        text = frames.encode(value, _plain)
        if len(text) > _MOST_VALUE:
            print(
                f"[the value takes {len(text):,} bytes as JSON, more than the limit of {_MOST_VALUE >> 20} MiB, so it is given as its repr; "
                "write it to a file in talaria.item_dir]", file=sys.stderr)
        elif frames.is_sound(text):
            return text, ""
    except (TypeError, ValueError, RecursionError):
        pass
    return frames.quoted(_printable(repr(value)[:_MOST_REPR])), "repr"


def _plain(value: object) -> object:
    """Scalars and arrays of numpy as values of Python."""
    if type(value).__module__.partition(".")[0] != "numpy":
        raise TypeError
    return value.tolist()


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _files(folder: str) -> list[tuple[str, int]]:
    """The files below the item's folder with their sizes, by path, up to a bound."""
    found: list[tuple[str, int]] = []
    folders = [folder]
    cut = len(workspace()) + 1
    while folders and len(found) < _MOST_FILES and len(folders) <= _MOST_FILES:
        try:
            with scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        found.append((os.fsencode(entry.path[cut:]).decode("utf-8", "replace"), entry.stat().st_size))
        except OSError:
            pass  # it was not made, or not left
    return sorted(found[:_MOST_FILES])


class _Displays:
    """What the item shows."""

    def __init__(self, job: Job, index: int) -> None:
        self.all: list[Display] = []
        self._show = job.parts.display
        self._about = {METADATA: {"map": job.id, "index": index}}
        self._size = 0

    def add(self, data: dict[str, object], metadata: dict[str, object], display_id: str, update: bool) -> None:
        encoded = self._show.encode(data, {**metadata, **self._about})
        if encoded is None:
            return
        self._size += len(encoded[0])
        if self._size > _MOST_SHOWN or len(self.all) >= _MOST_DISPLAYS:
            print(f"[not shown: one item may show {_MOST_DISPLAYS} displays and {_MOST_SHOWN >> 20} MiB]", file=sys.stderr)
            return
        self.all.append((*encoded, display_id, update))


class _Relay:
    """Asks the interpreter for what only it can ask the host for."""

    def __init__(self, up: int, down: int) -> None:
        self._up = up
        self._down = messages.Incoming(down)
        self._turn = allocate_lock()

    def ask(self, ask: Ask, kind: str, body: dict[str, object]) -> bool:
        """Waits for the answer of a call of a tool. False if it passes on no asks of that kind."""
        if kind not in _RELAYED:
            return False
        with self._turn:
            messages.send(self._up, messages.ASK, frames.encode({"kind": kind, "body": body}).encode())
            answer = frames.decode(self._answer())
        ask.id = answer["id"]
        ask.settle(answer["body"], answer["error"], answer["code"])
        return True

    def tool_ended(self, id: str, error: tuple[str, str] | None, duration_ms: int) -> None:
        with self._turn:
            ended = {"id": id, "error": error, "duration_ms": duration_ms}
            messages.send(self._up, messages.TOOL_END, frames.encode(ended).encode())

    def _answer(self) -> bytes:
        while self._down.read():
            for kind, body in self._down.messages():
                if kind == messages.ANSWER:
                    return body
        raise EOFError("the map has ended")
