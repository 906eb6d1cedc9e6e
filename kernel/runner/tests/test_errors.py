"""Exceptions: one error each, with the sources of the cells and without frames of the runner."""

from __future__ import annotations

import json

from tests.case import RunnerCase


class Errors(RunnerCase):
    def test_show_the_source_of_the_cell(self) -> None:
        outcome = self.fail_cell("x = 1\n1/0", "ZeroDivisionError")
        lines = outcome.error["traceback"]
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertRegex(lines[1], r'^  File "<cell \d+>", line 2, in <module>$')
        self.assertEqual(lines[2], "    1/0")
        self.assertEqual(lines[-1], "ZeroDivisionError: division by zero")
        self.assertEqual(outcome.error["evalue"], "division by zero")

    def test_show_the_source_of_earlier_cells(self) -> None:
        self.run_cell("def old():\n    raise RuntimeError('first src')")
        self.run_cell("pad = 1\npad2 = 2")
        self.assertIn("raise RuntimeError('first src')", self.fail_cell("old()", "RuntimeError").traceback)
        self.run_cell("import linecache; linecache.clearcache()")
        self.assertIn("raise RuntimeError('first src')", self.fail_cell("old()", "RuntimeError").traceback)

    def test_of_silent_cells_have_sources_too(self) -> None:
        self.run_cell("def quiet():\n    return 1/0", silent=True)
        self.assertIn("return 1/0", self.fail_cell("quiet()", "ZeroDivisionError").traceback)

    def test_come_after_the_output(self) -> None:
        outcome = self.fail_cell('print("before"); 1/0', "ZeroDivisionError")
        self.assertEqual(outcome.order, ["stdout", "error", "done"])

    def test_tell_their_cause_and_context(self) -> None:
        outcome = self.fail_cell(
            "try:\n    1/0\nexcept Exception as e:\n    raise ValueError('v') from e", "ValueError"
        )
        self.assertIn("ZeroDivisionError", outcome.traceback)
        self.assertIn("direct cause", outcome.traceback)
        outcome = self.fail_cell("try:\n    1/0\nexcept Exception:\n    {}['k']", "KeyError")
        self.assertIn("During handling", outcome.traceback)
        self.assertEqual(outcome.error["evalue"], "'k'")

    def test_come_in_groups_and_with_notes(self) -> None:
        outcome = self.fail_cell('raise ExceptionGroup("eg", [ValueError(1), TypeError(2)])', "ExceptionGroup")
        self.assertIn("| TypeError: 2", outcome.traceback)
        outcome = self.fail_cell("e = ValueError('v'); e.add_note('see the manual'); raise e", "ValueError")
        self.assertIn("see the manual", outcome.traceback)

    def test_of_syntax_point_at_the_place(self) -> None:
        outcome = self.fail_cell("x = (1 +\ny z", "SyntaxError")
        self.assertIn("^", outcome.traceback)
        self.assertNotIn("Traceback (most", outcome.traceback)
        self.fail_cell("def f():\nreturn 1", "IndentationError")
        self.assertIn("null", self.fail_any("a = 1\0").error["evalue"])
        self.fail_cell("return 5", "SyntaxError")

    def fail_any(self, code: str):
        outcome = self.runner.run(code)
        self.assertEqual(outcome.status, "error")
        return outcome

    def test_of_recursion_are_short(self) -> None:
        for code in ("def r(): return r()\nr()", "def a(): return b()\ndef b(): return c()\ndef c(): return a()\na()"):
            outcome = self.fail_cell(code, "RecursionError")
            self.assertLessEqual(len(outcome.traceback), 20000)
        outcome = self.fail_cell("def p(n):\n    print(n)\n    return p(n + 1)\np(0)", "RecursionError")
        self.assertIn("\n900\n", outcome.stdout)

    def test_whose_str_raises_do_no_harm(self) -> None:
        self.fail_cell("class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E()", "E")
        self.fail_cell("class E2(Exception):\n    def __str__(self): raise SystemExit\nraise E2()", "E2")
        self.fail_cell("class E3(Exception):\n    def __str__(self): return 5\nraise E3()", "E3")

    def test_that_are_no_exceptions_are_errors(self) -> None:
        self.assertEqual(self.fail_cell('class B(BaseException): pass\nraise B("b")', "B").error["evalue"], "b")
        self.assertFalse(self.fail_cell("raise KeyboardInterrupt", "KeyboardInterrupt").interrupted)
        self.fail_cell("raise GeneratorExit", "GeneratorExit")
        self.assertEqual(self.fail_cell('assert 1 == 2, "msg"', "AssertionError").error["evalue"], "msg")

    def test_may_be_large(self) -> None:
        outcome = self.fail_cell('raise ValueError("z"*2_000_000)', "ValueError")
        self.assertEqual(len(outcome.error["evalue"]), 2_000_000)

    def test_long_messages_fit_into_a_frame(self) -> None:
        for letter in "\U0001f600", "\x01", "é":
            with self.subTest(letter):
                outcome = self.runner.run(f"raise ValueError({letter!r} * 4_000_000)")
                self.assertEqual(outcome.error["ename"], "ValueError")
                self.assertLess(len(json.dumps(outcome.error)), 33 << 20)

    def test_of_exit_leave_the_kernel_alive(self) -> None:
        self.run_cell("kept = 1")
        ways = (("import sys; sys.exit(3)", "3"), ("exit()", "None"), ("quit()", "None"), ("raise SystemExit", ""))
        for code, value in ways:
            with self.subTest(code):
                self.assertEqual(self.fail_cell(code, "SystemExit").error["evalue"], value)
        self.assertEqual(self.run_cell("kept").text, "1")
        self.assertEqual(self.run_cell("input()", "still", allow_stdin=True).text, "'still'")

    def test_inside_libraries_show_no_frame_of_ours(self) -> None:
        outcome = self.fail_cell("import json\njson.loads('{')", "JSONDecodeError")
        self.assertIn("json/decoder.py", outcome.traceback)
        self.fail_cell("class D:\n    def __iter__(self): 1/0\ndisplay(*D())", "ZeroDivisionError")
        self.fail_cell("print(end=5)", "TypeError")
        self.fail_cell("import threading\nt = threading.Thread(); t.start(); t.start()", "RuntimeError")

    def test_can_be_looked_at_later(self) -> None:
        self.fail_cell("def inner():\n    secret = 5\n    1/0\ninner()", "ZeroDivisionError")
        code = "import sys; tb = sys.last_traceback\nwhile tb.tb_next: tb = tb.tb_next\ntb.tb_frame.f_locals['secret']"
        self.assertEqual(self.run_cell(code).text, "5")


