"""What a copy of the interpreter does not have: threads, connections, child processes, shared memory. Nothing here runs
user code: values are recognised by their types, and /proc says the rest."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _io import BufferedRandom, BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from _thread import allocate_lock, get_ident
from fcntl import F_GETFL, fcntl
from os import fsdecode
from os.path import realpath
from posix import O_ACCMODE, O_RDONLY, fstat, listdir, readlink
from stat import S_ISFIFO, S_ISREG, S_ISSOCK
from sys import modules
from time import monotonic

from talaria_runner.introspection import lookup
from talaria_runner.own import threads
from talaria_runner.own.workspace import workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 100  # losses that are named; one more says how many there are besides
_NAME = 200  # characters
_LOOKS = 50  # at the threads,
_PAUSE = 0.01  # s in between
_MOMENT = 0.0002  # s between looks for threads of the runner that end
_PATIENCE = 2.0  # s until threads that have been told to end are waited for no longer
_THREAD = "threads do not run in a copy of the interpreter; start it again"
_POOL = "the threads of a pool are gone, and work submitted to it will never run"
_SOCKET = "a connection cannot be open twice; open it again"
_PIPE = "a pipe to another process or thread; open it again"
_CHILD = "a child process is not part of the checkpoint"
_SHARED = "memory that processes share keeps its current contents"
_DATABASE = "an SQLite connection; the contents of the file, and an open transaction, are not part of the variables; connect again"
_LOOP = "an event loop other than the cells' own; its connections are closed; create another"
_EVENTS = "a descriptor that counts or waits for events; create another"
_TERMINAL = "a terminal cannot be open twice; open it again"
_FILE = "a file outside the workspace keeps its current contents"
_FOLDER = "a folder outside the workspace keeps its current contents"
_LOCK = "a file lock is released; acquire it again"
_TYPES = {
    ("threading", "Thread"): _THREAD,
    ("concurrent.futures.thread", "ThreadPoolExecutor"): _POOL,
    ("concurrent.futures.process", "ProcessPoolExecutor"): _CHILD,
    ("subprocess", "Popen"): _CHILD,
    ("multiprocessing.process", "BaseProcess"): _CHILD,
    ("multiprocessing.pool", "Pool"): _CHILD,
    ("multiprocessing.shared_memory", "SharedMemory"): _SHARED,
    ("multiprocessing.synchronize", "SemLock"): _SHARED,
    ("socket", "socket"): _SOCKET,
    ("_socket", "socket"): _SOCKET,
    ("ssl", "SSLSocket"): _SOCKET,
    ("sqlite3", "Connection"): _DATABASE,
    ("sqlite3", "Cursor"): _DATABASE,
    ("mmap", "mmap"): _SHARED,
    ("numpy", "memmap"): _SHARED,
    ("asyncio", "BaseEventLoop"): _LOOP,
    ("tempfile", "TemporaryDirectory"): _FOLDER,
}
_DELETED = " (deleted)"
_TERMINALS = ("/dev/pts/", "/dev/ptmx", "/dev/tty")
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
        self.files: dict[int, str] = {}  # regular files, with their paths
        self.streams: dict[int, str] = {}  # what cannot be open twice, with why it is lost
        self.outside: dict[int, str] = {}  # regular files that may be written to and are not in the workspace, with their paths
        self.locked: dict[int, str] = {}  # regular files that are locked
        self.device = ""  # one that belongs to a GPU
        self.ours = {0, 1, 2, *ours}
        for name in _listed("/proc/self/fd"):
            fd = int(name)
            if fd in self.ours:
                continue
            try:
                mode = fstat(fd).st_mode
                path = readlink(f"/proc/self/fd/{fd}")
                if S_ISREG(mode):
                    self._add_file(fd, path)
                    continue
            except OSError:
                continue  # that of the list itself
            if S_ISSOCK(mode):
                self.streams[fd] = _SOCKET
            elif S_ISFIFO(mode):
                self.streams[fd] = _PIPE
            elif path.startswith("anon_inode:"):
                self.streams[fd] = _EVENTS
            elif path.startswith(_TERMINALS):
                self.streams[fd] = _TERMINAL
            elif path.startswith(_DEVICES):
                self.device = path

    def _add_file(self, fd: int, path: str) -> None:
        self.files[fd] = path
        if fcntl(fd, F_GETFL) & O_ACCMODE != O_RDONLY and is_outside(path):
            self.outside[fd] = path
        with open(f"/proc/self/fdinfo/{fd}") as f:
            if "\nlock:" in f.read():
                self.locked[fd] = path


class _Parts:
    """What the variables that are named consist of, so that it is not named again."""

    def __init__(self) -> None:
        self.threads: set[int] = set()  # the ids of their objects
        self.descriptors: set[int] = set()
        self.processes: set[int] = set()
        self.addresses: set[int] = set()  # of memory that is mapped

    def add(self, value: object) -> None:
        self.threads.add(id(value))
        workers = _own(value, "_threads")  # of a pool
        if type(workers) is set:
            self.threads.update(map(id, workers))
        self.descriptors.update(_descriptors(value))
        for process in (value, _own(value, "_popen")):  # of subprocess, and of multiprocessing
            pid = _own(process, "pid")
            if type(pid) is int:
                self.processes.add(pid)
        for mapped in (value, _own(value, "_mmap"), _own(value, "_semlock")):  # numpy and multiprocessing have these
            self.addresses.update(_address(mapped))


def of(namespace: dict[str, object], descriptors: Descriptors, mapped: bytes) -> list[Loss]:
    """Names everything that a copy of this process, made now, does not have. mapped is what mappings.listed() returns now."""
    losses, parts = [], _Parts()
    for name, value, reason in _variables(namespace):
        if _is_lost(value, reason, descriptors):
            losses.append(Loss(name, reason))
            parts.add(value)
    losses += [Loss(f"thread {name}", _THREAD) for ident, name in _threads() if ident not in parts.threads]
    files = {_file_number(value): name for name, value in _each(namespace)}
    for fd, reason in descriptors.streams.items():
        if fd not in parts.descriptors:
            losses.append(Loss(files.get(fd) or f"descriptor {fd}", reason))
    shared = _shared(mapped)
    mapped = {path for _, _, path in shared}  # a file that is mapped is memory that is shared
    for fds, reason in ((descriptors.outside, _FILE), (descriptors.locked, _LOCK)):
        for fd, path in fds.items():
            if path not in mapped:
                losses.append(Loss(files.get(fd) or (f"descriptor {fd}" if path.endswith(_DELETED) else path), reason))
    losses += [Loss(f"process {pid}", _CHILD) for pid in _children() if pid not in parts.processes]
    nameless = [path for first, end, path in shared if not any(first <= address < end for address in parts.addresses)]
    losses += [Loss(path, _SHARED) for path in dict.fromkeys(nameless)]
    if len(losses) > MOST:
        losses[MOST:] = [Loss(f"{len(losses) - MOST} more", "things of the same kinds")]
    return losses


def _is_lost(value: object, reason: str, descriptors: Descriptors) -> bool:
    """Whether this value, which is of a kind that a copy may lack, has something that the copy lacks."""
    if reason is _THREAD:
        return any(ident == id(value) for ident, _ in _threads())
    if reason is _CHILD:
        return type(_own(value, "returncode")) is not int
    if reason is _LOOP:
        return not descriptors.ours.issuperset(_descriptors(value))
    if reason is _FOLDER:
        path = _own(value, "name")
        return type(path) is not str or is_outside(path)
    return True


def _own(value: object, name: str) -> object:
    return lookup.get(lookup.own_names(value), name)


def _descriptors(value: object) -> list[int]:
    """Those of a socket, or of an event loop."""
    sockets, selects = modules.get("_socket"), modules.get("select")
    poll = _own(_own(value, "_selector"), "_selector")
    found = []
    for one in (value, _own(value, "_ssock"), _own(value, "_csock"), poll):
        for module, name in ((sockets, "socket"), (selects, "epoll")):
            cls = getattr(module, name, None)
            if isinstance(cls, type) and lookup.is_a(one, cls):
                try:
                    found.append(cls.fileno(one))
                except ValueError:
                    pass  # it is closed
    return [fd for fd in found if fd >= 0]


def _file_number(value: object) -> int:
    """The descriptor of an open file, if it is one of Python's own; otherwise -1."""
    try:
        if type(value) is TextIOWrapper:
            value = value.buffer
        if lookup.one_of(type(value), (BufferedRandom, BufferedReader, BufferedWriter)):
            value = value.raw
        return value.fileno() if type(value) is FileIO else -1
    except ValueError:
        return -1  # it is closed


