"""Nothing that a cell makes costs without bound: not a repr, not the kept results, not the last traceback."""

from __future__ import annotations

import time
import unittest

from tests.case import RunnerCase
from tests.host import PATIENCE, Runner

_MIB = 1 << 20


def resident(runner: Runner) -> int:
    """Bytes of memory that the runner uses."""
    with open(f"/proc/{runner.process.pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


class SlowReprs(RunnerCase):
    def test_are_stopped(self) -> None:
        for name, body in (
            ("Busy", "\n        while True: pass"),
            ("Asleep", "import time; time.sleep(600)"),
            ("Persistent", "\n        for i in range(3):\n            try:\n                while True: pass\n"
             "            except BaseException: pass\n        while True: pass"),
            ("Calling", "return str(sorted([3, 2], key=lambda _: __import__('time').sleep(600)))"),
        ):  # fmt: skip
            with self.subTest(name):
                self.run_cell(f"class {name}:\n    def __repr__(self): {body}")
                begin = time.monotonic()
                text = self.run_cell(f"[1, {name}(), 2]").text
                self.assertGreater(time.monotonic() - begin, 1.9)
                self.assertRegex(text, rf"^\[1,\s+<{name} object at 0x[0-9a-f]+>,\s+2\]\n\[cut here: the repr of ")
                self.assertIn("took more than 2 s", text)
                self.assertEqual(self.run_cell("1 + 1").text, "2")

    def test_leave_signals_and_timers_of_the_user_alone(self) -> None:
        self.run_cell("import signal, time; rang = []\nsignal.signal(signal.SIGALRM, lambda *a: rang.append(1))")
        self.run_cell("signal.setitimer(signal.ITIMER_REAL, 0.5)\nclass S:\n    def __repr__(self): time.sleep(600)")
        self.assertIn("[cut here", self.run_cell("S()").text)
        self.assertEqual(self.run_cell("rang").text, "[1]")

    def test_can_be_interrupted(self) -> None:
        self.run_cell("class H:\n    def _repr_html_(self):\n        print('here')\n        while True: pass")
        id = self.runner.start("H()")
        self.runner.finish(id, until="stream")
        self.runner.interrupt(id)
        outcome = self.runner.finish(id)
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))

    def test_of_messages_are_stopped(self) -> None:
        outcome = self.runner.run("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E")
        self.assertEqual(outcome.error["evalue"], "<exception str() took more than 2 s>")

    def test_do_not_cut_what_comes_after_them(self) -> None:
        self.run_cell("import time\nclass S:\n    def __repr__(self): time.sleep(0.7); return 'S'")
        self.assertEqual(self.run_cell("for _ in range(3): display(S())\nS()").text, "S")


class LargeReprs(RunnerCase):
    def test_are_cut(self) -> None:
        for code in (
            "'x' * (20 << 20)", "bytearray(b'x') * (20 << 20)", "['x' * (20 << 20)]",
            "type('R', (), {'__repr__': lambda s: 'x' * (20 << 20)})()",
        ):  # fmt: skip
            with self.subTest(code):
                text = self.run_cell(code).text
                self.assertLess(len(text), 17 << 20)
                self.assertRegex(text[-200:], r"more (characters|bytes)|cut here: the first [\d,]+ of 20,971,520 characters")
        self.assertLess(len(self.run_cell("'ü' * (20 << 20)").text), 17 << 20)
        self.assertLess(len(self.run_cell("[['x' * 1000] * 1000 for _ in range(1000)]").text), 18 << 20)

    def test_of_deep_and_round_values_end(self) -> None:
        self.run_cell("deep = []\nfor i in range(100_000): deep = [deep]\nround = []; round.append({'r': (round,)})")
        self.assertIn("[...]", self.run_cell("deep").text)
        self.assertEqual(self.run_cell("round").text, "[{'r': ([...],)}]")
        self.run_cell("d = {}\nfor i in range(100_000): d = {'k': d}")
        self.assertIn("{...}", self.run_cell("d").text)
        self.run_cell("wide = [[0] * 1000] * 1000")
        begin = time.monotonic()
        self.run_cell("[wide] * 1000")
        self.assertLess(time.monotonic() - begin, 10)

    def test_believe_no_lies_about_length_and_items(self) -> None:
        self.run_cell(
            "class L(list):\n    def __len__(self): return 10**9\n    def __iter__(self): return iter(int, 1)\n"
            "class D(dict):\n    def __len__(self): 1/0\n    def items(self): return [(1,)] * 10**6\n    keys = None\n"
            "class S(set):\n    def __iter__(self): 1/0"
        )
        self.assertEqual(self.run_cell("[L([1, 2]), D(a=1), S([3])]").text, "[[1, 2], {'a': 1}, S({3})]")


