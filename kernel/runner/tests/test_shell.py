"""get_ipython(), as libraries use it."""

from __future__ import annotations

import os
import time
import unittest

from tests.case import STDLIB, RunnerCase
from tests.host import ENGINE, Runner

_HIDE = (
    "import sys\n"
    "class Hide:\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    "        if name.partition('.')[0] == 'IPython' and not any('talaria' in type(f).__module__ for f in [self]):\n"
    "            import importlib.machinery as m\n"
    "            return next(f for f in sys.meta_path if type(f).__module__.endswith('.shim')).find_spec(name, path)\n"
    "sys.meta_path.insert(0, Hide())\n"
)


class Libraries(RunnerCase):
    def test_see_a_notebook(self) -> None:
        self.assertEqual(self.run_cell("get_ipython().__class__.__name__").text, "'ZMQInteractiveShell'")
        self.assertEqual(self.run_cell("'zmq' in str(type(get_ipython())).lower()").text, "True")
        self.assertEqual(self.run_cell("'IPKernelApp' in get_ipython().config").text, "True")
        self.assertEqual(self.run_cell("from IPython import get_ipython as g\ng() is get_ipython()").text, "True")
        self.assertEqual(self.run_cell("import IPython\nIPython.get_ipython() is g()").text, "True")
        self.assertEqual(self.run_cell("from IPython.core.getipython import get_ipython as h\nh() is g()").text, "True")
        code = "from IPython.core.interactiveshell import InteractiveShell as S\nS.initialized(), S.instance() is g()"
        self.assertEqual(self.run_cell(code).text, "(True, True)")
        self.assertEqual(self.run_cell("isinstance(g(), S), g().execution_count == max(i for i, s in enumerate(In) if s)").text,
                         "(True, True)")  # fmt: skip

    def test_run_magics_and_commands(self) -> None:
        self.assertEqual(self.run_cell("get_ipython().run_line_magic('pwd', '')").text, self.run_cell("%pwd").text)
        self.assertEqual(self.run_cell("get_ipython().run_cell_magic('sh', '', 'echo a')").stdout, "a\n")
        self.assertEqual(self.run_cell("get_ipython().getoutput('echo a')").text, "['a']")
        self.assertEqual(self.run_cell("get_ipython().system('echo a')").stdout, "a\n")

    def test_add_magics(self) -> None:
        code = (
            "from IPython.core.magic import register_line_magic, register_cell_magic\n"
            "@register_line_magic\ndef lm(line): return 'L' + line\n"
            "@register_cell_magic\ndef cm(line, cell): return 'C' + line + cell\n"
            "%lm a"
        )
        self.assertEqual(self.run_cell(code).text, "'La'")
        self.assertEqual(self.run_cell("%%cm b\nx").text, "'Cbx\\n'")
        code = (
            "from IPython.core.magic import Magics, magics_class, line_magic, cell_magic\n"
            "@magics_class\nclass M(Magics):\n    @line_magic\n    def mm(self, line):\n"
            "        return self.shell is get_ipython(), line\n"
            "    @cell_magic('cc')\n    def other(self, line, cell): return cell\n"
        )
        if self.engine == "ipython":
            self.assertEqual(self.run_cell(code + "get_ipython().register_magics(M)\n%mm 1").text, "(True, '1')")
            self.assertEqual(self.run_cell("%%cc\nz").text, "'z\\n'")
        self.run_cell("open('ext.py', 'w').write("
                      "'def load_ipython_extension(ip):\\n    ip.register_magic_function(lambda l: 9, \"line\", \"ext\")')")
        self.assertEqual(self.run_cell("%load_ext ext\n%ext").text, "9")

    def test_are_told_of_cells(self) -> None:
        code = (
            "told = []\ndef before(info): told.append(('before', info.raw_cell))\n"
            "def after(result): told.append(('after', result.success, type(result.error_in_exec).__name__))\n"
            "def bad(*a): raise ValueError('from a callback')\n"
            "for f, e in ((before, 'pre_run_cell'), (after, 'post_run_cell')): get_ipython().events.register(e, f)"
        )
        self.run_cell(code)
        self.run_cell("1")
        self.fail_cell("1/0", "ZeroDivisionError")
        self.assertIn("('before', '1'), ('after', True, 'NoneType'), ('before', '1/0'), ('after', False, 'ZeroDivisionError')",
                      self.run_cell("str(told)").text)  # fmt: skip
        outcome = self.run_cell("get_ipython().events.register('pre_run_cell', bad)\n5")
        outcome = self.run_cell("6")
        self.assertEqual(outcome.text, "6")
        self.assertIn("from a callback", outcome.stderr)
        self.assertNotIn("talaria_runner", outcome.stderr)
        self.run_cell("for f, e in ((before, 'pre_run_cell'), (after, 'post_run_cell'), (bad, 'pre_run_cell')):\n"
                      "    get_ipython().events.unregister(e, f)")  # fmt: skip

    def test_say_how_values_are_shown(self) -> None:
        code = (
            "class A: pass\nformatters = get_ipython().display_formatter.formatters\n"
            "formatters['text/html'].for_type(A, lambda a: '<b>A</b>')\n"
            "formatters['text/plain'].for_type(A, lambda a, p, cycle: p.text('an A'))\nA()"
        )
        data = self.run_cell(code).result
        self.assertEqual((data["text/html"], data["text/plain"]), ("<b>A</b>", "an A"))
        self.assertEqual(self.run_cell("display(A())").displays[0]["text/html"], "<b>A</b>")
        self.run_cell("formatters['text/html'].for_type(int, lambda i: f'<i>{i}</i>')")
        self.assertEqual(self.run_cell("4").result["text/html"], "<i>4</i>")
        self.run_cell("formatters['text/html'].pop(int)")
        self.assertNotIn("text/html", self.run_cell("4").result)
        self.run_cell("bundles = get_ipython().display_formatter.mimebundle_formatter\n"
                      "bundles.for_type(complex, lambda c, **k: {'text/x-c': str(c.imag)})")  # fmt: skip
        self.assertEqual(self.run_cell("2j").result, {"text/x-c": "2.0", "text/plain": "2j"})
        self.run_cell("bundles.pop(complex)")
        self.run_cell("formatters['text/html'].for_type(A, lambda a: 1/0)")
        outcome = self.run_cell("A()")
        self.assertEqual(outcome.text, "an A")
        self.assertIn("ZeroDivisionError", outcome.stderr)

    def test_show_bundles(self) -> None:
        outcome = self.run_cell("get_ipython().display_pub.publish({'text/plain': 'p'}, {'text/plain': {'a': 1}})")
        self.assertEqual((outcome.displays, outcome.of("display")[0]["metadata"]),
                         ([{"text/plain": "p"}], {"text/plain": {"a": 1}}))  # fmt: skip

    def test_capture_output(self) -> None:
        code = "from IPython.utils.capture import capture_output\nwith capture_output() as c:\n    print(1); display(2)\n" \
               "c.stdout, len(c.outputs)"  # fmt: skip
        outcome = self.run_cell(code)
        self.assertEqual((outcome.text, outcome.displays), ("('1\\n', 1)", []))
        self.assertEqual(len(self.run_cell("display(1)").displays), 1)

    def test_run_cells_inside_of_cells(self) -> None:
        outcome = self.run_cell("r = get_ipython().run_cell('q = 5\\nq + 1')\nr.success, r.result, q")
        self.assertEqual(([data["text/plain"] for data in outcome.displays], outcome.text), (["6"], "(True, 6, 5)"))
        outcome = self.run_cell("get_ipython().run_cell('1/0').success")
        self.assertEqual(outcome.text, "False")
        self.assertIn("ZeroDivisionError", outcome.stderr)


