"""The value of the last expression, and what it looks like."""

from __future__ import annotations

import collections

from tests.case import RunnerCase
from tests.host import ENGINE, Runner

_HELD = "['_ih', '_oh', '_dh']" if ENGINE == "ipython" else "[]"


class LastExpression(RunnerCase):
    def test_is_the_result(self) -> None:
        self.assertEqual(self.run_cell("1\n2").text, "2")

    def test_is_no_result_in_these_forms(self) -> None:
        for code in (
            "None", "42;", "42; # quiet", "42 ;", "(42);", "x = 5", "if True:\n    7", "", "# only", "def f(): pass",
            "(1 +\n 2);  # ü", "'ü';", "pass",
        ):  # fmt: skip
            with self.subTest(code):
                self.assertIsNone(self.run_cell(code).result)

    def test_is_a_result_in_these_forms(self) -> None:
        for code, text in (
            ("'a;b'", "'a;b'"), ("1; 2", "2"), ("3 # ;", "3"), ('"""a\n;"""', r"'a\n;'"), ("(\n4\n)", "4"),
        ):  # fmt: skip
            with self.subTest(code):
                self.assertEqual(self.run_cell(code).text, text)

    def test_is_kept_in_out_and_underscores(self) -> None:
        self.run_cell("'first'")
        self.run_cell("'second'")
        self.assertEqual(
            self.run_cell("(_, __, Out[max(Out)], max(Out) in Out)").text, "('second', 'first', 'second', True)"
        )
        self.assertEqual(self.run_cell("len(In) > 2, In[-1]").text, """(True, 'len(In) > 2, In[-1]')""")

    def test_of_the_user_stays_under_his_own_underscore(self) -> None:
        self.run_cell("_ = str.upper")
        self.run_cell("5")
        self.assertEqual(self.run_cell("_('a')").text, "'A'")
        self.run_cell("del _")

    def test_keeps_a_bounded_number_of_results(self) -> None:
        for i in range(105):
            self.run_cell(f"{i}")
        self.assertEqual(self.run_cell("len(Out)").text, "100")

    def test_of_a_silent_cell_is_neither_shown_nor_kept(self) -> None:
        self.run_cell("'shown'")
        outcome = self.run_cell("x9 = 9; print('out'); 'hidden'", silent=True)
        self.assertIsNone(outcome.result)
        self.assertEqual(outcome.stdout, "out\n")
        self.assertEqual(self.run_cell("_, x9").text, "('shown', 9)")

    def test_goes_to_the_users_own_displayhook(self) -> None:
        self.run_cell("import sys; hook = sys.displayhook; sys.displayhook = lambda v: print('own', v)")
        outcome = self.run_cell("5")
        self.assertEqual((outcome.stdout, outcome.result), ("own 5\n", None))
        self.run_cell("sys.displayhook = hook")


class Text(RunnerCase):
    def test_breaks_wide_containers(self) -> None:
        text = self.run_cell('{i: "v"*20 for i in range(6)}').text
        self.assertRegex(text, r"^\{0: 'v{20}',\n 1: ")
        self.assertEqual(self.run_cell("{'a': [1, 2], 'b': (1,)}").text, "{'a': [1, 2], 'b': (1,)}")
        self.assertEqual(
            self.run_cell("{'k': ['x'*50, 'y'*50]}").text, "{'k': ['" + "x" * 50 + "',\n  '" + "y" * 50 + "']}"
        )

    def test_cuts_long_containers(self) -> None:
        for code in (
            "list(range(2000))", "tuple(range(2000))", "set(range(2000))", "{i: i for i in range(2000)}",
            "{i: 0 for i in range(2000)}.keys()",
        ):  # fmt: skip
            with self.subTest(code):
                text = self.run_cell(code).text
                self.assertRegex(text, r"999,?.*,\n +\.\.\.[\])}]+$|999: 999,\n \.\.\.\}$")

    def test_of_these_values(self) -> None:
        for code, text in (
            ("[]", "[]"), ("set()", "set()"), ("frozenset({1})", "frozenset({1})"), ("{3, 1, 2}", "{1, 2, 3}"),
            ("a = [1]; a.append(a); a", "[1, [...]]"), ("()", "()"), ("{}", "{}"), ("b'x'", "b'x'"),
            ("import collections; collections.OrderedDict(a=1)", repr(collections.OrderedDict(a=1))),
            ("collections.defaultdict(list, a=[1])", "defaultdict(<class 'list'>, {'a': [1]})"),
            ("collections.Counter('aab')", "Counter({'a': 2, 'b': 1})"),
            ("collections.deque([1, 2])", "deque([1, 2])"), ("collections.deque([1, 2], 2)", "deque([1, 2], maxlen=2)"),
            ("collections.Counter('abb')", "Counter({'b': 2, 'a': 1})"), ("{1: 2}.items()", "dict_items([(1, 2)])"),
            ("import array; array.array('d', [1, 2])", "array('d', [1.0, 2.0])"), ("array.array('d')", "array('d')"),
            ("bytearray(b'x')", "bytearray(b'x')"), ("class T(str): pass\nT('a')", "'a'"),
            ("collections.namedtuple('P', 'x y')(1, 2)", "P(x=1, y=2)"),
            ("class L(list): pass\nL([1, 2])", "[1, 2]"),
            ("class R(list):\n    def __repr__(self): return 'mine'\n[R()]", "[mine]"),
            ("class P:\n    def _repr_pretty_(self, p, c): p.text('P('); p.pretty([1]); p.text(')')\n[P()]", "[P([1])]"),
        ):  # fmt: skip
            with self.subTest(code):
                self.assertEqual(self.run_cell(code).text, text)

    def test_of_very_deep_nesting_does_no_harm(self) -> None:
        self.runner.run("d = []\nfor i in range(100_000): d = [d]\nd")
        self.assert_alive(self.runner)
        self.run_cell("d = " + "[" * 90 + "]" * 90)


