"""Asking the outside: several at once, from threads, and in forked processes."""

from __future__ import annotations

import sys
import unittest

from talaria_runner.run.execution import Execution, current
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.streams.stdin import Stdin
from talaria_runner.wire import asks
from tests.packages import PackagesCase


class Interrupted(unittest.TestCase):
    """The answer that an interrupt has ended an ask comes before the signal, as on a busy machine."""

    def asking(self, code: str) -> Execution:
        """Calls input(), which is interrupted before it waits."""
        execution = Execution("c", "", 1, False, True)
        self.addCleanup(current.reset, current.set(execution))
        interrupts = Interrupts()
        interrupts.execution, interrupts.guard = execution, sys._getframe()

        class Outbox:
            def add(self, head: str) -> None:
                pass

            def write(self) -> None:  # the host has it, and answers at once
                execution.interrupt_requested = True
                (ask,) = all._open
                all.answer(ask, {}, "input() was stopped: interrupted", code)

        all = asks.Asks(Outbox(), interrupts)
        Stdin(all).ask("? ", False)
        return execution

    def test_input_raises_the_interrupt(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            self.asking(asks.ENDED)

    def test_input_that_is_refused_does_not(self) -> None:
        with self.assertRaisesRegex(Exception, "input\\(\\) was stopped"):
            self.asking("unavailable")


class Asks(PackagesCase):
    def start(self, code: str) -> str:
        self.runner.installer = lambda frame: None  # the test answers
        return self.runner.start(code, allow_stdin=True)

    def asked(self, id: str, *kinds: str) -> list[dict]:
        """The first frames of these kinds, in whichever order they come."""
        for kind in kinds:
            if not self._of(id, kind):
                self.runner.finish(id, until=kind)
        return [self._of(id, kind)[0] for kind in kinds]

    def until_printed(self, id: str, text: str) -> None:
        while text not in self.runner.executions[id].stdout:
            self.runner.finish(id, until="stream")

    def _of(self, id: str, kind: str) -> list[dict]:
        return [*self.runner.executions[id].of(kind), *(f for f in self.runner.installs if f.get("kind") == kind)]

    _BOTH = (
        "import threading\nsaid = []\ndef install():\n    try:\n        get_ipython().run_line_magic('pip', 'install newcomer')\n"
        "        said.append('installed')\n    except Exception as e:\n        said.append(f'{type(e).__name__}: {e}')\n"
        "t = threading.Thread(target=install)\nt.start()\n"
    )

    def test_a_thread_installs_while_the_cell_asks_for_input(self) -> None:
        for first in ("input", "install"):
            with self.subTest(first):
                self.runner.installs.clear()
                id = self.start(self._BOTH + "name = input('? ')\nt.join()\nname, said")
                question, packages = self.asked(id, "input", "install")
                self.assertEqual(packages["id"], id)
                answers = {"input": lambda: self.runner.answer(question, "Ada"),
                           "install": lambda: self.runner.send(type="answer", ask=packages["ask"], body={"packages": []})}  # fmt: skip
                answers.pop(first)()
                answers.popitem()[1]()
                self.assertEqual(self.runner.finish(id).text, "('Ada', ['installed'])")

    def test_an_interrupt_ends_the_asks_of_all_threads(self) -> None:
        id = self.start(self._BOTH + "try:\n    input('? ')\nfinally:\n    t.join()\n    print(said)")
        question, packages = self.asked(id, "input", "install")
        self.runner.interrupt(id)
        for ask in (question, packages):  # as the host does
            self.runner.send(type="answer", ask=ask["ask"], error="it was ended", code="ended")
        outcome = self.runner.finish(id)
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))
        self.assertEqual(outcome.stdout, "['InstallError: it was ended']\n")

    def test_many_threads_wait_at_once(self) -> None:
        code = (
            "import shlex, threading\nsaid = []\ndef install(n):\n    get_ipython().run_line_magic('pip', f'install p{n}')\n"
            "    said.append(n)\nall = [threading.Thread(target=install, args=(n,)) for n in range(20)]\n"
            "for t in all: t.start()\nfor t in all: t.join()\nsorted(said) == list(range(20))"
        )
        id = self.start(code)
        while len(self.runner.installs) < 20:
            self.runner.finish(id, until="install")
        for ask in reversed(self.runner.installs):
            self.runner.send(type="answer", ask=ask["ask"], body={"packages": []})
        self.assertEqual(self.runner.finish(id).text, "True")

    def test_a_thread_of_an_earlier_cell_asks_for_no_input(self) -> None:
        self.cell("import threading\nsaid = []\ngo = threading.Event()\ndef ask():\n    go.wait()\n    try: input('t')\n"
                  "    except Exception as e: said.append(str(e))\nt = threading.Thread(target=ask); t.start()")
        outcome = self.runner.run("go.set(); t.join(); said", allow_stdin=True)
        self.assertEqual((outcome.text, outcome.of("input")), ("['input() works only while a cell runs']", []))

    def test_a_fork_while_an_ask_is_open_ends_it_in_the_child(self) -> None:
        # The code that shows the progress forks, so the child is in the middle of an ask.
        code = (
            "import os, sys\nclass Forks:\n    child = None\n    def write(self, text):\n"
            "        if self.child is None:\n            self.child = os.fork()\n            if self.child: out.write('forked')\n"
            "    def flush(self): pass\n"
            "out = sys.stdout\nsys.stdout = forks = Forks()\ntry:\n    %pip install newcomer\nexcept Exception as e:\n"
            "    os.write(2, f'{type(e).__name__}: {e}'.encode()); os._exit(7)\nfinally:\n    sys.stdout = out\n"
            "os.waitstatus_to_exitcode(os.waitpid(forks.child, 0)[1])"
        )
        id = self.start(code)
        (packages,) = self.asked(id, "install")
        self.runner.send(type="progress", ask=packages["ask"], text="Collecting newcomer\n")
        self.until_printed(id, "forked")
        self.runner.send(type="answer", ask=packages["ask"], body={"packages": []})
        outcome = self.runner.finish(id)
        self.assertEqual(outcome.text, "7", outcome.traceback)
        self.assertIn("InstallError: %pip works only in the kernel itself", outcome.stderr)

    def test_a_forked_child_does_not_wait_for_its_parents_turn(self) -> None:
        code = (
            "import os, threading, time\nsaid = []\nt = threading.Thread(target=lambda: said.append(input('t')))\nt.start()\n"
            "while not os.path.exists('asked'): time.sleep(0.01)\n"
            "pid = os.fork()\nif not pid:\n    try: input()\n    except Exception as e: print(e, flush=True); os._exit(7)\n"
            "status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\nprint('reaped')\nt.join()\nstatus, said"
        )
        id = self.start(code)
        (question,) = self.asked(id, "input")
        with open(self.runner.directory.name + "/asked", "w"):
            pass
        self.until_printed(id, "reaped")
        self.runner.answer(question, "Ada")
        outcome = self.runner.finish(id)
        self.assertEqual(outcome.text, "(7, ['Ada'])")
        self.assertIn("input() works only in the kernel itself", outcome.stdout)
