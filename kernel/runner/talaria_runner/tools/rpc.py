"""The older protocol for tools: a socket at HERMES_RPC_SOCKET that takes lines of JSON, {"tool", "args"}, and answers each
with one line, the result or {"error"}. A hermes_tools.py that was generated for that protocol works unchanged, also in the
processes that a cell starts.

The reader accepts connections, and a thread serves each. Its calls are ordinary ones of the cell that runs: they have its
authority, and count in its budget. A kernel whose cells never connect pays for the socket only."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from _socket import AF_UNIX, SO_PEERCRED, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET, socket
from _thread import allocate_lock
from errno import EMFILE, ENFILE
from posix import close, getpid, getuid, read, urandom
from sys import byteorder
from time import sleep

from talaria_runner.wire import frames
from talaria_runner.wire.descriptors import Descriptors, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.tools.calls import Calls

SOCKET, TOKEN = "HERMES_RPC_SOCKET", "HERMES_RPC_TOKEN"
_MOST = 32  # connections at a time
_LONGEST = (1 << 20) + 4096  # bytes of a request: the arguments, and what is around them
_LONGEST_PATH = 107  # bytes, of a socket
_CHUNK = 1 << 16
_PAUSE = 0.05  # s while no descriptor is free
_CREDENTIALS = 12  # bytes: pid, uid and gid
_TERMINAL_DROPS = ("background", "check_interval", "pty", "notify_on_complete", "notify", "watch_patterns", "heartbeat",
                   "persist_on_release")  # fmt: skip


class Rpc:
    """Its methods run in the reading thread, but for answer, which run in the thread of a connection."""

    def __init__(
        self, calls: Callable[[], Calls], descriptors: Descriptors, start: Callable[[Callable[[], None]], None]
    ) -> None:
        """calls returns the kernel's calls, importing them when they are first needed; start runs a function in a new
        thread."""
        self._calls = calls
        self._descriptors = descriptors
        self._start = start
        self._fd = -1
        self._token = ""
        self._lock = allocate_lock()  # for the connections
        self._open: set[int] = set()  # the descriptors of those that are served

    def begin(self, folder: str) -> None:
        """Listens in that folder, and names the socket in the environment. Without a folder nobody can call."""
        path = folder + "/rpc"
        if not folder or SOCKET in os.environ or len(os.fsencode(path)) > _LONGEST_PATH:
            return
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen(_MOST)
            listener.setblocking(False)
        except OSError:
            return  # a host may forbid sockets; cells have the module
        self._fd = self._descriptors.take_further(listener.detach())
        self._token = urandom(16).hex()
        os.environ.update({SOCKET: path, TOKEN: self._token})

    def fileno(self) -> int:
        """The listening descriptor, or -1."""
        return self._fd

    def hear(self, events: int) -> bool:
        """Accepts one connection. Called by the reader; False means that no further one can come."""
        try:
            fd, uid, pid = _accept(self._fd)
        except BlockingIOError:
            return True
        except OSError as e:
            if e.errno not in (EMFILE, ENFILE):
                return False
            sleep(_PAUSE)  # it waits to be accepted
            return True
        try:
            fd = self._descriptors.take_further(fd)
        except OSError:  # code of the user has opened too many
            close(fd)
            return True
        connection = _Connection(fd, pid == getpid(), self)
        refused = self._refused(uid, fd)
        try:
            if not refused:
                self._start(lambda: self._serve(connection))
                return True
            connection.say({"error": refused})
        except (RuntimeError, MemoryError):  # there can be no more threads
            self._leave(fd)
        except OSError:
            pass  # the client is gone
        self._drop(fd)
        return True

    def revive(self) -> None:
        """In a copy that has become the interpreter: the threads that served are gone."""
        self._lock = allocate_lock()
        for fd in self._open:
            self._drop(fd)
        self._open.clear()

    def _refused(self, uid: int, fd: int) -> str:
        """Why a client is not served, or "". One that is served is counted."""
        if uid != getuid():
            return "Unauthorized RPC request"
        with self._lock:
            if len(self._open) >= _MOST:
                return f"{_MOST} connections for tools are open, which is the limit; close some of them"
            self._open.add(fd)
        return ""

    def _serve(self, connection: _Connection) -> None:
        try:
            connection.serve()
        except BaseException:
            pass  # the client is gone
        finally:
            self._leave(connection.fd)
            self._drop(connection.fd)

    def _leave(self, fd: int) -> None:
        with self._lock:
            self._open.discard(fd)

    def _drop(self, fd: int) -> None:
        self._descriptors.drop_further(fd)
        close(fd)

    def answer(self, line: bytes) -> object:
        """The answer to one request. Raises KeyboardInterrupt when the cell was interrupted while it waited."""
        try:
            request = frames.parse(line.decode())
            if not isinstance(request, dict):
                raise ValueError("it must be an object")
            tool, arguments = request["tool"], request.get("args", {})
            if not isinstance(tool, str) or not isinstance(arguments, dict):
                raise ValueError('"tool" must be a string, and "args" an object')
        except KeyError as e:
            return {"error": f"Invalid RPC request: {e} is missing"}
        except (ValueError, StopIteration, RecursionError) as e:
            return {"error": f"Invalid RPC request: {e}"}
        if "token" in request and not _same(request["token"], self._token):
            return {"error": "Unauthorized RPC request"}
        if tool == "terminal":
            arguments = {name: value for name, value in arguments.items() if name not in _TERMINAL_DROPS}
        calls = self._calls()
        try:
            present = calls.specs(tool)
            if present.get(tool, {"gone": True}).get("gone"):
                there = ", ".join(sorted(name for name, spec in present.items() if not spec.get("gone")))
                return {"error": f"Tool '{tool}' is not available. Available: {there}"}
            return calls.call(tool, arguments)
        except Exception as e:
            return {"error": str(e)}


class _Connection:
    """A client of the protocol. It has one request open at a time, and gets the answers in the order of its requests."""

    def __init__(self, fd: int, is_ours: bool, rpc: Rpc) -> None:
        """is_ours says that the kernel itself connected, and no other process."""
        self.fd = fd
        self._is_ours = is_ours
        self._rpc = rpc

    def say(self, answer: object) -> None:
        write_all(self.fd, (frames.encode(answer) + "\n").encode("ascii"))

    def serve(self) -> None:
        """Until the client closes the connection, or breaks the protocol."""
        rest = bytearray()
        while chunk := read(self.fd, _CHUNK):
            searched = len(rest)
            rest += chunk
            while (end := rest.find(b"\n", searched)) >= 0:
                line, searched = bytes(rest[:end]).strip(), 0
                del rest[:end + 1]
                if line and not self._obey(line):
                    return
            if len(rest) > _LONGEST:
                self.say({"error": "Invalid RPC request: the line is longer than the limit of 1 MiB"})
                return

    def _obey(self, line: bytes) -> bool:
        """Answers one request; False means that the client can be served no more.

        An interrupted call has no answer: requests have no ids, so the client would take it for that of its next
        request. The code of the cell was interrupted itself and does not wait; another process sees the end."""
        try:
            answer = self._rpc.answer(line)
        except KeyboardInterrupt:
            return self._is_ours
        self.say(answer)
        return True


def _accept(fd: int) -> tuple[int, int, int]:
    """The next connection of a listening socket, with the user and process that made it. The objects are for a moment: the
    descriptors belong to the kernel, and a forked child closes them by number."""
    listener = socket(AF_UNIX, SOCK_STREAM, 0, fd)
    try:
        connection = socket(AF_UNIX, SOCK_STREAM, 0, listener._accept()[0])
    finally:
        listener.detach()
    peer = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS)
    pid, uid = (int.from_bytes(peer[at:at + 4], byteorder) for at in (0, 4))
    return connection.detach(), uid, pid


def _same(given: object, token: str) -> bool:
    """Whether a client has the token, compared in constant time."""
    if not token or not isinstance(given, str):
        return False
    given, token = given.encode("utf-8", "surrogatepass"), token.encode()
    differing = len(given) ^ len(token)
    for a, b in zip(given, token):
        differing |= a ^ b
    return not differing
