"""The outbox by itself, while signal handlers and other threads get in the way of the thread that writes."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
import types
import unittest
import unittest.mock
from collections import deque

from talaria_runner.run.execution import current, owner
from talaria_runner.streams.output import TextOut
from talaria_runner.wire import outbox
from talaria_runner.wire.outbox import Outbox

_STEPS = 400
_EVERY = 0.0002  # s between two signals


class Raised(TimeoutError):
    """What the handler raises: an OSError, as a system call may."""


class Full(deque):
    def append(self, item: object) -> None:
        raise MemoryError


class Writing(unittest.TestCase):
    def setUp(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so that it is full most of the time
        ours.setblocking(False)
        self.addCleanup(theirs.close)
        self.ours = ours
        # No mocks: they take a lock, which a handler that raises leaves taken.
        self.outbox = Outbox(types.SimpleNamespace(control=ours.fileno(), pipes=()))
        self.outbox.open("mark")
        self.stdout = TextOut(1, self.outbox, types.SimpleNamespace(deliver=lambda: None))
        self.received = bytearray()
        threading.Thread(target=self.outbox.run, daemon=True).start()
        self.reader = threading.Thread(target=self.read, args=(theirs,))
        self.reader.start()
        self.raises = False
        self.armed = self.inside = False
        self.handled = 0

    def read(self, theirs: socket.socket) -> None:
        while data := theirs.recv(1 << 16):
            self.received.extend(data)
            time.sleep(0.0001)

    def handle(self, *_: object) -> None:
        if not self.armed or self.inside:
            return
        self.inside = True
        try:
            self.handled += 1
            self.interfere(self.handled)
        finally:
            self.inside = False

    def interfere(self, n: int) -> None:
        match n % 5:
            case 0 if self.raises:
                raise Raised
            case 1:
                self.outbox.put(f'{{"handler":{n}')
            case 2:
                self.outbox.add(f'{{"handler":{n}')
                self.outbox.write()
            case 3:
                self.stdout.write(f"handler {n}\n")
            case 4:
                self.stdout.write("h" * 20_000 + "\n")

    def interrupted(self, raises: bool) -> None:
        """Writes frames and lines, interrupted by a signal handler; a step that it raises in is not repeated."""
        self.raises = raises
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, self.handle))
        signal.setitimer(signal.ITIMER_REAL, _EVERY, _EVERY)
        try:
            for i in range(_STEPS):
                for step in (
                    lambda: self.outbox.add(f'{{"frame":{i},"more":"{"y" * (i % 50) * 300}"'),
                    self.outbox.write,
                    lambda: self.stdout.write(f"line {i}\n"),
                    lambda: self.stdout.write(f"part {i} "),
                ):
                    self.armed = True
                    try:
                        step()
                    except Raised:
                        pass
                    self.armed = False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def finish(self) -> tuple[list[dict], str]:
        """The frames that arrived, and the text."""
        self.outbox.flush()
        self.assertEqual(self.outbox.size, 0)
        self.ours.close()
        self.reader.join()
        frames = [json.loads(line) for line in bytes(self.received).split(b"\n") if line]
        return frames, "".join(frame["text"] for frame in frames if frame.get("type") == "stream")

    def test_a_line_is_one_frame_however_slow_its_print_is(self) -> None:
        token = current.set(owner())
        self.addCleanup(current.reset, token)
        with unittest.mock.patch.object(outbox, "LINE", 60):
            self.stdout.write("one")
            time.sleep(0.2)  # the outbox's thread would have sent it by now
            self.stdout.write("\n")
            frames, _ = self.finish()
        self.assertEqual([frame["text"] for frame in frames], ["one\n"])

    def test_text_after_some_that_memory_was_lacking_for_is_sent(self) -> None:
        token = current.set(owner())
        self.addCleanup(current.reset, token)
        queue = self.outbox._queue
        self.outbox._queue = Full()
        self.assertRaises(MemoryError, self.stdout.write, "lost\n")
        self.outbox._queue = queue
        self.stdout.write("kept\n")
        self.assertEqual(self.finish()[1], "kept\n")

    def test_text_whose_line_does_not_end_is_sent(self) -> None:
        self.stdout.write("one")
        deadline = time.monotonic() + 30
        while b"one" not in self.received and time.monotonic() < deadline:
            time.sleep(0.001)
        self.stdout.write("\n")
        self.assertEqual([frame["text"] for frame in self.finish()[0]], ["one", "\n"])

    def test_signal_handlers_that_write_change_nothing(self) -> None:
        self.interrupted(raises=False)
        self.assertGreater(self.handled, 10)
        frames, text = self.finish()
        self.assertEqual([frame["frame"] for frame in frames if "frame" in frame], list(range(_STEPS)))
        handled = [frame["handler"] for frame in frames if "handler" in frame]
        self.assertEqual(handled, [n for n in range(1, self.handled + 1) if n % 5 in (1, 2)])
        for i in range(_STEPS):
            self.assertEqual(text.count(f"line {i}\n"), 1)
            self.assertEqual(text.count(f"part {i} "), 1)

    def test_signal_handlers_that_raise_tear_no_frame(self) -> None:
        self.interrupted(raises=True)
        self.assertGreater(self.handled, 10)
        frames, text = self.finish()  # every line is JSON
        numbers = [frame["frame"] for frame in frames if "frame" in frame]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertGreater(len(numbers), _STEPS / 2)
        for i in range(_STEPS):
            self.assertLessEqual(text.count(f"line {i}\n"), 1)

    def test_threads_that_write_keep_their_order(self) -> None:
        def write(name: str) -> None:
            for i in range(_STEPS):
                self.outbox.add(f'{{"thread":"{name}","number":{i}')
                self.outbox.write()
                self.stdout.write(f"thread {name} {i}\n")

        threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        self.interrupted(raises=True)
        for thread in threads:
            thread.join()
        frames, text = self.finish()
        for name in "ab":
            self.assertEqual([frame["number"] for frame in frames if frame.get("thread") == name], list(range(_STEPS)))
            for i in range(_STEPS):
                self.assertEqual(text.count(f"thread {name} {i}\n"), 1)


if __name__ == "__main__":
    unittest.main()
