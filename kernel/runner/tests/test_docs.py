"""docs/cells.md: each example in it is a cell that works."""

from __future__ import annotations

import os
import re
import shutil

from tests.case import RunnerCase
from tests.host import RUNNER
from tests.packages import Packages

_FILE = os.path.join(os.path.dirname(os.path.dirname(RUNNER)), "docs", "cells.md")


class Cells(RunnerCase):
    @classmethod
    def setUpClass(cls) -> None:
        packages = Packages()
        cls.addClassCleanup(packages.folder.cleanup)
        packages.files = {"humanize.py": "def naturalsize(size):\n    return f'{size / 1000:.1f} kB'\n"}
        cls.env = packages.env()
        super().setUpClass()
        cls.runner.installer = lambda frame: packages.install(cls.runner, frame)

    def test_work_one_after_another(self) -> None:
        languages = "python|cpp" if shutil.which("g++") else "python"
        with open(_FILE, encoding="utf-8") as file:
            cells = re.findall(rf"```(?:{languages})\n(.*?)```", file.read(), re.DOTALL)
        self.assertGreater(len(cells), 10)
        for cell in cells:
            with self.subTest(cell.partition("\n")[0]):
                outcome = self.run_cell(cell)
                self.assertEqual(outcome.stderr, "")

    def test_name_magics_that_there_are(self) -> None:
        with open(_FILE, encoding="utf-8") as file:
            table = re.search(r"## Magics\n(.*?)\n\n`x =", file.read(), re.DOTALL)[1]
        for marks, name in re.findall(r"`(%%?)(\w+)", table):
            kind = "cell" if marks == "%%" else "line"
            with self.subTest(f"{marks}{name}"):
                if name in ("autoreload", "aimport"):
                    self.run_cell("%reload_ext autoreload")
                self.assertEqual(
                    self.run_cell(f"get_ipython().find_magic({name!r}, {kind!r}) is not None").text, "True"
                )
