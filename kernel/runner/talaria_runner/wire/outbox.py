"""The only way out: a queue of text and frames, written to the control socket.

The thread that needs something written writes it itself, as far as the socket takes it at once, which saves handing it over. The
outbox has a thread of its own for the rest: what the socket does not take at once, text that is joined under load, frames that need
marks, and frames of threads that must not be held up.

One thread writes at a time. Signal handlers, trace functions and finalisers of user code run in the middle of that, and may raise,
or write something themselves. So writing can be broken off anywhere: what is being written is kept with the number of bytes that
were written, and the next writer goes on with it. If such code needs something written, the outbox's thread takes over from the
thread that it interrupted, which notices that before its next step. CPython switches threads and runs such code after calls and at
backward jumps only; comments name the places that rely on it.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _collections import deque
from _thread import LockType, allocate_lock, get_ident
from posix import _exit, write
from select import POLLOUT

from talaria_runner.run.execution import Execution, owner
from talaria_runner.wire import frames
from talaria_runner.wire.descriptors import Descriptors, wait_for, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PAUSE = 0.005  # s for which text is joined under load
LINE = 0.02  # s for which text that ends no line waits for the rest of it
AT_ONCE = 8  # lines that are sent at once in each such interval, before joining begins
PIECE = 64 << 10  # characters in one stream frame at most
FULL = 256 << 10  # waiting characters from which a writer has to wait
GONE = 74  # exit status when the host is gone
_SEGMENT = 64  # characters that take as long to write as what a frame takes without its text, or longer
_TOGETHER = 32  # with more than that in the queue, each frame is written by itself


class Segment:
    """Text that one execution wrote to one stream with nothing in between."""

    __slots__ = ("stream", "execution", "parts", "text", "sent", "size")

    def __init__(self, stream: object, execution: Execution, text: str) -> None:
        self.stream = stream
        self.execution = execution
        self.parts = [text]
        self.text: str | None = None
        self.sent = 0
        self.size = _SEGMENT  # characters that count as waiting in addition to those that are not sent


class Frame:
    __slots__ = ("head", "marked", "size")

    def __init__(self, head: str, marked: bool) -> None:
        self.head = head
        self.marked = marked
        self.size = len(head)


class _Sending:
    """What is being written: one or more frames, or a part of a segment."""

    __slots__ = ("items", "end", "more", "data", "counts")

    def __init__(self, items: Sequence[Segment | Frame], data: bytes, end: int = 0, more: bool = False) -> None:
        self.items = items
        self.end = end  # of the segment, how much is sent then
        self.more = more  # the segment has more than that
        self.data = memoryview(data)
        self.counts: list[int] = []  # of bytes that were written, by system call


class Outbox:
    """The queue. Its methods are safe in every thread, in signal handlers and in finalisers.

    tail is the segment that further text may be appended to. Between reading tail and the append there is neither a call nor a
    backward jump, here and in streams/output.py.
    """

    def __init__(self, descriptors: Descriptors) -> None:
        self.tail: Segment | None = None
        self.size = 0  # characters that wait
        self.credit = AT_ONCE
        self.asleep = True
        self.forked = False
        self._awaits_line = False  # there is text whose line may be completed within a moment
        self._urgent = False  # the queue has something that does not wait for that
        self._writer = 0  # the thread that writes, or 0
        self._sending: _Sending | None = None  # what that thread is at, or what the next one goes on with
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
        size = len(text) + _SEGMENT
        self.tail = segment
        self.size += size  # no call between this and the next one
        try:
            self._queue.append(segment)
        except MemoryError:
            self.tail = None  # further text begins a segment that is in the queue
            self.size -= size
            raise

    def put(self, head: str, marked: bool = False) -> None:
        """Queues a frame after everything written before, to be written soon."""
        if not self.forked:
            self.add(head, marked)
            self.wake()

    def add(self, head: str, marked: bool = False) -> None:
        """Queues a frame after everything written before. The caller calls write soon."""
        if self.forked:
            return
        frame = Frame(head, marked)
        self.size += frame.size
        self.tail = None
        self._queue.append(frame)

    def write(self) -> bool:
        """Writes everything queued before, here and now. False if that is left to another thread: one is writing already, marks are
        needed, the socket does not take everything at once, or memory is full."""
        queue = self._queue
        if self.forked or not queue:
            return True
        me = get_ident()
        if self._writer == me:  # code of the user has interrupted the writing, which goes no further
            self._writer = 0
            self.wake()
            return False
        if self._marking:
            self.wake()
            return False
        if self._writer:
            return False
        self._writer = me  # no call since it was read
        last = queue[-1] if queue else None
        try:
            return self._write_to(last, me)
        except MemoryError:
            return False
        finally:
            if self._writer == me:
                self._writer = 0
            if queue:
                self.wake()

    def wake(self) -> None:
        """Makes the queue be written soon."""
        self._urgent = True
        self._rouse()

    def wake_for_line(self) -> None:
        """Makes the queue be written unless the rest of a line follows within a moment, as from print, which writes what ends the line
        by itself. Otherwise one line would often be two events on a busy machine."""
        self._awaits_line = True
        if self.asleep:
            self._rouse()

    def _rouse(self) -> None:
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
        if self.forked or not self._opened or self.write() or get_ident() == self._thread:
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
        """The outbox's own thread. Returns when this process leaves the streams to another one."""
        self._thread = get_ident()
        kick = self._kick
        while True:
            kick.acquire()
            while True:
                if self._awaits_line:
                    self._awaits_line = False
                    if not self._urgent:
                        kick.acquire(True, LINE)
                self._urgent = False
                if self._kick is not kick:
                    return
                self._drain()
                # Asleep means that a thread that queues something wakes us; so look once more after saying
                # so.
                if not kick.acquire(True, PAUSE):
                    self.credit = AT_ONCE
                    if self._is_done():
                        self.asleep = True
                        if self._is_done():
                            break
                        self.asleep = False

    def _is_done(self) -> bool:
        """Whether nothing is queued, or a thread writes, which wakes this one if it leaves something."""
        return not self._queue or self._writer != 0

    def _drain(self) -> None:
        """Writes the queue in the outbox's own thread, unless another thread does."""
        while self._queue:
            # Neither a call nor a backward jump, which a loop with this condition would have, between the next two.
            if self._writer:
                return
            self._writer = self._thread
            full = False
            try:
                self._write_to(None, self._thread)
            except MemoryError:
                full = True
            finally:
                if self._writer == self._thread:
                    self._writer = 0
            if full:
                # User code took it all. It gets the exception as well and gives some back.
                self._kick.acquire(True, 0.05)

    def _write_to(self, last: Segment | Frame | LockType | None, me: int) -> bool:
        """Writes the queue up to that item, or all of it. False if this thread cannot go on."""
        while self._queue:
            taken = self._write_first(me)
            if taken is None:
                return False
            if last in taken:
                break
        return True

    def _write_first(self, me: int) -> Sequence[Segment | Frame | LockType] | None:
        """Writes what is first in the queue, and returns what it took from the queue, or None if this thread cannot go on."""
        sending = self._sending
        if sending is None:
            item = self._queue[0] if self._queue else None
            if item is None:
                return ()
            if type(item) is LockType:
                return self._release(item)
            if self._marking and me != self._thread:  # writing marks may block
                return None
            made = self._prepare_text(item) if type(item) is Segment else self._prepare_frames(item)
            if self._writer != me:  # no call between this and the next one
                return None
            self._sending = sending = made
        if not self._send(sending, me):
            return None
        return self._finish(sending)

    def _send(self, sending: _Sending, me: int) -> bool:
        """Writes what is not written yet. False if this thread cannot go on."""
        counts, data, control = sending.counts, sending.data, self._descriptors.control
        while (at := sum(counts)) < len(data):
            rest = map(write, (control,), (data[at:],))
            if self._writer != me:  # no call between this and the next one
                return False
            try:
                # Writing and taking note of it is one call. No code of the user runs during it, since the socket does not block.
                counts.extend(rest)
            except OSError as e:
                if e.__traceback__ is not None and e.__traceback__.tb_next is not None:
                    raise  # a signal handler did, after the call
                if not isinstance(e, BlockingIOError):
                    _exit(GONE)
                if me != self._thread:
                    return False
                wait_for(control, POLLOUT)
        return True

    def _finish(self, sending: _Sending) -> Sequence[Segment | Frame]:
        """Takes what is written from the queue. It may be broken off and repeated."""
        queue = self._queue
        for item in sending.items:
            if sending.end and sending.end > item.sent:  # no call until it is counted
                self.size -= sending.end - item.sent
                item.sent = sending.end
            if sending.more:
                break
            if queue and queue[0] is item:
                self.size -= item.size  # no call between this and the next one
                queue.popleft()
        if self._sending is sending:
            self._sending = None
        return () if sending.more else sending.items

    def _release(self, written: LockType) -> Sequence[LockType]:
        try:
            written.release()
        except RuntimeError:
            pass  # it was released before this was broken off
        if self._queue and self._queue[0] is written:
            self._queue.popleft()
        return (written,)

    def _prepare_text(self, segment: Segment) -> _Sending:
        if self.tail is segment:
            self.tail = None
        if segment.text is None:
            segment.text = "".join(segment.parts)
        segment.parts.clear()
        text, at = segment.text, segment.sent
        if not text:
            return _Sending((segment,), b"")
        end = min(at + PIECE, len(text))
        head = frames.stream(segment.execution, segment.stream.kind, printable(text[at:end]))
        return _Sending((segment,), self._line(head, True), end, end < len(text))

    def _prepare_frames(self, first: Frame) -> _Sending:
        """That frame, and those that follow it unless something has to come between them."""
        if self._marking or len(self._queue) > _TOGETHER:
            return _Sending((first,), self._line(first.head, first.marked))
        together = []
        for item in list(self._queue):  # one call: other threads add to the queue
            if type(item) is not Frame:
                break
            together.append(item)
        return _Sending(together, b"".join([self._line(frame.head, False) for frame in together]))

    def _line(self, head: str, marked: bool) -> bytes:
        if not marked or not self._marking:
            return f"\n{head}}}\n".encode("ascii")
        self._marks += 1
        mark = f"\x1e{self._mark}:{self._marks}\x1e".encode("ascii")
        for pipe in self._descriptors.pipes:
            try:
                write_all(pipe, mark)
            except OSError:
                pass  # closed by user code: nothing else comes through it either
        return f'\n{head},"mark":{self._marks}}}\n'.encode("ascii")

    def leave(self) -> None:
        """Leaves the streams to another process, until revive. Called by the main thread when everything is written."""
        self.forked = True
        kick, self._kick = self._kick, allocate_lock()
        try:
            kick.release()
        except RuntimeError:
            pass  # it is awake

    def revive(self) -> None:
        """In a copy that has become the interpreter, before open."""
        self.forked = False
        self.asleep = True
        self._writer = 0
        self._sending = None
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
