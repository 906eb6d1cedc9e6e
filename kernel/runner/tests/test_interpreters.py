"""What differs between the Pythons that a runner may be started in."""

from __future__ import annotations

import unittest

from tests.host import BOOT, Runner

# What Python 3.13 and later do before they run the code given with -c.
_KEEP_BOOT_CODE = (
    "import linecache; entry = (1, None, ['talaria boot code' + chr(10)], '<string>'); "
    "linecache.cache['<string>'] = entry; linecache._interactive_cache = {{'key': entry}}; "
)
_FREE_THREADED = "import sys; sys._is_gil_enabled = lambda: False; "


class Interpreters(unittest.TestCase):
    def test_that_keep_the_boot_code_show_nothing_of_it(self) -> None:
        with Runner(boot=_KEEP_BOOT_CODE + BOOT) as runner:
            outcome = runner.run("eval('1/0 + 2')")
            self.assertEqual(outcome.error["ename"], "ZeroDivisionError")
            self.assertNotIn("boot code", outcome.traceback)
            outcome = runner.run("import traceback\ntry: eval('1/0 + 2')\nexcept Exception: traceback.print_exc()")
            self.assertIn("ZeroDivisionError", outcome.stderr)
            self.assertNotIn("boot code", outcome.stderr)
            self.assertEqual(runner.run("import linecache; linecache._interactive_cache").text, "{}")

    def test_without_a_global_interpreter_lock_are_refused(self) -> None:
        with self.assertRaisesRegex(EOFError, "configure one that is not built free-threaded"):
            Runner(boot=_FREE_THREADED + BOOT)
