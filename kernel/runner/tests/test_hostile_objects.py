"""Objects and cells that raise, block, print and lie wherever the runner touches them, at random. The runner
survives them all, answers the next cell, and shows nobody a line of its own code.

SEED in the environment chooses the cells, "random" chooses new ones each time; CELLS says how many there are.
"""

from __future__ import annotations

import os
import random
import unittest

from tests.host import Outcome, Runner

SEED = int(os.environ.get("SEED", "1").replace("random", str(random.SystemRandom().randrange(1 << 32))))
CELLS = int(os.environ.get("CELLS", "300"))
LONG = 1.0  # s until a cell is interrupted
INTERRUPTS = 5
FRESH = 60  # cells after which a fresh runner takes over

# What a method of a hostile object does.
_DEEDS = (
    "raise ValueError('{n}')",
    "raise KeyboardInterrupt",
    "raise SystemExit(3)",
    "raise BaseException('base')",
    "raise GeneratorExit",
    "raise StopIteration",
    "raise RecursionError('enough')",
    "raise MemoryError",
    "raise Liar('lies')",
    "print('noise {n}')",
    "print('noise {n}'); raise OSError(2, 'gone', 'file')",
    "return None",
    "return 5",
    "return -1",
    "return 10**30",
    "return 'x' * 1000",
    "return b'bytes'",
    "return ''",
    "return '\\ud800 \\x00 \\x1b[31m'",
    "return Text('sub')",
    "return self",
    "return type(self)",
    "return [self]",
    "return {'text/plain': self, 5: 6, 'text/html': ['a', 1], 'application/json': float('nan')}",
    "return ({'text/plain': 5}, {'text/plain': {1: self}})",
    "return iter([self] * 3)",
    "return (x for x in [1, self, 1/0])",
    "return lambda *a, **k: self",
    "return Hostile{other}()",
    "return object()",
    "return self.__class__()",
    "return getattr(self, 'nothing')",
    "return repr(self)",
    "return str(self)",
    "import sys; sys.stdout.write('y'); return 'shown'",
    "display(1); return 'displayed'",
    "import sys; sys.stderr = None; return 'z'",
    "return __import__('time').time()",
    "globals().clear()",
)

_METHODS = (
    "__repr__(self)", "__str__(self)", "__len__(self)", "__iter__(self)", "__hash__(self)", "__bool__(self)",
    "__eq__(self, other)", "__lt__(self, other)", "__getitem__(self, i)", "__contains__(self, i)", "__call__(self, *a)",
    "__format__(self, s)", "__sizeof__(self)", "__dir__(self)", "__del__(self)", "__enter__(self)", "__reduce__(self)",
    "__getattr__(self, name)", "__getattribute__(self, name)", "__next__(self)", "__bytes__(self)", "__index__(self)",
    "keys(self)", "items(self)", "values(self)", "tolist(self)", "_repr_html_(self)", "_repr_png_(self)",
    "_repr_svg_(self)", "_repr_json_(self)", "_repr_latex_(self)", "_repr_markdown_(self)", "_ipython_display_(self)",
    "_repr_mimebundle_(self, **k)", "_repr_pretty_(self, p, cycle)", "__fspath__(self)", "add_note(self, n)",
)  # fmt: skip

_PROPERTIES = (
    "__class__", "__dict__", "__doc__", "__notes__", "__cause__", "__context__", "__traceback__", "args", "filename",
    "lineno", "text", "msg", "name", "obj", "errno", "exceptions", "nbytes", "shape", "columns", "default_factory",
)  # fmt: skip

_BASES = (
    "object", "list", "dict", "tuple", "set", "str", "int", "float", "bytes", "Exception", "BaseException", "KeyError",
    "OSError", "NameError", "AttributeError", "ImportError", "ModuleNotFoundError", "SyntaxError", "UnicodeDecodeError",
    "SystemExit", "KeyboardInterrupt", "MemoryError", "collections.Counter", "collections.OrderedDict",
    "collections.defaultdict", "collections.deque", "collections.UserList", "type",
)  # fmt: skip

