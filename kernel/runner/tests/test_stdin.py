"""input(), getpass() and sys.stdin."""

from __future__ import annotations

import sys

from tests.case import RunnerCase


class Input(RunnerCase):
    def test_asks(self) -> None:
        outcome = self.run_cell('print("intro"); v = input("> ")\nv', "z", allow_stdin=True)
        self.assertEqual(outcome.order, ["stdout", "input", "result", "done"])
        self.assertEqual(outcome.text, "'z'")
        frame = outcome.of("input")[0]
        self.assertEqual(frame["body"], {"prompt": "> ", "password": False})
        outcome = self.run_cell("[input(), input(5)]", "a", "ü€", allow_stdin=True)
        self.assertEqual(outcome.text, "['a', 'ü€']")
        self.assertEqual(len({f["ask"] for f in outcome.of("input")}), 2)

    def test_of_passwords(self) -> None:
        outcome = self.run_cell("from getpass import getpass\nlen(getpass())", "1234", allow_stdin=True)
        frame = outcome.of("input")[0]
        self.assertEqual((frame["body"], outcome.text), ({"prompt": "Password: ", "password": True}, "4"))

    def test_raises_where_the_client_cannot_answer(self) -> None:
        outcome = self.fail_cell("input()", "StdinNotImplementedError")
        self.assertIn("allow_stdin", outcome.error["evalue"])
        self.assertEqual(outcome.of("input"), [])
        self.assertEqual(outcome.error["traceback"][-1].split(":")[0], "StdinNotImplementedError")

    def test_raises_where_it_is_refused(self) -> None:
        outcome = self.runner.run("input('x')", [None], allow_stdin=True)
        self.assertEqual(outcome.error["ename"], "StdinNotImplementedError")

    def test_is_interrupted(self) -> None:
        for code in ("input('? ')", "import sys; sys.stdin.readline()", "import getpass; getpass.getpass()"):
            with self.subTest(code):
                id = self.runner.start(code, allow_stdin=True)
                ask = self.runner.finish(id, until="input").of("input")[0]
                self.runner.interrupt(id)
                outcome = self.runner.finish(id)
                self.assertEqual(outcome.error["ename"], "KeyboardInterrupt")
                self.assertTrue(outcome.interrupted)
                self.runner.answer(ask, "too late")
                self.assertEqual(self.run_cell("input()", "fresh", allow_stdin=True).text, "'fresh'")

    def test_by_sys_stdin(self) -> None:
        self.assertEqual(self.run_cell("import sys; sys.stdin.readline()").text, "''")
        self.assertEqual(self.run_cell("sys.stdin.read()").text, "''")
        self.assertEqual(self.run_cell("sys.stdin.readline()", "line", allow_stdin=True).text, r"'line\n'")
        self.assertEqual(self.run_cell("sys.stdin.read()", "all", allow_stdin=True).text, r"'all\n'")
        self.assertEqual(self.run_cell("sys.stdin.isatty(), sys.stdin.fileno()").text, "(False, 0)")

    def test_reads_what_user_code_put_in_its_place(self) -> None:
        code = "import io, sys\nold = sys.stdin\nsys.stdin = io.StringIO('given\\n')\nv = input()\nsys.stdin = old\nv"
        self.assertEqual(self.run_cell(code).text, "'given'")

    def test_of_children_is_empty(self) -> None:
        code = 'import subprocess; subprocess.run(["cat"], stdout=subprocess.PIPE).stdout'
        self.assertEqual(self.run_cell(code).text, "b''")

    def test_of_threads_ends_with_the_cell(self) -> None:
        code = (
            "import threading\nsaid = []\nasked = threading.Event()\n"
            "def ask():\n    try: input('t')\n    except Exception as e: said.append(type(e).__name__)\n"
            "t = threading.Thread(target=ask); t.start()\nprint(input('m'))"
        )
        id = self.runner.start(code, allow_stdin=True)
        # Only one question is open at a time: the first is answered, and the cell ends with the second one.
        first = self.runner.finish(id, until="input").of("input")[0]
        self.runner.answer(first, "one")
        outcome = self.runner.finish(id, until="input")
        second = outcome.of("input")[1]
        if second["body"]["prompt"] == "m":
            self.runner.answer(second, "two")
            self.runner.finish(id)
        else:
            self.runner.finish(id)
            self.assertEqual(self.run_cell("t.join(); said").text, "['StdinNotImplementedError']")

    def test_ends_with_ctrl_d(self) -> None:
        outcome = self.run_cell("try: input()\nexcept EOFError: print('end')", "\x04", allow_stdin=True)
        self.assertEqual(outcome.stdout, "end\n")
        outcome = self.run_cell("import sys; list(sys.stdin)", "one", "two", "\x04", allow_stdin=True)
        self.assertEqual(outcome.text, r"['one\n', 'two\n']")


# From Python 3.13 on, breakpoint() stops at its own line, and not at the next one.
_TO_NEXT_LINE = ["n"] if sys.version_info >= (3, 13) else []


class Debugger(RunnerCase):
    def test_sees_user_code_only(self) -> None:
        code = "def inner():\n    breakpoint()\n    print('shown')\n    return 1\ninner()"
        outcome = self.run_cell(code, "w", "u", "u", "d", *_TO_NEXT_LINE, "s", "s", "s", "s", "s", "c", allow_stdin=True)
        self.assertIn("inner()", outcome.stdout)
        self.assertIn("shown", outcome.stdout)
        self.assertNotIn("talaria_runner", outcome.stdout)
        self.assertEqual(outcome.text, "1")

    def test_ends_with_the_cell(self) -> None:
        self.run_cell("breakpoint()\nx = 1", *_TO_NEXT_LINE, "n", "n", allow_stdin=True)
        self.assertEqual(self.run_cell("for i in range(3): pass\ni").text, "2")

    def test_raises_where_nobody_answers(self) -> None:
        self.fail_cell("breakpoint()\nx = 1", "StdinNotImplementedError")

    def test_is_left_by_an_interrupt(self) -> None:
        id = self.runner.start("breakpoint()\nx = 1", allow_stdin=True)
        self.runner.finish(id, until="input")
        self.runner.interrupt(id)
        outcome = self.runner.finish(id)
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))
        self.assertIn("(Pdb)", "".join(q["body"]["prompt"] for q in self.run_cell("breakpoint()\nx = 1", "c", allow_stdin=True).of("input")))
