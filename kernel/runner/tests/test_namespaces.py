"""%%namespace: cells with variables of their own."""

from __future__ import annotations

from tests.case import RunnerCase
from tests.host import Runner


class Namespaces(RunnerCase):
    def test_have_variables_of_their_own(self) -> None:
        self.run_cell("x = 'main'")
        self.assertEqual(self.run_cell("%%namespace a\nx = 'a'\n'x' in globals()").text, "True")
        self.assertEqual(self.run_cell("%%namespace b\n'x' in globals(), __name__").text, "(False, '__main__')")
        self.assertEqual(self.run_cell("%%namespace a\nx").text, "'a'")
        self.assertEqual(self.run_cell("x").text, "'main'")
        self.run_cell("%namespace -d a")
        self.assertEqual(self.run_cell("%%namespace a\n'x' in globals()").text, "False")

    def test_keep_functions_threads_and_tasks(self) -> None:
        self.run_cell("import sys, threading, asyncio; go = threading.Event(); sys.go = go; n = 'main'")
        self.run_cell(
            "%%namespace t\nimport sys, threading, asyncio\nn, seen = 't', []\ndef f(): sys.go.wait(); seen.append(n)\n"
            "thread = threading.Thread(target=f); thread.start()\n"
            "async def g(): await asyncio.sleep(0); seen.append(n)\ntask = asyncio.create_task(g())")
        self.run_cell("go.set(); await asyncio.sleep(0.01)")
        self.assertEqual(self.run_cell("%%namespace t\nthread.join(); await task; seen").text, "['t', 't']")

    def test_run_what_cells_run(self) -> None:
        outcome = self.run_cell("%%namespace c\nimport asyncio\nv = 20\nprint('said')\nawait asyncio.sleep(0)\nv + 1")
        self.assertEqual((outcome.stdout, outcome.text), ("said\n", "21"))
        self.assertEqual(self.run_cell("%%namespace c\nv;").order, ['done'])
        self.assertEqual(self.run_cell("%%namespace c\n!echo {v} $v").stdout, "20 20\n")
        self.assertEqual(self.run_cell("%%namespace c\n%time w = v\nw").text, "20")
        self.assertEqual(self.run_cell("%%namespace c\n%%capture kept\nprint(v)").order, ['done'])
        self.assertEqual(self.run_cell("%%namespace c\nkept.stdout").text, "'20\\n'")
        self.assertEqual(self.run_cell("%%namespace c\n%who_ls").text, "['asyncio', 'kept', 'v', 'w']")
        self.assertEqual(self.run_cell("%%namespace c\n%%bash\necho in bash").stdout, "in bash\n")
        self.run_cell("%%namespace c\nimport pickle\nclass C: pass\npickle.loads(pickle.dumps(C()))")
        self.run_cell("%%namespace c\nfrom __future__ import annotations\ndef f(x: nowhere): pass")
        self.run_cell("%%namespace c\ndef f(x: nowhere): pass")
        self.fail_cell("def f(x: nowhere): pass\nf.__annotations__", "NameError")
        self.assertEqual(self.run_cell("%%namespace c\n").order, ['done'])

    def test_have_a_working_directory_of_their_own(self) -> None:
        self.run_cell("import os; here = os.getcwd(); os.makedirs('d/e')")
        self.assertEqual(self.run_cell("%%namespace w d\nimport os; os.path.basename(os.getcwd())").text, "'d'")
        self.run_cell("%%namespace w d\nos.chdir('e')")
        self.assertEqual(self.run_cell("os.getcwd() == here").text, "True")
        self.assertEqual(self.run_cell("%%namespace w d\nos.path.basename(os.getcwd())").text, "'e'")
        self.fail_cell("%%namespace nowhere no such folder\n1", "FileNotFoundError")
        self.run_cell("%%namespace w\nos.rmdir(os.getcwd()); os.getcwd is None")
        self.assertEqual(self.run_cell("os.getcwd() == here").text, "True")

    def test_show_only_the_cell_in_tracebacks(self) -> None:
        outcome = self.fail_cell("%%namespace e\ndef inner():\n    1/0\ninner()", "ZeroDivisionError")
        self.assertIn("line 3", outcome.traceback)
        self.fail_cell("%%namespace e\nno_such_name", "NameError")
        self.fail_cell("%%namespace e\nx = (", "SyntaxError")
        self.assertEqual(self.run_cell("'inner' in globals()").text, "False")

    def test_are_left_when_the_cell_is_interrupted(self) -> None:
        self.run_cell("x = 'main'")
        with self.subTest("in the cell"):
            self.fail_cell("%%namespace i\nx = 'i'\nraise KeyboardInterrupt", "KeyboardInterrupt")
            self.assertEqual(self.run_cell("x").text, "'main'")
            self.assertEqual(self.run_cell("%%namespace i\nx").text, "'i'")

    def test_are_named_when_they_are_used_wrongly(self) -> None:
        for cell in ("%%namespace\n1", "%namespace a", "%namespace -d", "def f():\n    get_ipython().run_cell_magic('namespace', 'a', '1')\nf()"):
            with self.subTest(cell):
                self.fail_cell(cell, "UsageError")

    def test_end_with_the_interpreter(self) -> None:
        with Runner(self.env, engine=self.engine) as runner:
            self.assertEqual(runner.run("%%namespace a\n'x' in globals()").text, "False")
