"""Pages of memory are copied ahead of the first write to them."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import struct
import unittest
from base64 import b64encode

from talaria_init import linux, pages

_PAGES = 200
_LENGTH = _PAGES * mmap.PAGESIZE
_LINUX = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))


class Pages(unittest.TestCase):
    def setUp(self) -> None:
        self.shared = mmap.mmap(-1, _LENGTH, mmap.MAP_PRIVATE)
        self.shared[:] = b"x" * _LENGTH
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.shared))

    def forked(self, *ranges: tuple[int, int]) -> int:
        """Has a forked process copy these ranges ahead, and returns how many pages are copied when it writes to them all."""
        packed = b64encode(b"".join(struct.pack("=QQ", *r) for r in ranges)).decode()
        read, write = os.pipe()
        pid = linux.fork()
        if not pid:
            pages.learn({"init": packed, "interpreter": ""})
            pages.copy("interpreter", read)
            pages.copy("init", read)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            kept = all(self.shared[at] == ord("x") for at in range(0, _LENGTH, mmap.PAGESIZE))
            for at in range(0, _LENGTH, mmap.PAGESIZE):
                self.shared[at] = ord("y")
            copied = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
            os.write(write, str(copied if kept else -1).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        os.close(write)
        with open(read) as f:
            copied = int(f.read())
        self.assertGreaterEqual(copied, 0, "a page has another content")
        self.assertEqual(self.shared[0], ord("x"))
        return copied

    @unittest.skipIf(_LINUX < (5, 14), "this kernel cannot copy pages ahead")
    def test_are_not_copied_again_by_the_write(self) -> None:
        self.assertGreaterEqual(self.forked(), _PAGES)
        self.assertLess(self.forked((self.address, _LENGTH)), _PAGES // 2)

    @unittest.skipIf(_LINUX < (5, 14), "this kernel cannot copy pages ahead")
    def test_that_are_not_there_do_not_keep_others_from_being_copied(self) -> None:
        half = _PAGES // 2 * mmap.PAGESIZE
        gone = mmap.mmap(-1, mmap.PAGESIZE)
        nowhere = ctypes.addressof(ctypes.c_char.from_buffer(gone))
        ranges = ((0, mmap.PAGESIZE), (nowhere + (1 << 40), mmap.PAGESIZE), (self.address, half), (self.address + half, half))
        self.assertLess(self.forked(*ranges), _PAGES // 2)

    def test_no_more_are_learnt_than_there_is_room_for(self) -> None:
        with self.assertRaises(ValueError):
            pages.learn({"init": b64encode(bytes(1 << 20)).decode(), "interpreter": ""})
