"""Variables that are saved in one process and loaded in another."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest

from talaria_runner.errors import hints
from talaria_runner.saves.report import Restored
from tests.case import RunnerCase
from tests.host import PATIENCE, PYTHON, RUNNER, Runner
from tests.saved_values import ROWS, SECTIONS, numbered

_DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(RUNNER)), "docs", "saved-variables.md")
_UPDATE = "UPDATE_GOLDEN" in os.environ  # writes docs/saved-variables.md

# A process with a namespace like that of cells, in which a script runs as our own code.
_BOOT = """
import builtins, importlib.util, json, os, sys, time
sys.path.insert(0, {lib!r})
main = sys.modules["__main__"] = type(sys)("__main__")
main.__builtins__ = builtins
os.chdir({folder!r})
from talaria_runner.saves import settings
settings.remember()
from talaria_runner.saves.loading import load
from talaria_runner.saves.saving import save
from talaria_runner.saves.archive import Unusable
from tests.saved_values import ROWS, numbered
names = vars(main)
stdout = os.dup(1)

def cell(code):
    cell.count += 1
    exec(compile(code, f"<cell {{cell.count}}>", "exec", dont_inherit=True), names)
cell.count = 0

def saved(path="variables", seconds=30, most=1 << 30, **how):
    return save(names, path, deadline=time.monotonic() + seconds, max_bytes=most, **how)

def tell(value):
    with os.fdopen(stdout, "w") as out:
        json.dump(value, out)
