"""Copies of the interpreter: made between two cells, woken in its place."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import time
import unittest

from .case import STDLIB
from .host import PATIENCE, PYTHON, RUNNER, Runner, ask
from .saved_values import ROWS, Row, numbered

_SUBREAPER = 36  # prctl
WAKE = signal.SIGRTMAX
SAVE = signal.SIGRTMAX - 1
LETTER = ".talaria-upload-letter"


_LIBRARY = f"import sys; sys.path.append({RUNNER!r})\n"
# The parent of the process, whose children the copies are, is a process of its own, which reaps them.
_FORKS = _LIBRARY + """
import ctypes, os, threading
from talaria_runner.checkpoints import siblings
""", """
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
inner = os.fork()
if inner:
    copies = 0
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        assert status == 0, status
        copies += pid != inner
    print(copies, "copies")
    sys.exit()
stop = []
def churn():
    while not stop:
        [bytearray(n) for n in range(1, 200_000, 997)]
for _ in range(3):
    threading.Thread(target=churn).start()
for _ in range(200):
    if siblings.fork_sibling():
        os._exit(0 if len([bytearray(1000) for _ in range(1000)]) == 1000 and threading.active_count() == 1 else 3)
    try:
        os.waitpid(-1, os.WNOHANG)
        os._exit(4)
    except ChildProcessError:
        pass
