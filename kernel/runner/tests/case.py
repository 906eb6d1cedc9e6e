"""A test case with one runner for all its tests, which differ in what they run."""

from __future__ import annotations

import unittest

from tests.host import ENGINE, Outcome, Runner


STDLIB = unittest.skipUnless(ENGINE == "stdlib", "this is of the standard-library engine")


class RunnerCase(unittest.TestCase):
    """Tests share the runner of their class; a test that harms it takes a fresh one."""

    engine = ENGINE
    env: dict[str, str] = {}

    @classmethod
    def setUpClass(cls) -> None:
        cls.runner = Runner(cls.env, engine=cls.engine)
        cls.addClassCleanup(cls.runner.__exit__, None, None, None)

    def run_cell(self, code: str, *answers: str | None, **how: bool) -> Outcome:
        """Runs a cell that must succeed."""
        outcome = self.runner.run(code, answers, **how)
        self.assertEqual(outcome.status, "ok", outcome.traceback)
        return outcome

    def fail_cell(self, code: str, ename: str) -> Outcome:
        """Runs a cell that must end with that exception; the runner lives on."""
        outcome = self.runner.run(code)
        self.assertEqual(outcome.status, "error")
        self.assertEqual(len(outcome.of("error")), 1)
        self.assertEqual(outcome.error["ename"], ename, outcome.traceback)
        self.assertNotIn("talaria_runner", outcome.traceback)
        self.assert_alive(self.runner)
        return outcome

    def assert_alive(self, runner: Runner) -> None:
        self.assertEqual(runner.run("1+1").text, "2")
