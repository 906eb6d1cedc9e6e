"""The file descriptors of the runner: its own ones out of the way of user code, 0 to 2 alive for it."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from fcntl import F_DUPFD_CLOEXEC, fcntl
from posix import O_CLOEXEC, O_RDWR, close, dup2, fstat, open, set_blocking, sysconf, write

from select import POLLIN, POLLOUT, poll

# High enough that nobody hits them by closing "the first few", low enough that the kernel's table stays small.
_HIGHEST = 1024
_LOWEST = 900


class Descriptors:
    """Control socket, named pipe of programs, copies of the pipes on fd 1 and 2 that user code does not redirect, and
    further ones that a forked child closes."""

    def __init__(self) -> None:
        self.control = -1
        self.pipes = (-1, -1)
        self.asks = -1
        self._further: set[int] = set()

    def take(self, control: int) -> None:
        """The control socket is made non-blocking."""
        self.control = _move_up(control)
        set_blocking(self.control, False)
        self.pipes = (_copy_up(1), _copy_up(2))

    def take_asks(self, fd: int) -> None:
        """What programs of the session write to."""
        self.asks = _move_up(fd)

    def take_further(self, fd: int) -> int:
        """Keeps a descriptor out of the way of user code and of forked children, and returns its new number."""
        fd = _move_up(fd)
        self._further.add(fd)
        return fd

    def drop_further(self, fd: int) -> None:
        """Forgets a descriptor, which the caller closes."""
        self._further.discard(fd)

    def restore_standard(self) -> None:
        """Opens 0, 1 and 2 again where they are closed. Where user code redirected them they stay redirected."""
        for fd in (0, 1, 2):
            try:
                fstat(fd)
            except OSError:
                self._restore(fd)

    def _restore(self, fd: int) -> None:
        if fd:
            try:
                dup2(self.pipes[fd - 1], fd)
                return
            except OSError:
                pass  # user code has closed that, too
        null = open("/dev/null", O_RDWR | O_CLOEXEC)
        if null == fd:
            # The lowest free number is what open gives; dup2 onto itself would leave it close-on-exec.
            null = fcntl(null, F_DUPFD_CLOEXEC, _lowest())
        dup2(null, fd)
        close(null)

    def all(self) -> tuple[int, ...]:
        """All of them, but for the standard ones."""
        return (self.control, self.asks, *self.pipes, *self._further)

    def close_private(self) -> None:
        """For a forked child, which speaks to nobody."""
        for fd in self.all():
            try:
                close(fd)
            except OSError:
                pass


def write_all(fd: int, data: bytes) -> None:
    """Writes all of data, also where user code made the descriptor non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[write(fd, view):]
        except BlockingIOError:
            wait_for(fd, POLLOUT)


def wait_for(fd: int, event: int = POLLIN, timeout_ms: float | None = None) -> bool:
    """Waits until fd can be read or written; False when the time is over."""
    poller = poll()
    poller.register(fd, event)
    return bool(poller.poll(timeout_ms))


def _lowest() -> int:
    return max(10, min(_LOWEST, min(sysconf("SC_OPEN_MAX"), _HIGHEST) - 16))


def _copy_up(fd: int) -> int:
    return fcntl(fd, F_DUPFD_CLOEXEC, _lowest())


def _move_up(fd: int) -> int:
    if fd >= _lowest():
        fcntl(fd, 2, 1)  # F_SETFD, FD_CLOEXEC
        return fd
    moved = _copy_up(fd)
    close(fd)
    return moved