stop.append(1)
"""

# One of the runner's threads ends long after it has been told to, as on a busy machine; then another one stays at work.
_THREADS = f"""{_LIBRARY}
import time
from _thread import allocate_lock
from talaria_runner.checkpoints import losses
from talaria_runner.own import threads
threads.start(lambda: time.sleep(0.5))
print(losses.is_alone(1))
threads.leave()
print(losses.is_alone(0), losses.foreign_threads())
never = allocate_lock(); never.acquire()
threads.start(never.acquire)
print(losses.is_alone(0), losses.is_alone(1), losses.foreign_threads())
"""


class Host(Runner):
    """A host that is also pid 1: copies become its children."""

    def __init__(self, **how: object) -> None:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        self.copies: list[int] = []
        self.live = 0
        super().__init__(**how)
        self.live = self.process.pid

    def __exit__(self, *error: object) -> None:
        for pid in self.copies:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().__exit__(*error)
        for pid in self.copies:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def copy(self, kind: str = "copy") -> dict:
        self.send(type=kind, request_id="c1", **({"until": time.monotonic() + PATIENCE} if kind == "aside" else {}))
        while (frame := self.next_frame())["type"] != "copied":
            self.executions[frame["id"]].frames.append(frame)
        if frame["pid"]:
            self.copies.append(frame["pid"])
        return frame

    def wake(self, pid: int, spares: bool = False) -> None:
        """Stops the interpreter, unless it has stepped aside, and makes a copy take its place, as pid 1 does."""
        if not spares:
            os.kill(self.live, signal.SIGSTOP)
            os.waitid(os.P_PID, self.live, os.WSTOPPED | os.WNOWAIT)
        os.kill(pid, WAKE)
        if not spares:
            os.kill(self.live, signal.SIGKILL)
        self.live = pid
        frame = self.next_frame()
        assert frame["type"] == "ready", frame
        assert frame["mark"] != self.mark
        self.mark = frame["mark"]

    def save_copy(self, pid: int, path: str) -> dict | None:
        """Has a copy that waits save its variables, as host and pid 1 do. Returns its answer, if it gave one."""
        letter = f"{self.directory.name}/{LETTER}"
        asked = {"type": "save", "request_id": "l1", "path": path, "seconds": 20, "max_bytes": 1 << 20}
        with open(letter, "w") as file:
            json.dump(asked, file)
        self.signal_saver(pid)
        with open(letter) as file:
            answer = json.load(file)
        return None if answer == asked else answer

    def signal_saver(self, pid: int) -> None:
        os.kill(pid, SAVE)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        os.kill(pid, signal.SIGCONT)


class AsideHost(Host):
    """A host whose interpreter steps aside for an equal one, which makes it a copy, wherever it can."""

    def copy(self, kind: str = "copy") -> dict:
        equal = super().copy()
        if not equal["pid"]:
            return equal
        aside = super().copy("aside")
        if not aside["pid"]:
            return equal
        assert aside["pid"] == self.live, aside
        self.wake(equal["pid"], spares=True)
        return aside


def sockets(pid: int) -> int:
    return sum(os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:") for fd in os.listdir(f"/proc/{pid}/fd"))


def children() -> set[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return {int(pid) for pid in file.read().split()}


def named(frame: dict) -> list[str]:
    return [loss["name"] for loss in frame["losses"]]


class Copies(unittest.TestCase):
    Host = Host

    def test_variables_are_as_they_were(self) -> None:
        with self.Host() as host:
            host.run("x = [1]; import random; random.seed(1); g = iter(range(5)); next(g)")
            made = host.copy()
            self.assertGreater(made["pid"], 0, made)
            self.assertEqual(made["losses"], [])
            after = host.run("x.append(2); y = 1; (next(g), random.random(), x)").text
            host.wake(made["pid"])
            self.assertEqual(host.run("x, 'y' in globals()").text, "([1], False)")
            self.assertEqual(host.run("x.append(2); y = 1; (next(g), random.random(), x)").text, after)

    def test_code_that_ignores_its_children_keeps_copies_and_saved_variables(self) -> None:
        with self.Host() as host:
            host.run("import signal; x = [1]; signal.signal(signal.SIGCHLD, signal.SIG_IGN)")
            path = f"{host.directory.name}/saved"
            saved = ask(host, type="save", path=path, seconds=20, max_bytes=1 << 20)
            self.assertEqual((saved["reason"], saved["count"]), ("", 2), saved)
            self.assertEqual(host.run("x").text, "[1]")
            made = host.copy()
            self.assertGreater(made["pid"], 0, made)
            host.wake(made["pid"])
            self.assertEqual(host.run("x").text, "[1]")

    def test_a_copy_can_be_copied_again_and_again(self) -> None:
        with self.Host() as host:
            host.run("n = 0")
            first = host.copy()["pid"]
            host.run("n = 1")
            second = host.copy()["pid"]
            host.run("n = 2")
            host.wake(first)
            self.assertEqual(host.run("n").text, "0")
            again = host.copy()["pid"]
            host.run("n = 9")
            host.wake(second)
            self.assertEqual(host.run("n").text, "1")
            host.wake(again)
            self.assertEqual(host.run("n").text, "0")

    def test_a_woken_copy_does_all_that_the_interpreter_did(self) -> None:
        with self.Host() as host:
            host.run("import asyncio, os\nawait asyncio.sleep(0)\nos.system('echo first')")
            pid = host.copy()["pid"]
            host.wake(pid)
            self.assertEqual(host.run("await asyncio.sleep(0.01); 'awaited'").text, "'awaited'")
            ran = host.run("print('a'); os.system('echo b'); print('c')")
            self.assertEqual(ran.stdout, "a\nb\nc\n")
            self.assertEqual(host.run("input('?')", ["yes"], allow_stdin=True).text, "'yes'")
            self.assertIn("ZeroDivisionError", host.run("1 / 0").traceback)
            id = host.start("while True: pass")
            host.interrupt(id)
            self.assertTrue(host.finish(id).interrupted)
            self.assertEqual(host.run("import threading; t = threading.Thread(target=print, args=('in',)); t.start(); t.join()").stdout, "in\n")
            slow = "class Slow:\n def __repr__(self):\n  while True: pass\nSlow()"
            self.assertIn("Slow", host.run(slow).text or host.run("1").text or "Slow")
            self.assertEqual(host.run("os.fork() or os._exit(3); os.wait()[1] >> 8").text, "3")

    def test_a_copy_saves_its_variables_while_it_waits(self) -> None:
        with self.Host() as host, Runner() as other:
            host.run("import random; random.seed(1); x = [1]; g = (i for i in x)\ndef f(): return len(x)")
            pid = host.copy()["pid"]
            drawn = host.run("x.append(2); y = 1; random.random()").text
            long = host.start("import time\nwhile True: time.sleep(0.01)")  # the interpreter does not take part
            for path in ("one", "two"):
                saved = host.save_copy(pid, path)
                self.assertEqual((saved["type"], saved["request_id"], saved["reason"], saved["count"]), ("saved", "l1", "", 3), saved)
                self.assertEqual([one["name"] for one in saved["lost"]], ["g"])
            host.interrupt(long)
            self.assertTrue(host.finish(long).interrupted)
            loaded = ask(other, type="load", path=f"{host.directory.name}/two", digest=saved["digest"])
            self.assertEqual((loaded["reason"], loaded["count"]), ("", 3), loaded)
            self.assertEqual(other.run("x.append(5); x, f(), 'y' in globals()").text, "([1, 5], 2, False)")
            self.assertEqual(other.run("random.random()").text, drawn)
            self.assertEqual(host.run("x, next(g)").text, "([1, 2], 1)")
            host.wake(pid)
            self.assertEqual(host.run("x, next(g), random.random()").text, f"([1], 1, {drawn})")

    def test_a_copy_has_the_namespaces_of_cells_and_does_not_save_them(self) -> None:
        with self.Host() as host:
            host.run("%%namespace a\nx = 1")
            pid = host.copy()["pid"]
            host.run("%%namespace a\nx = 2")
            self.assertEqual([(one["name"], one["type"]) for one in host.save_copy(pid, "x")["lost"]], [("%%namespace a", "namespace")])
            host.wake(pid)
            self.assertEqual(host.run("%%namespace a\nx").text, "1")

    def test_a_copy_that_cannot_save_waits_on(self) -> None:
        with self.Host() as host:
            host.run("x = 1\nclass Ends:\n def __reduce__(self): import os; os._exit(3)\ne = Ends()")
            pid = host.copy()["pid"]
            self.assertIn("could not be written", host.save_copy(pid, "/nowhere/x")["reason"])
            self.assertEqual([one["name"] for one in host.save_copy(pid, "x")["lost"]], ["e"])
            letter = f"{host.directory.name}/{LETTER}"
            for text in (None, "", "[]", "{}", '{"request_id":1,"path":2,"seconds":"","max_bytes":[]}'):
                os.unlink(letter)
                if text is not None:
                    with open(letter, "w") as file:
                        file.write(text)
                host.signal_saver(pid)
                if text is None:
                    os.mkfifo(letter)
                    host.signal_saver(pid)
            host.run(f"import os\nfor _ in range(3): os.kill({pid}, {int(SAVE)})\nx = 2")  # it is not pid 1
            host.wake(pid)
            self.assertEqual(host.run("x").text, "1")

    def test_user_code_never_waits_for_a_copy(self) -> None:
        with self.Host() as host:
            host.run("import os")
            host.copy()
            self.assertIn("ChildProcessError", host.run("os.wait()").traceback)

    @STDLIB  # no engine runs in it, and it takes long
    def test_many_copies_are_forked_beside_threads_that_use_memory(self) -> None:
        """In both ways: the instructions for the processor, and two forks for the others."""
        for way in ("", "siblings._make_native = lambda: None\n"):
            with self.subTest(way or "as the processor allows"):
                ended = subprocess.run([PYTHON, "-I", "-c", way.join(_FORKS)], capture_output=True, text=True, timeout=3 * PATIENCE)
                self.assertEqual((ended.stdout, ended.stderr), ("200 copies\n", ""))

    def test_one_fork_makes_a_copy_where_the_processor_allows_it(self) -> None:
        if os.uname().machine != "x86_64":
            self.skipTest("two forks on this processor")
        script = f"{_LIBRARY}from talaria_runner.checkpoints import siblings; print(siblings._make_native() is not None)"
        ended = subprocess.run([PYTHON, "-I", "-c", script], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((ended.stdout, ended.stderr), ("True\n", ""))

    @STDLIB  # no engine runs in it
    def test_threads_that_have_been_told_to_end_are_waited_for(self) -> None:
        ended = subprocess.run([PYTHON, "-I", "-c", _THREADS], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((ended.stdout, ended.stderr), ("True\nTrue 0\nFalse True 0\n", ""))

    def test_only_pid_1_wakes_a_copy(self) -> None:
        with self.Host() as host:
            host.run("n = 1")
            pid = host.copy()["pid"]
            host.run(f"import os\nfor _ in range(3): os.kill({pid}, {int(WAKE)})\nn = 2")
            self.assertEqual(host.run("n").text, "2")
            host.wake(pid)
            self.assertEqual(host.run("n").text, "1")

    def test_files_keep_their_positions_and_connections_end(self) -> None:
        with self.Host() as host:
            host.run(
                "import os, socket, subprocess\n"
                "f = open('f', 'w+'); f.write('0123456789'); f.flush(); f.seek(2)\n"
                "a, b = socket.socketpair()\n"
                "p = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)"
            )
            made = host.copy()
            self.assertEqual(sorted(set(named(made)) & {"a", "b", "p"}), ["a", "b", "p"])
            # The copy holds no connection open.
            self.assertEqual(host.run("a.close(); b.recv(1)").text, "b''")
            self.assertEqual(host.run("p.stdin.close(); p.stdout.read(), p.wait()").text, "(b'', 0)")
            host.run("f.read()")
            host.wake(made["pid"])
            self.assertEqual(host.run("f.read(3)").text, "'234'")
            self.assertEqual(host.run("b.recv(1)").error["ename"], "OSError")

    def test_files_that_the_host_put_back_are_the_open_ones(self) -> None:
        """They are other files under the same paths, and are there when the next copy is made."""
        with self.Host() as host:
            host.run("f = open('f', 'w+'); f.write('0123'); f.flush(); f.seek(2); log = open('log', 'a'); log.write('a\\n'); log.flush()")
            made = host.copy()
            host.run("f.truncate(0); f.close(); log.write('b\\n'); log.close()")
            host.wake(made["pid"])
            for name, text in (("f", "0123"), ("log", "a\n")):
                path = f"{host.directory.name}/{name}"
                with open(f"{path}.new", "w") as file:
                    file.write(text)
                os.replace(f"{path}.new", path)
            again = host.copy()
            for pid in (0, again["pid"]):
                if pid:
                    host.wake(pid)
                self.assertEqual(host.run("f.read(1)").text, "'2'")
                host.run("log.write('c\\n'); log.flush()")
            with open(f"{host.directory.name}/log") as file:
                self.assertEqual(file.read(), "a\nc\nc\n")

    def test_timers_go_on(self) -> None:
        with self.Host() as host:
            host.run("import signal; rang = []; signal.signal(signal.SIGALRM, lambda *a: rang.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.2)")
            made = host.copy()
            host.run("signal.alarm(0)")
            host.wake(made["pid"])
            self.assertEqual(host.run("while not rang: signal.sigtimedwait((), 0.01)  # pause() may begin after the signal\nrang").text, "[1]")

    def test_what_a_copy_lacks_is_named(self) -> None:
        with self.Host() as host:
            host.run(
                "import threading, sqlite3, time\n"
                "t = threading.Thread(target=time.sleep, args=(60,), daemon=True, name='mine'); t.start()\n"
                "threading.Thread(target=time.sleep, args=(60,), daemon=True, name='nameless').start()\n"
                "db = sqlite3.connect(':memory:')"
            )
            made = host.copy()
            self.assertLessEqual({"t", "db", "thread nameless"}, set(named(made)))
            host.wake(made["pid"])
            self.assertEqual(host.run("t.is_alive(), threading.active_count()").text, "(False, 1)")

    def test_the_host_has_an_answer_if_it_cannot_be_done(self) -> None:
        with self.Host() as host:
            host.run(
                "import os, resource\n_, most = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
                "resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))\nheld = []\ntry:\n"
                "    while True: held.append(os.open('/dev/null', 0))\nexcept OSError: pass"
            )
            for kind in ("copy", "aside"):
                frame = Host.copy(host, kind)
                self.assertEqual(frame["pid"], 0)
                self.assertIn("rror", frame["reason"])
            for kind, about in (("save", {"seconds": 20, "max_bytes": 1 << 20}), ("load", {"digest": ""})):
                self.assertIn("rror", ask(host, type=kind, path="saved", **about)["reason"])
            host.run("for fd in held: os.close(fd)")
            self.assertGreater(host.copy()["pid"], 0)

    def test_the_host_has_an_answer_if_code_of_the_user_cuts_it_off(self) -> None:
        """A signal handler, while something is saved or copied. A copy that nobody would know of ends."""
        with self.Host() as host:
            host.run(
                "import os, signal, time\nclass Rung(Exception): pass\ndef ring(*a): raise Rung\nsignal.signal(signal.SIGALRM, ring)\n"
                "class Slow:\n    def __reduce__(self, pid=os.getpid()): os.kill(pid, signal.SIGALRM); time.sleep(30)\nslow = Slow()"
            )
            reason = ask(host, type="save", path="saved", seconds=20, max_bytes=1 << 20)["reason"]
            self.assertEqual(reason, "an error came in between: Rung")
            host.run(
                "from talaria_runner.checkpoints import copies; hear = copies._hear\n"
                "def cut_off(ready): copies._hear = hear; raise error\n"
            )
            for error, why in (("Rung", "an error came in between: Rung"), ("TimeoutError", "the process could not be copied: TimeoutError")):
                host.run(f"copies._hear, error = cut_off, {error}")
                before = children()
                frame = Host.copy(host)
                self.assertEqual((frame["pid"], frame["reason"]), (0, why))
                self.assertEqual([os.WTERMSIG(os.waitpid(pid, 0)[1]) for pid in children() - before], [signal.SIGKILL])
            self.assertGreater(host.copy()["pid"], 0)

    def test_a_cell_comes_before_a_copy(self) -> None:
        with self.Host() as host:
            id = host.start("import time; time.sleep(0.2); n = 1")
            host.send(type="copy", request_id="c2")
            frames = []
            while not {"done"} < {frame["type"] for frame in frames} or not any(
                frame["type"] in ("copied", "later") for frame in frames
            ):
                frames.append(host.next_frame())
            self.assertIn(id, [frame.get("id") for frame in frames if frame["type"] == "done"])
            host.copies += [frame["pid"] for frame in frames if frame["type"] == "copied"]

    def test_background_tasks_go_on_in_a_woken_copy(self) -> None:
        with self.Host() as host:
            host.run("import asyncio\nn = 0\nasync def tick():\n global n\n while True:\n  n += 1; await asyncio.sleep(0.01)\nt = asyncio.create_task(tick()); await asyncio.sleep(0.05)")
            pid = host.copy()["pid"]
            host.wake(pid)
            deadline = time.monotonic() + PATIENCE
            before = int(host.run("n").text)
            while int(host.run("n").text) <= before:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)

    def test_libraries_with_threads(self) -> None:
        with self.Host() as host:
            if host.run("import numpy as np; a = np.ones((300, 300)); (a @ a).sum()").error:
                self.skipTest("there is no numpy")
            made = host.copy()
            self.assertGreater(made["pid"], 0, made)
            host.wake(made["pid"])
            self.assertEqual(host.run("float((a @ a).sum())").text, "27000000.0")


# A cell that changes what variables hold as far as their kinds allow it, and deletes them.
_DAMAGE = """
import collections, gc, io, itertools, os, sys, types

