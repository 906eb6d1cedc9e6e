"""A runner that is made in a process with imported libraries, and that serves in a fork of that process."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import textwrap
import unittest

from tests.case import STDLIB
from tests.host import Runner

_BOOT = """
import os, sys, site
site.main()
sys.path.append({lib!r})
FIRST
from talaria_init import linux
from talaria_runner.main import prepare
serve = prepare({engine!r})
sys.path.remove({lib!r})
print("nobody's")
os.write(2, b"")
pid = linux.fork()
if pid:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
serve({fd})
"""


def preloaded(first: str) -> Runner:
    return Runner({"MPLBACKEND": "Agg"}, boot=_BOOT.replace("FIRST", first))


class Preloaded(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "this interpreter has no matplotlib")
    def test_figures_come_at_the_end_of_the_cell_and_at_show(self) -> None:
        with preloaded("import matplotlib.pyplot") as runner:
            outcome = runner.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); print('x')")
            self.assertEqual(outcome.order, ["stdout", "display", "done"])
            outcome = runner.run("plt.plot([1, 2]); plt.show(); print('x')")
            self.assertEqual(outcome.order, ["display", "stdout", "done"])

    @STDLIB
    def test_display_functions_of_ipython_show(self) -> None:
        with tempfile.TemporaryDirectory() as path:
            for name, text in {
                "IPython/__init__.py": "from IPython.display import display",
                "IPython/display.py": "from IPython.core.display_functions import *",
                "IPython/core/__init__.py": "",
                "IPython/core/display_functions.py": """
                    __all__ = ["display", "update_display", "clear_output", "publish_display_data"]
                    def display(*objects, **settings): print("not here")
                    update_display = clear_output = publish_display_data = display
                    """,
            }.items():
                os.makedirs(os.path.dirname(f"{path}/{name}"), exist_ok=True)
                with open(f"{path}/{name}", "w") as f:
                    f.write(textwrap.dedent(text))
            with preloaded(f"sys.path.insert(0, {path!r}); import IPython.display") as runner:
                outcome = runner.run("from IPython.display import display\ndisplay({'text/plain': 'here'}, raw=True)")
                self.assertEqual(outcome.displays, [{"text/plain": "here"}])
                self.assertEqual(outcome.stdout, "")

    def test_modules_of_the_standard_library_are_followed(self) -> None:
        with preloaded("import asyncio, getpass, inspect, linecache, threading") as runner:
            outcome = runner.run("import getpass\nprint(getpass.getpass('who '))", ["me"], allow_stdin=True)
            self.assertEqual((outcome.stdout, outcome.of("input")[0]["body"]["password"]), ("me\n", True))
            outcome = runner.run("class A:\n    x = 1\nimport inspect\nprint(inspect.getsource(A))")
            self.assertIn("x = 1", outcome.stdout)
            outcome = runner.run("1 / 0")
            self.assertIn("1 / 0", outcome.traceback)
            code = "import asyncio\nasync def f(): print('task')\nt = asyncio.create_task(f())\nawait t"
            self.assertEqual(runner.run(code).stdout, "task\n")
            code = "import threading\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()"
            self.assertEqual(runner.run(code).stdout, "thread\n")

    def test_each_process_has_its_own_mark_and_signals(self) -> None:
        with preloaded("pass") as one, preloaded("pass") as two:
            self.assertNotEqual(one.mark, two.mark)
            id = one.start("while True: pass")
            one.interrupt(id)
            self.assertEqual(one.finish(id).error["ename"], "KeyboardInterrupt")
            self.assertEqual(one.run("import os\nos.system('echo child')\nprint('after')").stdout, "child\nafter\n")


if __name__ == "__main__":
    unittest.main()
