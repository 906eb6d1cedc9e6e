"""The copies of one map: they are forked, listened to, and ended. Everything here runs in the main thread."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from _signal import SIGKILL
from errno import EAGAIN, ENOMEM
from gc import freeze, get_freeze_count, unfreeze
from marshal import loads
from select import POLLIN, POLLOUT, poll
from time import monotonic

from posix import (
    WIFSIGNALED, _exit, close, fork, kill, killpg, pipe, read, set_blocking, setpgid, waitpid, waitstatus_to_exitcode, write,
)

from talaria_runner.own import openmp
from talaria_runner.own.stdlib import load
from talaria_runner.parallel import inside, messages
from talaria_runner.parallel.item import Outcome
from talaria_runner.parallel.text import Text
from talaria_runner.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from talaria_runner.parallel.job import Job
    from talaria_runner.run.execution import Execution
    from talaria_runner.wire.asks import Ask

_CHUNK = 1 << 16
_MOST_READS = 256  # of what is left when an item has ended: a process that it left running may write for ever
_UNHEARD = 0.1  # s that count as a copy's own time although nobody listened
_GONE = ("interrupted", "the item of the map that called it has ended")


class _Copy:
    """One copy, as the interpreter sees it."""

    def __init__(self, index: int, pid: int, up: int, down: int, out: int) -> None:
        self.index = index
        self.pid = pid
        self.up = up
        self.down = down
        self.out = out
        self.handle = -1  # a descriptor that is readable once the process has ended, or -1
        self.incoming = messages.Incoming(up)
        self.outgoing = bytearray()
        self.text = Text()
        self.began = monotonic()
        self.deadline: float | None = None
        self.left = 0.0  # s of its time, while it waits for a tool
        self.ask: Ask | None = None
        self.carried: dict[str, Ask] = {}  # calls of tools that it carries out itself
        self.result: bytes | None = None
        self.over = False
        self.timed_out = False

    def descriptors(self) -> list[int]:
        return [fd for fd in (self.up, self.down, self.out, self.handle) if fd >= 0]

    def close(self) -> None:
        for fd in self.descriptors():
            close(fd)
        self.up = self.down = self.out = self.handle = -1

    def read_text(self) -> bool:
        """Keeps what it printed; False at the end, or if there is nothing now."""
        try:
            data = read(self.out, _CHUNK)
        except BlockingIOError:
            return False
        self.text.add(data)
        return bool(data)


class Pool:
    """Runs the items of a job, as many at a time as its width says."""

    def __init__(self, job: Job, execution: Execution | None) -> None:
        self.job = job
        self._execution = execution  # that tools are called for
        self._uninterrupted = job.parts.interrupts.uninterrupted
        self._next = 0
        self._width = job.width
        self._copies: dict[int, _Copy] = {}  # by each of their descriptors
        self._running: list[_Copy] = []
        self._poller = poll()
        self._wake = pipe()
        for fd in self._wake:
            set_blocking(fd, False)
        self._poller.register(self._wake[0], POLLIN)
        self._heard = 0.0  # when the copies were listened to last
        self._ended = False
        openmp.pause()
        # Pages that the garbage collector writes to are shared no longer.
        self._froze = get_freeze_count() == 0
        if self._froze:
            freeze()

    def outcomes(self, tick_s: float) -> Iterator[Outcome | None]:
        """Yields the outcome of each item as it ends, and None meanwhile, at least every tick_s. Closing it ends the rest."""
        try:
            while not self._ended and (self._next < self.job.count or self._running):
                self._uninterrupted(self._fill)
                over = self._wait(tick_s)
                if not over:
                    yield None
                for copy in over:
                    yield self._uninterrupted(self._finish, copy)
                    if self._ended:  # with the cell, and so have the other copies
                        return
                    if self._next < self.job.count:
                        openmp.pause()  # whoever took the outcome may have used it
        finally:
            self.end()

    def end(self) -> None:
        """Ends all copies, with all processes that they have started."""
        if self._ended:
            return
        self._ended = True
        for copy in list(self._running):
            self._uninterrupted(self._finish, copy)
        for fd in self._wake:
            close(fd)
        if self._froze:
            unfreeze()

    def _fill(self) -> None:
        while self._next < self.job.count and len(self._running) < self._width:
            try:
                self._start(self._next)
            except OSError as e:
                if e.errno not in (EAGAIN, ENOMEM) or not self._running:
                    e.add_note("talaria.map: no process can be started for an item; end other processes, or raise limits.pids or limits.memory_bytes")
                    raise
                self._width = len(self._running)
                return
            self._next += 1

    def _start(self, index: int) -> None:
        pipes = [pipe(), pipe(), pipe()]
        (up, up_in), (down_in, down), (out, out_in) = pipes
        self.job.parts.flush_c()  # or each copy would have the text, and print it
        try:
            pid = _fork()
        except BaseException:
            for pair in pipes:
                for fd in pair:
                    close(fd)
            raise
        if not pid:
            try:
                for fd in (up, down, out, *self._wake, *self._copies):
                    close(fd)
                inside.run(self.job, index, up_in, down_in, out_in)
            finally:
                _exit(70)
        for fd in (up_in, down_in, out_in):
            close(fd)
        copy = _Copy(index, pid, up, down, out)
        self._running.append(copy)
        try:
            setpgid(pid, pid)  # as it does itself, whichever comes first
        except OSError:
            pass
        try:
            copy.handle = os.pidfd_open(pid)
        except OSError:
            pass  # then the end of its messages is its own
        if self.job.timeout_s is not None:
            copy.deadline = copy.began + self.job.timeout_s
        for fd in (up, down, out):
            set_blocking(fd, False)
        for fd in copy.descriptors():
            self._copies[fd] = copy
            if fd != down:
                self._poller.register(fd, POLLIN)

    def _wait(self, tick_s: float) -> list[_Copy]:
        """Waits for news, for tick_s at most, and returns the copies that are over."""
        now = monotonic()
        for copy in self._running:
            unheard = now - max(self._heard, copy.began)
            if copy.deadline is not None and unheard > _UNHEARD:  # it may have waited: for a tool, or with a result that nobody read
                copy.deadline += unheard
        until = min([now + tick_s, *(copy.deadline for copy in self._running if copy.deadline is not None)])
        for fd, _ in wait_for_news(self._poller, max(0.0, 1000 * (until - now))):
            if fd == self._wake[0]:
                _drain(fd)
            elif (copy := self._copies.get(fd)) is not None:
                self._hear(copy, fd)
        now = monotonic()
        for copy in self._running:
            if copy.ask is not None and copy.ask.answered:
                self._answer(copy)
            if copy.deadline is not None and copy.deadline <= now and not copy.over:
                copy.over = copy.timed_out = True
        self._heard = monotonic()
        return [copy for copy in self._running if copy.over]

    def _hear(self, copy: _Copy, fd: int) -> None:
        if fd == copy.out:
            if not copy.read_text():
                self._poller.unregister(fd)
        elif fd == copy.down:
            self._write(copy)
        elif fd == copy.up:
            copy.over = not self._receive(copy) or copy.over
        else:
            copy.over = True

    def _receive(self, copy: _Copy) -> bool:
        """Reads messages; False when no more are to be expected."""
        try:
            more = copy.incoming.read()
            for kind, body in copy.incoming.messages():
                if kind == messages.RESULT:
                    copy.result = body
                    return False
                self._serve(copy, kind, frames.decode(body))
            return more
        except (messages.TooLarge, ValueError, TypeError, KeyError, StopIteration):
            return False  # code of the item wrote there

    def _serve(self, copy: _Copy, kind: bytes, body: dict[str, object]) -> None:
        asks = self.job.parts.asks
        if kind == messages.ASK and copy.ask is None and body["kind"] in ("tool", "tools"):
            if copy.over:
                return  # it ends, and a call would do something for nobody
            if copy.deadline is not None:
                copy.left, copy.deadline = copy.deadline - monotonic(), None
            copy.ask = asks.ask(body["kind"], body["body"], self._execution, "")
            copy.ask.on_news(self._tell)
        elif kind == messages.TOOL_END and body["id"] in copy.carried:
            error = body["error"]
            asks.tool_ended(
                copy.carried.pop(body["id"]), self._execution, None if error is None else tuple(map(str, error)), int(body["duration_ms"])
            )

    def _tell(self) -> None:
        """Makes the main thread look at the asks. Called by the reading thread."""
        try:
            write(self._wake[1], b"!")
        except OSError:
            pass  # it was told, or the map has ended

    def _answer(self, copy: _Copy) -> None:
        ask, copy.ask = copy.ask, None
        self.job.parts.asks.end(ask)
        if ask.body.get("run"):
            copy.carried[ask.id] = ask
        if self.job.timeout_s is not None:
            copy.deadline = monotonic() + copy.left
        answer = frames.encode({"id": ask.id, "body": ask.body, "error": ask.error, "code": ask.code}).encode()
        copy.outgoing += messages.head(messages.ANSWER, answer) + answer
        self._poller.register(copy.down, POLLOUT)

    def _write(self, copy: _Copy) -> None:
        try:
            del copy.outgoing[:write(copy.down, memoryview(copy.outgoing)[:_CHUNK].tobytes())]
        except BlockingIOError:
            return
        except OSError:
            copy.outgoing.clear()  # it has ended
        if not copy.outgoing:
            self._poller.unregister(copy.down)

    def _finish(self, copy: _Copy) -> Outcome:
        """Ends a copy, and says what came of it."""
        copy.over = True
        duration = monotonic() - copy.began
        status = _end(copy.pid)
        for _ in range(_MOST_READS):  # what it sent before
            if copy.result is not None or not _readable(copy.up) or not self._receive(copy):
                break
        for _ in range(_MOST_READS):
            if not copy.read_text():
                break
        asks = self.job.parts.asks
        if copy.ask is not None:
            asks.end(copy.ask)
            if copy.ask.body.get("run"):  # it was to carry that out, and has not heard of it
                copy.carried[copy.ask.id] = copy.ask
        for ask in copy.carried.values():
            asks.tool_ended(ask, self._execution, _GONE, 0)
        for fd in copy.descriptors():
            del self._copies[fd]
            try:
                self._poller.unregister(fd)
            except (KeyError, OSError):
                pass  # it was not registered
        copy.close()
        self._running.remove(copy)
        outcome = self._outcome(copy, status)
        outcome.text = str(copy.text)
        outcome.duration_ms = int(1000 * duration)
        return outcome

    def _outcome(self, copy: _Copy, status: int | None) -> Outcome:
        if copy.result is not None:
            try:
                return _unpacked(copy.index, copy.result)
            except (ValueError, TypeError, EOFError):
                pass  # code of the item wrote there
        if copy.timed_out:
            return Outcome(copy.index, "timeout", f"{self.job.timeout_s:g} s")
        if status is None:
            return Outcome(copy.index, "died", "ended")
        code = waitstatus_to_exitcode(status)
        return Outcome(copy.index, "died", f"signal:{_signal_name(-code)}" if WIFSIGNALED(status) else f"exit:{code}")


def _fork() -> int:
    """fork, without Python's warning that there are other threads: the runner's are made for that."""
    warnings = load("warnings")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fork()


def _unpacked(index: int, data: bytes) -> Outcome:
    outcome = Outcome(index, "")
    outcome.status, outcome.value, outcome.value_type, outcome.error, outcome.displays, outcome.files = loads(data)
    return outcome


def _end(pid: int) -> int | None:
    """Ends a process with its group, and returns its wait status; None if somebody else has waited for it."""
    try:
        killpg(pid, SIGKILL)
    except OSError:
        pass
    try:
        kill(pid, SIGKILL)  # if it has left the group
        return waitpid(pid, 0)[1]
    except OSError:
        return None


def _signal_name(number: int) -> str:
    try:
        return load("signal").Signals(number).name
    except ValueError:
        return str(number)


def wait_for_news(poller: object, timeout_ms: float) -> list[tuple[int, int]]:
    """The only function here in which an interrupt may raise."""
    return poller.poll(timeout_ms)


def _readable(fd: int) -> list[tuple[int, int]]:
    poller = poll()
    poller.register(fd, POLLIN)
    return poller.poll(0)


def _drain(fd: int) -> None:
    try:
        while read(fd, _CHUNK):
            pass
    except BlockingIOError:
        pass
