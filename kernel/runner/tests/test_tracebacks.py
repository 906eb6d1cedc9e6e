"""What an error says besides its name: the frames and whose they are, and what to do about it."""

from __future__ import annotations

import re
import sys
import traceback
import unittest

from tests.case import RunnerCase
from tests.host import Runner

# Cells whose traceback must be what Python itself writes.
_LIKE_PYTHON = (
    "x = 1\nx / 0",
    "d = {}\nprint(d['k'] + 1)",
    "s = 'ä' * 3; y = s + 1",
    "def f(n):\n    if n: return f(n - 1)\n    1/0\nf(6)",
    "try:\n    1/0\nexcept Exception as e:\n    raise ValueError('v\\nw') from e",
    "try:\n    1/0\nexcept Exception:\n    {}['k']",
    "try:\n    1/0\nexcept Exception:\n    raise KeyError('k') from None",
    "raise ExceptionGroup('eg', [ValueError(1), ExceptionGroup('in', [KeyError(2)])])",
    "raise ExceptionGroup('eg', [ValueError(i) for i in range(20)])",
    "e = ValueError('v'); e.add_note('n1\\nn2'); e.add_note('n3'); raise e",
    "exec('a = 1\\n1/0')",
    "eval('1/0 + 2')",
    "exec('x = (1 +\\ny z')",
    "def g():\n    yield 1\n    raise ValueError(2)\nlist(g())",
    "def f(x):\n    return x.qqqq(1)(2)\nf('a').b",
    "x = [[1]]\nx[0][5][1] + 2",
    "x = {'a': {'b': 1}}; y = x['a']['c']['d']",
    "[1 / i for i in (1, 0)]",
    "def g(): 1/0\ndef f():\n    return g()\nx = f()",
    "def g(): 1/0\ndef f():\n    return [g()][0]\nx = y = f()",
    "a = []; a // (a)",
    "assert 1 == 2, 'm'",
    "raise ValueError",
    "class A:\n    class B(Exception): pass\nraise A.B('q')",
)
if sys.version_info < (3, 13):  # from then on Python shows all lines of an expression; a frame here has one
    _LIKE_PYTHON += ("def f(a,\n  b):\n    return (a\n      / b)\nf(1,\n  0)",)


class LikePython(RunnerCase):
    def test_is_the_traceback_of_a_cell(self) -> None:
        for code in _LIKE_PYTHON:
            with self.subTest(code):
                lines = self.runner.run(code).error["traceback"]
                lines = [re.sub(r'"<cell \d+>"', '"<same>"', line) for line in lines]
                self.assertEqual("\n".join(lines), _from_python(code))


def _from_python(code: str) -> str:
    import linecache

    linecache.cache["<same>"] = (len(code), None, [line + "\n" for line in code.split("\n")], "<same>")
    try:
        exec(compile(code, "<same>", "exec", dont_inherit=True), {"__name__": "__main__"})
    except Exception as e:
        return "".join(traceback.format_exception(type(e), e, e.__traceback__.tb_next)).rstrip("\n")
    raise AssertionError("it did not fail")


