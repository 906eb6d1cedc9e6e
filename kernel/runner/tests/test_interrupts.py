"""KeyboardInterrupt: in the intended cell, wherever its code is, and nowhere else."""

from __future__ import annotations

import time

from tests.case import RunnerCase
from tests.host import Runner

# Says so when the main thread is probably in the code that follows; the test is right in any case.
_BEGUN = "import threading; threading.Timer(0.5, print, ['begun']).start()\n"


class Interrupts(RunnerCase):
    def interrupt(self, code: str, patience: float = 15.0, runner: Runner | None = None, **how: bool):
        """Runs the cell, interrupts it when it says that it has begun, and returns the outcome."""
        runner = runner or self.runner
        id = runner.start(code, **how)
        runner.finish(id, until="stream")
        runner.interrupt(id)
        begun = time.monotonic()
        outcome = runner.finish(id)
        self.assertLess(time.monotonic() - begun, patience)
        return outcome

    def assert_interrupted(self, outcome) -> None:
        self.assertEqual(outcome.status, "error", outcome.events)
        self.assertEqual(outcome.error["ename"], "KeyboardInterrupt", outcome.traceback)
        self.assertTrue(outcome.interrupted)
        self.assertNotIn("talaria_runner", outcome.traceback)
        self.assertEqual(self.runner.run("1+1").text, "2")

    def test_reach_code_that_waits_or_works(self) -> None:
        for code in (
            "import time; time.sleep(60)",
            "while True: pass",
            "import time\nt = threading.Thread(target=time.sleep, args=(60,), daemon=True); t.start(); t.join()",
            "import queue; queue.Queue().get()",
            "import subprocess; subprocess.run(['sleep', '60'])",
            "import os; os.system('sleep 60')",
            "import os; os.read(os.pipe()[0], 1)",
            "class R:\n    def __repr__(self):\n        while True: pass\nR()",
            "class R:\n    def _repr_html_(self):\n        while True: pass\ndisplay(R())",
            "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
            "import time\nclass D:\n    def __del__(self): time.sleep(5)\nD()\ntime.sleep(60)",
            "def f(): f()\nwhile True:\n    try: f()\n    except RecursionError: pass",
        ):
            with self.subTest(code):
                outcome = self.interrupt(_BEGUN + code)
                if "__str__" in code:
                    self.assertEqual(outcome.error["ename"], "E")
                    self.assertTrue(outcome.interrupted)
                else:
                    self.assert_interrupted(outcome)

    def test_show_where_the_code_was(self) -> None:
        outcome = self.interrupt(_BEGUN + "import time\ndef deep():\n    time.sleep(60)\ndeep()")
        last = [line for line in outcome.error["traceback"] if line.startswith("  File")][-1]
        self.assertRegex(last, r'^  File "<cell \d+>", line 4, in deep$')
        self.assertEqual(outcome.error["traceback"][-1], "KeyboardInterrupt")

    def test_reach_code_that_only_prints(self) -> None:
        for code in (
            "while True: print('x')",
            "while True: print('x', flush=True)",
            "import sys\nwhile True: sys.stdout.write('y' * 1000)",
            "print(0)\nwhile True: display(1)",
            "import sys\nwhile True: print('x'); print('e', file=sys.stderr)",
        ):
            with self.subTest(code):
                outcome = self.interrupt(code)
                self.assert_interrupted(outcome)

    def test_break_a_top_level_await(self) -> None:
        outcome = self.interrupt(_BEGUN + "import asyncio; await asyncio.sleep(60)")
        self.assert_interrupted(outcome)
        self.assertIn("await asyncio.sleep(60)", outcome.traceback)
        outcome = self.interrupt("import asyncio, time\n" + _BEGUN + "await asyncio.sleep(0); time.sleep(60)")
        self.assert_interrupted(outcome)
        outcome = self.interrupt(_BEGUN + "await asyncio.gather(asyncio.sleep(60), asyncio.sleep(90))")
        self.assert_interrupted(outcome)
        code = "async def f():\n    try: await asyncio.sleep(60)\n    finally: print('cleaned')\n"
        outcome = self.interrupt(code + _BEGUN + "await f()")
        self.assert_interrupted(outcome)
        self.assertIn("cleaned", outcome.stdout)
        code = "async def hog():\n    while True: pass\n"
        outcome = self.interrupt(code + _BEGUN + "t = asyncio.create_task(hog()); await asyncio.sleep(60)")
        self.assert_interrupted(outcome)
        self.assertEqual(self.run_cell("await asyncio.sleep(0, 3)").text, "3")

    def test_leave_background_tasks_alone(self) -> None:
        self.run_cell(
            "import asyncio\nasync def works():\n    while True:\n        for _ in range(1000): pass\n"
            "        await asyncio.sleep(0)\nbackground = asyncio.create_task(works())"
        )
        for _ in range(5):
            self.assert_interrupted(self.interrupt(_BEGUN + "await asyncio.sleep(60)"))
        self.assertEqual(self.run_cell("background.done(), background.cancel()").text, "(False, True)")

    def test_break_loops_inside_the_loop(self) -> None:
        code = _BEGUN + "import asyncio\nawait asyncio.sleep(0)\nasyncio.run(asyncio.sleep(60))"
        self.assert_interrupted(self.interrupt(code))
        self.assertEqual(self.run_cell("await asyncio.sleep(0, 5)").text, "5")

    def test_break_asyncio_run(self) -> None:
        outcome = self.interrupt(_BEGUN + "import asyncio\nasyncio.run(asyncio.sleep(60))")
        self.assert_interrupted(outcome)
        self.assertEqual(self.run_cell("asyncio.run(asyncio.sleep(0, 5))").text, "5")

    def test_may_be_caught(self) -> None:
        outcome = self.interrupt(
            _BEGUN + "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('caught')\n5"
        )
        self.assertEqual((outcome.status, outcome.text), ("ok", "5"))
        self.assertIn("caught", outcome.stdout)

    def test_come_again(self) -> None:
        id = self.runner.start(
            "import time\nfor i in range(3):\n    try:\n        print(i, flush=True)\n        time.sleep(60)\n"
            "    except KeyboardInterrupt: pass\n'end'"
        )
        for _ in range(3):
            self.runner.finish(id, until="stream")
            self.runner.interrupt(id)
        self.assertEqual(self.runner.finish(id).text, "'end'")

    def test_respect_a_handler_of_the_cell_but_not_after_it(self) -> None:
        code = (
            "import signal, time\ncalls = []\nsignal.signal(signal.SIGINT, lambda *a: calls.append(1))\n"
            + _BEGUN
            + "while not calls: time.sleep(0.01)\ntime.sleep(0.2)\nlen(calls)"
        )
        outcome = self.interrupt(code)
        self.assertEqual((outcome.status, outcome.text, outcome.interrupted), ("ok", "1", False))
        self.assert_interrupted(self.interrupt(_BEGUN + "time.sleep(60)"))

    def test_reach_cells_after_one_that_blocked_the_signal(self) -> None:
        self.run_cell("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);")
        self.assert_interrupted(self.interrupt(_BEGUN + "import time; time.sleep(60)"))

    def test_of_another_execution_do_nothing(self) -> None:
        self.run_cell("1")
        id = self.runner.start("import time; time.sleep(0.1); 'whole'")
        self.runner.interrupt("e1")
        self.runner.interrupt("unknown")
        self.assertEqual(self.runner.finish(id).text, "'whole'")
        self.runner.interrupt(id)
        self.assertEqual(self.run_cell("'next'").text, "'next'")

    def test_that_come_at_once_are_delivered_when_the_code_starts(self) -> None:
        for _ in range(100):
            id = self.runner.start("import time; time.sleep(60)")
            self.runner.interrupt(id)
            outcome = self.runner.finish(id)
            self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))

    def test_while_old_results_are_released_keep_the_cell_from_running(self) -> None:
        self.run_cell(
            "class Large(bytearray):\n    def __repr__(self): return 'large'\n"
            "    def __del__(self):\n        print('begun', flush=True)\n        while True: pass\nLarge(40 << 20)"
        )
        self.assert_interrupted(self.interrupt("ran = 1"))
        self.assertEqual(self.run_cell("'ran' in globals()").text, "False")

    def test_of_the_users_own_making_are_errors(self) -> None:
        code = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(1)"
        self.fail_cell(code, "KeyboardInterrupt")

    def test_reach_a_long_call_when_it_returns(self) -> None:
        id = self.runner.start(_BEGUN + "x = sum(range(3*10**7))\nwhile True: pass")
        self.runner.finish(id, until="stream")
        self.runner.interrupt(id)
        self.assert_interrupted(self.runner.finish(id))

    def test_between_two_cells_hit_neither_the_runner_nor_the_next(self) -> None:
        for i in range(50):
            id = self.runner.start("pass")
            self.runner.finish(id)
            for _ in range(3):
                self.runner.process.send_signal(2)
            self.runner.interrupt(id)
            self.assertEqual(self.run_cell(f"{i}").text, f"{i}")


