"""input(), getpass() and sys.stdin: they ask whoever is attached to the session."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

import sys
from io import BufferedReader, RawIOBase, TextIOWrapper
from _thread import LockType, allocate_lock
from posix import urandom

from talaria_runner import frames
from talaria_runner.execution import disguise
from talaria_runner.interrupts import Interrupts
from talaria_runner.outbox import Outbox

_NOT_ALLOWED = (
    "this cell was run by a client that cannot answer input(): "
    "run it with allow_stdin, or put the value into the code"
)
_REFUSED = "nobody is there to answer input(): attach a client to the session, or put the value into the code"
_NOT_RUNNING = "input() works only while a cell runs"
_END = "\x04"  # an answer that means the end of the input, as Ctrl-D does in a terminal
_IN_CHILD = "input() works only in the kernel itself, not in a process that it started"


class StdinNotImplementedError(NotImplementedError):
    """Nobody can answer a question of the cell."""


StdinNotImplementedError.__module__ = "builtins"


class Question:
    __slots__ = ("answered", "value", "problem")

    def __init__(self) -> None:
        self.answered = allocate_lock()
        self.answered.acquire()
        self.value = ""
        self.problem = ""


class Stdin:
    """Asks one question at a time. The reader thread brings the answers."""

    def __init__(self, outbox: Outbox, interrupts: Interrupts) -> None:
        self._outbox = outbox
        self._interrupts = interrupts
        self._turn = allocate_lock()
        self._open: dict[str, Question] = {}
        self._forked = False
        interrupts.waiting.update((_wait.__code__,))

    def ask(self, prompt: str, password: bool) -> str:
        """The line that is answered. Raises StdinNotImplementedError where nobody can, EOFError at the end."""
        execution = self._interrupts.execution
        if self._forked:
            raise StdinNotImplementedError(_IN_CHILD)
        if execution is None:
            raise StdinNotImplementedError(_NOT_RUNNING)
        if not execution.allow_stdin:
            raise StdinNotImplementedError(_NOT_ALLOWED)
        turn = self._turn
        _wait(turn)
        request_id = urandom(16).hex()
        try:
            question = self._open[request_id] = Question()
            if self._interrupts.execution is not execution:
                raise StdinNotImplementedError(_NOT_RUNNING)
            self._outbox.put(frames.input_request(execution, request_id, prompt, password))
            self._outbox.flush()
            _wait(question.answered)
        finally:
            self._open.pop(request_id, None)
            turn.release()
        if question.problem:
            raise StdinNotImplementedError(question.problem)
        if question.value == _END:
            raise EOFError("EOF when reading a line")
        return question.value

    def answer(self, request_id: str, value: str) -> None:
        self._settle(self._open.get(request_id), value, "")

    def refuse(self, request_id: str) -> None:
        self._settle(self._open.get(request_id), "", _REFUSED)

    def end(self) -> None:
        """The cell has ended: its threads do not wait any longer, and no interrupt of it has left the turn taken."""
        self._turn = allocate_lock()
        for question in list(self._open.values()):
            self._settle(question, "", _NOT_RUNNING)

    def become_child(self) -> None:
        self._forked = True

    def _settle(self, question: Question | None, value: str, problem: str) -> None:
        if question is not None and question.answered.locked():
            question.value = value
            question.problem = problem
            question.answered.release()

    def install(self, builtins: dict[str, object]) -> None:
        original = builtins["input"]
        stream = StdinText(self)
        sys.stdin = sys.__stdin__ = stream

        def input(prompt: object = "", /) -> str:
            if sys.stdin is not stream:
                return original(prompt)
            return self.ask(str(prompt), False)

        disguise(input, original)
        builtins["input"] = input

    def adopt_getpass(self, getpass: object) -> None:
        """Has getpass, the module, ask here."""

        def ask(prompt: str = "Password: ", stream: object = None) -> str:
            return self.ask(str(prompt), True)

        disguise(ask, getpass.getpass)
        getpass.getpass = ask


def _wait(lock: LockType) -> None:
    """The one place where an interrupt may raise in code of the runner."""
    lock.acquire()


class StdinText(TextIOWrapper):
    """sys.stdin. Closing it does nothing, since exit() does so."""

    def __init__(self, stdin: Stdin) -> None:
        super().__init__(BufferedReader(_RawStdin(stdin)), encoding="utf-8", errors="surrogateescape")

    @property
    def name(self) -> str:
        return "<stdin>"

    def close(self) -> None:
        pass

    def __del__(self) -> None:
        """Overrides the base class, which would close it."""


class _RawStdin(RawIOBase):
    """Each read asks for one line. It is at its end where nobody can answer."""

    def __init__(self, stdin: Stdin) -> None:
        self._stdin = stdin
        self._rest = b""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def isatty(self) -> bool:
        return False

    def readinto(self, buffer: bytearray) -> int:
        if not self._rest:
            self._rest = self._line()
        taken = self._rest[:len(buffer)]
        self._rest = self._rest[len(taken):]
        buffer[:len(taken)] = taken
        return len(taken)

    def readall(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest or self._line()

    def _line(self) -> bytes:
        try:
            return (self._stdin.ask("", False) + "\n").encode("utf-8", "surrogateescape")
        except (StdinNotImplementedError, EOFError):
            return b""
