"""Pid 1 of a sandbox: parks, seals, starts processes on request, reports how they ended, and reaps all
others.

It is single-threaded and runs no user code, and nothing that code inside does may make it wait: children can be stopped, and
need not stop when they are told to. When the host's end of its socket closes it ends, and with it, by
the kernel's rule for pid 1, everything in the sandbox.

It is also the keeper of an environment: pid 1 of a sandbox that belongs to no session, in which a fork server
runs. The sandboxes that are forked from that live in pid namespaces below the keeper's, and share the
keeper's tree.
"""

import contextlib
import errno
import os
import resource
import select
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

import _signal

from . import forkserver, interpreter, leftovers, linux, pages, places, spare, tier
from .child import LISTEN, Runner, Start, give_up, run_command, tell
from .environment import environment
from .forkserver import Next
from .limits import Limits, allow_descriptors
from .modes import Listener
from .mounts import Mount
from .root import Park
from .seal import Confinement, Directory, Seal
from .spare import Spare
from .step import StepError, step
from .wire import FIRST_FD, Channel, decode, encode, move_up_front, pair

_START_PATIENCE = 120.0  # s, as the host has, for a child to become what it was started as
_STOP_PATIENCE = 0.25  # s for a process to stop
_MOST_SAID = 1000  # characters of an error: the host reads packets of limited size, and a program's name can be long


def main() -> Next:
    """Serves the host. It returns only in children that become something else, with the function that these
    are to call."""
    fork_server = forkserver.begun(begin)
    if fork_server:
        return fork_server
    linux.set_name("talaria-init")
    allow_descriptors()
    return Init(Channel.only(FIRST_FD)).serve()


@dataclass
class Starting:
    """A child that is not yet what it was started as."""

    id: int
    pid: int
    start: Start
    channel: Channel  # ends when it is that, or has ended
    age: tuple[int, int] | None  # see leftovers.Process; None for the first runner
    until: float
    failure: bytes = b""  # an error number

    def why(self) -> str:
        name = self.start.script or next(iter(self.start.args), "the runner")
        return f"{name}: {os.strerror(int(self.failure))}"


