"""What a copy of the interpreter does not have: threads, connections, child processes, shared memory. Nothing here runs
user code: values are recognised by their types, and /proc says the rest."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _thread import allocate_lock, get_ident
from posix import fstat, listdir, readlink
from stat import S_ISFIFO, S_ISREG, S_ISSOCK
from sys import modules

from talaria_runner.look import lookup
from talaria_runner.own import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 100  # losses that are named; one more says how many there are besides
_NAME = 200  # characters
_LOOKS = 50  # at the threads,
_PAUSE = 0.01  # s in between
_THREAD = "a thread, which does not run in a copy of the interpreter: start it again"
_POOL = "a pool of threads: its threads are gone, and work that was given to them is never done"
_SOCKET = "a connection, which cannot be open twice: open it again"
_PIPE = "a pipe to another process or thread: open it again"
_CHILD = "another process: it is not part of the checkpoint"
_SHARED = "memory that processes share: its contents stay as they are now"
_DATABASE = "an SQLite connection: what is in the file, and a transaction that is open, are not part of the variables; connect again"
_TYPES = {
    ("threading", "Thread"): _THREAD,
    ("concurrent.futures.thread", "ThreadPoolExecutor"): _POOL,
    ("concurrent.futures.process", "ProcessPoolExecutor"): _CHILD,
    ("subprocess", "Popen"): _CHILD,
    ("multiprocessing.process", "BaseProcess"): _CHILD,
    ("multiprocessing.pool", "Pool"): _CHILD,
    ("multiprocessing.shared_memory", "SharedMemory"): _SHARED,
    ("socket", "socket"): _SOCKET,
    ("_socket", "socket"): _SOCKET,
    ("ssl", "SSLSocket"): _SOCKET,
    ("sqlite3", "Connection"): _DATABASE,
    ("mmap", "mmap"): _SHARED,
}
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")


class Loss:
    """One thing by its name, as users know it, and why a copy does not have it."""

    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: str) -> None:
        self.name = name[:_NAME]
        self.reason = reason


class Descriptors:
    """The open descriptors of user code, as they were when this was made."""

    def __init__(self, ours: Iterable[int]) -> None:
        """ours are the descriptors of the runner, besides the standard ones."""
        self.files: list[int] = []  # of regular files
        self.streams: list[tuple[int, str]] = []  # sockets and pipes, with why they are lost
        self.device = ""  # one that belongs to a GPU
        ours = {0, 1, 2, *ours}
        for name in _listed("/proc/self/fd"):
            fd = int(name)
            if fd in ours:
                continue
            try:
                mode = fstat(fd).st_mode
                path = readlink(f"/proc/self/fd/{fd}")
            except OSError:
                continue  # that of the list itself
            if S_ISREG(mode):
                self.files.append(fd)
            elif S_ISSOCK(mode):
                self.streams.append((fd, _SOCKET))
            elif S_ISFIFO(mode):
                self.streams.append((fd, _PIPE))
            elif path.startswith(_DEVICES):
                self.device = path


def of(namespace: dict[str, object], descriptors: Descriptors) -> list[Loss]:
    """Names everything that a copy of this process, made now, does not have."""
    losses = [Loss(name, reason) for name, reason in _variables(namespace)]
    threading = modules.get("threading")
    if threading is not None:
        known = {id(value) for value in dict.values(namespace)}
        for ident, thread in list(threading._active.items()):
            if ident != get_ident() and id(thread) not in known:
                losses.append(Loss(f"thread {getattr(thread, '_name', ident)}", _THREAD))
    named = {loss.reason for loss in losses}
    for fd, reason in descriptors.streams:
        if reason not in named:
            losses.append(Loss(f"descriptor {fd}", reason))
    if _CHILD not in named:
        losses += [Loss(f"process {pid}", _CHILD) for pid in _children()]
    if _SHARED not in named:
        losses += [Loss(path, _SHARED) for path in _shared()]
    if len(losses) > MOST:
        losses[MOST:] = [Loss(f"{len(losses) - MOST} more", "things of the same kinds")]
    return losses


def foreign_threads() -> int:
    """How many threads of this process neither Python nor the runner started. One that begins or ends at this moment may be
    unknown for an instant, so those that are unknown get a little time to become known, or to end."""
    never = allocate_lock()
    never.acquire()
    for _ in range(_LOOKS):
        count = len(_present() - _known())
        if not count:
            break
        never.acquire(True, _PAUSE)
    return count


def _present() -> set[int]:
    return {int(name) for name in _listed("/proc/self/task")}


def _known() -> set[int]:
    known = {threads.main(), *threads.running}
    threading = modules.get("threading")
    if threading is not None:
        known |= {getattr(thread, "_native_id", None) for thread in list(threading._active.values())}
    return known


def _variables(namespace: dict[str, object]) -> Iterable[tuple[str, str]]:
    kinds = []
    for (module, name), reason in _TYPES.items():
        cls = vars(modules[module]).get(name) if module in modules else None
        if isinstance(cls, type):
            kinds.append((cls, reason))
    for name in sorted(key for key in lookup.first(namespace) if type(key) is str and not key.startswith("__")):
        mro = type.mro(type(lookup.get(namespace, name)))
        for cls, reason in kinds:
            if cls in mro:
                yield name, reason
                break


def _children() -> list[str]:
    try:
        with open("/proc/self/task/%d/children" % threads.main()) as f:
            return f.read().split()
    except OSError:
        return []


def _shared() -> list[str]:
    """What is mapped to be shared and written to."""
    paths = []
    try:
        with open("/proc/self/maps") as f:
            for line in f:
                fields = line.split(None, 5)
                if fields[1] == "rw-s":
                    path = fields[5].rstrip("\n") if len(fields) > 5 else "memory"
                    if path not in paths:
                        paths.append(path)
    except OSError:
        pass
    return paths


def _listed(folder: str) -> list[str]:
    try:
        return listdir(folder)
    except OSError:
        return []