class Stress(RunnerCase):
    def test_a_thousand_interrupts_at_the_end_of_cells_hit_no_other(self) -> None:
        """Each cell is interrupted at about its end; the next cell must not be hit. The delay sweeps over the
        length of a cell, so that the interrupt lands before, in and after its last instructions."""
        hit = missed = 0
        for i in range(1000):
            id = self.runner.start("for _ in range(20): pass\n'first'")
            pause = time.perf_counter() + (i % 100) * 3e-6
            while time.perf_counter() < pause:
                pass
            self.runner.interrupt(id)
            victim = None
            outcome = self.runner.finish(id)
            if outcome.status == "ok":
                missed += 1
                self.assertEqual(outcome.text, "'first'")
            else:
                hit += 1
                self.assertEqual(outcome.error["ename"], "KeyboardInterrupt")
                self.assertTrue(outcome.interrupted)
            victim = self.runner.run("s = 0\nfor j in range(200): s += j\ns")
            self.assertEqual((victim.status, victim.text), ("ok", "19900"), f"round {i}: {victim.traceback}")
        self.assertEqual(hit + missed, 1000)
        # Both outcomes occur, so the interrupts are really sent around the end.
        self.assertGreater(hit, 0)
        self.assertGreater(missed, 0)

    def test_interrupts_while_printing_spoil_no_text(self) -> None:
        for i in range(100):
            id = self.runner.start("while True: print('0123456789')")
            self.runner.finish(id, until="stream")
            self.runner.interrupt(id)
            outcome = self.runner.finish(id)
            self.assertEqual(outcome.error["ename"], "KeyboardInterrupt")
            whole, _, rest = outcome.stdout.rpartition("\n")
            self.assertEqual(set(whole.split("\n")), {"0123456789"}, f"round {i}")
            self.assertIn(rest, ("", "0123456789"))
