"""Pid 1 of a sandbox: parks, seals, starts processes on request, tells how they ended, and reaps all others.

It is single-threaded and runs nothing of users. When the host's end of its socket closes it ends, and with it, by
the kernel's rule for pid 1, everything in the sandbox.
"""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable

from . import linux
from .child import Start, become_runner, run_command
from .environment import environment
from .limits import Limits
from .root import LIBRARY, Park, park
from .seal import Directory, Seal, seal
from .step import StepError
from .wire import Channel

_CHANNEL_FD = 3


def main() -> Callable[[], None]:
    """Serves the host. It returns only in a child that becomes the runner: with what that child is to call."""
    linux.set_name("talaria-init")
    os.closerange(_CHANNEL_FD + 1, 1 << 30)  # whatever the host has left open
    return Init(Channel(_CHANNEL_FD)).serve()


class Init:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._library = sys.path[0]
        self._children: dict[int, int] = {}  # id by pid
        self._environment: dict[str, str] = {}
        self._limits = Limits()
        self._runner: Callable[[], None] | None = None

    def serve(self) -> Callable[[], None]:
        wake = _wake_on_child()
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
                self._reap()
            if self._channel.fileno() in ready:
                received = self._channel.receive()
                if received is None:
                    os._exit(0)
                self._handle(*received)
                if self._runner:
                    return self._runner

    def _handle(self, message: dict, fds: list[int]) -> None:
        handlers = {
            "park": self._park,
            "seal": self._seal,
            "start": self._start,
            "signal": self._signal,
            "limits": self._change_limits,
        }
        op, id = message["op"], message["id"]
        try:
            handlers[op](id, message["body"], fds)
        except StepError as e:
            self._channel.send(op="failed", id=id, error=str(e), step=e.step, errno=e.errno)
        except Exception as e:
            self._channel.send(op="failed", id=id, error=f"{op}: {e}", errno=getattr(e, "errno", None) or 0)
        finally:
            if not self._runner:
                for fd in fds:
                    os.close(fd)

    def _park(self, id: int, body: dict, fds: list[int]) -> None:
        park(Park(**body))
        sys.path[sys.path.index(self._library)] = LIBRARY
        self._channel.send(op="done", id=id)
        # Nobody waits for it now. If it fails, the child tries again and says why.
        with contextlib.suppress(Exception):
            import talaria_runner.main  # noqa: F401

    def _seal(self, id: int, body: dict, fds: list[int]) -> None:
        for name in ("workspace", "packages"):
            body[name] = Directory(**body[name])
        self._limits = body["limits"] = Limits(**body["limits"])
        self._environment = environment(**body.pop("environment"))
        seal(Seal(**body))
        self._channel.send(op="done", id=id)

    def _start(self, id: int, body: dict, fds: list[int]) -> None:
        variables = {**self._environment, **body["environment"]}
        start = Start(id, body["args"], variables, body["directory"], self._limits)
        if start.args:
            self._start_command(start, fds)
        else:
            self._start_runner(start, fds)

    def _start_runner(self, start: Start, fds: list[int]) -> None:
        stdout, stderr, control = fds
        pid = os.fork()
        if pid:
            self._started(start, pid)
        else:
            self._channel.forget()
            try:
                self._runner = become_runner(start, stdout, stderr, control)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)

    def _start_command(self, start: Start, fds: list[int]) -> None:
        stdout, stderr = fds
        read, write = os.pipe()
        try:
            pid = os.fork()
            if not pid:
                run_command(start, stdout, stderr, write)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        # It ends when the command replaces the child.
        with open(read, "rb") as f:
            failure = f.read()
        if not failure:
            self._started(start, pid)
            return
        os.waitpid(pid, 0)
        raise OSError(int(failure), f"{start.args[0]}: {os.strerror(int(failure))}")

    def _started(self, start: Start, pid: int) -> None:
        self._children[pid] = start.id
        self._channel.send(op="started", id=start.id, pid=pid)

    def _signal(self, id: int, body: dict, fds: list[int]) -> None:
        for pid, process in self._children.items():
            if process == body["process"]:
                os.kill(pid, body["signal"])

    def _change_limits(self, id: int, body: dict, fds: list[int]) -> None:
        """For what starts later; the host changes those that run."""
        self._limits = Limits(**body["limits"])
        self._channel.send(op="done", id=id)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            id = self._children.pop(pid, None)
            if id is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            self._channel.send(op="exited", id=id, code=max(code, 0), signal=max(-code, 0))


def _wake_on_child() -> int:
    """A descriptor that is readable when a child may have ended."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    # Pid 1 gets no signal from inside that it does not handle.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return read