def _address(value: object) -> list[int]:
    """That of memory that is mapped to be written to."""
    if type(value) is getattr(modules.get("_multiprocessing"), "SemLock", None):
        return [value.handle]
    if type(value) is getattr(modules.get("mmap"), "mmap", None):
        try:
            from _ctypes import _SimpleCData, addressof

            byte = type("byte", (_SimpleCData,), {"_type_": "c"})
            return [addressof(byte.from_buffer(value))]
        except (ImportError, TypeError, ValueError):
            pass  # it is closed, or to be read only
    return []


def is_outside(path: str) -> bool:
    """Whether a file or folder is outside the workspace, or has no name there any more."""
    return path.endswith(_DELETED) or not realpath(path).startswith(realpath(workspace()) + "/")


def foreign_threads() -> int:
    """How many threads of this process neither Python nor the runner started. One that begins or ends at this moment may be
    unknown for an instant, so those that are unknown get a little time to become known, or to end."""
    never = allocate_lock()
    never.acquire()
    for _ in range(_LOOKS):
        present = _present()
        threads.ending &= present
        count = len(present - _known())
        if not count:
            break
        never.acquire(True, _PAUSE)
    return count


def is_alone(ours: int) -> bool:
    """Whether this process has no threads but the main one and so many of the runner. Others of the runner get a little time to
    end: those that have been told to, as much as they need on a busy machine."""
    never = allocate_lock()
    never.acquire()
    looks = 0
    until = monotonic() + _PATIENCE
    while looks < _LOOKS and monotonic() < until:
        others = _present() - {threads.main()}
        threads.ending &= others
        if others - threads.running - threads.ending and not threads.starting:
            return False
        if len(others) == ours and others == threads.running:
            return True
        if len(threads.running) != ours or threads.starting:
            looks += 1  # these are at work
        never.acquire(True, _MOMENT)
    return False


