"""What user code may do to its own process without taking the runner down."""

from __future__ import annotations

import socket
import unittest

from tests.host import PATIENCE, Runner

_HARM = {
    "closes the first descriptors": "import os; os.closerange(0, 10)",
    "redirects the first descriptors": (
        "import os\nn = os.open('/dev/null', os.O_RDWR)\nfor fd in range(10): os.dup2(n, fd)"
    ),
    "deletes builtins": (
        "import builtins\n"
        "for n in ('len', 'isinstance', 'print', 'Exception', 'getattr', 'type', 'repr'): delattr(builtins, n)"
    ),
    "clears builtins": "import builtins; builtins.__dict__.clear()",
    "breaks the library": (
        "import json, time, threading, socket, os, traceback, linecache, io, signal\n"
        "for m in (json, time, threading, socket, os, traceback, linecache, io, signal):\n"
        "    for n in dir(m):\n"
        "        if not n.startswith('__') and callable(getattr(m, n)): setattr(m, n, None)"
    ),
    "empties sys": (
        "import sys\n"
        "sys.meta_path.clear(); sys.path.clear(); sys.path_hooks.clear(); sys.stdout = sys.stderr = None"
    ),
    "throws modules away": "import sys; sys.modules.clear()",
    "empties its globals": "globals().clear()",
    "takes main away": "import sys; sys.modules.pop('__main__')",
    "traces and raises": "import sys\ndef t(*a): raise ValueError('trace')\nsys.settrace(t)",
    "profiles and raises": "import sys\ndef t(*a): raise ValueError('profile')\nsys.setprofile(t)",
    "lowers the recursion limit": (
        "import sys\nfor n in range(1, 200):\n    try: sys.setrecursionlimit(n); break\n"
        "    except RecursionError: pass"
    ),
    "changes the directory": "import os; os.mkdir('d'); os.chdir('d'); os.rmdir('../d')",
    "raises in hooks": (
        "import sys\ndef bad(*a): raise ValueError\nsys.excepthook = sys.unraisablehook = bad\nclass X:\n"
        "    def __del__(self): 1/0\nX()\nraise KeyError"
    ),
    "raises in a displayhook": "import sys\ndef bad(v): raise ValueError\nsys.displayhook = bad",
    "registers exit functions": "import atexit; atexit.register(print, 'at exit')",
    "stops collecting": "import gc; gc.disable(); gc.set_threshold(1, 1, 1)",
    "switches threads rarely": "import sys; sys.setswitchinterval(100)",
    "makes descriptors non-blocking": (
        "import os\nfor fd in os.listdir('/proc/self/fd'):\n    try: os.set_blocking(int(fd), False)\n"
        "    except OSError: pass"
    ),
    "raises in signal handlers": (
        "import signal\ndef bad(*a): raise ValueError('late')\n"
        "signal.signal(signal.SIGALRM, bad); signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)"
    ),
    "ignores the interrupt signal": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "removes what it finds of ours": (
        "import sys\nfor n in [n for n in sys.modules if n.startswith('talaria')]: del sys.modules[n]\n"
        "del sys.displayhook"
    ),
    "ends the thread": "import _thread; _thread.exit()",
    "raises SystemExit in a thread": "import threading, sys; threading.Thread(target=sys.exit).start()",
    "interrupts main": "import _thread; _thread.interrupt_main()",
    "forges frames": (
        "import os\nfor fd in range(900, 1100):\n"
        "    try: os.write(fd, b'{\"type\":\"done\",\"id\":\"e1\",\"status\":\"ok\"')\n"
        "    except OSError: pass"
    ),
}  # fmt: skip


_FILL = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, -1))
filled = []
for size in (1_000_000, 100_000, 10_000, 1_000):
    try:
        while True: filled.append(bytearray(size))
    except MemoryError:
        pass
