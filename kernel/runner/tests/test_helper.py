"""What a sandbox without namespaces does as another user."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import unittest
from unittest import mock

from talaria_init import helper, linux

_USER, _OTHER, _KILLER = 1900003000, 1900003001, 1900003002


class Helpers(unittest.TestCase):
    def test_that_are_stopped_are_not_waited_for(self) -> None:
        with mock.patch.object(helper, "_PATIENCE", 0.1), mock.patch.object(helper, "become"), self.assertRaises(RuntimeError):
            helper.as_user(_USER, lambda: os.kill(os.getpid(), signal.SIGSTOP))

    def test_that_cannot_be_started_leave_no_descriptors(self) -> None:
        before = os.listdir("/proc/self/fd")
        with mock.patch.object(linux, "fork", side_effect=BlockingIOError(errno.EAGAIN, "")), self.assertRaises(OSError):
            helper.as_user(_USER, lambda: None)
        self.assertEqual(os.listdir("/proc/self/fd"), before)


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class WhatKillsAUser(unittest.TestCase):
    def sleeper(self, uid: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sleep", "600"], user=uid, group=uid, extra_groups=[])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_kills_what_that_user_runs_and_nothing_else(self) -> None:
        own, others = self.sleeper(_USER), self.sleeper(_OTHER)
        helper.kill_user(_USER, _KILLER)
        self.assertEqual(own.wait(), -signal.SIGKILL)
        self.assertIsNone(others.poll())

    def test_finds_nothing(self) -> None:
        helper.kill_user(_USER, _KILLER)

    def test_cannot_be_stopped_by_that_user(self) -> None:
        asked, answered = os.pipe(), os.pipe()
        attacker = os.fork()
        if not attacker:
            helper.become(_USER)
            pid = int(os.read(asked[0], 16))
            stopped = _signalled(pid, signal.SIGSTOP)
            _signalled(pid, signal.SIGCONT)
            os.write(answered[1], str(stopped).encode())
            os._exit(0)
        self.addCleanup(os.waitpid, attacker, 0)
        self.addCleanup(os.kill, attacker, signal.SIGKILL)

        def be_attacked() -> None:
            os.write(asked[1], str(os.getpid()).encode())
            if os.read(answered[0], 16) != b"False":
                raise OSError(errno.EPERM, "it was stopped")

        with mock.patch.object(helper, "kill_all", be_attacked):
            helper.kill_user(_USER, _KILLER)
        for fd in (*asked, *answered):
            os.close(fd)

    def test_goes_on_after_another_one_has_killed_it(self) -> None:
        own = self.sleeper(_USER)
        read, write = os.pipe()
        os.write(write, b"1")
        os.close(write)
        kill_all = helper.kill_all

        def be_killed_once() -> None:
            if os.read(read, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            kill_all()

        with mock.patch.object(helper, "kill_all", be_killed_once):
            helper.kill_user(_USER, _KILLER)
        os.close(read)
        self.assertEqual(own.wait(), -signal.SIGKILL)

    def test_kills_nothing_if_it_has_kept_the_right_to_kill_everything(self) -> None:
        with (
            mock.patch.object(helper, "kill_all", lambda: os._exit(0)),
            mock.patch.object(os, "setresuid"),
            self.assertRaisesRegex(RuntimeError, "not permitted"),
        ):
            helper.kill_user(_USER, _KILLER)


def _signalled(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except PermissionError:
        return False
    return True