class Frames(RunnerCase):
    def frames(self, code: str) -> list[dict]:
        error = self.runner.run(code).error
        for frame in error["frames"]:
            lines = error["traceback"][frame["traceback_start"]:frame["traceback_end"]]
            self.assertIn(f'File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}', lines[0])
            self.assertLessEqual(len(lines), 3)
        return error["frames"]

    def test_are_the_users_or_a_librarys(self) -> None:
        frames = self.frames("import json\ndef f():\n    return json.loads('{')\nf()")
        whose = [(frame["function"], frame["user"]) for frame in frames]
        self.assertEqual(whose[:2], [("<module>", True), ("f", True)])
        self.assertEqual({user for _, user in whose[2:]}, {False})
        self.assertGreaterEqual(len(whose), 4)

    def test_name_the_execution_of_their_cell(self) -> None:
        first = self.runner.start("def g():\n    raise KeyError('kk')")
        self.runner.finish(first)
        second = self.runner.start("g()")
        frames = self.runner.finish(second).error["frames"]
        self.assertEqual([frame.get("cell") for frame in frames], [second, first])

    def test_of_workspace_modules_are_the_users(self) -> None:
        self.run_cell("open('mine.py', 'w').write('def f():\\n    return 1/0\\n')")
        frames = self.frames("import mine\nmine.f()")
        self.assertEqual([(f["function"], f["user"], "cell" in f) for f in frames][1:], [("f", True, False)])
        self.run_cell("import os; os.makedirs('venv/site-packages')\nimport sys; sys.path.append('venv/site-packages')")
        self.run_cell("open('venv/site-packages/theirs.py', 'w').write('def f():\\n    return 1/0\\n')")
        self.assertEqual([f["user"] for f in self.frames("import theirs\ntheirs.f()")], [True, False])

    def test_of_text_that_is_executed_are_their_callers(self) -> None:
        self.assertEqual([f["user"] for f in self.frames("exec('1/0', {})")], [True, True])
        code = "import collections\nP = collections.namedtuple('P', 'x')\nP()"
        self.assertEqual([f["user"] for f in self.frames(code)][:1], [True])

    def test_of_sources_that_cython_names_are_their_modules(self) -> None:
        raising = "compile('def f(): 1/0', 'pandas/_libs/index.pyx', 'exec')"
        self.assertEqual([f["user"] for f in self.frames(f"import json\nexec({raising}, vars(json))\njson.f()")], [True, False])
        self.assertEqual([f["user"] for f in self.frames(f"exec({raising})\nf()")], [True, True])

    def test_of_chains_and_groups_are_all_there(self) -> None:
        code = "def f(): 1/0\ntry: f()\nexcept Exception as e: raise ExceptionGroup('g', [e])"
        names = [frame["function"] for frame in self.frames(code)]
        self.assertEqual(names, ["<module>", "f", "<module>"])

    def test_in_coroutines_have_no_event_loop_around_them(self) -> None:
        frames = self.frames("import asyncio\nasync def co():\n    await asyncio.sleep(0)\n    1/0\nawait co()")
        self.assertEqual([frame["function"] for frame in frames], ["<module>", "co"])

    def test_are_bounded(self) -> None:
        code = "def a(n): return b(n)\ndef b(n): return a(n)\na(1)"
        outcome = self.runner.run(code)
        self.assertLessEqual(len(outcome.error["frames"]), 200)
        self.assertLessEqual(len(outcome.traceback), 10_000)
        chain = "e = None\nfor i in range(5000):\n    n = ValueError(i); n.__context__ = e; e = n\nraise e"
        outcome = self.runner.run(chain)
        self.assertLessEqual(len(outcome.error["traceback"]), 200)
        self.assertIn("more exceptions", outcome.traceback)
        self.assertEqual(outcome.error["evalue"], "4999")
        many = "raise ExceptionGroup('g', [ExceptionGroup('h', [ExceptionGroup('i', [ValueError()] * 50)] * 50)] * 50)"
        self.assertLessEqual(len(self.runner.run(many).error["traceback"]), 2000)

    def test_of_old_cells_keep_their_source(self) -> None:
        with Runner() as runner:
            runner.run("def early():\n    return 1/0 # here")
            for _ in range(50):
                runner.run("pad = 1")
            self.assertIn("return 1/0 # here", runner.run("early()").traceback)
            # Sixteen million characters later it is gone, and nothing else is.
            for _ in range(3):
                runner.run("x = '" + "y" * 6_000_000 + "'")
            outcome = runner.run("early()")
            self.assertNotIn("# here", outcome.traceback)
            self.assertEqual([frame["user"] for frame in outcome.error["frames"]], [True, True])


