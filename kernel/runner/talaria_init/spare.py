"""The spare: a child that pid 1 of a parked sandbox keeps ready to become the runner.

Forking a process with imported libraries takes milliseconds. The spare is forked before anybody waits for it,
is sealed together with pid 1, and gets its descriptors when it is started.
"""

import contextlib
import marshal
import os
from collections.abc import Callable

import _signal

from . import child, linux, pages, tier
from .limits import Limits
from .seal import Confinement
from .step import StepError
from .wire import Channel, pair

_GO = b"go"
_OK = b"ok"


class Spare:
    """The side of pid 1."""

    def __init__(self, pid: int, channel: Channel) -> None:
        self.pid = pid
        self._channel = channel

    def dress(
        self, uid: int, limits: Limits, confinement: Confinement, environment: dict[str, str], session: list[str]
    ) -> None:
        """Makes it do what can be done before there is a nested user namespace to join. Raises OSError if the
        environment is too large."""
        packed = (uid, vars(limits), vars(confinement), environment, session, tier.current.baggage())
        self._channel.send(marshal.dumps(packed))

    def join(self) -> None:
        """Makes it join the nested user namespace and give up all privileges."""
        self._channel.send(_GO)

    def sealed(self) -> list[int]:
        """Waits until it has done that. Returns the descriptors to listen to."""
        listeners: list[int] = []
        while received := self._channel.receive():
            said, fds = received
            listeners += fds
            if said == _OK:
                return listeners
            if said != child.LISTEN:
                raise StepError.told(*marshal.loads(said))
        raise RuntimeError("it ended")

    def start(self, start: child.Start, fds: list[int]) -> None:
        """Makes it become the runner. Raises OSError if it is gone."""
        self._channel.send(marshal.dumps(vars(start)), fds)
        self._channel.close()

    def discard(self) -> None:
        self._channel.close()
        os.kill(self.pid, _signal.SIGKILL)
        os.waitpid(self.pid, 0)


def fork() -> Spare | Callable[[], Callable[[], None]]:
    """Returns the spare to pid 1; in the spare itself, the function to call."""
    ours, theirs = pair()
    pid = linux.fork()
    if not pid:
        return lambda: _serve(Channel.only(theirs))
    os.close(theirs)
    return Spare(pid, Channel(ours))


def _serve(channel: Channel) -> Callable[[], None]:
    try:
        _signal.set_wakeup_fd(-1)
        runner = child.Runner()
        runner.prepare()
        pages.copy("interpreter", channel.fileno())
        received = channel.receive()
        if received is None:
            os._exit(0)
        uid, limits, confinement, environment, session, baggage = marshal.loads(received[0])
        limits = Limits(**limits)
        runner.dress(environment)
        if channel.receive() is None:
            os._exit(0)
        listeners = tier.current.join(uid, limits, Confinement(**confinement), baggage)
        child.tell(channel, listeners)  # before the limit of descriptors, which bounds those in flight too
        runner.bound(session, limits)
        channel.send(_OK)
        received = channel.receive()
        if received is None:
            os._exit(0)
        packet, fds = received
        channel.forget()
        return runner.begin(child.Start(**marshal.loads(packet)), fds)
    except BaseException as e:
        with contextlib.suppress(OSError):
            said = (e.step, e.errno, str(e)) if isinstance(e, StepError) else ("runner", 0, f"runner: {type(e).__name__}: {e}")
            channel.send(marshal.dumps(said))
        child.give_up(e)
