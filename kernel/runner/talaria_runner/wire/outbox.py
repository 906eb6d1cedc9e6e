"""The only way out: a queue, and the thread that writes it to the control socket.

Only that thread writes frames and marks. So no signal handler, finaliser or exception of user code, which all
happen in other threads, can interrupt a frame.

Printing appends to the queue and takes no lock that another thread may hold. It waits for the writing thread
in only three cases: for the first lines of each interval, which are sent at once, for an explicit flush, and
when the queue is full.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _collections import deque
from _thread import LockType, allocate_lock, get_ident
from posix import _exit

from talaria_runner.run.execution import Execution, owner
from talaria_runner.wire import frames
from talaria_runner.wire.descriptors import Descriptors, write_all

PAUSE = 0.005  # s for which text is joined under load
AT_ONCE = 8  # lines that are sent at once in each such interval, before joining begins
PIECE = 64 << 10  # characters in one stream frame at most
FULL = 256 << 10  # waiting characters from which a writer has to wait
GONE = 74  # exit status when the host is gone


class Segment:
    """Text that one execution wrote to one stream with nothing in between."""

    __slots__ = ("stream", "execution", "parts", "text", "sent")

    def __init__(self, stream: object, execution: Execution, text: str) -> None:
        self.stream = stream
        self.execution = execution
        self.parts = [text]
        self.text: str | None = None
        self.sent = 0


class Frame:
    __slots__ = ("head", "marked")

    def __init__(self, head: str, marked: bool) -> None:
        self.head = head
        self.marked = marked


class Outbox:
    """The queue. Its methods are safe in every thread, in signal handlers and in finalisers.

    tail is the segment that further text may be appended to. CPython switches threads after calls and at jumps
    only; between reading tail and the append there is neither, here and in streams/output.py.
    """

    def __init__(self, descriptors: Descriptors) -> None:
        self.tail: Segment | None = None
        self.size = 0  # characters that wait
        self.credit = AT_ONCE
        self.asleep = True
        self.forked = False
        self._busy = False
        self._queue: deque[Segment | Frame | LockType] = deque()
        self._kick = allocate_lock()
        self._kick.acquire()
        self._thread = 0
        self._descriptors = descriptors
        self._opened = False
        self._mark = ""
        self._marks = 0  # the last mark written
        self._marking = False

    def open(self, mark: str, again: bool = False) -> None:
        """Called before the thread runs; again in a copy that has become the interpreter. Anything queued until now belongs
        to no execution, and is dropped."""
        self._mark = mark
        self._marks = 0
        self._marking = self._marking and again
        self._queue.clear()
        self.tail = None
        self.size = 0
        self._opened = True

    def open_segment(self, stream: object, execution: Execution, text: str) -> None:
        segment = Segment(stream, execution, text)
        self.tail = segment
        self._queue.append(segment)
        self.size += len(text)

    def put(self, head: str, marked: bool = False) -> None:
        """Queues a frame after everything written before."""
        if self.forked:
            return
        frame = Frame(head, marked)
        self.size += len(head)
        self.tail = None
        self._queue.append(frame)
        self.wake()

    def wake(self) -> None:
        """Makes the queue be written soon."""
        self.asleep = False
        try:
            self._kick.release()
        except RecursionError:  # it is a RuntimeError too: nobody was woken
            self.asleep = True
            raise
        except RuntimeError:
            pass  # it was awake

    def flush(self) -> None:
        """Returns when everything queued before is written."""
        if self.forked or not self._opened or get_ident() == self._thread:
            return
        if not self._queue and not self._busy:
            return
        written = allocate_lock()
        written.acquire()
        self._queue.append(written)
        self.wake()
        written.acquire()

    def begin(self) -> None:
        """A cell begins: its first lines go out at once."""
        self.credit = AT_ONCE

    def settle(self) -> None:
        """A cell ends: text that C code has kept in its buffers comes after what Python printed."""
        if self._marking:
            self.flush()

    def begin_marks(self) -> None:
        """Marks frames from now on. Bytes written to the pipes after this call come after all frames before it."""
        if not self._marking:
            self._marking = True
            # Earlier frames had no mark. One without text puts a mark between them and what follows.
            self.put(frames.stream(owner(), "stdout", ""), marked=True)
        self.flush()

    def run(self) -> None:
        """The writing thread. Never returns."""
        self._thread = get_ident()
        kick = self._kick
        while True:
            kick.acquire()
            while True:
                self._drain()
                # Asleep means that a thread that queues something wakes us; so look once more after saying
                # so.
                if not kick.acquire(True, PAUSE):
                    self.credit = AT_ONCE
                    if not self._queue:
                        self.asleep = True
                        if not self._queue:
                            break
                        self.asleep = False

    def _drain(self) -> None:
        queue = self._queue
        self._busy = True
        while queue:
            item = queue[0]
            try:
                if type(item) is Segment:
                    self._send_segment(item)
                elif type(item) is Frame:
                    self._send(item.head, item.marked)
                    self.size -= len(item.head)
                else:
                    item.release()
            except MemoryError:
                # User code took it all. It gets the exception as well and gives some back.
                self._kick.acquire(True, 0.05)
                continue
            queue.popleft()
        self._busy = False

    def _send_segment(self, segment: Segment) -> None:
        if self.tail is segment:
            self.tail = None
        if segment.text is None:
            segment.text = "".join(segment.parts)
            segment.parts.clear()
        text = segment.text
        while segment.sent < len(text):
            piece = text[segment.sent:segment.sent + PIECE]
            self._send(frames.stream(segment.execution, segment.stream.kind, printable(piece)), True)
            segment.sent += len(piece)
            self.size -= len(piece)

    def _send(self, head: str, marked: bool) -> None:
        try:
            if marked and self._marking:
                self._marks += 1
                mark = f"\x1e{self._mark}:{self._marks}\x1e".encode("ascii")
                for pipe in self._descriptors.pipes:
                    try:
                        write_all(pipe, mark)
                    except OSError:
                        pass  # closed by user code: nothing else comes through it either
                line = f'\n{head},"mark":{self._marks}}}\n'
            else:
                line = f"\n{head}}}\n"
            write_all(self._descriptors.control, line.encode("ascii"))
        except OSError:
            _exit(GONE)

    def revive(self) -> None:
        """In a copy that has become the interpreter, before open."""
        self.forked = self._busy = False
        self.asleep = True
        self._opened = False
        self._kick = allocate_lock()
        self._kick.acquire()

    def become_child(self) -> None:
        """In a forked child there is no writing thread, and the socket belongs to the parent."""
        self.forked = True
        self.tail = None
        self._queue = deque()
        self._descriptors.close_private()



def printable(text: str) -> str:
    """text with U+FFFD for lone surrogates, which cannot be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