class Autoreload(RunnerCase):
    def write(self, text: str) -> None:
        """Writes mod.py, which is newer than before."""
        path = os.path.join(self.runner.directory.name, "mod.py")
        with open(path, "w") as file:
            file.write(text)
        self.age = getattr(self, "age", 0) + 10
        os.utime(path, (time.time() + self.age,) * 2)

    def test_takes_what_was_changed(self) -> None:
        self.write("def f(): return 1\nclass C:\n    def m(self): return 'old'\n    gone = 1\nV = 1\n")
        self.run_cell("%load_ext autoreload\n%autoreload 2\nimport mod\nfrom mod import f, C\nc = C()")
        self.write("def f(): return 2\nclass C:\n    def m(self): return 'new'\n"
                   "    def more(self): return 1\nV = 2\nNEW = 3\n")  # fmt: skip
        self.assertEqual(self.run_cell("mod.f(), f(), c.m(), c.m(), c.more(), mod.V, mod.NEW").text,
                         "(2, 2, 'new', 'new', 1, 2, 3)")  # fmt: skip
        self.assertEqual(self.run_cell("hasattr(c, 'gone'), isinstance(c, mod.C)").text, "(False, True)")
        self.write("def f(): return (\n")
        outcome = self.run_cell("f()")
        self.assertEqual(outcome.text, "2")
        self.assertIn("autoreload of mod failed", outcome.stderr)
        # IPython 9 does not mend the name in the cells after a mistake in the file.
        call = "f()" if ENGINE == "stdlib" else "mod.f()"
        self.write("def f(): return 4\n")
        self.assertEqual(self.run_cell(call).text, "4")
        self.run_cell("%autoreload 0")
        self.write("def f(): return 5\n")
        self.assertEqual(self.run_cell(call).text, "4")
        self.run_cell("%autoreload 1\n%aimport mod")
        self.write("def f(): return 6\n")
        self.assertEqual(self.run_cell(call).text, "6")

    @STDLIB
    def test_says_how_it_is_used(self) -> None:
        with Runner() as runner:
            outcome = runner.run("%autoreload 2")
            self.assertIn("%load_ext autoreload", outcome.error["evalue"])


