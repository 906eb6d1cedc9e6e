"""Saves the variables for the host, and loads them, between two cells."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import marshal
from posix import (
    O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, _exit, close, dup2, fork, open, pipe2, read, unlink,
    write,
)  # fmt: skip
from time import monotonic

from talaria_runner.own import openmp
from talaria_runner.own.workspace import workspace
from talaria_runner.run import namespaces
from talaria_runner.saves import loading, saving, settings, worker
from talaria_runner.saves.archive import Unusable
from talaria_runner.wire import frames
from talaria_runner.wire.descriptors import wait_for
from talaria_runner.wire.outbox import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.saves.report import Lost, Restored, Saved

_MOST = 200  # variables that are named; one more says how many there are besides
_TEXT = 500  # characters
_LETTER = ".talaria-upload-letter"  # a file of the workspace
_LONGEST = 1 << 16  # bytes of one
_GRACE = 10.0  # s after the deadline: saving ends by itself soon after it


def save(
    namespace: dict[str, object], path: str, seconds: float, max_bytes: int, quietly: Callable[[Callable[[], int]], int], fresh: bool
) -> dict[str, object]:
    """Saves the variables in a file of the workspace, in a fork, so that whatever their code does leaves this process as it is.
    Returns the fields of the answer. quietly calls the function that forks. fresh is that no cell has run and nothing was loaded:
    then there is nothing to fork for. Only in the main thread, between two cells."""
    if fresh and not saving.has_variables(namespace):
        return _answer(lambda: saving.save_none(_inside(path)))
    openmp.pause()
    return _save(namespace, path, seconds, max_bytes, quietly)


def answer_letter(namespace: dict[str, object], quietly: Callable[[Callable[[], int]], int]) -> None:
    """Does what a letter of the host wants, and puts the answer in its place: the same frames, in a file. That is how the host
    talks to a copy that waits, which has no stream of its own. The letter can be anybody's, who can do no more with it than
    with the variables themselves. Raises OSError, KeyError and so on if there is no letter."""
    path = _inside(_LETTER)
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    try:
        letter = frames.decode(read(fd, _LONGEST))
    finally:
        close(fd)
    fields = _save(namespace, letter["path"], letter["seconds"], letter["max_bytes"], quietly)
    said = memoryview(f"{frames.answer(letter['request_id'], 'saved', fields)}}}".encode())
    unlink(path)
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    try:
        while said:
            said = said[write(fd, said):]
    finally:
        close(fd)


def _save(
    namespace: dict[str, object], path: str, seconds: float, max_bytes: int, quietly: Callable[[Callable[[], int]], int]
) -> dict[str, object]:
    changed = settings.changed()
    ready, tell = pipe2(O_CLOEXEC)
    deadline = monotonic() + seconds

    def work() -> int:
        pid = fork()
        if not pid:
            _work(namespace, path, deadline, max_bytes, changed, tell)
        return pid

    try:
        pid = quietly(work)
    except OSError as e:
        close(ready)
        return _failed(f"no process could be started: {e.strerror}")
    finally:
        close(tell)
    try:
        said = _hear(ready, deadline + _GRACE)
    finally:
        close(ready)
        worker.end(pid)
    if not said:
        return _failed("the process that saved them ended, perhaps for lack of memory")
    return marshal.loads(said)


def _work(
    namespace: dict[str, object], path: str, deadline: float, max_bytes: int, changed: dict[str, object], tell: int
) -> None:
    try:
        null = open("/dev/null", O_RDWR | O_CLOEXEC)
        for fd in (0, 1, 2):  # what the code of variables prints is nobody's
            dup2(null, fd)
        fields = _answer(lambda: saving.save(namespace, _inside(path), deadline=deadline, max_bytes=max_bytes, changed=changed))
        said = memoryview(marshal.dumps(fields))
        while said:
            said = said[write(tell, said):]
    finally:
        _exit(0)


def _answer(save: Callable[[], Saved]) -> dict[str, object]:
    try:
        made = save()
    except OSError as e:
        return _failed(f"the file could not be written: {e.strerror}")
    except MemoryError:
        return _failed("the memory is full")
    lost = _lost([*made.not_saved, *namespaces.lost()])
    return {"reason": "", "count": len(made.saved), "lost": lost, "bytes": made.bytes, "digest": made.digest}


def load(namespace: dict[str, object], path: str, digest: str) -> tuple[dict[str, object], Restored | None]:
    """Loads the variables from a file. Returns the fields of the answer, and what was restored. Runs their code."""
    try:
        restored = loading.load(_inside(path), namespace, digest=digest)
    except Unusable as e:
        return _failed(str(e)), None
    except OSError as e:
        return _failed(f"the file could not be read: {e.strerror}"), None
    fields = {"reason": "", "count": len(restored.restored), "lost": _lost(restored.not_restored), "bytes": 0, "digest": ""}
    return fields, restored


def _inside(path: str) -> str:
    """The path of a file of the workspace, whatever folder user code has gone to."""
    return path if path.startswith("/") else f"{workspace()}/{path}"


def _failed(reason: str) -> dict[str, object]:
    return {"reason": printable(reason)[:_TEXT], "count": 0, "lost": [], "bytes": 0, "digest": ""}


def _lost(lost: list[Lost]) -> list[dict[str, str]]:
    named = [
        {"name": printable(name[:_TEXT]), "type": printable(kind[:_TEXT]), "reason": printable(reason[:_TEXT])}
        for name, kind, reason in lost[:_MOST]
    ]  # fmt: skip
    if len(lost) > _MOST:
        named.append({"name": f"{len(lost) - _MOST} more", "type": "", "reason": "for the same reasons"})
    return named


def _hear(ready: int, deadline: float) -> bytes:
    """What the process says until it ends, or nothing if it does not end in time."""
    said = b""
    while True:
        left = deadline - monotonic()
        if left <= 0 or not wait_for(ready, timeout_ms=left * 1000):
            return b""
        part = read(ready, 1 << 16)
        if not part:
            return said
        said += part
