"""Processes that user code starts: their output arrives in order, and a fork never acts as the kernel. Also
the end of this process by user code: text printed before it is not lost."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from sys import addaudithook, modules

from posix import _exit, register_at_fork
from posix import write as _write

from talaria_runner.run.execution import disguise
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire.outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Buffer: TypeAlias = bytes | bytearray | memoryview

_STARTS = frozenset(
    ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "pty.spawn")
)
_OPENS = "ctypes.dlopen"


class Children:
    def __init__(self, outbox: Outbox, interrupts: Interrupts) -> None:
        self.copying = False  # the runner itself forks
        self._outbox = outbox
        self._interrupts = interrupts

    def watch(self, become_child: Callable[[], None]) -> None:
        """From now on text is sent before a child starts. become_child is called in each forked child."""
        addaudithook(self._heard)
        register_at_fork(after_in_child=become_child)

        self._come_first()

    def fork_a_copy(self, fork: Callable[[], int]) -> int:
        """Calls fork for the runner: nothing is sent ahead, and nobody is warned of the threads that the copy lacks."""
        warnings = modules.get("warnings")
        self.copying = True
        try:
            if warnings is None:
                return fork()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                return fork()
        finally:
            self.copying = False

    def _come_first(self) -> None:
        """Makes printed text come before what os.write puts into our pipes, and before the end by os._exit."""

        def write(fd: int, data: Buffer, /) -> int:
            if (fd == 1 or fd == 2) and not self._outbox.forked:
                self._outbox.begin_marks()
            return _write(fd, data)

        def exit_at_once(status: int) -> None:
            self._outbox.flush()
            _exit(status)

        disguise(write, os.write)
        disguise(exit_at_once, os._exit)
        # They can be pickled under this name: it is where they are found.
        write.__module__ = exit_at_once.__module__ = "os"
        os.write, os._exit = write, exit_at_once

    def _heard(self, event: str, args: tuple[object, ...]) -> None:
        if self.copying:
            return
        if event in _STARTS:
            self._interrupts.children = True
        elif event != _OPENS or _being_imported("ctypes"):
            return
        if not self._outbox.forked:
            self._outbox.begin_marks()


def _being_imported(name: str) -> bool:
    """ctypes opens the program itself when it is imported, as numpy does: nobody writes through that."""
    spec = getattr(modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))
