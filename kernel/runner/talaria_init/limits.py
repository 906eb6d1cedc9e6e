"""Limits of the processes that pid 1 starts. The cgroup bounds what all of them use together."""

import resource
from dataclasses import dataclass

from . import linux

_FILES_SOFT = 1024
_FILES_HARD = 4096
_LOCKED_MEMORY = 64 << 10
# Both are also charged to the users around the session's, up to the server's.
_PENDING_SIGNALS = 1024  # queued signals and POSIX timers
_MESSAGE_QUEUES = 128 << 10  # bytes of POSIX queues; one of the usual size takes 80 KiB
# Counted against RLIMIT_DATA for each thread: the usual 8 MiB would leave room for few threads.
_THREAD_STACK = 2 << 20
_MAIN_STACK = 8 << 20


@dataclass
class Limits:
    """The limits that the host wants, in bytes and numbers; 0 means no limit."""

    data: int = 0
    data_hard: bool = False  # if no cgroup bounds memory, users may not raise it
    file_size: int = 0
    processes: int = 0  # if no cgroup bounds them; counts pid 1 too
    tmp: int = 0  # of each writable tmpfs
    final: str = ""  # the filter of system calls that lets only the host change limits, or none

    def apply(self) -> None:
        """Bounds the calling process and everything it starts."""
        _limit(resource.RLIMIT_CORE, 0, 0)
        _limit(resource.RLIMIT_NOFILE, _FILES_SOFT, _FILES_HARD)
        _limit(resource.RLIMIT_MEMLOCK, _LOCKED_MEMORY, _LOCKED_MEMORY)
        _limit(resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS, _PENDING_SIGNALS)
        _limit(resource.RLIMIT_MSGQUEUE, _MESSAGE_QUEUES, _MESSAGE_QUEUES)
        _limit(resource.RLIMIT_NICE, 0, 0)
        _limit(resource.RLIMIT_RTPRIO, 0, 0)
        _limit(resource.RLIMIT_STACK, _MAIN_STACK)
        if self.file_size:
            _limit(resource.RLIMIT_FSIZE, self.file_size)
        if self.data:
            _limit(resource.RLIMIT_DATA, self.data, self.data if self.data_hard else None)
        if self.final:
            linux.filter_calls(self.final)

    def apply_processes(self) -> None:
        """Bounds the user namespace that is created next: its users cannot raise limits that are soft here."""
        if self.processes:
            _limit(resource.RLIMIT_NPROC, self.processes)


def allow_descriptors() -> None:
    """Raises pid 1's limit as far as possible. The kernel refuses to send descriptors once the user has more
    in flight than the sender may have open: if sessions share a user, one of them could stop pid 1 of all
    others."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def max_control_fd() -> int:
    """The highest descriptor that the limits allow, out of the way of user code."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1


def shrink_thread_stacks() -> None:
    linux.set_default_thread_stack(_THREAD_STACK)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Sets a limit as far as the inherited hard one allows."""
    _, ceiling = resource.getrlimit(kind)
    hard = ceiling if hard is None else _least(hard, ceiling)
    resource.setrlimit(kind, (_least(soft, hard), hard))


def _least(a: int, b: int) -> int:
    if resource.RLIM_INFINITY in (a, b):
        return b if a == resource.RLIM_INFINITY else a
    return min(a, b)