def _damage(value, depth=0):
    mine = getattr(type(value), "__module__", "") == "__main__"
    if isinstance(value, (list, tuple, set, dict, bytearray, collections.deque)):
        for part in [*(value.values() if isinstance(value, dict) else value)][:10]:
            _attempt(lambda: _damage(part, depth + 1), depth < 5)
        _attempt(lambda: value.__setitem__(slice(None), bytes(len(value))), isinstance(value, bytearray))  # views forbid clear
        _attempt(lambda: value.clear())
    elif isinstance(value, types.FunctionType) and value.__module__ == "__main__":
        for cell in value.__closure__ or ():
            cell.cell_contents = None
        value.__defaults__ = None
        vars(value).clear()
        _attempt(lambda: setattr(value, "__code__", (lambda *a: None).__code__))
    elif isinstance(value, type) and value.__module__ == "__main__":
        for name in [*vars(value)]:
            _attempt(lambda: delattr(value, name))
    elif isinstance(value, types.ModuleType) and value not in sys.modules.values():
        vars(value).clear()
    elif mine or isinstance(value, (BaseException, types.SimpleNamespace)):
        _attempt(lambda: vars(value).clear())
    elif isinstance(value, (io.StringIO, io.BytesIO, io.IOBase)):
        value.seek(0, 2)
        value.close()
    elif hasattr(type(value), "__next__"):
        [*itertools.islice(value, 100)]
    elif hasattr(value, "flags") and hasattr(value, "fill"):
        value.fill(0)
    elif hasattr(value, "drop") and hasattr(value, "index"):
        value.drop(value.index, inplace=True)
    elif isinstance(value, types.MappingProxyType):
        gc.get_referents(value)[0].clear()
    elif value is not os.environ:
        _attempt(lambda: value.__setitem__(slice(None), value[:0]))
        _attempt(lambda: value.__setitem__(slice(None), bytes(len(value))))
        for name in ("cancel", "clear", "cache_clear", "close", "get_nowait", "random", "shutdown"):
            if hasattr(type(value), name):
                _attempt(getattr(value, name))