@STDLIB
class WithoutIPython(RunnerCase):
    """In an interpreter that cannot import IPython."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.runner.run(_HIDE)

    def test_its_modules_can_be_imported(self) -> None:
        code = (
            "from IPython import get_ipython, version_info\nfrom IPython.display import display, HTML\n"
            "from IPython.core.display import display as d2\nfrom IPython.core.interactiveshell import InteractiveShell\n"
            "from IPython.core.error import UsageError\nfrom IPython.utils.capture import capture_output\n"
            "from IPython.utils.text import SList\nfrom IPython.lib.display import Audio\n"
            "import IPython.core.pylabtools\nIPython.__version__"
        )
        self.assertEqual(self.run_cell(code).text, "'8.0.0'")
        self.fail_cell("import IPython.nothing", "ModuleNotFoundError")

    def test_magics_can_be_classes(self) -> None:
        code = (
            "from IPython.core.magic import Magics, magics_class, line_magic, cell_magic, needs_local_scope\n"
            "@magics_class\nclass M(Magics):\n    @line_magic\n    def mm(self, line):\n"
            "        return self.shell is get_ipython(), line\n"
            "    @cell_magic('cc')\n    def other(self, line, cell): return cell\n"
            "    @needs_local_scope\n    @line_magic\n    def ll(self, line, local_ns): return 'M' in local_ns\n"
            "get_ipython().register_magics(M)\n%mm 1"
        )
        self.assertEqual(self.run_cell(code).text, "(True, '1')")
        self.assertEqual(self.run_cell("%%cc\nz").text, "'z\\n'")
        self.assertEqual(self.run_cell("%ll").text, "True")

    @unittest.skipUnless(__import__("importlib.util").util.find_spec("matplotlib"), "there is no matplotlib")
    def test_matplotlib_finds_no_window_system(self) -> None:
        code = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nimport IPython\n" \
               "plt.switch_backend('agg')\nplt.plot([1]);"  # fmt: skip
        outcome = self.run_cell(code)
        self.assertIn("image/png", outcome.displays[0])


if __name__ == "__main__":
    unittest.main()