class Results(unittest.TestCase):
    def test_that_are_large_are_kept_for_one_cell(self) -> None:
        with Runner() as runner:
            runner.run("pass")
            before = resident(runner)
            runner.run("bytearray(b'x') * (60 << 20)")
            self.assertEqual(runner.run("len(_)").text, str(60 << 20))
            self.assertLess(resident(runner) - before, 40 * _MIB)
            self.assertIn("result of cell 2 took 60 MiB and was kept for one cell only", runner.run("Out[2]").traceback)
            self.assertEqual(runner.run("Out[3]").text, str(60 << 20))

    def test_that_are_large_go_before_a_cell_that_does_not_mention_them(self) -> None:
        with Runner() as runner:
            runner.run("pass")
            before = resident(runner)
            runner.run("x = bytearray(b'x') * (60 << 20)\nx")
            runner.run("import os; del x\nmy_pages = int(open('/proc/self/statm').read().split()[1])")
            pages = int(runner.run("my_pages").text)
            self.assertLess(pages * 4096 - before, 40 * _MIB)

    def test_that_are_many_are_bounded_together(self) -> None:
        with Runner() as runner:
            runner.run("class R(list): __repr__ = lambda self: 'R'")
            for _ in range(12):
                runner.run("R([bytearray(b'x') * (25 << 20)])")
            self.assertEqual(runner.run("len(Out)").text, "5")
            self.assertLess(resident(runner), 250 * _MIB)  # 12 of them have 300
            runner.run("Out.clear(); _ = __ = ___ = None")
            runner.run("1")
            self.assertEqual(runner.run("len(Out)").text, "1")

    def test_that_have_a_name_cost_nothing(self) -> None:
        with Runner() as runner:
            runner.run("x = bytearray(60 << 20)")
            runner.run("x")
            runner.run("pass")
            self.assertEqual(runner.run("len(x)").text, str(60 << 20))

    def test_whose_end_blocks_can_be_interrupted(self) -> None:
        with Runner() as runner:
            runner.run("class B:\n    def __init__(self): self.b = bytearray(50 << 20)\n    def __del__(self):\n"
                       "        print('ends')\n        while forever: pass\nforever = True")  # fmt: skip
            runner.run("B()")
            id = runner.start("1")
            runner.finish(id, until="stream")
            runner.interrupt(id)
            time_out = time.monotonic() + PATIENCE
            while time.monotonic() < time_out:
                try:
                    outcome = runner.finish(id, within=0.5)
                    break
                except TimeoutError:
                    runner.interrupt(id)
            self.assertIn(outcome.status, ("ok", "error"))


class LastTraceback(unittest.TestCase):
    _FAIL = "def f():\n    big = bytearray(b'x') * (60 << 20)\n    1/0\nf()"

    def test_does_not_keep_large_variables_past_the_next_cell(self) -> None:
        with Runner() as runner:
            runner.run("import sys")
            before = resident(runner)
            runner.run(self._FAIL)
            runner.run("1 + 1")
            self.assertLess(resident(runner) - before, 40 * _MIB)
            self.assertEqual(runner.run("hasattr(sys, 'last_traceback')").text, "False")

    def test_keeps_them_for_a_debugger_in_the_next_cell(self) -> None:
        with Runner() as runner:
            runner.run("import sys, pdb")
            before = resident(runner)
            runner.run(self._FAIL)
            outcome = runner.run("pdb.pm()", ["p len(big)", "q"], allow_stdin=True)
            self.assertIn(str(60 << 20), outcome.stdout)
            self.assertLess(resident(runner) - before, 40 * _MIB)

    def test_of_small_variables_stays(self) -> None:
        with Runner() as runner:
            runner.run("import sys\ndef f():\n    small = 5\n    1/0\nf()")
            runner.run("1")
            runner.run("2")
            self.assertEqual(runner.run("sys.last_traceback.tb_next.tb_frame.f_locals['small']").text, "5")

    def test_does_not_keep_itself_alive(self) -> None:
        with Runner() as runner:
            runner.run("import gc, sys, weakref; gc.disable()\nclass K: pass\ndef f():\n    k = K(); global r\n"
                       "    r = weakref.ref(k)\n    1/0\nf()")  # fmt: skip
            runner.run("2/0")
            self.assertEqual(runner.run("r() is None").text, "True")