def _attempt(change, wanted=True):
    try:
        wanted and change()
    except (Exception, GeneratorExit):
        pass

for _name in [name for name in globals() if name.partition("_")[0] in _names]:
    _attempt(lambda: _damage(globals()[_name]))
    del globals()[_name]
"""
# A cell that says what is true.
_CHECK = """
import json
def _true(check):
    try:
        return bool(eval(check, globals()))
    except BaseException as e:
        return repr(e)
print("CHECKED", json.dumps([_true(check) for check in _checks]))
"""


class StepsAside(Copies):
    """The same with interpreters that have stepped aside as the copies."""

    Host = AsideHost
    test_many_copies_are_forked_beside_threads_that_use_memory = None
    test_one_fork_makes_a_copy_where_the_processor_allows_it = None
    test_threads_that_have_been_told_to_end_are_waited_for = None
    test_files_keep_their_positions_and_connections_end = None  # the connections of the interpreter that goes on have ended, too

    def test_it_is_the_same_process_with_the_threads_that_it_had(self) -> None:
        with Host() as host:
            host.run("import os; n = 0; pid = os.getpid()")
            host.run("class Shown:\n def __repr__(self): return 'shown'\nShown()")  # which starts the deadline's thread
            threads = "len(os.listdir('/proc/self/task'))"
            before = host.run(threads).text
            for i in range(1, 11):
                host.run(f"n = {i}")
                other = host.copy()["pid"]
                aside = host.copy("aside")
                self.assertEqual((aside["pid"], aside["reason"]), (host.live, ""))
                host.wake(other, spares=True)
                for _ in range(3):
                    self.assertEqual(host.run("os.getpid() != pid, n").text, f"(True, {i})")
                host.wake(aside["pid"])
                self.assertEqual(host.run("os.getpid() == pid, n").text, f"(True, {i})")
                self.assertEqual(host.run("Shown()").text, "shown")
            deadline = time.monotonic() + PATIENCE
            while host.run(threads).text != before:  # those that it had before end as soon as something comes
                self.assertLess(time.monotonic(), deadline)
            id = host.start("while True: pass")
            host.interrupt(id)
            self.assertTrue(host.finish(id).interrupted)

    def test_connections_end_and_timers_stop_while_it_waits(self) -> None:
        with Host() as host:
            host.run("import os, signal, socket, time; rang = []; signal.signal(signal.SIGALRM, lambda *a: rang.append(1))")
            host.run("f = open('f', 'w+'); f.write('0123456789'); f.flush(); f.seek(2); a, b = socket.socketpair()")
            other = host.copy()["pid"]
            host.run("signal.setitimer(signal.ITIMER_REAL, 0.1)")
            before = sockets(host.live)
            aside = host.copy("aside")
            self.assertEqual(named(aside), ["a", "b"])
            self.assertEqual(sockets(aside["pid"]), before - 2)
            host.wake(other, spares=True)
            host.run("f.seek(9); time.sleep(0.3)")
            host.wake(aside["pid"])
            self.assertEqual(host.run("f.read()").text, "'23456789'")
            self.assertEqual(host.run("while not rang: time.sleep(0.01)  # pause() may begin after the signal\nrang").text, "[1]")

    def test_a_timer_that_ended_just_before_it_waits_rings_afterwards(self) -> None:
        with Host() as host:
            host.run("import signal; rang = []; signal.signal(signal.SIGALRM, lambda *a: rang.append(1))")
            other = host.copy()["pid"]
            host.run("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); signal.raise_signal(signal.SIGALRM)")
            aside = host.copy("aside")["pid"]
            host.wake(other, spares=True)
            host.wake(aside)
            self.assertEqual(host.run("_ = signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])\nrang").text, "[1]")

    def test_an_interpreter_with_threads_goes_on(self) -> None:
        with Host() as host:
            host.run("import threading, time\nt = threading.Thread(target=time.sleep, args=(60,), daemon=True); t.start()")
            for _ in range(2):
                aside = host.copy("aside")
                self.assertEqual((aside["pid"], aside["reason"]), (0, "it uses a GPU, or has threads"))
                self.assertEqual(host.run("t.is_alive()").text, "True")
            id = host.start("while True: pass")
            host.interrupt(id)
            self.assertTrue(host.finish(id).interrupted)

    def test_nobody_steps_aside_too_late(self) -> None:
        with Host() as host:
            host.send(type="aside", request_id="c1", until=time.monotonic() - 1)
            self.assertEqual(host.next_frame()["type"], "later")
            self.assertEqual(host.run("1 + 1").text, "2")

    def test_what_the_host_says_next_is_for_the_next_interpreter(self) -> None:
        with Host() as host:
            host.run("n = 1")
            other = host.copy()["pid"]
            host.run("n = 2")
            for turn in range(20):
                frame = host.copy("aside")
                aside = frame["pid"]
                self.assertEqual(aside, host.live, frame)
                id = host.start(f"n, {turn}")  # before there is one
                host.wake(other, spares=True)
                self.assertEqual(host.finish(id).text, f"({1 + turn % 2}, {turn})")
                other = aside


class Kinds(unittest.TestCase):
    maxDiff = None

    def test_come_back_as_the_table_says(self) -> None:
        with Host() as host:
            code = f"import importlib.util, os; [n for n in {[*{row.needs.split(' ')[-1] for row in ROWS if row.needs}]} if importlib.util.find_spec(n)]"
            installed = ast.literal_eval(host.run(code).text)
            rows = []
            for row in ROWS:
                absent, _, library = row.needs.rpartition(" ")
                if not library or (library in installed) != bool(absent):
                    self.run_cell(host, row, row.code)
                    rows.append(row)
            self.assertGreater(len(rows), 100)
            names = host.run("{n[1:-6]: v for n, v in globals().items() if n[0] == 'v' and n.endswith('_named')}").text
            names = ast.literal_eval(names)
            made = host.copy()
            self.assertGreater(made["pid"], 0, made)
            losses = {loss["name"]: loss["reason"] for loss in made["losses"]}
            for row in rows:
                self.run_cell(host, row, row.damage)
            host.run(f"_names = {[numbered(row, 'V') for row in rows]}\n{_DAMAGE}")
            left = host.run("[n for n in globals() if n.partition('_')[0] in _names]").text
            self.assertEqual(left, "[]")
            host.wake(made["pid"])
            checks = [numbered(row, row.live or (row.check if row.outcome == "same" else "True")) for row in rows]
            checked = host.run(f"_checks = {checks!r}\n{_CHECK}").stdout
            true = json.loads(checked.rpartition("CHECKED")[2])
        for row, check, came in zip(rows, checks, true):
            with self.subTest(row.kind):
                number = numbered(row, "V")
                own = {name: why for name, why in losses.items() if name.partition("_")[0] == number}
                named = names.get(number[1:])
                if named in losses:
                    own[named] = losses[named]
                self.assertEqual({*own.values()}, {row.back} - {"same"}, named)
                self.assertIs(came, True, check)
                self.assertTrue(check != "True" or row.back != "same", "a row that comes back has a check")

    def run_cell(self, host: Host, row: Row, code: str) -> None:
        outcome = host.run(numbered(row, code))
        self.assertEqual(outcome.status, "ok", f"{row.kind}: {outcome.traceback}")


class States(unittest.TestCase):
    def test_variables_are_loaded_in_another_interpreter(self) -> None:
        with Runner() as host, Runner() as other:
            host.run("a = [1]; b = {'a': a}; g = (i for i in a)\ndef f(): return len(a)\nimport os; os.environ['V'] = '1'")
            path = f"{host.directory.name}/saved"
            saved = ask(host, type="save", path=path, seconds=20, max_bytes=1 << 20)
            self.assertEqual((saved["reason"], saved["count"]), ("", 4), saved)
            self.assertEqual([(one["name"], one["type"]) for one in saved["lost"]], [("g", "generator")])
            self.assertEqual(host.run("a.append(2); next(g)").text, "1")
            loaded = ask(other, type="load", path=path, digest=saved["digest"])
            self.assertEqual((loaded["reason"], loaded["count"]), ("", 4), loaded)
            self.assertEqual(other.run("b['a'].append(5); a, f(), os.environ['V']").text, "([1, 5], 2, '1')")
            self.assertIn("it was a generator", other.run("g").error["hint"])
            self.assertEqual(other.run("x = 3; x").text, "3")

    def test_an_interpreter_that_has_run_no_cell_saves_none_and_forks_for_none(self) -> None:
        with Runner() as host, Runner() as other, Runner() as third:
            path = f"{host.directory.name}/saved"
            saved = ask(host, type="save", path=path, seconds=20, max_bytes=1 << 20)
            self.assertEqual((saved["reason"], saved["count"], saved["lost"]), ("", 0, []), saved)
            self.assertEqual(saved["bytes"], os.path.getsize(path))
            self.assertEqual(os.listdir(host.directory.name).count("saved.part"), 0)
            forked = "import resource; resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss"
            self.assertEqual(host.run(forked).text, "0")
            loaded = ask(other, type="load", path=path, digest=saved["digest"])
            self.assertEqual((loaded["reason"], loaded["count"], loaded["lost"]), ("", 0, []), loaded)
            host.run("x = 3")
            saved = ask(host, type="save", path=path, seconds=20, max_bytes=1 << 20)
            self.assertGreater(int(host.run(forked).text), 0)
            ask(third, type="load", path=path, digest=saved["digest"])
            saved = ask(third, type="save", path=path, seconds=20, max_bytes=1 << 20)  # it has run no cell either
            loaded = ask(other, type="load", path=path, digest=saved["digest"])
            self.assertEqual(other.run("x").text, "3")

    def test_a_file_that_is_not_the_one_is_refused(self) -> None:
        with Runner() as host:
            host.run("a = 1")
            path = f"{host.directory.name}/saved"
            ask(host, type="save", path=path, seconds=20, max_bytes=1 << 20)
            loaded = ask(host, type="load", path=path, digest="0" * 64)
            self.assertEqual(loaded["count"], 0)
            self.assertNotEqual(loaded["reason"], "")
            self.assertIn("No such file", ask(host, type="load", path=path + "x", digest="0" * 64)["reason"])
            refused = ask(host, type="save", path="/nowhere/x", seconds=20, max_bytes=1 << 20)
            self.assertIn("could not be written", refused["reason"])


if __name__ == "__main__":
    unittest.main()
