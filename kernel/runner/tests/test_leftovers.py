"""What an interpreter that is replaced has started is ended, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import unittest

from talaria_init import leftovers


class Leftovers(unittest.TestCase):
    def setUp(self) -> None:
        self.pipes: list[tuple[int, int]] = []

    def tearDown(self) -> None:
        for read, write in self.pipes:
            os.close(read)
            os.close(write)

    def start(self, command: str) -> tuple[subprocess.Popen[bytes], int]:
        """Starts a shell in a session of its own. The pipe that is returned ends when it has ended, and all that it started."""
        read, write = os.pipe()
        self.pipes.append((read, os.open("/dev/null", os.O_RDONLY)))
        process = subprocess.Popen(["sh", "-c", command], stdout=write, start_new_session=True)
        os.close(write)
        self.addCleanup(process.wait)
        return process, read

    def started(self, read: int) -> int:
        """The pid that a process says."""
        pid = 0
        while (byte := os.read(read, 1)) != b"\n":
            pid = 10 * pid + int(byte)
        self.addCleanup(_kill, pid)
        return pid

    def test_descendants_with_sessions_of_their_own_end(self) -> None:
        process, read = self.start("setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 600\" & wait' & wait")
        self.started(read)
        leftovers.end(process.pid, leader=True, is_ours=lambda _: False)
        self.assertEqual(os.read(read, 1), b"")

    def test_an_interpreter_that_waits_goes_on(self) -> None:
        process, read = self.start("setsid sh -c 'echo $$; exec sleep 600' >&1 & exec >&-; read line < /dev/null; wait; exec sleep 600")
        self.started(read)
        leftovers.end(process.pid, leader=False, is_ours=lambda _: False)
        self.assertEqual(os.read(read, 1), b"")
        self.assertIsNone(process.poll())
        process.kill()

    def test_orphans_end_if_they_are_ours(self) -> None:
        process, read = self.start("setsid --fork sh -c 'echo $$; exec sleep 600'; exec sleep 600")
        orphan = self.started(read)
        leftovers.end(process.pid, leader=True, is_ours=lambda _: False)
        self.assertFalse(leftovers.look(orphan).ended)
        leftovers.end(process.pid, leader=False, is_ours=lambda p: p.pid == orphan)
        self.assertEqual(os.read(read, 1), b"")

    def test_what_other_processes_started_goes_on(self) -> None:
        process, read = self.start("setsid sh -c 'echo $$; exec sleep 600' & wait")
        other, read_other = self.start("setsid sh -c 'echo $$; exec sleep 600' & wait")
        self.started(read)
        stranger = self.started(read_other)
        leftovers.end(process.pid, leader=True, is_ours=lambda _: False)
        self.assertEqual(os.read(read, 1), b"")
        self.assertIsNone(other.poll())
        self.assertFalse(leftovers.look(stranger).ended)
        other.kill()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