class Hints(RunnerCase):
    def hint(self, code: str) -> str:
        error = self.runner.run(code).error
        if error["hint"] and ". Did you" not in error["traceback"][-1]:
            self.assertEqual(error["traceback"][-1], f"Hint: {error['hint']}")
        return error["hint"]

    def test_tell_how_to_install_a_module(self) -> None:
        for module, package in (
            ("faiss.contrib", "faiss-cpu"), ("no_such_module", "no-such-module"),
        ):  # fmt: skip
            with self.subTest(module):
                self.assertIn(f"install it with: %pip install {package}", self.hint(f"import {module}"))
        code = "raise ModuleNotFoundError(\"No module named 'sklearn'\", name='sklearn.linear_model')"
        self.assertEqual(self.hint(code), "install it with: %pip install scikit-learn")
        self.assertIn("did you mean 'json'?", self.hint("import jsn"))
        self.assertIn("json is installed, but has no module foo", self.hint("import json.foo"))

    def test_tell_what_is_in_the_workspace(self) -> None:
        with Runner() as self.runner:
            self.assertEqual(self.hint("open('x.csv')"), "the workspace is empty")
            self.runner.run("import os; os.mkdir('data'); open('data/b.txt', 'w'); open('a.txt', 'w')")
            self.runner.run("open('sales_2024.csv', 'w')")
            self.assertRegex(self.hint("open('sales_2023.csv')"), "^the workspace has 'sales_2024.csv', ")
            self.assertEqual(self.hint("open('data/c.txt')"), "'data' has 'b.txt'")
            self.assertRegex(self.hint("open('nope/c.txt', 'w')"), "^there is no folder 'nope'; the workspace has ")
            self.assertRegex(self.hint("open('/mnt/files/sales.csv')"), "^there is no folder .*'sales_2024.csv'")
            self.runner.run("for i in range(300): open(f'{i}.dat', 'w')")
            self.assertLess(len(self.hint("open('q')")), 400)
            self.assertEqual(self.hint("import subprocess; subprocess.run(['no-such-program'])"),
                             "no program 'no-such-program' was found on PATH")  # fmt: skip

    def test_tell_names_that_are_close(self) -> None:
        for code, meant in (
            ("prnt(1)", "print"), ("[].appendd", "append"), ("import math as m; m.sqr", "sqrt"),
            ("'a'.uper()", "upper"),
            ("total_count = 1; totl_count", "total_count"), ("class A:\n    size = 1\nA().sise", "size"),
            ("from math import sqrtt", "sqrt"), ("def f():\n    value = 1\n    return valeu\nf()", "value"),
        ):  # fmt: skip
            with self.subTest(code):
                error = self.runner.run(code).error
                self.assertEqual(error["hint"], f"did you mean {meant!r}?")
                self.assertRegex(error["traceback"][-1], f"Did you mean: '{meant}'\\?$")
        self.assertIn("import numpy as np", self.hint("np.zeros(3)"))
        self.assertIn("import math", self.hint("math.pi"))
        for code in ("1/0", "raise KeyError('x')", "raise NameError('x')", "qqqqqqqqq", "raise OSError", "{}['a']"):
            with self.subTest(code):
                self.assertEqual(self.hint(code), "")

    def test_tell_which_variables_are_large(self) -> None:
        self.run_cell("large = bytearray(5 << 20)")
        self.assertIn("large (5.0 MiB)", self.hint("raise MemoryError"))
        self.run_cell("del large")

    def test_tell_where_files_can_be_written(self) -> None:
        self.assertIn("can be written in the workspace", self.hint("raise PermissionError(13, 'no', '/usr/lib/x')"))
        self.assertIn("can be written in the workspace", self.hint("raise OSError(30, 'read-only', '/etc/x')"))
        self.assertEqual(self.hint("import os; raise PermissionError(13, 'no', os.getcwd() + '/x')"), "")

    def test_run_no_code_of_the_user(self) -> None:
        code = (
            "class A:\n"
            "    def __getattr__(self, name): print('asked'); raise AttributeError(name, name=name, obj=self)\n"
            "    def __dir__(self): print('dir')\n    __class__ = property(lambda self: print('class'))\n"
            "a = A(); a.sise"
        )
        self.assertEqual(self.runner.run(code).stdout, "asked\n")