"""


class Harm(unittest.TestCase):
    def test_leaves_the_runner_alive(self) -> None:
        for name, code in _HARM.items():
            if name == "forges frames":
                continue
            with self.subTest(name), Runner() as runner:
                runner.run(code)
                for _ in range(3):
                    outcome = runner.run("alive = 1 + 1\nalive")
                    if outcome.text == "2":
                        break
                # The damage is their own: a value is then not shown, or is an error.
                broken = ("displayhook", "builtins", "signal handlers", "ours", "recursion")
                if not any(word in name for word in broken):
                    self.assertEqual(outcome.text, "2", outcome.traceback)
                outcome = runner.run("alive = 3\nalive ** 'x'")
                self.assertEqual(outcome.status, "error")

    def test_forged_frames_spoil_no_other(self) -> None:
        with Runner() as runner:
            id = runner.start(_HARM["forges frames"])
            frames = []
            while not frames or frames[-1].get("type") != "done":
                try:
                    frames.append(runner.next_frame())
                except ValueError:
                    continue
            self.assertEqual(frames[-1]["id"], id)
            self.assertEqual(runner.run("1+1").text, "2")

    def test_gives_closed_descriptors_back(self) -> None:
        with Runner() as runner:
            runner.run("import os; os.closerange(0, 3)")
            self.assertEqual(runner.run("os.system('echo out; echo err >&2');").order, ["stdout", "stderr", "done"])
            self.assertEqual(
                runner.run("import subprocess; subprocess.run(['cat'], capture_output=True).stdout").text, "b''"
            )

    def test_opens_descriptors_that_it_cannot_give_back(self) -> None:
        with Runner() as runner:
            runner.run(
                "import os, stat\nos.closerange(0, 3)\nfor fd in range(800, 1100):\n    try:\n"
                "        if stat.S_ISFIFO(os.fstat(fd).st_mode): os.close(fd)\n    except OSError: pass"
            )
            self.assertEqual(runner.run("{os.readlink(f'/proc/self/fd/{fd}') for fd in range(3)}").text, "{'/dev/null'}")

    def test_leaves_redirected_descriptors_redirected(self) -> None:
        with Runner() as runner:
            runner.run("import os; os.dup2(os.open('log', os.O_WRONLY | os.O_CREAT), 1)")
            self.assertEqual(runner.run("os.system('echo hidden'); print('seen')").stdout, "seen\n")
            self.assertEqual(runner.run("open('log').read()").text, r"'hidden\n'")

    def test_keeps_trace_functions_and_recursion_limits_for_user_code(self) -> None:
        with Runner() as runner:
            runner.run(
                "import sys\nseen = set()\ndef t(f, e, a): seen.add(f.f_code.co_name); return t\nsys.settrace(t)"
            )
            runner.run("def traced(): return 1\ntraced()")
            outcome = runner.run(
                "sys.settrace(None)\n'traced' in seen, 'serve' in seen, '_finish' in seen, 'accept' in seen"
            )
            self.assertEqual(outcome.text, "(True, False, False, False)")
            runner.run("sys.setrecursionlimit(500)")
            self.assertEqual(runner.run("sys.getrecursionlimit()").text, "500")
            runner.run(_HARM["lowers the recursion limit"])
            self.assertEqual(runner.run("[1]").status, "error")
            runner.run("sys.setrecursionlimit(1000)")
            self.assertEqual(runner.run("[1]").text, "[1]")

    def test_keeps_a_profiler_that_a_cell_leaves_on(self) -> None:
        with Runner() as runner:
            runner.run("import cProfile, pstats\nprofile = cProfile.Profile()\ndef profiled(): return 1\nprofile.enable()")
            self.assertEqual(runner.run("profiled()").text, "1")
            outcome = runner.run("profile.disable()\n'profiled' in [name for _, _, name in pstats.Stats(profile).stats]")
            self.assertEqual(outcome.text, "True")

    def test_gives_up_a_profiler_that_cannot_go_on(self) -> None:
        profilers = {
            "a function": "sys.setprofile(lambda frame, event, what: event == 'c_return' and what.__name__ == 'setprofile' and 1 / 0)",
            "in C": "import cProfile\nclass Bad(cProfile.Profile):\n    def enable(self): 1 / 0\ncProfile.Profile.enable(Bad())",
        }
        for name, code in profilers.items():
            with self.subTest(name), Runner() as runner:
                outcome = runner.run(f"import io, sys\nsys.stdout = io.StringIO()\n{code}")
                self.assertEqual(outcome.status, "ok", outcome.traceback)
                self.assertEqual(runner.run("1+1").text, "2")

    def test_survives_a_lack_of_memory(self) -> None:
        with Runner() as runner:
            runner.run("import resource; resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, -1))")
            self.assertEqual(runner.run("x = bytearray(1 << 30)").error["ename"], "MemoryError")
            self.assertEqual(
                runner.run("a = []\nwhile True: a.append(bytearray(100_000))").error["ename"], "MemoryError"
            )
            # The reserve was freed, taken again by the reader, and is freed again: for this thread, too.
            self.assertEqual(runner.run("len(bytes(2 << 20))").text, "2097152")
            runner.run("del a")
            self.assertEqual(runner.run("1+1").text, "2")
            self.assertEqual(runner.run("a = []\nwhile True: a.append('x' * 100)").status, "error")
            runner.run("a.clear()")
            self.assertEqual(runner.run("1+1").text, "2")

    def test_ends_cells_that_it_cannot_read_for_lack_of_memory(self) -> None:
        for size in (1_000, 40_000, 200_000, 6_000_000):
            with self.subTest(size), Runner() as runner:
                runner.run("kept = 5\n" + _FILL)
                code = "ran = 1\n" + "#" * size
                outcome = runner.run(code)
                if outcome.status == "error":
                    self.assertEqual(outcome.error["ename"], "MemoryError")
                    self.assertIn("delete variables that are no longer needed", outcome.error["hint"])
                runner.run("del filled")
                self.assertEqual(runner.run("kept").text, "5")
                self.assertEqual(runner.run(code + "\nran").text, "1")

    def test_reads_an_interrupt_behind_a_line_that_it_cannot_read_for_lack_of_memory(self) -> None:
        with Runner() as runner:
            id = runner.start(f"{_FILL}\nprint('full', flush=True)\nwhile True: pass")
            runner.finish(id, until="stream")
            runner.send(type="complete", request_id="r", code="#" * 6_000_000, cursor=0)
            runner.interrupt(id)
            outcome = runner.finish(id)
            self.assertEqual(outcome.error["ename"], "KeyboardInterrupt")
            runner.run("del filled")
            self.assertEqual(runner.run("1+1").text, "2")

    def test_refuses_an_answer_that_it_cannot_read_for_lack_of_memory(self) -> None:
        with Runner() as runner:
            id = runner.start(f"{_FILL}\ninput()", allow_stdin=True)
            outcome = runner.finish(id, ["x" * 6_000_000])
            self.assertEqual(outcome.status, "error")
            runner.run("del filled")
            self.assertEqual(runner.run("1+1").text, "2")

    def test_ends_with_its_host_while_memory_is_full(self) -> None:
        with Runner() as runner:
            self.assertEqual(runner.run(_FILL).status, "ok")
            runner.control.shutdown(socket.SHUT_RDWR)
            self.assertIsNotNone(runner.process.wait(PATIENCE))

    def test_ignores_frames_that_are_none(self) -> None:
        with Runner() as runner:
            runner.control.sendall(b'\n\n{"type":"execute"}\n[1]\nnonsense\n{"type":"other"}\n{"a":\n')
            runner.send(type="interrupt", id=5)
            self.assertEqual(runner.run("1+1").text, "2")

    def test_takes_large_sources(self) -> None:
        with Runner() as runner:
            code = "\n".join(f"v{i} = {i}" for i in range(3000)) + "\nv2999"
            self.assertEqual(runner.run(code).text, "2999")
            code = "x = '" + "ü" * 8_000_000 + "'\nlen(x)"
            self.assertEqual(runner.run(code).text, "8000000")
            self.assertIn(
                runner.run("(" * 5000 + ")" * 5000).error["ename"], ("SyntaxError", "MemoryError", "RecursionError")
            )
            self.assertEqual(runner.run("1+1").text, "2")
