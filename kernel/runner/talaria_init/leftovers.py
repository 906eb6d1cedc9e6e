"""Ends what an interpreter that another one replaces has started."""

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import _signal

_PATIENCE = 2.0  # s for killed processes to end; those that wait for a disk end later


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    started: int  # in ticks since the machine was booted
    ended: bool

    @property
    def age(self) -> tuple[int, int]:
        """Sorts processes by when they were started: within a tick, numbers grow."""
        return self.started, self.pid


def end(interpreter: int, leader: bool, is_ours: Callable[[Process], bool]) -> None:
    """Kills all other processes of the interpreter's session, all descendants of the interpreter, and those that is_ours
    returns True for, with their descendants, and waits for these. Kills the interpreter, which is stopped if possible, if it is to end,
    too: after the others, since it is what they are recognized by."""
    sessions = {interpreter}
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and (found := _open(interpreter, sessions, is_ours)):
        ended = select.poll()
        try:
            for fd in found:
                with contextlib.suppress(ProcessLookupError):  # its parent has waited for it
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
    if leader:
        os.kill(interpreter, _signal.SIGKILL)


def look(pid: int | str) -> Process | None:
    """Returns a process as it is now, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        return Process(int(pid), int(fields[1]), int(fields[3]), int(fields[19]), fields[0] in (b"Z", b"X"))
    except (OSError, IndexError):
        return None


def _open(interpreter: int, sessions: set[int], is_ours: Callable[[Process], bool]) -> list[int]:
    """Descriptors of the processes to be killed that have not ended. Adds their sessions to the set: a child of one of them that
    was not seen loses its parent, but stays in its session."""
    opened = []
    for process in _find(interpreter, sessions, is_ours):
        sessions.add(process.session)
        if process.ended:
            continue
        try:
            fd = os.pidfd_open(process.pid)
        except OSError:
            continue  # it has ended
        now = look(process.pid)
        if now and now.started == process.started and not now.ended:  # the descriptor is of no later one with its number
            opened.append(fd)
        else:
            os.close(fd)
    return opened


def _find(interpreter: int, sessions: set[int], is_ours: Callable[[Process], bool]) -> Iterator[Process]:
    everything = [process for name in os.listdir("/proc") if name.isdigit() and (process := look(name))]
    children: dict[int, list[Process]] = {}
    for process in everything:
        children.setdefault(process.parent, []).append(process)
    seen = {interpreter}
    todo = [*children.get(interpreter, ()), *(p for p in everything if p.session in sessions or is_ours(p))]
    while todo:
        process = todo.pop()
        if process.pid not in seen:
            seen.add(process.pid)
            todo += children.get(process.pid, ())
            yield process