"""


class Saves(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def python(self, script: str) -> object:
        """Runs the script in a process of its own and returns what it tells."""
        boot = _BOOT.format(lib=RUNNER, folder=self.folder.name)
        process = subprocess.run(
            [PYTHON, "-I", "-c", boot + textwrap.dedent(script)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=3 * PATIENCE,
        )  # fmt: skip
        self.assertEqual(process.returncode, 0, process.stderr.decode())
        return json.loads(process.stdout)

    def round_trip(self, code: str, *checks: str, how: str = "") -> tuple[list, list]:
        """Saves the variables that code makes, evaluates the checks in another process, and returns what is gone."""
        lost = self.python(f"cell({textwrap.dedent(code)!r})\nr = saved({how})\ntell(r.not_saved)")
        result = self.python(
            f"r = load('variables', names)\n"
            f"tell([[repr(eval(check, names)) for check in {checks!r}], r.not_restored])"
        )
        self.assertEqual(result[1], lost)
        return result[0], lost


class Values(Saves):
    def test_come_back_as_the_table_says(self) -> None:
        made = self.python("""
            made, before, path = [], set(names), os.path.abspath("variables")
            for i, row in enumerate(ROWS):
                absent, _, library = row.needs.rpartition(" ")
                if not row.needs or (importlib.util.find_spec(library) is None) == bool(absent):
                    cell(numbered(row, row.code))
                    made.append(i)
            expected = sorted(set(names) - before - {"__warningregistry__"})
            r = saved(path)
            tell([made, expected, r.saved, r.not_saved])
            """)
        rows, expected, saved, not_saved = made
        lost = {name: reason for name, _, reason in not_saved}
        self.assertEqual(sorted([*saved, *(name for name in lost if name.isidentifier())]), expected)
        restored, not_restored, checks = self.python(f"""
            r = load("variables", names)
            checks = {{}}
            for i in {rows!r}:
                if ROWS[i].outcome != "gone":
                    try:
                        checks[i] = bool(eval(numbered(ROWS[i], ROWS[i].check), names))
                    except Exception as e:
                        checks[i] = repr(e)
            tell([r.restored, r.not_restored, checks])
            """)
        self.assertEqual((restored, not_restored), (saved, not_saved))
        self.assertGreater(len(rows), 80)
        for i in rows:
            row = ROWS[i]
            with self.subTest(row.kind):
                if row.outcome == "gone":
                    self.assertEqual(lost.get(f"v{i}"), numbered(row, row.check))
                else:
                    own = {name: why for name, why in lost.items() if name.partition("_")[0] == f"v{i}"}
                    self.assertTrue(not own or row.outcome != "same", own)
                    self.assertIs(checks[str(i)], True, row.check)

    def test_are_in_the_documentation(self) -> None:
        text = _document()
        if _UPDATE:
            with open(_DOCUMENT, "w", encoding="utf-8") as file:
                file.write(text)
        with open(_DOCUMENT, encoding="utf-8") as file:
            self.assertEqual(file.read(), text, "write it again: UPDATE_GOLDEN=1 python3 -m unittest tests.test_saves")


class Variables(Saves):
    def test_that_are_the_engines_or_skipped_are_left_out(self) -> None:
        saved = self.python("""
            cell("_x = __y = 1; In = Out = 'mine'; _3 = _i3 = _ = _oh = 2; z = 3; __annotations__ = {}")
            names.update(exit=print, get_ipython=len)
            tell(saved(skip=["z"]).saved)
            """)
        self.assertEqual(sorted(saved), ["In", "Out", "_", "_3", "__y", "_i3", "_oh", "_x"])

    def test_keep_their_order(self) -> None:
        checks, lost = self.round_trip("b = 'x' * 1000; import os; a = 1\ndef f(): pass", "[*map(str, filter(lambda n: n[0] != '_', globals()))]")
        self.assertEqual((checks, lost), (["['b', 'os', 'a', 'f']"], []))

    def test_that_remove_something_at_their_end_leave_it(self) -> None:
        """A copy is loaded for a check: its __del__ would remove what the variable still needs."""
        checks, lost = self.round_trip(
            """
            import atexit, os, sys
            code = "import os\\nclass Folder:\\n    def __init__(self, path): self.path = path; os.mkdir(path)\\n"
            code += "    def __del__(self): os.rmdir(self.path)"
            open("local.py", "w").write(code)
            sys.path.insert(0, os.getcwd())
            import local
            exec(code)
            class Inner(Folder): pass
            class Outer(local.Folder): pass
            folders = [Folder("a"), local.Folder("b"), Inner("c"), Outer("d")]
            atexit.register(os._exit, 0)  # a kernel is killed, so that no __del__ runs at its end
            """,
            "[os.path.exists(one.path) for one in folders]", "folders.clear() or [*{*'abcd'} & {*os.listdir()}]",
        )  # fmt: skip
        self.assertEqual((checks, lost), (["[True, True, True, True]", "[]"], []))

    def test_may_be_types_of_annotations(self) -> None:
        """In the syntax of Python 3.12 too, and a second time. Pickle would look for these by their names."""
        code = """
            import sys, typing
            UserId = typing.NewType("UserId", int)
            def user(id: UserId) -> UserId: return UserId(id)
            new = "type Pair[T] = tuple[T, UserId]\\nclass Box[T: int]:\\n    def __init__(self, x: T): self.x = x\\ndef first[T](x: T) -> T: return x"
            exec(new if sys.version_info >= (3, 12) else "first = lambda x: x\\nclass Box:\\n    def __init__(self, x): self.x = x\\nPair = tuple")
            box = Box(first(3))
        """
        checks = [
            "user(5), typing.get_type_hints(user)['id'] is UserId, UserId.__supertype__", "type(box) is Box, box.x, first(4)",
            "Pair is tuple or (Pair[int].__origin__ is Pair, Pair.__value__.__args__[1] is UserId) == (True, True)",
        ]
        expected = ["(5, True, <class 'int'>)", "(True, 3, 4)", "True"]
        self.assertEqual(self.round_trip(code, *checks), (expected, []))
        again = self.python("load('variables', names)\nr = saved()\nload('variables', names)\n"
                            f"tell([[repr(eval(check, names)) for check in {checks!r}], r.not_saved])")
        self.assertEqual(again, [expected, []])

    def test_that_fail_take_no_others_with_them(self) -> None:
        """Even if they hang, crash, end the process, change other variables, print, or share objects with others."""
        checks, lost = self.round_trip(
            """
            import os, sys, time
            shared = [1]
            class Bad:
                def __init__(self, how): self.how, self.shared = how, shared
                def __reduce__(self): return self.how()
            def hang():
                while True:
                    try: time.sleep(3600)
                    except BaseException: pass
            exit_quietly = Bad(lambda: os._exit(0))
            hangs = Bad(hang)
            crashes = Bad(lambda: os.kill(os.getpid(), 11))
            killed = Bad(lambda: os.kill(os.getpid(), 9))
            leaves = Bad(lambda: sys.exit(3))
            closes = Bad(lambda: os.closerange(3, 100) or (int, ()))
            def meddle(): import os; os.write(1, b"noise"); print("noise"); globals().update(later=5, os=0); return str, ()
            meddles = Bad(meddle)
            wrong = Bad(lambda: 5)
            unloadable = Bad(lambda: (int, ("x",)))
            class State:
                def __getstate__(self): return {"a": self, "l": shared}
                def __setstate__(self, s): raise ValueError("no")
            state = State()
            later = [shared, {}]
            """,
            "later[0] is shared", "later", "meddles", how="seconds=10",
        )  # fmt: skip
        self.assertEqual(checks, ["True", "[[1], {}]", "''"])
        reasons = {name: reason for name, _, reason in lost}
        self.assertIn("the process that saved it", reasons.pop("closes"))
        self.assertEqual(
            reasons,
            {
                "exit_quietly": "its code ended the process that saved it, with status 0",
                "hangs": "saving it took too long",
                "crashes": "the process that saved it crashed with signal 11",
                "killed": "the process that saved it was killed, perhaps for lack of memory",
                "leaves": "SystemExit: 3",
                "wrong": f"PicklingError: {_wrong_reduction()}",
                "unloadable": "it was saved, but could not be loaded: ValueError: invalid literal for int() with base 10: 'x'",
                "state": "it was saved, but could not be loaded: ValueError: no",
            },
        )


    def test_free_their_memory_after_loading_when_they_are_deleted(self) -> None:
        self.python("cell('class C: pass\\na = [C()]; b = [a, C()]')\nsaved()\ntell(0)")
        left = self.python("""
            import gc, weakref
            gc.disable()
            load("variables", names)
            alive = [weakref.ref(names[name][-1]) for name in "ab"]
            del names["a"], names["b"]
            tell([one() is None for one in alive])
            """)
        self.assertEqual(left, [True, True])

    def test_that_cannot_be_loaded_are_found_together(self) -> None:
        """However many share objects, each is saved a few times, and what only they have in common with others is kept."""
        checks, lost = self.round_trip(
            """
            import os, pickle
            inner = [1]
            class Bad:
                def __getstate__(self): open("calls", "a").write("x"); return inner
                def __setstate__(self, state): raise ValueError("no")
            class Apart:
                def __init__(self, text): self.text = text
                def __reduce_ex__(self, protocol): return bytes, (pickle.PickleBuffer(self.text),)
            first = [Bad(), inner, hidden := {"a": 1}, Apart(b"first")]
            for i in range(200): globals()[f"bad{i}"] = [Apart(b"before"), Bad(), Apart(b"after")]
            second, third = [hidden, Apart(b"second")], [inner, hidden]
            """,
            "second, third[0] is inner, third[1] is hidden is second[0]", "os.path.getsize('calls') <= 5 * 201",
        )  # fmt: skip
        self.assertEqual(checks, ["([{'a': 1}, b'second'], True, True)", "True"])
        why = "it was saved, but could not be loaded: ValueError: no"
        self.assertEqual({name: reason for name, _, reason in lost}, {name: why for name in ["first", *(f"bad{i}" for i in range(200))]})


class Limits(Saves):
    @unittest.skipUnless(importlib.util.find_spec("numpy"), "this interpreter has no numpy")
    def test_that_check_their_arrays_are_kept(self) -> None:
        """Whether they are small, or so large that the check of what was written leaves arrays empty at first."""
        self.python("""
            cell("import numpy as np")
            cell("class Weights:\\n    def __init__(self, w):\\n        assert (w == 3).all()\\n        self.w = w\\n    def __reduce__(self): return Weights, (self.w,)")
            cell("small = Weights(np.full(10, 3.0)); large = Weights(np.full(9 << 20, 3.0))")
            tell(saved().not_saved == [])
        """)
        told = self.python("""
            load("variables", names)
            tell([names["small"].w.tolist(), names["large"].w.sum()])
        """)
        self.assertEqual(told, [[3.0] * 10, 3.0 * (9 << 20)])

    def test_of_size_leave_out_the_largest(self) -> None:
        code = "small, large, smaller = b'x' * 1000, b'x' * 2_000_000, [b'x']"
        checks, lost = self.round_trip(code, "len(small)", how="most=1 << 20")
        self.assertEqual(checks, ["1000"])
        self.assertEqual(lost, [["large", "bytes", "the saved variables would take more than the limit of 1.0 MiB"]])

    def test_of_time_name_what_was_left(self) -> None:
        lost = self.python("cell('a, b = 1, [2]')\ntell(saved(seconds=-1).not_saved)")
        self.assertEqual(lost, [[name, kind, "there was no time left to save it"] for name, kind in (("a", "int"), ("b", "list"))])
        self.assertEqual(self.python("tell(load('variables', names).not_restored)"), lost)

    def test_of_the_disk_leave_out_what_has_no_room(self) -> None:
        full = "there was no room left for it in the workspace: File too large"
        lost = self.python("""
            import resource
            cell("a = bytes(1 << 18); b = [1]; c = [b, bytes(1 << 18)]; d = 2; " + "; ".join(f"e{i} = {i}" for i in range(200)))
            def limited(most):
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            limited(1 << 16)
            tell(saved().not_saved)
            """)
        self.assertEqual(sorted(lost), [["a", "bytes", full], ["b", "list", full], ["c", "list", full]])
        restored, not_restored = self.python("r = load('variables', names)\ntell([r.restored, r.not_restored])")
        self.assertEqual((restored, not_restored), (["d", *(f"e{i}" for i in range(200))], lost))

    def test_of_the_disk_leave_room_for_the_index(self) -> None:
        full = "there was no room left for it in the workspace: File too large"
        saved, lost, size = self.python("""
            import resource
            cell("a = bytes(8000); b = bytes(50); c = 'x'")
            resource.setrlimit(resource.RLIMIT_FSIZE, (8300, 8300))
            r = saved()
            tell([r.saved, r.not_saved, r.bytes])
            """)
        self.assertEqual((saved, lost), (["b", "c"], [["a", "bytes", full]]))
        self.assertLessEqual(size, 8300)
        self.assertEqual(self.python("tell(load('variables', names).restored)"), saved)

    def test_of_the_disk_are_told_if_nothing_can_be_written(self) -> None:
        told = self.python("""
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            cell("a = 1")
            try: saved()
            except OSError as e: tell([e.strerror, os.listdir()])
            """)
        self.assertEqual(told, ["File too large", []])

    def test_leave_no_half_of_a_file(self) -> None:
        """The file that was there stays until the new one is complete."""
        self.python("cell('a = 1')\nsaved()\ntell(0)")
        told = self.python("""
            from talaria_runner.saves import saving
            def fail(*a, **k): raise OSError("full")
            saving.replace = fail
            cell("a = 2")
            try: saved()
            except OSError as e: tell([str(e), os.listdir()])
            """)
        self.assertEqual(told, ["full", ["variables"]])
        self.assertEqual(self.python("load('variables', names)\ntell(names['a'])"), 1)

    def test_memory_is_needed_for_one_group_at_a_time(self) -> None:
        """Objects that share nothing are saved apart, so that the largest group decides."""
        groups = self.python("""
            cell("import os\\nf = lambda: g\\ng = lambda: f\\na = [1, 'x', 5.5, (1,), list]\\nb = list(a)\\nc = [b]")
            saved()
            from talaria_runner.saves.archive import Reader
            index = Reader(os.open("variables", os.O_RDONLY)).index
            tell([[name for name, _ in group["names"]] for group in index["groups"] if not group["setting"]])
            """)
        self.assertEqual(sorted(map(sorted, groups)), [["a"], ["b", "c"], ["f"], ["g"], ["os"]])

    def test_memory_that_pickling_a_variable_takes_is_free_for_the_next(self) -> None:
        saved, lost = self.python("""
            import resource
            open("local.py", "w").write("class Image:\\n    def __reduce__(self): return len, (bytes(20 << 20),)")
            sys.path.insert(0, os.getcwd())
            cell("import local\\nfor i in range(9): globals()[f'v{i}'] = local.Image()")
            with open("/proc/self/statm") as statm:
                size = int(statm.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + (100 << 20),) * 2)
            r = saved()
            tell([len(r.saved), r.not_saved])
            """)
        self.assertEqual((saved, lost), (11, []))


class Settings(Saves):
    def test_of_the_interpreter_come_back(self) -> None:
        checks, lost = self.round_trip(
            """
            import os, random, sys
            os.mkdir("inner"); os.chdir("inner")
            open("beside.py", "w").write("x = 5")
            os.environ.update(ADDED="1", LANG="other"); os.environ.pop("PATH")
            sys.path.insert(0, os.getcwd())
            import beside
            state = random.getstate()
            """,
            "os.path.basename(os.getcwd())", "os.environ['ADDED'], os.environ['LANG'], 'PATH' in os.environ",
            "sys.path[0] == os.getcwd()", "beside.x", "random.getstate() == state",
            how="os.path.abspath('../variables')",
        )  # fmt: skip
        self.assertEqual((checks, lost), (["'inner'", "('1', 'other', False)", "True", "5", "True"], []))

    def test_of_loggers_come_back_but_for_handlers_that_are_named(self) -> None:
        checks, lost = self.round_trip(
            """
            import logging, sys
            logging.basicConfig(filename="log", level=11)
            log, handler = logging.getLogger("mine"), logging.StreamHandler(sys.stdout)
            log.addHandler(handler)
            log.addHandler(logging.FileHandler("mine"))
            class Bad:
                def __init__(self, log): self.log = log
                def __setstate__(self, state): raise ValueError("no")
            bad = Bad(log)
            logging.getLogger("json").addHandler(logging.NullHandler())
            """,
            "log.handlers == [handler]", "logging.root.level, logging.root.handlers", "logging.getLogger('json').handlers",
        )  # fmt: skip
        self.assertEqual(checks, ["True", "(11, [])", "[]"])
        why = "without its handlers of type logging.FileHandler, which cannot be saved"
        bad = ["bad", "Bad", "it was saved, but could not be loaded: ValueError: no"]
        self.assertEqual(sorted(lost), [bad, ["logging.getLogger('mine')", "setting", why], ["logging.getLogger()", "setting", why]])

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "this interpreter has no matplotlib")
    def test_of_libraries_come_back(self) -> None:
        checks, lost = self.round_trip(
            """
            import numpy as np
            import matplotlib
            np.random.seed(3); expected = np.random.RandomState(3).random()
            matplotlib.rcParams["lines.linewidth"] = 7
            """,
            "np.random.random() == expected", "matplotlib.rcParams['lines.linewidth']",
        )  # fmt: skip
        self.assertEqual((checks, lost), (["True", "7.0"], []))


class Files(Saves):
    def test_that_are_damaged_are_refused_as_a_whole(self) -> None:
        self.python("cell('a = [1, 2]\\ndef f(): return a\\ng = (i for i in a)')\nsaved()\ntell(0)")
        refused, names = self.python("""
            whole = open("variables", "rb").read()
            damaged = [whole[:n] for n in range(0, len(whole), 64)]
            damaged += [whole[:n] + bytes([whole[n] ^ 1 << n % 8]) + whole[n + 1:] for n in range(0, len(whole), 7)]
            damaged += [whole + b"x", b"\\x80\\x05N." * 100, b"PK" + bytes(500), b"Talaria variables\\n" + bytes(100)]
            refused = []
            for data in damaged:
                with open("damaged", "wb") as file:
                    file.write(data)
                try:
                    load("damaged", names)
                    refused.append("")
                except Unusable as e:
                    refused.append(str(e))
            tell([refused, [name for name in names if name[0] != "_"]])
            """)
        self.assertTrue(all(refused), refused)
        self.assertEqual(names, [])
        for words in ("cut off", "damaged: its digest", "not a file of saved variables", "in version"):
            self.assertTrue(any(words in why for why in refused), words)

    def test_of_a_newer_version_are_refused(self) -> None:
        self.python("cell('a = 1')\nsaved()\ntell(0)")
        with open(os.path.join(self.folder.name, "variables"), "r+b") as file:
            file.seek(18)
            file.write((2).to_bytes(2, "big"))
        why = self.python("try: load('variables', names)\nexcept Unusable as e: tell(str(e))")
        self.assertIn("saved in version 2 of the format, and this Talaria reads version 1", why)

    def test_have_the_digest_that_is_reported(self) -> None:
        size, digest = self.python("cell('a = 1')\nr = saved()\ntell([r.bytes, r.digest])")
        with open(os.path.join(self.folder.name, "variables"), "rb") as file:
            data = file.read()
        self.assertEqual((size, digest), (len(data), hashlib.sha256(data).hexdigest()))
        self.assertEqual(self.python(f"tell(load('variables', names, digest={digest!r}).restored)"), ["a"])
        why = self.python("try: load('variables', names, digest='0' * 64)\nexcept Unusable as e: tell(str(e))")
        self.assertIn("not the one that was written", why)

    def test_whose_content_is_wrong_load_the_rest(self) -> None:
        """A file that is whole, but whose groups or references are not what this environment has."""
        self.python("""
            open("local.py", "w").write("class C: pass")
            sys.path.insert(0, os.getcwd())
            cell("import local; a = local.C(); shared = [1]; b = [shared, 3]; c = [shared, local]; d = 4")
            saved()
            os.remove("local.py")
            tell(0)
            """)
        restored, lost = self.python("r = load('variables', names)\ntell([r.restored, r.not_restored])")
        self.assertEqual(restored, ["shared", "b", "d"])
        why = "ModuleNotFoundError: No module named 'local'"
        self.assertEqual(sorted(lost), [["a", "local.C", why], ["c", "list", why], ["local", "module", why]])

    def test_of_another_python_keep_their_data(self) -> None:
        told = self.python("""
            cell("a = [1]\\ndef f(): return a")
            from talaria_runner.saves import pickling
            pickling.MAGIC_NUMBER, pickling._PYTHON = b"none", "3.1"
            from talaria_runner.saves import rebuild
            rebuild.MAGIC_NUMBER = b"none"
            saved()
            rebuild.MAGIC_NUMBER = b"here"
            names.clear()
            r = load("variables", names)
            tell([r.restored, r.not_restored])
            """)
        here = self.python("tell('{}.{}'.format(*sys.version_info))")
        why = f"ValueError: its code was compiled by Python 3.1, and this is Python {here}"
        self.assertEqual(told, [["a"], [["f", "function", why]]])


class Libraries(Saves):
    def test_cloudpickle_saves_what_pickle_does_not(self) -> None:
        if not self.python("tell(importlib.util.find_spec('cloudpickle') is not None)"):
            self.skipTest("this interpreter has no cloudpickle")
        checks, lost = self.round_trip("keys = {'a': 1}.keys(); import weakref; w = weakref.WeakSet()", "list(keys)", "len(w)")
        self.assertEqual((checks, lost), (["['a']", "0"], []))

    def test_dill_saves_what_pickle_does_not(self) -> None:
        """A stand-in, since few environments have it."""
        with open(os.path.join(self.folder.name, "dill.py"), "w") as file:
            file.write(
                "class Pickler: dispatch = {type({}.keys()): None}\n"
                "def dumps(value): return ' '.join(value).encode()\n"
                "def loads(data): return dict.fromkeys(data.decode().split()).keys()\n"
            )
        checks, lost = self.round_trip("import os, sys; sys.path.append(os.getcwd()); keys = {'a': 1}.keys()", "list(keys)")
        self.assertEqual((checks, lost), (["['a']"], []))


class Sessions(RunnerCase):
    """In a runner, with its engine, threads and streams."""

    def test_are_saved_and_loaded(self) -> None:
        path = os.path.join(self.runner.directory.name, "variables")
        self.run_cell("import sys; x = [1]; y = x; out = sys.stdout; gen = (i for i in x)\ndef f(): return x")
        for name in ("pickle", "functools", "json", "hashlib", "re", "select", "copyreg"):  # not ours to import
            with open(os.path.join(self.runner.directory.name, f"{name}.py"), "w") as file:
                file.write("raise RuntimeError('of the workspace')")
        saving = (
            "import time; from talaria_runner.saves.saving import save\n"
            f"r = save(globals(), {path!r}, deadline=time.monotonic() + 30, max_bytes=1 << 20)"
        )
        text = self.run_cell(f"{saving}; print(r.saved, r.not_saved)").stdout
        names = "['sys', 'x', 'y', 'out', 'f', 'time', 'save']"
        lost = "[('gen', 'generator', 'a generator cannot be saved: its function has not finished')]"
        self.assertEqual(text, f"{names} {lost}\n")
        with Runner() as other:
            loading = f"from talaria_runner.saves.loading import load; load({path!r}, globals()).restored"
            self.assertEqual(other.run(loading).text, names)
            self.assertEqual(other.run("f() is x and y is x and out is sys.stdout").text, "True")


    def test_keep_variables_whose_names_the_engine_uses_too(self) -> None:
        """What the engine itself keeps under such names is left out."""
        with Runner() as host, Runner() as other:
            path = os.path.join(host.directory.name, "variables")
            for code in ("1 + 1", "'a'", "!exit 3", "get_ipython().run_cell('5 + 5')", "%pwd", "_, Out[2]"):
                host.run(code)
            saving = (
                "import time; from talaria_runner.saves.saving import save\n"
                f"r = save(globals(), {path!r}, deadline=time.monotonic() + 30, max_bytes=1 << 20)\n"
            )
            self.assertEqual(host.run(f"{saving}r.saved, r.not_saved").text, "(['_exit_code', 'time', 'save'], [])")
            host.run("del time, save, r; _exit_code = In = [4]; _ = [1]; __ = _1 = (_, 2); _i = _i1 = _oh = 3\nfor ___ in 'ab': pass")
            names = "['_exit_code', '_oh', 'In', '_', '__', '_1', '_i', '_i1', '___', 'time', 'save']"
            self.assertEqual(set(ast.literal_eval(host.run(f"{saving}r.saved").text)), set(ast.literal_eval(names)))
            loading = f"from talaria_runner.saves.loading import load; load({path!r}, globals()).not_restored"
            self.assertEqual(other.run(loading).text, "[]")
            self.assertEqual(other.run("In, _, __[0] is _, _1 is __, _i, ___").text, "([4], [1], True, True, 3, 'b')")


    def test_keep_what_belongs_to_the_kernel(self) -> None:
        """It is that of the kernel where they are loaded."""
        with Runner() as host, Runner() as other:
            path = os.path.join(host.directory.name, "variables")
            host.run("from IPython.display import display as show, clear_output, update_display\nfrom getpass import getpass\nimport sys")
            host.run("shell, handle = get_ipython(), show('a', display_id='x'); kept = [print, sys.stdout, shell.run_line_magic]")
            saving = (
                "import time; from talaria_runner.saves.saving import save\n"
                f"save(globals(), {path!r}, deadline=time.monotonic() + 30, max_bytes=1 << 20).not_saved"
            )
            self.assertEqual(host.run(saving).text, "[]")
            loading = f"from talaria_runner.saves.loading import load; load({path!r}, globals()).not_restored"
            self.assertEqual(other.run(loading).text, "[]")
            outcome = other.run("clear_output(); show('b', display_id='x'); handle.update('c'); update_display('d', display_id='x')")
            self.assertEqual(outcome.order, ["clear", "display", "display", "display", "done"], outcome.traceback)
            self.assertEqual([data["text/plain"] for data in outcome.displays], ["'b'", "'c'", "'d'"])
            self.assertEqual(other.run("import getpass as g; shell is get_ipython(), getpass is g.getpass, kept[1] is sys.stdout").text, "(True, True, True)")


class Gone(unittest.TestCase):
    """Variables that could not be saved are explained where they are used."""

    def test_by_what_they_were(self) -> None:
        gone = Restored([], [("x", "generator", "why"), ("y", "io.TextIOWrapper", "open")], "").gone()
        self.assertEqual(gone["y"], "it was an io.TextIOWrapper, which could not be saved when the session hibernated (open)")
        hint = self.hint("x", vars(sys.modules["__main__"]), gone)
        text = f"{gone['x']}; rerun the cell that created it"
        self.assertEqual((hint.text, hint.inline), (text, f": {text}"))

    def test_and_only_if_a_cell_looked_for_them(self) -> None:
        gone = {"x": "it was"}
        self.assertIsNone(self.hint("x", {}, gone))
        self.assertIsNone(self.hint("z", vars(sys.modules["__main__"]), gone))

    def hint(self, name: str, names: dict[str, object], gone: dict[str, str]) -> hints.Hint | None:
        try:
            eval(name, names)
        except NameError as e:
            return hints.find(e, str(e), gone=gone)
        self.fail("there is a variable of that name")


def _wrong_reduction() -> str:
    """What this Python says of a __reduce__ that returns a number."""
    class Wrong:
        def __reduce__(self) -> int:
            return 5

    try:
        pickle.dumps(Wrong())
    except pickle.PicklingError as e:
        return str(e)
    raise AssertionError("it was pickled")


def _document() -> str:
    lines = [
        "# What comes back",
        "",
        "A session's variables come back in two ways. The tables below say what becomes of each kind of value:",
        "",
        "- After waking: the variables were saved when the session hibernated, and another interpreter loads them. The same happens in a",
        "  [fork](checkpoints.md#forks) of the session.",
        "- After going back to a [checkpoint](checkpoints.md) of level `live`: a copy of the interpreter, made with the checkpoint, replaces",
        "  the current one.",
        "",
        "`not_saved` names every value that is gone after waking, or not the same after going back, with the reason in the table. Files that",
        "cells have open are in the workspace, unless a row says otherwise.",
        "",
        "`kernel/runner/tests/saved_values.py` contains an example of each row. The tests save it and load it in another process, change it",
        "and go back, and generate this page.",
    ]
    for title, rows in SECTIONS.items():
        lines += ["", f"## {title}", "", "| value | after waking | after going back |", "|---|---|---|"]
        for row in rows:
            woken = f"gone: {row.check}" if row.outcome == "gone" else row.outcome
            lines.append(f"| {row.kind} | {_words(woken)} | {_words(row.back)} |")
    return "\n".join(lines) + "\n"


def _words(outcome: str) -> str:
    return "the same" if outcome == "same" else outcome
