"""Ends what an interpreter that another one replaces has started."""

import os
import select
import time

import _signal

_PATIENCE = 2.0  # s for killed processes to end; those that wait for a disk end later


def end(session: int, leader: bool) -> None:
    """Kills all processes of a session but for its leader, and waits for these. Kills the leader, which is stopped, if it is to
    end, too."""
    if leader:
        os.kill(session, _signal.SIGKILL)
    until = time.monotonic() + _PATIENCE
    while (found := _open(session)) and time.monotonic() < until:
        ended = select.poll()
        try:
            for fd in found:
                _signal.pidfd_send_signal(fd, _signal.SIGKILL)
                ended.register(fd, select.POLLIN)
            left = len(found)
            while left and (gone := ended.poll(max(0, int((until - time.monotonic()) * 1000)))):
                for fd, _ in gone:
                    ended.unregister(fd)
                left -= len(gone)
        finally:
            for fd in found:
                os.close(fd)


def _open(session: int) -> list[int]:
    """Descriptors of the processes of a session that have not ended, but for its leader."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == session or not _belongs(name, session):
            continue
        try:
            fd = os.pidfd_open(int(name))
        except OSError:
            continue  # it has ended
        if _belongs(name, session):  # still: the descriptor is of that process, and of no later one with its number
            found.append(fd)
        else:
            os.close(fd)
    return found


def _belongs(name: str, session: int) -> bool:
    try:
        with open(f"/proc/{name}/stat", "rb") as f:
            state, _, _, of = f.read().rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return False
    return int(of) == session and state not in (b"Z", b"X")