# What a cell does with one of them, or with a list of such.
_USES = (
    "{v}", "[{v}] * 3", "{{'k': {v}}}", "({v},)", "display({v})", "print({v})", "raise {v}",
    "raise ValueError({v})", "raise ValueError('m') from {v}", "raise ExceptionGroup('g', [{v}, ValueError(1)])",
    "e = ValueError('n'); e.__notes__ = [{v}]; raise e", "e = ValueError('n'); e.__notes__ = {v}; raise e",
    "try:\n    1/0\nexcept Exception:\n    raise {v}", "{v}.missing_attribute", "{v}[{v}]", "{v} + {v}",
    "f'{{{v}}}'", "keep.append({v}); keep", "d = []\nfor i in range(2000): d = [d, {v}]\nd", "None if {v} else 5",
    "display({{'text/plain': {v}}}, raw=True)", "display({v}, metadata={{'a': {v}}}, display_id=True)",
    "display({v}, include={v})", "def f():\n    local = {v}\n    1/0\nf()", "import sys; sys.last_value = {v}",
    "_ = {v}\n_", "Out[1] = {v}\nOut", "del keep[:]", "input({v})", "open({v})", "exec({v})", "eval('{v}')",
    "import asyncio\nasync def co(): return {v}\nawait co()", "async def co(): raise {v}\nawait co()",
    "import threading; t = threading.Thread(target=lambda: repr({v})); t.start(); t.join()",
    "import gc; x = {v}; x.self = x; del x; gc.collect()", "raise NameError({v}, name={v})",
    "raise ImportError({v}, name={v}, path={v})", "raise ModuleNotFoundError('m', name={v})",
    "raise AttributeError('a', name={v}, obj={v})", "raise AttributeError('a', name='lenn', obj={v})",
    "raise OSError(2, {v}, {v})", "raise FileNotFoundError(2, 'm', 'missing.txt')", "raise KeyError({v})",
    "raise SyntaxError('s', ({v}, {v}, {v}, {v}))", "raise SyntaxError('s', ('f', -5, 10**9, 'text'))",
    "e = SyntaxError('s'); e.lineno, e.offset, e.text, e.filename = {v}, {v}, {v}, {v}; raise e",
    "e = ValueError(); e.__traceback__ = None; e.__cause__ = e; raise e", "prnt({v})", "import nump_y",
)  # fmt: skip

# What a cell does to the interpreter; the second of each pair undoes it.
_TAMPERINGS = (
    ("builtins.print = None", "builtins.print = saved['print']"),
    ("builtins.len = lambda x: 1/0", "builtins.len = saved['len']"),
    ("builtins.open = lambda *a, **k: 1/0", "builtins.open = saved['open']"),
    ("builtins.isinstance = lambda *a: True", "builtins.isinstance = saved['isinstance']"),
    ("builtins.str = builtins.repr = lambda *a: 5", "builtins.str, builtins.repr = saved['str'], saved['repr']"),
    ("builtins.__import__ = lambda *a, **k: 1/0", "builtins.__import__ = saved['__import__']"),
    ("builtins.compile = lambda *a, **k: 1/0", "builtins.compile = saved['compile']"),
    ("builtins.Exception = builtins.BaseException = int", "builtins.Exception, builtins.BaseException = bases"),
    ("sys.excepthook = lambda *a: 1/0", "sys.excepthook = sys.__excepthook__"),
    ("sys.unraisablehook = lambda *a: 1/0", "sys.unraisablehook = sys.__unraisablehook__"),
    ("sys.displayhook = lambda v: 1/0", "sys.displayhook = saved_hook"),
    ("import json, traceback, linecache\nfor m in (json, traceback, linecache): m.__dict__.clear()", "pass"),
    ("import linecache; linecache.cache = None", "pass"),
    ("import linecache; linecache.cache.update({n: [1] for n in list(linecache.cache)})", "pass"),
    ("sys.modules['traceback'] = sys.modules['linecache'] = sys.modules['json'] = 5", "pass"),
    ("sys.modules.clear()", "sys.modules.update(modules)"),
    ("sys.meta_path.insert(0, Hostile0())", "sys.meta_path[:] = finders"),
    ("sys.meta_path.clear()", "sys.meta_path[:] = finders"),
    ("sys.path.insert(0, Hostile1())", "sys.path[:] = paths"),
    ("sys.settrace(lambda *a: 1/0)", "sys.settrace(None)"),
    ("sys.setprofile(lambda *a: 1/0)", "sys.setprofile(None)"),
    ("gc.callbacks.append(lambda *a: 1/0); gc.set_threshold(1)", "gc.callbacks.clear(); gc.set_threshold(700)"),
    ("sys.setrecursionlimit(60)", "sys.setrecursionlimit(1000)"),
    ("warnings.simplefilter('error')", "warnings.resetwarnings()"),
    ("threading.excepthook = lambda a: 1/0", "threading.excepthook = threading.__excepthook__"),
    ("atexit.register(lambda: 1/0)", "pass"),
    ("sys.stdout = None", "sys.stdout = sys.__stdout__"),
    ("sys.stderr = None", "sys.stderr = sys.__stderr__"),
    ("sys.stdout = sys.stderr = Hostile2()", "sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__"),
    ("os.closerange(0, 100)", "pass"),
    ("signal.signal(signal.SIGINT, signal.SIG_IGN)", "signal.signal(signal.SIGINT, signal.default_int_handler)"),
    ("del sys.stdout, sys.stderr", "sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__"),
    ("__builtins__ = {}", "del __builtins__"),
    ("builtins._ = builtins.Out = Hostile3()", "del builtins.Out"),
    ("In.clear()", "pass"),
    ("In.append = 5", "pass"),
    ("vars(sys).pop('last_value', None)", "pass"),
)  # fmt: skip

