"""The fork server: a process next to pid 1 of its sandbox, with libraries imported, from which the pid 1 of
each new sandbox is forked. It runs only our code and the environment's, and never holds anything of a
session."""

import json
import os
import sys
from collections.abc import Callable

import _signal
import posix

from . import interpreter, linux, pages, places, preload, tier
from .child import VARIABLES, give_up, set_variables
from .environment import environment
from .limits import Limits
from .wire import FIRST_FD, Channel, decode, encode, move_up_front, pair

Next = Callable[[], object]  # what a process does after it has unwound its stack; it may return another

_SETTINGS = "TALARIA_FORK_SERVER"
_REHEARSALS = 10  # CPython 3.11 settles on how to run a piece of code after 8
_LIBRARY = "TALARIA_LIBRARY"


def start(channel: int, modules: list[str]) -> int:
    """Starts a fork server in a child, on this descriptor, and returns its pid. It runs an interpreter of its
    own instead of being forked from here, so that each one has another hash seed and other addresses."""
    pid = linux.fork()
    if pid:
        return pid
    try:
        variables = {
            **VARIABLES,
            _LIBRARY: places.library,
            _SETTINGS: json.dumps(
                {
                    "modules": modules,
                    "tier": tier.current.name,
                    "own": tier.current.settings(),
                    "engine": interpreter.engine,
                }
            ),
        }
        move_up_front(channel)
        os.set_inheritable(FIRST_FD, True)
        # The same arguments as pid 1 has: processes forked from it show them inside.
        os.execve(sys.executable, sys.orig_argv, variables)
    except BaseException as e:
        give_up(e)


def begun(begin: Callable[[int], Next]) -> Callable[[], Next] | None:
    """Returns how to run the fork server if this process was started to be one, else None. begin is what
    forked processes call; it returns what they are to call next."""
    settings = os.environ.get(_SETTINGS)
    if settings is None:
        return None
    said = json.loads(settings)
    tier.use(said["tier"])
    tier.current.adopt(said["own"])
    interpreter.engine = said["engine"]
    return ForkServer(said["modules"], begin).serve


class ForkServer:
    """Serves the host over a channel of its own, until the host closes that."""

    def __init__(self, modules: list[str], begin: Callable[[int], Next]) -> None:
        self._modules = modules
        self._begin = begin

    def serve(self) -> Next:
        """Returns only in forked processes, with the function that they are to call."""
        try:
            self._prepare()
            while True:
                received = self._channel.receive()
                if received is None:
                    os._exit(0)
                packet, fds = received
                if not fds:
                    pages.learn(decode(packet)["body"])
                    continue
                (fd,) = fds
                if not self._fork():
                    self._channel.forget()
                    return self._begin(fd)
                os.close(fd)
        except BaseException as e:
            give_up(e)

    def _prepare(self) -> None:
        linux.set_name("talaria-fork")
        self._channel = Channel.only(FIRST_FD)
        set_variables(environment(sys.executable, "", 1, {}))
        preload.prepare(self._modules, lambda **message: self._channel.send(encode(**message)), self._rehearse)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # nobody here waits for a sandbox
        tier.current.begin_to_fork()
        self._channel.send(encode(op="ready"))

    def _rehearse(self) -> None:
        """Does what forked processes do, as far as it can be undone. The interpreter keeps notes of what it
        runs, in the code itself and elsewhere: what it notes here, no forked process has to write to memory
        of its own."""
        ours, theirs = map(Channel, pair())
        for _ in range(_REHEARSALS):
            tier.current.rehearse()
            ours.send(encode(op="done", id=1))
            decode(theirs.receive()[0])
            set_variables(environment(sys.executable, "", 1, {}))
            preload.conflicts((), Limits(**vars(Limits())))
        ours.close()
        theirs.close()

    def _fork(self) -> int:
        """Like os.fork, the child being pid 1 of a sandbox. Returns -1 if no process can be made."""
        try:
            return tier.current.fork()
        except OSError as e:
            posix.write(2, f"fork: {e.strerror}\n".encode())
            return -1