class AfterALoss(RunnerCase):
    loss = "variables from before noon are gone: Python exited with status 7"
    env = {"TALARIA_INTERNAL_LOSS": loss}

    def hint(self, code: str) -> str:
        return self.fail_cell(code, "NameError").error["hint"]

    def test_a_name_that_is_missing_may_be_one_of_the_lost(self) -> None:
        for code in ("data", "def f(): return data\nf()"):
            error = self.fail_cell(code, "NameError").error
            wanted = f"{self.loss}; if 'data' was one of them, rerun the cell that defines it"
            self.assertEqual(error["hint"], wanted)
            self.assertEqual(error["traceback"][-1], f"Hint: {wanted}")

    def test_the_other_hints_come_first(self) -> None:
        self.assertRegex(self.hint("np.zeros(3)"), "^did you forget `import numpy as np`\\? Variables from before noon are")
        self.assertRegex(self.hint("total_count = 1; totl_count"), "^did you mean 'total_count'\\? Variables from before")

    def test_names_that_no_cell_could_have_defined_are_no_loss(self) -> None:
        for code in (
            "raise NameError('mine')", "def f():\n    def g(): return later\n    g()\n    later = 1\nf()",
            "def f():\n    print(local)\n    local = 1\nexec('x1', {})",
            "open('other.py', 'w').write('missing')\nimport other",
        ):  # fmt: skip
            self.assertNotIn("gone", self.hint(code), code)

    def test_cells_do_not_see_what_tells_the_runner(self) -> None:
        self.assertEqual(self.run_cell("import os; [name for name in os.environ if 'INTERNAL' in name]").text, "[]")


class Columns(RunnerCase):
    def test_that_are_close_are_told(self) -> None:
        if self.runner.run("import pandas as pd").status != "ok":
            self.skipTest("pandas is not installed")
        self.run_cell("df = pd.DataFrame({'city': ['a'], 'amount': [1]})")
        for code in ("df['cty']", "df[['amount', 'cty']]", "df.groupby('cty')", "df.sort_values('cty')"):
            with self.subTest(code):
                hint = self.runner.run(code).error["hint"]
                self.assertRegex(hint, "^did you mean 'city'\\? columns: 'city', 'amount'$")
        self.assertEqual(self.runner.run("df.amuont").error["hint"], "did you mean 'amount'?")
        self.assertEqual(self.runner.run("df.loc[5]").error["hint"], "")


class Sizes(unittest.TestCase):
    """Cells that run the size estimates on values of known size."""

    def test_are_about_right(self) -> None:
        from talaria_runner.introspection.sizes import estimate

        megabyte = bytearray(1 << 20)
        for value, least, most in (
            (megabyte, 1.0, 1.1), ([megabyte], 1.0, 1.1), ({"a": {"b": (megabyte,)}}, 1.0, 1.1),
            ([bytearray(1 << 10) for _ in range(1024)], 0.9, 1.2), ([megabyte] * 50, 1.0, 1.2),
            (list(range(1 << 17)), 1.0, 6.0), ((x for x in [megabyte]), 1.0, 1.1), (5, 0, 0), ("x", 0, 0.1),
        ):  # fmt: skip
            size = estimate(value) / (1 << 20)
            self.assertTrue(least <= size <= most, f"{type(value)}: {size}")
        self.assertEqual(estimate(megabyte, (megabyte,)), 0)

        class Liar(list):
            def __sizeof__(self) -> int:
                return 1 << 40

            def __iter__(self) -> object:
                raise ValueError

        self.assertLess(estimate(Liar([1, 2, 3])), 10_000)
