"""What only IPython has."""

from __future__ import annotations

import unittest

from tests.case import RunnerCase
from tests.host import ENGINE, Runner


@unittest.skipUnless(ENGINE == "ipython", "this is of IPython's engine")
class IPython(RunnerCase):
    def test_debugs_after_an_error(self) -> None:
        self.fail_cell("def f():\n    x = 41\n    1/0\nf()", "ZeroDivisionError")
        outcome = self.run_cell("%debug", "p x + 1", "q", allow_stdin=True)
        self.assertIn("42", outcome.stdout)

    def test_transforms_cells_and_trees(self) -> None:
        code = (
            "import ast\nclass Twice(ast.NodeTransformer):\n    def visit_Constant(self, node):\n"
            "        return ast.copy_location(ast.Constant(node.value * 2), node)\n"
            "twice = Twice(); get_ipython().ast_transformers.append(twice)"
        )
        self.run_cell(code)
        self.assertEqual(self.run_cell("21").text, "42")
        self.run_cell("get_ipython().ast_transformers.remove(twice)")
        code = (
            "def shout(lines): return [line.replace('SHOUT', 'print') for line in lines]\n"
            "get_ipython().input_transformers_post.append(shout)"
        )
        self.run_cell(code)
        self.assertEqual(self.run_cell("SHOUT('a')").stdout, "a\n")
        self.run_cell("def broken(lines): raise ValueError('transformer')\n"
                      "get_ipython().input_transformers_post.append(broken)")  # fmt: skip
        outcome = self.run_cell("get_ipython().input_transformers_post.clear()")
        self.assertIn("ValueError: transformer", outcome.stderr)
        self.assertNotIn("talaria_runner", outcome.stderr)
        self.assertEqual(self.run_cell("1").stderr, "")

    def test_has_its_other_magics_and_forms(self) -> None:
        self.run_cell("%alias_magic tt timeit")
        self.assertIn("per loop", self.run_cell("%tt -n 1 -r 1 1").stdout)
        self.assertEqual(self.run_cell(",print a b").stdout, "a b\n")
        self.assertIn("colors", self.run_cell("%config ZMQInteractiveShell").stdout)
        self.run_cell("%config InteractiveShell.ast_node_interactivity = 'last_expr_or_assign'")
        self.assertEqual(self.run_cell("v = 5").text, "5")
        self.run_cell("%config InteractiveShell.ast_node_interactivity = 'last_expr'")
        self.run_cell("kept = 5\n%load_ext storemagic\n%store kept")
        self.assertIn("kept", self.run_cell("%store").stdout)
        self.assertIn("editor", self.fail_cell("%edit", "UsageError").error["evalue"])

    def test_prints_as_it_is_told(self) -> None:
        self.run_cell("%precision 2")
        self.assertEqual(self.run_cell("[3.14159, {'a': 2.71828}]").text, "[3.14, {'a': 2.72}]")
        self.run_cell("%precision")
        self.assertEqual(self.run_cell("[3.14159]").text, "[3.14159]")
        self.run_cell("class P: pass\nplain = get_ipython().display_formatter.formatters['text/plain']\n"
                      "plain.for_type(P, lambda value, printer, cycle: printer.text('a P'))")  # fmt: skip
        self.assertEqual(self.run_cell("[P()]").text, "[a P]")
        self.assertEqual(self.run_cell("plain.pop(P)\n1").text, "1")

    def test_tells_its_handlers_of_exceptions(self) -> None:
        self.run_cell("get_ipython().set_custom_exc((LookupError,), lambda self, t, e, tb, tb_offset=None: print('told', e))")
        self.assertEqual(self.fail_cell("raise KeyError('k')", "KeyError").stdout, "told 'k'\n")
        self.run_cell("get_ipython().set_custom_exc((), None)")

    def test_makes_no_files(self) -> None:
        self.assertEqual(self.run_cell("import os; [n for n in os.listdir(os.path.expanduser('~')) if 'ipython' in n]").text,
                         "[]")  # fmt: skip

    def test_starts_no_threads(self) -> None:
        code = "[line for line in open('/proc/self/status') if line.startswith('Threads')][0].split()[1]"
        with Runner(engine="stdlib") as other, Runner() as runner:
            self.assertEqual(runner.run(code).text, other.run(code).text)
