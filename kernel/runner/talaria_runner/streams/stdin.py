"""input(), getpass() and sys.stdin: they ask the clients attached to the session."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from io import BufferedReader, RawIOBase, TextIOWrapper
from _thread import allocate_lock

from talaria_runner.run.execution import Execution, disguise
from talaria_runner.wire.asks import Ask, Asks, wait

_NOT_ALLOWED = (
    "this cell was run by a client that cannot answer input(): "
    "run it with allow_stdin, or put the value into the code"
)
_NOT_RUNNING = "input() works only while a cell runs"
_END = "\x04"  # an answer that means the end of the input, as Ctrl-D does in a terminal
_IN_CHILD = "input() works only in the kernel itself, not in a process that it started"


class StdinNotImplementedError(NotImplementedError):
    """Nobody can answer a question of the cell."""


StdinNotImplementedError.__module__ = "builtins"


class Stdin:
    """Asks one question at a time."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self._turn = allocate_lock()

    def ask(self, prompt: str, password: bool) -> str:
        """Returns the line of the answer. Raises StdinNotImplementedError if nobody can answer, EOFError at
        the end."""
        execution = self._asks.execution()
        if execution is None:
            raise StdinNotImplementedError(_NOT_RUNNING)
        if not execution.allow_stdin:
            raise StdinNotImplementedError(_NOT_ALLOWED)
        turn = self._turn
        wait(turn)
        try:
            answer = self._ask(execution, {"prompt": prompt, "password": password})
        finally:
            turn.release()
        if answer.error:
            raise StdinNotImplementedError(answer.error)
        value = answer.body["value"]
        if value == _END:
            raise EOFError("EOF when reading a line")
        return value

    def _ask(self, execution: Execution, question: dict[str, object]) -> Ask:
        ask = self._asks.ask("input", question, execution, _IN_CHILD)
        try:
            while not ask.answered:
                ask.wait()
        finally:
            self._asks.end(ask)
        self._asks.check(ask)
        return ask

    def free(self) -> None:
        """Frees the turn: the cell has ended, and an interrupt may have left it taken, or this is a forked
        process, which has no other thread."""
        self._turn = allocate_lock()

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
        """Makes getpass, the module, ask here."""

        def ask(prompt: str = "Password: ", stream: object = None) -> str:
            return self.ask(str(prompt), True)

        disguise(ask, getpass.getpass)
        ask.__name__ = ask.__qualname__ = "getpass"  # a variable is saved under this name: that of the original is not where it is found
        getpass.getpass = ask


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
    """Each read asks for one line. It is at its end if nobody can answer."""

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
