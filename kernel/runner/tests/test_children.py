"""Child processes and C code: their output in order, and forks that never act as the kernel."""

from __future__ import annotations

from tests.case import RunnerCase
from tests.host import Runner


class Output(RunnerCase):
    def test_of_a_child_comes_between_the_prints(self) -> None:
        for start in (
            'import os; os.system("echo b")',
            'import subprocess; subprocess.run(["echo", "b"])',
            'import os; os.waitpid(os.posix_spawnp("echo", ["echo", "b"], os.environ), 0)',
            'pid = os.fork()\nif not pid: os.write(1, b"b\\n"); os._exit(0)\nos.waitpid(pid, 0)',
            'pid = os.fork()\nif not pid:\n    print("b", flush=True); os._exit(0)\nos.waitpid(pid, 0)',
        ):
            with self.subTest(start):
                outcome = self.run_cell(f'print("a")\n{start}\nprint("c");')
                self.assertEqual(outcome.stdout, "a\nb\nc\n")

    def test_of_the_very_first_child_is_in_order_too(self) -> None:
        for _ in range(3):
            with Runner() as runner:
                outcome = runner.run(
                    'import os, sys\nprint("a"); print("e", file=sys.stderr); os.system("echo b"); print("c");'
                )
                self.assertEqual(outcome.order, ["stdout", "stderr", "stdout", "done"])
                self.assertEqual(outcome.stdout, "a\nb\nc\n")

    def test_of_c_code_comes_between_the_prints(self) -> None:
        code = (
            "import ctypes\nlibc = ctypes.CDLL(None)\n"
            'print("a"); libc.printf(b"b\\n"); libc.fflush(None); print("c"); libc.printf(b"d\\n");'
        )
        self.assertEqual(self.run_cell(code).stdout, "a\nb\nc\nd\n")

    def test_with_displays_is_in_order(self) -> None:
        outcome = self.run_cell('import os\nfor i in range(20):\n    os.system(f"echo {i}"); display(i)')
        self.assertEqual(outcome.order, ["stdout", "display"] * 20 + ["done"])

    def test_of_many_children_belongs_to_its_cell(self) -> None:
        for i in range(50):
            self.assertEqual(self.run_cell(f'print({i}); os.system("echo sub{i}");').stdout, f"{i}\nsub{i}\n")

    def test_has_no_marks_before_there_is_need(self) -> None:
        with Runner() as runner:
            self.assertNotIn("mark", runner.run("import ctypes\nprint(1)").of("stream")[0])
            outcome = runner.run("import os; os.system('true'); print(2)")
            self.assertEqual([f["mark"] for f in outcome.of("stream")], [1, 2])


class Forks(RunnerCase):
    def test_of_pools_work(self) -> None:
        self.run_cell("def sq(x): return x*x")
        code = 'import multiprocessing as mp\nwith mp.get_context("fork").Pool(2) as p: print(p.map(sq,[1,2,3]))'
        self.assertEqual(self.run_cell(code).stdout, "[1, 4, 9]\n")
        code = (
            "from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing as mp\n"
            'with ProcessPoolExecutor(2, mp_context=mp.get_context("fork")) as e: print(list(e.map(sq,[4,5])))'
        )
        self.assertEqual(self.run_cell(code).stdout, "[16, 25]\n")

    def test_by_spawn_work_too(self) -> None:
        code = "import multiprocessing as mp\nwith mp.get_context('spawn').Pool(1) as p: print(p.map(abs, [-1, 2]))"
        self.assertEqual(self.run_cell(code).stdout, "[1, 2]\n")

    def test_print_to_the_pipes(self) -> None:
        code = (
            "import multiprocessing as mp\ndef say(): print('from the child', end=''); display(7)\n"
            "p = mp.get_context('fork').Process(target=say); p.start(); p.join(); p.exitcode"
        )
        outcome = self.run_cell(code)
        self.assertEqual((outcome.stdout, outcome.text), ("from the child7\n", "0"))

    def test_end_where_the_cell_ends(self) -> None:
        for code, status in (
            ("pid = os.fork()", 0), ("pid = os.fork()\nif not pid: 1/0", 1),
            ("pid = os.fork()\nif not pid: import sys; sys.exit(5)", 5),
            ("import asyncio\npid = os.fork() if await asyncio.sleep(0, 1) else 0", 0),
        ):  # fmt: skip
            with self.subTest(code):
                self.run_cell("import os\n" + code)
                self.assertEqual(self.run_cell("os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])").text, str(status))

    def test_tell_their_errors_on_stderr(self) -> None:
        outcome = self.run_cell("import os\npid = os.fork()\nif not pid: {}['gone']\nos.waitpid(pid, 0);")
        self.assertIn("KeyError: 'gone'", outcome.stderr)
        self.assertNotIn("talaria_runner", outcome.stderr)

    def test_cannot_ask(self) -> None:
        code = "import os\npid = os.fork()\nif not pid: input()\nos.waitpid(pid, 0);"
        self.assertIn("StdinNotImplementedError", self.run_cell(code, allow_stdin=True).stderr)

    def test_do_not_hold_the_control_socket(self) -> None:
        with Runner() as runner:
            code = (
                "import os, sys, time\npid = os.fork()\nif not pid:\n"
                "    os.setsid(); os.close(w); os.read(r, 1); os._exit(0)\npid"
            )
            runner.run("import os\nr, w = os.pipe()")
            self.assertTrue(runner.run(code).text)
            runner.run("os.kill(os.getpid(), 0)")
            runner.start("os._exit(3)")
            self.assertEqual(runner.process.wait(20), 3)
            # The child lives until its pipe closes, and yet the socket is at its end.
            with self.assertRaises(EOFError):
                while True:
                    runner.next_frame()