def _present() -> set[int]:
    return {int(name) for name in _listed("/proc/self/task")}


def _known() -> set[int]:
    known = {threads.main(), *threads.running, *threads.ending}
    threading = modules.get("threading")
    if threading is not None:
        known |= {getattr(thread, "_native_id", None) for thread in list(threading._active.values())}
    return known


def _variables(namespace: dict[str, object]) -> Iterable[tuple[str, object, str]]:
    """Those whose types say that a copy may lack something of them."""
    kinds = []
    for (module, name), reason in _TYPES.items():
        cls = vars(modules[module]).get(name) if module in modules else None
        if isinstance(cls, type):
            kinds.append((cls, reason))
    for name, value in _each(namespace):
        for cls, reason in kinds:
            if lookup.is_a(value, cls):
                yield name, value, reason
                break


def _each(namespace: dict[str, object]) -> Iterable[tuple[str, object]]:
    for name in sorted(key for key in lookup.first(namespace) if type(key) is str and not key.startswith("__")):
        yield name, lookup.get(namespace, name)


def _threads() -> list[tuple[int, str]]:
    """The threads that run, besides this one: the ids of their objects, and their names."""
    threading = modules.get("threading")
    if threading is None:
        return []
    return [
        (id(thread), getattr(thread, "_name", ident))
        for ident, thread in list(threading._active.items()) if ident != get_ident()
    ]  # fmt: skip


def _children() -> list[int]:
    found = []
    for task in _listed("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as f:
                found += map(int, f.read().split())
        except OSError:
            pass  # it has ended
    return found


def _shared(mapped: bytes) -> list[tuple[int, int, str]]:
    """What is mapped to be shared and written to: from which address up to which, and the path."""
    found = []
    for line in mapped.split(b"\n") if b" rw-s " in mapped else ():
        fields = line.split(None, 5)
        if len(fields) > 1 and fields[1] == b"rw-s":
            first, end = (int(address, 16) for address in fields[0].split(b"-"))
            found.append((first, end, fsdecode(fields[5]) if len(fields) > 5 else "memory"))
    return found


def _listed(folder: str) -> list[str]:
    try:
        return listdir(folder)
    except OSError:
        return []
