"""A session's packages, for tests: an installer that puts modules into a folder of their own."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest

from tests.host import ENGINE, PYTHON, RUNNER, Outcome, Runner

_PROGRAMS = RUNNER + "/programs"


class Packages:
    """The folder that the session sees, and the installer that changes it. answer is the error, or ""; modules are the
    files of the next layer by name."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name + "/packages"
        os.mkdir(self.path)
        self.error = ""
        self.output: list[str] = []
        self.changed: list[dict[str, str]] = []
        self.files: dict[str, str] = {}
        self._layers = 0

    def env(self) -> dict[str, str]:
        """The variables that a sandbox has."""
        return {
            "PATH": f"{_PROGRAMS}/bin:{self.path}/current/bin:{os.environ['PATH']}",
            "PYTHONPATH": _PROGRAMS + "/python",
            "PYTHONUSERBASE": self.path + "/current",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TALARIA_PACKAGES": self.path,
            "TALARIA_INSTALLS": self.folder.name + "/asks",
            "TALARIA_PYTHON": PYTHON,
        }

    def install(self, runner: Runner, frame: dict) -> None:
        """Answers a request, as the host eventually does."""
        if frame["type"] != "ask":
            return
        for text in self.output:
            runner.send(type="progress", ask=frame["ask"], text=text)
        if self.error:
            runner.send(type="answer", ask=frame["ask"], error=self.error)
            return
        self.change()
        runner.send(type="answer", ask=frame["ask"], body={"packages": self.changed})

    def change(self) -> None:
        """Makes a layer with these files the current one."""
        self._layers += 1
        layer = f"{self.path}/{self._layers:04d}"
        for name, text in self.files.items():
            path = f"{layer}/lib/python{VERSION}/site-packages/{name}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        os.symlink(os.path.basename(layer), self.path + "/new")
        os.rename(self.path + "/new", self.path + "/current")


def _version() -> str:
    if PYTHON == sys.executable:
        return "{0.major}.{0.minor}".format(sys.version_info)
    with os.popen(f"{PYTHON} -c 'import sys; print(*sys.version_info[:2], sep=\".\")'") as f:
        return f.read().strip()


VERSION = _version()


class PackagesCase(unittest.TestCase):
    """Each test has a runner and packages of its own."""

    further: dict[str, str] = {}

    def setUp(self) -> None:
        self.packages = Packages()
        self.addCleanup(self.packages.folder.cleanup)
        self.before()
        self.runner = Runner({**self.packages.env(), **self.further}, engine=ENGINE)
        self.addCleanup(self.runner.__exit__, None, None, None)
        self.runner.installer = lambda frame: self.packages.install(self.runner, frame)

    def before(self) -> None:
        """What exists before the kernel starts."""

    def cell(self, code: str, status: str = "ok") -> Outcome:
        outcome = self.runner.run(code)
        self.assertEqual(outcome.status, status, outcome.traceback)
        return outcome