class Inspect(RunnerCase):
    def test_finds_functions_and_classes(self) -> None:
        self.run_cell("def f():\n    return 'one'\n")
        self.run_cell("class C:\n    x = 1\n")
        self.run_cell("class M:\n    def m(self):\n        return 2\n")
        self.run_cell("class C2(C):\n    pass\n")
        self.run_cell("import inspect")
        for name, line in (
            ("f", "def f():"), ("C", "class C:"), ("M", "class M:"), ("M.m", "    def m(self):"), ("C2", "class C2(C):"),
        ):  # fmt: skip
            with self.subTest(name):
                self.assertEqual(self.run_cell(f"inspect.getsource({name}).split('\\n')[0]").text, repr(line))
        self.fail_cell("inspect.getsource(int)", "TypeError")
        self.assertEqual(
            self.run_cell("import fractions; 'class Fraction' in inspect.getsource(fractions.Fraction)").text, "True"
        )

    def test_finds_the_newest_of_two(self) -> None:
        self.run_cell("class Twice:\n    x = 1")
        self.run_cell("class Twice:\n    x = 2")
        self.assertIn("x = 2", self.run_cell("import inspect; inspect.getsource(Twice)").text)


class Shadows(RunnerCase):
    def test_of_the_standard_library_in_the_workspace_do_no_harm(self) -> None:
        code = (
            "for n in ('traceback', 'linecache', 'tokenize', 'token', 're', 'json'):\n"
            "    open(n + '.py', 'w').write('1/0')"
        )
        self.run_cell(code)
        outcome = self.fail_cell("def f():\n    raise KeyError('x')\nf()", "KeyError")
        self.assertIn("raise KeyError('x')", outcome.traceback)
        # Modules that IPython has imported before do not count as the user's.
        name = "wave" if self.engine == "ipython" else "json"
        self.run_cell(f"open('{name}.py', 'w').write('1/0')")
        self.fail_cell(f"import {name}", "ZeroDivisionError")