class Init:
    def __init__(self, channel: Channel, ready: Spare | None = None) -> None:
        self._channel = channel
        self._spare = ready
        self._children: dict[int, int] = {}  # id by pid
        self._starting: dict[int, Starting] = {}  # by pid
        self._groups: set[int] = set()  # those of the children whose process groups end with them
        self._beside: set[int] = set()  # runners beside the first one
        self._first_command: tuple[int, int] | None = None  # the age of the first of both, see leftovers.Process
        self._saving: list[tuple[int, int]] = []  # the pids of copies that save their variables, each with the id of the request
        self._environment: dict[str, str] = {}
        self._session: list[str] = []  # the names of the session's variables
        self._limits = Limits()
        self._next: Next | None = None
        self._poll = select.poll()
        self._listeners: dict[int, Listener] = {}
        self._handlers = {
            "park": self._park,
            "leave": self._leave,
            "keep": self._keep,
            "serve": self._serve,
            "seal": self._seal,
            "start": self._start,
            "signal": self._signal,
            "adopt": self._adopt,
            "wake": self._wake,
            "save": self._save,
            "limits": self._change_limits,
            "limit": self._limit,
            "unlinked": self._unlinked,
        }

    def serve(self, first: bytes = b"") -> Next:
        """first is a packet that was already received."""
        try:
            return self._loop(first)
        except BaseException as e:
            with contextlib.suppress(Exception):
                tier.current.end(self._children)
            give_up(e)

    def _loop(self, first: bytes) -> Next:
        wake = _wake_on_child()
        self._poll.register(self._channel.fileno(), select.POLLIN)
        self._poll.register(wake, select.POLLIN)
        if first:
            self._handle(first, [])
        while True:
            ready = dict(self._poll.poll(self._time_to_start()))
            for fd in ready.keys() & self._listeners.keys():  # before others get the number of a descriptor that is ready
                self._answer(fd, ready[fd])
            if wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
                self._let_savers_go_on()
                self._reap()
            for child in list(self._starting.values()):
                if child.channel.fileno() in ready:
                    self._hear(child)
                elif child.until < time.monotonic():
                    child.failure = str(errno.ETIMEDOUT).encode()
                    self._begun(child)
            if self._channel.fileno() in ready:
                received = self._channel.receive()
                if received is None:
                    tier.current.end(self._children)
                    with contextlib.suppress(OSError):
                        self._channel.send(encode(op="ended"))  # of its own accord, with nothing left
                    os._exit(0)
                self._handle(*received)
                if self._next:
                    return self._next

    def _handle(self, packet: bytes, fds: list[int]) -> None:
        message = decode(packet)
        op, id = message["op"], message["id"]
        try:
            self._handlers[op](id, message["body"], fds)
        except StepError as e:
            self._say_failed(id, str(e), e.errno, step=e.step)
        except Exception as e:
            self._failed(id, op, e)
        finally:
            if not self._next:
                for fd in fds:
                    os.close(fd)

    def _failed(self, id: int, op: str, error: Exception) -> None:
        self._say_failed(id, f"{op}: {error}", getattr(error, "errno", None) or 0)

    def _say_failed(self, id: int, error: str, number: int, **more: object) -> None:
        self._channel.send(encode(op="failed", id=id, error=error[:_MOST_SAID], errno=number, **more))

    def _park(self, id: int, body: dict, fds: list[int]) -> None:
        interpreter.engine = body.pop("engine")
        tier.use(body.pop("tier"))
        tier.current.park(Park(**body))
        sys.path[0] = places.library
        self._channel.send(encode(op="done", id=id))
        # Nobody is waiting for it now. If it fails, the runner tries again and says why.
        if interpreter.engine != interpreter.SCRIPT:
            with contextlib.suppress(Exception):
                import talaria_runner.main  # noqa: F401
        self._make_spare()

    def _leave(self, id: int, body: dict, fds: list[int]) -> None:
        """Parks, for a process that a fork server made and that has namespaces of its own already."""
        tier.current.settle()
        self._channel.send(encode(op="done", id=id))
        pages.copy("init", self._channel.fileno())

    def _make_spare(self) -> None:
        # Without a spare, the runner is forked when it is started.
        with contextlib.suppress(OSError):
            made = spare.fork()
            if isinstance(made, Spare):
                self._spare = made
            else:
                self._channel.forget()
                self._next = made

    def _keep(self, id: int, body: dict, fds: list[int]) -> None:
        linux.set_name("talaria-keeper")
        interpreter.engine = body.pop("engine")
        tier.use(body.pop("tier"))
        tier.current.keep(Park(**body))
        sys.path[0] = places.library
        self._channel.send(encode(op="done", id=id))

    def _serve(self, id: int, body: dict, fds: list[int]) -> None:
        """Starts a fork server."""
        self._started(id, forkserver.start(fds[0], body["modules"]))

    def _seal(self, id: int, body: dict, fds: list[int]) -> None:
        for name in ("workspace", "packages", "scratch"):
            body[name] = Directory(**body[name]) if body[name] else None
        body["mounts"] = [Mount(**m) for m in body["mounts"]]
        self._limits = body["limits"] = Limits(**body["limits"])
        body["confinement"] = Confinement(**body["confinement"])
        variables = body.pop("environment")
        spec = Seal(**body)
        tier.current.place(spec)
        self._environment = environment(**variables)
        self._session = list(variables["session"])
        self._dress_spare(spec)
        tier.current.seal(spec, self._spare.join if self._spare else lambda: None, fds)
        if self._spare:
            with step("runner"):
                self._listen(self._spare.sealed())
            tier.current.follow(self._spare.pid)
        self._channel.send(encode(op="done", id=id))

    def _dress_spare(self, spec: Seal) -> None:
        if self._spare:
            try:
                self._spare.dress(spec.uid, spec.limits, spec.confinement, self._environment, self._session)
            except OSError:
                self._discard_spare()

    def _discard_spare(self) -> None:
        if self._spare:
            self._spare.discard()
            tier.current.forget(self._spare.pid)
            self._spare = None

    def _start(self, id: int, body: dict, fds: list[int]) -> None:
        start = Start(**body)
        if start.args and not start.script:
            # A sandbox that begins with a command is not a kernel, and a command is to be alone.
            self._discard_spare()
            self._start_command(id, start, fds)
        else:
            self._start_runner(id, start, fds)

    def _start_runner(self, id: int, start: Start, fds: list[int]) -> None:
        if self._spare:
            ready, self._spare = self._spare, None
            ready.start(start, fds)
            self._started(id, ready.pid)
            return
        ours, theirs = map(Channel, pair())
        pid = linux.fork()
        if pid:
            theirs.close()
            self._follow_start(id, pid, start, ours, noted=start.beside)
            return
        self._channel.forget()
        for child in self._starting.values():
            child.channel.forget()
        ours.close()
        try:
            runner = Runner()
            runner.prepare()
            runner.dress(self._environment)
            tell(theirs, tier.current.enter())
            theirs.close()
            runner.bound(self._session, self._limits)
            self._next = runner.begin(start, fds)
        except BaseException as e:
            give_up(e)

    def _start_command(self, id: int, start: Start, fds: list[int]) -> None:
        ours, theirs = map(Channel, pair())
        try:
            pid = linux.fork()
            if not pid:
                run_command(start, self._environment, self._limits, fds, theirs)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._follow_start(id, pid, start, ours, noted=True)

    def _follow_start(self, id: int, pid: int, start: Start, channel: Channel, noted: bool) -> None:
        """Goes on while a child becomes what it was started as: code inside may stop it."""
        process = leftovers.look(pid) if noted else None
        age = process.age if process else (0, 0) if noted else None
        self._children[pid] = id
        self._starting[pid] = Starting(id, pid, start, channel, age, time.monotonic() + _START_PATIENCE)
        self._poll.register(channel.fileno(), select.POLLIN)

    def _time_to_start(self) -> float | None:
        """How long, in ms, the children have at least to become what they were started as."""
        if not self._starting:
            return None
        return max(0.0, min(child.until for child in self._starting.values()) - time.monotonic()) * 1000 + 1

    def _hear(self, child: Starting) -> None:
        """Takes what a child sends until its channel ends: an error number, or descriptors to listen to."""
        if received := child.channel.receive():
            said, listeners = received
            self._listen(listeners)
            if said != LISTEN:
                child.failure = said
        else:
            self._begun(child)

    def _begun(self, child: Starting) -> None:
        """Reports what has become of a child."""
        del self._starting[child.pid]
        self._poll.unregister(child.channel.fileno())
        child.channel.close()
        if child.failure:
            del self._children[child.pid]
            os.kill(child.pid, _signal.SIGKILL)  # in case that it was stopped
            self._failed(child.id, "start", OSError(int(child.failure), child.why()))
            return
        if child.age is not None:
            self._first_command = min(child.age, self._first_command or child.age)
        if child.start.beside:
            self._beside.add(child.pid)
        elif child.start.group:
            self._groups.add(child.pid)
        self._started(child.id, child.pid)

    def _listen(self, fds: Iterable[int]) -> None:
        for fd in fds:
            self._listeners[fd] = tier.current.listener(fd)
            self._poll.register(fd, select.POLLIN)

    def _answer(self, fd: int, events: int) -> None:
        if events & select.POLLIN:
            self._listeners[fd].answer()
        else:  # everybody who could ask is gone
            self._poll.unregister(fd)
            del self._listeners[fd]
            os.close(fd)

    def _started(self, id: int, pid: int) -> None:
        self._children[pid] = id
        tier.current.follow(pid)
        self._channel.send(encode(op="started", id=id, pid=pid))

    def _pid(self, process: int) -> int | None:
        """The pid of a process by its id, unless it has ended."""
        return next((pid for pid, id in self._children.items() if id == process), None)

    def _signal(self, id: int, body: dict, fds: list[int]) -> None:
        pid = self._pid(body["process"])
        if pid in self._starting:
            os.kill(pid, body["signal"])
        elif pid in self._beside and body["signal"] == _signal.SIGKILL:
            self._stop(pid)
            leftovers.end(pid, leader=True, is_ours=_nothing)
        elif pid in self._groups or pid is not None and body["group"]:  # each command leads a group
            os.killpg(pid, body["signal"])
        elif pid is not None:
            os.kill(pid, body["signal"])

    def _adopt(self, id: int, body: dict, fds: list[int]) -> None:
        """Treats a process that this one has inherited, a copy of the interpreter, as one that it started."""
        pid = body["pid"]
        if pid in self._children or self._spare and pid == self._spare.pid:
            raise ProcessLookupError(errno.ESRCH, f"process {pid} is not a copy")
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # raises unless it is a child
        self._started(id, pid)

    def _wake(self, id: int, body: dict, fds: list[int]) -> None:
        """Stops a process for good, unless it waits as a copy does, with everything that it has started, and lets a copy of it go
        on in its place. A process that waits can be its own copy."""
        old, copy = self._pid(body["stops"]), self._pid(body["wakes"])
        if old is None or copy is None or os.waitid(os.P_PID, copy, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise ProcessLookupError(errno.ESRCH, "one of the processes has ended")
        if not body["spares"]:
            self._stop(old)
        if copy != old:  # before the copy goes on, and starts processes itself
            leftovers.end(old, leader=not body["spares"], is_ours=self._is_orphan_of_cells)
        _signal_copy(copy, _signal.SIGRTMAX)
        self._channel.send(encode(op="done", id=id))

    def _stop(self, pid: int) -> None:
        """Stops a process, so that it starts no other ones while those that it has started are looked for. It need not take place
        in time: a thread that waits for a child to run its program does not stop, and other processes can let it go on."""
        os.kill(pid, _signal.SIGSTOP)
        until = time.monotonic() + _STOP_PATIENCE
        while not os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG) and time.monotonic() < until:
            time.sleep(0.001)

    def _is_orphan_of_cells(self, process: leftovers.Process) -> bool:
        """Whether a process has lost its parent and cannot descend from a command, since it is older than all of them. Of younger
        ones, nothing says whether a cell or a command started them."""
        orphan = process.parent == os.getpid() and process.pid not in self._children
        commands = (self._first_command, *(child.age for child in self._starting.values()))
        return orphan and all(age is None or process.age < age for age in commands)

    def _save(self, id: int, body: dict, fds: list[int]) -> None:
        """Has a copy of the interpreter save its variables. The answer follows when it has stopped, which is how it says that it
        is done."""
        copy = self._pid(body["process"])
        if copy is None:
            raise ProcessLookupError(errno.ESRCH, "the copy has ended")
        _signal_copy(copy, _signal.SIGRTMAX - 1)
        self._saving.append((copy, id))

    def _let_savers_go_on(self) -> None:
        for pid, id in list(self._saving):
            with contextlib.suppress(ChildProcessError):  # it has ended, which _reap reports
                if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG):
                    os.kill(pid, _signal.SIGCONT)
                    self._saving.remove((pid, id))
                    self._channel.send(encode(op="done", id=id))

    def _change_limits(self, id: int, body: dict, fds: list[int]) -> None:
        """For processes that start later; the host changes running ones."""
        self._limits = Limits(**body["limits"])
        self._channel.send(encode(op="done", id=id))

    def _limit(self, id: int, body: dict, fds: list[int]) -> None:
        """For running processes, if the host may not change them itself."""
        tier.current.limit(body["pids"], {resource.RLIMIT_DATA: body["data"], resource.RLIMIT_FSIZE: body["file_size"]})
        self._channel.send(encode(op="done", id=id))

    def _unlinked(self, id: int, body: dict, fds: list[int]) -> None:
        taken, inodes, hidden = tier.current.unlinked(body["pids"], body["device"])
        self._channel.send(encode(op="done", id=id, bytes=taken, inodes=inodes, hidden=hidden))

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if child := self._starting.get(ended.si_pid):
                while child.pid in self._starting:  # the other end of its channel is closed
                    self._hear(child)
            if ended.si_pid in self._groups:  # until it is reaped, no other group can have its number
                self._groups.discard(ended.si_pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(ended.si_pid, _signal.SIGKILL)
            if ended.si_pid in self._beside:  # the same holds for sessions
                self._beside.discard(ended.si_pid)
                leftovers.end(ended.si_pid, leader=False, is_ours=_nothing)
            pid, status, used = os.wait4(ended.si_pid, 0)
            tier.current.forget(pid)
            if self._spare and pid == self._spare.pid:
                self._spare = None
            for saving in [one for one in self._saving if one[0] == pid]:
                self._saving.remove(saving)
                self._channel.send(encode(op="failed", id=saving[1], error="the copy has ended", errno=errno.ESRCH))
            id = self._children.pop(pid, None)
            if id is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            cpu_us = int((used.ru_utime + used.ru_stime) * 1e6)
            ended = {"code": max(code, 0), "signal": max(-code, 0), "cpu_us": cpu_us, "peak": used.ru_maxrss << 10}
            self._channel.send(encode(op="exited", id=id, **ended))


def begin(fd: int) -> Next:
    """Runs in a process forked by a fork server: pid 1, which announces itself and does nothing until it is
    answered. Then it forks the spare before anything else: pages that it has written to by then have to be
    copied by both."""
    move_up_front(fd)
    os.write(FIRST_FD, b'{"op":"hello"}')
    answer = os.read(FIRST_FD, 4096)
    if not answer:
        os._exit(0)
    tier.current.leave()
    made = spare.fork()
    if not isinstance(made, Spare):
        return made
    linux.set_name("talaria-init")
    init = Init(Channel(FIRST_FD), made)
    return lambda: init.serve(answer)


def _nothing(process: leftovers.Process) -> bool:
    return False


def _signal_copy(pid: int, number: int) -> None:
    """Sends what a copy of the interpreter waits for (talaria_runner/checkpoints/copies.py), even if code inside has stopped it."""
    os.kill(pid, _signal.SIGCONT)  # first, since a copy that is the interpreter would take it for one of the user's
    os.kill(pid, number)


def _wake_on_child() -> int:
    """A descriptor that is readable when a child may have ended."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    # Pid 1 gets no signal from inside that it does not handle.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    return read