class Namespace(RunnerCase):
    def test_is_main_and_holds_nothing_of_ours(self) -> None:
        code = (
            'sorted(k for k in globals() if not k.startswith("_") '
            'and k not in ("In","Out","get_ipython","exit","quit","open"))'
        )
        with Runner() as runner:
            self.assertEqual(runner.run(code).text, "[]")
            self.assertEqual(runner.run("[k for k in globals() if not k.startswith('__')]").text, _HELD)
            self.assertEqual(runner.run("__name__").text, "'__main__'")
            self.assertEqual(runner.run("import sys; sys.modules['__main__'].__dict__ is globals()").text, "True")

    def test_has_dataclasses_doctest_and_pickle(self) -> None:
        self.assertEqual(
            self.run_cell('from dataclasses import dataclass\n@dataclass\nclass DC:\n    a: "int" = 1\nDC()').text,
            "DC(a=1)",
        )
        self.assertEqual(self.run_cell("import pickle; pickle.loads(pickle.dumps(DC(2)))").text, "DC(a=2)")
        code = 'import doctest\ndef dd():\n    """\n    >>> dd()\n    3\n    """\n    return 3\ndoctest.testmod()'
        self.assertEqual(self.run_cell(code).text, "TestResults(failed=0, attempted=1)")

    def test_keeps_future_imports(self) -> None:
        self.run_cell("from __future__ import annotations")
        code = 'def an(x: Undefined_): return 1\nan.__annotations__["x"]'
        self.assertEqual(self.run_cell(code).text, "'Undefined_'")

    def test_has_no_future_import_of_ours(self) -> None:
        with Runner() as runner:
            self.assertEqual(runner.run("def f(x: int): pass\nf.__annotations__['x']").text, "<class 'int'>")

    def test_finds_modules_of_the_workspace_and_leaves_no_compiled_files(self) -> None:
        self.run_cell("open('mymod.py', 'w').write('V = 5\\n')\nimport mymod")
        self.assertEqual(self.run_cell("import os; mymod.V, sorted(os.listdir('.'))").text, "(5, ['mymod.py'])")

    def test_puts_the_working_directory_first(self) -> None:
        self.assertEqual(self.run_cell("import sys; sys.path[0], sys.argv").text, "('', [''])")
        self.assertEqual(self.run_cell("[p for p in sys.path if 'talaria' in p or 'runner' in p]").text, "[]")


class Environment(RunnerCase):
    env = {"TALARIA_PACKAGES": "/packages", "TALARIA_INTERNAL_X": "1", "TALARIA_WORKSPACE": "/w"}

    def test_has_the_packages_before_the_site(self) -> None:
        code = "import sys; [p for p in sys.path if p.endswith('packages')][0]"
        self.assertRegex(self.run_cell(code).text, r"'/packages/current/lib/python3\.\d+/site-packages'")

    def test_hides_internal_variables(self) -> None:
        code = "import os; sorted(n for n in os.environ if n.startswith('TALARIA'))"
        self.assertEqual(self.run_cell(code).text, "['TALARIA_PACKAGES', 'TALARIA_WORKSPACE']")
