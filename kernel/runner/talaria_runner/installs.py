"""Asking the host for packages. It asks the session, which has them installed elsewhere."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from _collections import deque
from _thread import LockType, allocate_lock
from posix import urandom

from talaria_runner import frames, layer
from talaria_runner.execution import Execution, owner
from talaria_runner.interrupts import Interrupts
from talaria_runner.outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from talaria_runner.piparguments import Change

_MOST_WAITING = 1 << 20  # characters of output that nobody takes
_IN_CHILD = "%pip works only in the kernel itself, not in a process that it started: run the program pip there"


class InstallError(Exception):
    """Packages could not be installed. Nothing has changed then."""


InstallError.__module__ = "builtins"

shared: list[Installs] = []  # the one of this kernel


class Installation:
    """One that is open. kick is called, in the reading thread, when there is something new."""

    __slots__ = ("request_id", "texts", "waiting", "result", "kick", "loaded")

    def __init__(self, request_id: str, kick: Callable[[], None]) -> None:
        self.request_id = request_id
        self.texts: deque[str] = deque()
        self.waiting = 0  # characters of texts
        self.result: tuple[str, list[dict[str, str]]] | None = None
        self.kick = kick
        self.loaded = layer.loaded()

    def output(self, wait: Callable[[], object]) -> Iterator[str]:
        """What its installer prints, as it comes, until there is an answer. wait returns after a kick."""
        answered = False
        while not answered:
            wait()
            answered = self.result is not None  # asked before the texts are taken, all of which came before the answer
            text = self._take()
            if text:
                yield text

    def _take(self) -> str:
        parts = []
        while self.texts:
            part = self.texts.popleft()
            size = len(part)
            self.waiting -= size
            parts.append(part)
        return "".join(parts)


class Installs:
    """Its methods are safe in every thread; answers are brought by the reader."""

    def __init__(self, outbox: Outbox, interrupts: Interrupts) -> None:
        self.off = ""  # why there are no installations, or ""
        self._outbox = outbox
        self._interrupts = interrupts
        self._open: dict[str, Installation] = {}
        self._forked = False
        interrupts.waiting.update((_wait.__code__,))

    def install(self, change: Change, show: Callable[[str], object]) -> None:
        """Has packages installed or removed, and waits for that. What their installer prints is shown meanwhile. Raises
        InstallError."""
        if self._forked:
            raise InstallError(_IN_CHILD)
        woken = allocate_lock()
        woken.acquire()
        execution = self._interrupts.execution
        installation = self.ask(change, execution if execution is owner() else None, lambda: _release(woken))
        try:
            for text in installation.output(lambda: _wait(woken)):
                show(text)
        finally:
            self.end(installation)
        for line in self.settle(installation):
            show(line + "\n")
        if installation.result[0]:
            raise InstallError(installation.result[0])

    def ask(self, change: Change, execution: Execution | None, kick: Callable[[], None]) -> Installation:
        """Asks. The caller sees to end. Raises InstallError where nobody may."""
        if self.off:
            raise InstallError(f"packages cannot be installed here: {self.off}")
        installation = Installation(urandom(16).hex(), kick)
        self._open[installation.request_id] = installation
        self._outbox.put(frames.install(execution, installation.request_id, change.fields()))
        return installation

    def end(self, installation: Installation) -> None:
        """Nobody waits for it any longer."""
        self._open.pop(installation.request_id, None)
        if installation.result is None:
            self._outbox.put(frames.install_end(installation.request_id))

    def settle(self, installation: Installation) -> list[str]:
        """Has what was installed be found, and tells what is loaded in another version."""
        error, packages = installation.result
        if error:
            return []
        layer.renew()
        return layer.conflicts(packages, installation.loaded)

    def output(self, request_id: str, text: str) -> None:
        installation = self._open.get(request_id)
        if installation is None:
            return
        size = len(text)
        if installation.waiting < _MOST_WAITING:
            installation.waiting += size
            installation.texts.append(text)
        installation.kick()

    def answer(self, request_id: str, error: str, packages: list[dict[str, str]]) -> None:
        installation = self._open.pop(request_id, None)
        if installation is not None:
            installation.result = error, packages
            installation.kick()

    def become_child(self) -> None:
        self._forked = True


def _wait(lock: LockType) -> None:
    """The one place where an interrupt may raise in code of the runner."""
    lock.acquire()


def _release(lock: LockType) -> None:
    try:
        lock.release()
    except RuntimeError:
        pass  # it is awake