_BEGIN = """
import atexit, builtins, collections, gc, os, signal, sys, threading, warnings
def restore(live=vars(builtins), sys=sys, saved=dict(vars(builtins)), hook=sys.displayhook, modules=dict(sys.modules),
            finders=list(sys.meta_path), paths=list(sys.path), spaces=globals(), names=None, warnings=warnings):
    live.update(saved)
    sys.settrace(None); sys.setprofile(None); sys.setrecursionlimit(1000)
    sys.modules.update(modules)
    sys.meta_path[:], sys.path[:], sys.displayhook = finders, paths, hook
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    warnings.resetwarnings()
    spaces.update(names)
keep = []
saved, saved_hook, bases = dict(vars(builtins)), sys.displayhook, (Exception, BaseException)
modules, finders, paths = dict(sys.modules), list(sys.meta_path), list(sys.path)
restore.__defaults__ = (*restore.__defaults__[:-2], dict(globals()), warnings)
builtins.restore = restore
"""

_START = """
class Text(str):
    def __str__(self): raise ValueError
    def __len__(self): return -1
    def __add__(self, other): 1/0
class Lie(type):
    def __getattribute__(cls, name): raise ValueError('lie')
    def __instancecheck__(cls, x): 1/0
    def __repr__(cls): 1/0
class Liar(Exception, metaclass=Lie):
    __module__ = property(lambda self: 1/0)
"""


