"""Modules of the standard library that the runner imports late, while other threads go on."""

from __future__ import annotations

import builtins
import os
import sys
import tempfile
import threading
import unittest

from talaria_runner.own.stdlib import load
from tests.case import RunnerCase

_SLOW = "import builtins\nbuiltins.slow_begun.set()\nassert builtins.slow_go.wait(20)\nvalue = 'standard'\n"


class Loading(unittest.TestCase):
    """The module slow is in a folder like those of the standard library, and ordinary in another one."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, sys, "path", sys.path[:])
        self.addCleanup(lambda: [sys.modules.pop(name, None) for name in ("slow", "ordinary", "talaria_standard_slow")])
        standard = os.path.join(folder.name, "lib-dynload")
        os.mkdir(standard)
        for path, text in ((f"{standard}/slow.py", _SLOW), (f"{folder.name}/ordinary.py", "value = 'ordinary'\n")):
            with open(path, "w") as file:
                file.write(text)
        sys.path[:] = [folder.name, *sys.path, standard]
        builtins.slow_begun, builtins.slow_go = threading.Event(), threading.Event()
        self.addCleanup(lambda: (delattr(builtins, "slow_begun"), delattr(builtins, "slow_go")))
        self.loaded: list[object] = []

    def begin(self) -> threading.Thread:
        """Starts a thread that loads slow, and returns once the module runs."""
        thread = threading.Thread(target=lambda: self.loaded.append(load("slow")))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(builtins.slow_go.set)
        self.assertTrue(builtins.slow_begun.wait(20))
        return thread

    def test_leaves_the_path_to_other_threads(self) -> None:
        thread = self.begin()
        sys.path.append("/later")
        self.assertEqual(__import__("ordinary").value, "ordinary")
        builtins.slow_go.set()
        thread.join()
        self.assertIn("/later", sys.path)
        self.assertEqual(self.loaded[0].value, "standard")

    def test_waits_for_a_module_that_another_thread_imports(self) -> None:
        self.begin()
        # A module that is returned at once has no value yet; how long the other thread takes makes no
        # difference.
        threading.Timer(0.2, builtins.slow_go.set).start()
        self.assertEqual(load("slow").value, "standard")

    def test_leaves_a_module_of_the_same_name_in_place(self) -> None:
        users = type(sys)("slow")
        users.__file__ = "/workspace/slow.py"
        sys.modules["slow"] = users
        thread = self.begin()
        self.assertIs(sys.modules["slow"], users)
        builtins.slow_go.set()
        thread.join()
        self.assertEqual(self.loaded[0].value, "standard")
        self.assertIs(load("slow"), self.loaded[0])


class Shadows(RunnerCase):
    def test_that_are_imported_do_not_keep_magics_from_working(self) -> None:
        self.run_cell("for n in ('re', 'shlex', 'gc', 'reprlib'): open(n + '.py', 'w').write('shadow = 1')")
        self.run_cell(
            "import sys\nfor n in ('re', 'shlex', 'gc', 'reprlib'):\n"
            "    module = type(sys)(n); module.__file__ = '/workspace/' + n + '.py'; sys.modules[n] = module"
        )
        self.assertIn("b.txt", self.run_cell("open('b.txt', 'w').close()\n%ls").stdout)
        self.assertIn("per loop", self.run_cell("%timeit -n1 -r1 pass").stdout)
        self.assertEqual(self.run_cell("import re; hasattr(re, 'compile')").text, "False")
