"""Serves the program pip, as other processes of the session run it. They reach it through a folder with a
named pipe, to which the program writes an id. Next to that, ID.request is a file with its request, and
ID.answer is a named pipe of its own for the answers: lines of JSON, {"text":…} any number of times, then
{"error":…}, or {"local":true}, which makes it run the pip of the environment. There may be no sockets here.

Anything in the folder may come from anybody inside, and so from code of the user.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
import sys
from _thread import allocate_lock
from posix import O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, close, fstat, getsid, open, read
from select import POLLIN, poll
from stat import S_ISFIFO, S_ISREG

from talaria_runner.packages.installs import Installs
from talaria_runner.packages.pip_arguments import Refused, change_of
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire import frames
from talaria_runner.wire.descriptors import Descriptors, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ASKS = "asks"
_ID = 32  # hexadecimal digits
_HEX = frozenset("0123456789abcdef")
_MOST = 8  # that are served at a time
_LONGEST = 512 << 10  # bytes of a request
_CHUNK = 64 * (_ID + 1)
_MODULES = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + "/programs/python"


class Programs:
    def __init__(
        self,
        installs: Installs,
        interrupts: Interrupts,
        descriptors: Descriptors,
        start: Callable[[Callable[[], None]], None],
    ) -> None:
        """start runs a function in a new thread."""
        self._installs = installs
        self._interrupts = interrupts
        self._descriptors = descriptors
        self._start = start
        self._folder = ""
        self._rest = b""
        self._lock = allocate_lock()  # for the count
        self._served = 0

    def begin(self, folder: str) -> None:
        """Opens the pipe, if there is a folder for it. Without it, programs find nobody to ask."""
        if not folder:
            return
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            os.mkfifo(f"{folder}/{ASKS}", 0o600)
            # For writing as well, so that it never reaches its end.
            self._descriptors.take_asks(open(f"{folder}/{ASKS}", O_RDWR | O_NONBLOCK | O_CLOEXEC))
            self._folder = folder
        except OSError:
            pass

    def revive(self) -> None:
        """In a copy that has become the interpreter: nothing is being served."""
        self._rest = b""
        self._lock = allocate_lock()
        self._served = 0

    def fileno(self) -> int:
        """The descriptor that programs write to, or -1."""
        return self._descriptors.asks

    def hear(self, events: int) -> bool:
        """Serves what has arrived. Called by the reader; returns False if nothing will come any more."""
        try:
            if not events & POLLIN:
                return False
            *whole, self._rest = (self._rest + read(self._descriptors.asks, _CHUNK)).split(b"\n")
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._rest = self._rest[-_ID:]
        for line in whole:
            name = line.decode("ascii", "replace")
            if len(name) == _ID and _HEX.issuperset(name):
                self._admit(name)
        return True

    def _admit(self, name: str) -> None:
        with self._lock:
            admitted = self._served < _MOST
            self._served += admitted
        if admitted:
            try:
                self._start(lambda: self._serve(name))
                return
            except (RuntimeError, MemoryError):  # there can be no more threads
                self._leave()
        self._refuse(name)

    def _leave(self) -> None:
        with self._lock:
            self._served -= 1

    def _refuse(self, name: str) -> None:
        try:
            answer = _Answer(f"{self._folder}/{name}.answer")
            try:
                answer.say(error="too many programs are asking for packages at once; try again")
            finally:
                answer.close()
        except OSError:
            pass  # it is gone

    def _serve(self, name: str) -> None:
        try:
            answer = _Answer(f"{self._folder}/{name}.answer")
            try:
                self._obey(f"{self._folder}/{name}.request", answer)
            finally:
                answer.close()
        except BaseException:
            pass  # the caller is gone, or was not to be answered
        finally:
            self._leave()

    def _obey(self, path: str, answer: _Answer) -> None:
        try:
            request = frames.decode(_content(path))
            if request.get("prefix") not in ("", sys.prefix):
                answer.say(local=True)
                return
            change = change_of(request.get("change"))
            # A process in a terminal, or one that was sent to the background, belongs to no cell.
            of_cell = request.get("session") == getsid(0)
            execution = self._interrupts.execution if of_cell else None
        except Refused as e:
            answer.say(error=str(e))
            return
        answer.say(error=self._installs.change(change, execution, lambda text: answer.say(text=text), answer))


class _Answer:
    """The named pipe of one program. Raises OSError if that is gone."""

    def __init__(self, path: str) -> None:
        self._fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)
        try:
            if not S_ISFIFO(fstat(self._fd).st_mode):
                raise OSError("no pipe")
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except BaseException:
            close(self._fd)
            raise
        self._lock = allocate_lock()  # held to wake and to close
        self._poll = poll()
        self._poll.register(self._fd, 0)
        self._poll.register(self._wake, POLLIN)

    def say(self, **fields: object) -> None:
        write_all(self._fd, (frames.encode(fields) + "\n").encode("ascii"))

    def wake(self) -> None:
        """Called in another thread; the request may be over by then."""
        with self._lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def wait(self) -> None:
        """Waits until wake is called."""
        for fd, events in self._poll.poll():
            if fd == self._fd and events & ~POLLIN:
                raise OSError("the caller is gone")
        os.eventfd_read(self._wake)

    def close(self) -> None:
        with self._lock:
            wake, self._wake = self._wake, -1
        close(wake)
        close(self._fd)


def pass_by() -> None:
    """Makes other processes get the pip of their environment when they import it."""
    paths = os.environ.get("PYTHONPATH", "").split(":")
    if _MODULES in paths:
        paths.remove(_MODULES)
        os.environ["PYTHONPATH"] = ":".join(paths)
        if not paths:
            del os.environ["PYTHONPATH"]


def _content(path: str) -> bytes:
    """The content of a request. The file is removed."""
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)
    try:
        if not S_ISREG(fstat(fd).st_mode):
            raise OSError("no file")
        content = b""
        while len(content) <= _LONGEST and (part := read(fd, _LONGEST + 1)):
            content += part
    finally:
        close(fd)
    if len(content) > _LONGEST:
        raise OSError("too long")
    return content