class Cells:
    """Cells made at random, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._n = 0

    def classes(self, how_many: int = 8) -> str:
        return "\n".join(self._class(i, how_many) for i in range(how_many))

    def _class(self, i: int, of: int) -> str:
        pick = self._random
        base = pick.choice(_BASES)
        meta = ", metaclass=Lie" if base != "type" and pick.random() < 0.1 else ""
        lines = [f"class Hostile{i}({base}{meta}):"]
        for method in pick.sample(_METHODS, pick.randint(1, 6)):
            deed = self._deed(of)
            while method == "__del__(self)" and ("Hostile" in deed or "__class__" in deed or "self)" in deed):
                deed = self._deed(of)  # forever: each object that is dropped makes the next, and drops every exception
            lines.append(f"    def {method}: {deed}")
        for name in pick.sample(_PROPERTIES, pick.randint(0, 2)):
            lines += ["    @property", f"    def {name}(self): " + self._deed(of)]
        # Some cannot be created, or not even be defined.
        return "try:\n" + "\n".join("    " + line for line in lines) + f"\nexcept BaseException: Hostile{i} = object"

    def _deed(self, of: int) -> str:
        self._n += 1
        deed = self._random.choice(_DEEDS).replace("{n}", str(self._n))
        return deed.replace("{other}", str(self._random.randrange(of)))

    def use(self) -> str:
        value = f"Hostile{self._random.randrange(8)}()"
        return self._random.choice(_USES).format(v=value)

    def tampering(self) -> tuple[str, str]:
        return self._random.choice(_TAMPERINGS)


class Hostile(unittest.TestCase):
    def setUp(self) -> None:
        self._cells: list[str] = []

    def test_objects_and_interpreters_do_no_harm(self) -> None:
        print(f"\nSEED={SEED}", flush=True)
        cells = Cells(SEED)
        left = CELLS
        while left > 0:
            with Runner() as runner:
                self._run(runner, _BEGIN)
                for _ in range(FRESH):
                    left -= 1
                    self._one(runner, cells)

    def _one(self, runner: Runner, cells: Cells) -> None:
        self._cells = []
        self._run(runner, _START + cells.classes())
        if cells._random.random() < 0.4:
            harm, undo = cells.tampering()
            self._run(runner, harm)
            self._run(runner, cells.use())
            self._run(runner, undo)
        self._run(runner, cells.use())
        self._run(runner, cells.use())
        # Everything changed above is restored before the runner is checked.
        self._run(runner, "restore()")
        alive = self._run(runner, "print('alive'); [6 * 7]")
        self.assertEqual((alive.stdout, alive.text), ("alive\n", "[42]"), self._story(alive.traceback))

    def _run(self, runner: Runner, code: str) -> Outcome:
        self._cells.append(code)
        try:
            outcome = self._finish(runner, runner.start(code))
        except (TimeoutError, EOFError, ValueError, AssertionError) as e:
            self.fail(self._story(f"{type(e).__name__}: {e}"))
        for text in (outcome.traceback, outcome.stderr, outcome.stdout):
            # For warnings about garbage, Python names the code that runs when it is collected.
            ours = [line for line in text.splitlines() if "talaria_runner" in line and "Warning: " not in line]
            if ours:
                self.fail(self._story(f"{text[-5000:]}\n--- ours\n" + "\n".join(ours[:10])))
        self.assertEqual(len(outcome.of("done")), 1)
        self.assertEqual(len(outcome.of("error")), outcome.status == "error", self._story("errors"))
        return outcome

    def _finish(self, runner: Runner, id: str) -> Outcome:
        """Some cells would never end; these get interrupted, more than once if they catch that."""
        for _ in range(INTERRUPTS):
            try:
                return runner.finish(id, within=LONG)
            except TimeoutError:
                runner.interrupt(id)
        return runner.finish(id)

    def _story(self, end: str) -> str:
        cells = "\n".join(f"--- cell\n{cell}" for cell in self._cells)
        return f"SEED={SEED}\n{cells}\n--- then\n{end}"


_BLOCK = "\n        while True: pass"

# Cells that would run forever in code that the runner calls and that has no deadline.
_BLOCKING = {
    "an attribute": f"class A:\n    def __getattr__(self, name):{_BLOCK}\nA()",
    "any attribute": f"class A:\n    def __getattribute__(self, name):{_BLOCK}\nA()",
    "a rich representation": f"class A:\n    def _repr_html_(self):{_BLOCK}\nA()",
    "a display of its own": f"class A:\n    def _ipython_display_(self):{_BLOCK}\nA()",
    "a value for JSON": f"class A:\n    def tolist(self):{_BLOCK}\ndisplay({{'application/json': A()}}, raw=True)",
    "an error stream": (
        f"import sys\nclass S:\n    def write(self, text):{_BLOCK}\nsys.stderr = S()\n"
        "class R:\n    def __repr__(self): 1/0\nR()"
    ),
    "an output stream": f"import sys\nclass S:\n    def __getattr__(self, name):{_BLOCK}\nsys.stdout = S()\n1",
    "a finaliser": f"class A:\n    def __del__(self):{_BLOCK}\nA()\nNone",
    "a finaliser of what failed before": (
        f"class A:\n    def __del__(self):{_BLOCK}\ndef f():\n    a = A()\n    1/0\ntry: f()\n"
        "except Exception as e: keep = e\nimport sys; sys.last_value = sys.last_exc = keep; del keep\n2/0"
    ),
    "a display hook": f"import sys\nclass A:\n    def hook(*a):{_BLOCK}\nsys.displayhook = A().hook\n1",
}


class Blocking(unittest.TestCase):
    def test_code_can_be_interrupted(self) -> None:
        for name, code in _BLOCKING.items():
            with self.subTest(name), Runner() as runner:
                id = runner.start(code)
                outcome = None
                for _ in range(40):
                    try:
                        outcome = runner.finish(id, within=0.5)
                        break
                    except TimeoutError:
                        runner.interrupt(id)
                self.assertIsNotNone(outcome, "it does not end")
                self.assertNotIn("talaria_runner", outcome.traceback + outcome.stderr)
                runner.run("import sys; sys.displayhook = sys.__displayhook__")
                self.assertEqual(runner.run("print(6 * 7)").stdout, "42\n")
