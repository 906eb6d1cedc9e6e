"""What could be typed at a position in a cell, and whether a cell is complete."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest

from talaria_runner.introspection.budget import Budget
from talaria_runner.introspection.completeness import check
from talaria_runner.introspection.completion import MOST, Completer
from tests import hostile

_CELL = '''
import functools, json, os
ran = []
settings = {"key one": 1, "key2": {"deep": 2}, "it's": 3, 4: 5, (6, 7): 8, b"raw": 9}
secret_hidden = _private = 1

class Point:
    kind = "point"
    def __init__(self, across, up=0):
        self.across = across
    def move(self, by, *, fast=False): pass
    @property
    def distance(self):
        ran.append(1)
        return 1
    @property
    def label(self) -> str:
        ran.append(1)

point = Point(1)

class Frame:
    shape, columns = (3, 2), ["alpha", "beta"]
    def groupby(self, by): pass

frame = Frame()

@functools.wraps(Point.move)
def wrapped(*args, **kwargs): pass
'''

# A bar marks the position; then come the expected first matches, and those that must not be found.
_PLACES = (
    ("sett|", ["settings"], []),
    ("Poi|", ["Point"], []),
    ("POI|", ["Point", "point"], []),
    ("whi|", ["while"], []),
    ("print(poi|", ["point"], []),
    ("point.|", ["across", "distance", "kind", "label", "move"], ["__init__"]),
    ("point.__in|", ["__init__"], []),
    ("point.label.upp|", ["upper"], []),
    ("Point(3).mo|", ["move"], []),
    ("(point\n    .mo|", ["move"], []),
    ("x = [point.ac|", ["across"], []),
    ("'text'.upp|", ["upper"], []),
    ("[1].app|", ["append"], []),
    ("{}.ke|", ["keys"], []),
    ("settings['key2'].ite|", ["items"], []),
    ("json.dum|", ["dump", "dumps"], []),
    ("os.path.jo|", ["join"], []),
    ("1.|", [], ["real"]),
    ("# poi|", [], ["point"]),
    ("point.move(1).|", [], []),
    ("settings['|", ["key one']", "key2']", "it\\'s']"], []),
    ('settings["k|', ['key one"]', 'key2"]'], []),
    ("settings['key2']['|", ["deep']"], []),
    ("settings['k|']", ["key one", "key2"], []),
    ("settings[|", ["'key one']", "'key2']", '"it\'s"]', "4]", "b'raw']"], []),
    ("settings[|]", ["'key one'", "'key2'"], []),
    ("Point(|", ["across=", "up="], []),
    ("Point(1, u|", ["up="], []),
    ("Point(across=1, |", ["up="], ["across="]),
    ("point.move(|", ["by=", "fast="], ["self="]),
    ("wrapped(|", ["self=", "by=", "fast="], []),
    ("Point(across=poi|", ["point"], []),
    ("sorted([], k|", ["key="], []),
    ("frame['|", ["alpha']", "beta']"], []),
    ("frame['al|", ["alpha']"], []),
    ("frame[['alpha', 'be|", ["beta'"], []),
    ("frame[['al|", ["alpha'"], []),
    ("settings['da|", [], ["data/"]),
    ("frame.loc[:, 'be|", ["beta'"], []),
    ("frame.groupby('al|", ["alpha'"], []),
    ("frame.groupby(by=['al|']", ["alpha"], []),
    ("print(frame.groupby('al|", ["alpha'"], []),
    ("open(settings['nothing'], 'da|", ["data/"], []),
    ("import js|", ["json"], []),
    ("import os, js|", ["json"], []),
    ("import os.pa|", ["path"], []),
    ("from json import du|", ["dump", "dumps"], []),
    ("from json.|", ["decoder", "encoder"], []),
    ("from json import (du|", [], []),
    ("from json |", ["import"], []),
    ("import json as |", [], ["json"]),
    ("import inpack|", ["inpackage"], []),
    ("import inpackage.|", ["inner"], []),
    ("from inpackage import in|", ["inner"], []),
    ("open('da|", ["data/"], []),
    ("open('data/|", ["table one.csv", "table.csv"], [".hidden"]),
    ("open('data/.|", [".hidden/"], []),
    ("open('nowhere/|", [], []),
    ("!cat data/ta|", ["table one.csv", "table.csv"], []),
    ("%ti|", ["%time", "%timeit"], []),
    ("%%ti|", ["%%timeit"], ["%time"]),
    ("x = %ti|", ["%time", "%timeit"], []),
    ("%time point.mo|", ["move"], []),
    ("%%timeit\npoint.mo|", ["move"], []),
    ("%%bash\ncat da|", ["data/"], []),
    ("f'{poi|", ["point"], []),
    ("f'{point.mo|", ["move"], []),
    ("f'{{poi|", [], []),
    ("settings['key2'] |", ["Frame"], []),
    ("settings['key2']|", [], ["Point"]),
    ("𝑥 = 'ü'; point.mo|", ["move"], []),
)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.names: dict[str, object] = {"__name__": "__main__"}
        exec(compile(_CELL, "<cell 1>", "exec", dont_inherit=True), cls.names)
        cls.completer = Completer(cls.names, lambda: ["%time", "%timeit", "%%timeit", "%%bash", 5])
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        os.makedirs("data/.hidden")
        for name in ("data/table.csv", "data/table one.csv", "inpackage/__init__.py", "inpackage/inner.py"):
            os.makedirs(os.path.dirname(name), exist_ok=True)
            open(name, "w").close()
        sys.path.insert(0, "")
        cls.addClassCleanup(sys.path.remove, "")

    def test_places(self) -> None:
        for marked, wanted, unwanted in _PLACES:
            with self.subTest(marked):
                cursor = marked.index("|")
                code = marked.replace("|", "")
                matches, start, end = self.completer.complete(code, cursor, Budget())
                self.assertEqual(matches[:len(wanted)], wanted)
                self.assertEqual(end, cursor)
                self.assertEqual(set(unwanted) & set(matches), set())
                for match in matches:
                    self.assertTrue(match.lower().startswith(code[start:end].lower()), (match, code[start:end]))
        self.assertEqual(self.names["ran"], [])

    def test_takes_any_cursor_and_any_text(self) -> None:
        for code in ("", "x", "(" * 500, "'" * 7, '"""', "\\", "\x00.", "a[" * 300, "a." * 3000, "." * 100,
                     "f'{" * 100, "\ud800.", "]" * 50, "lambda:" * 500 + "x.", "x" * 200_000 + "."):  # fmt: skip
            for cursor in (-5, 0, len(code) // 2, len(code), 10**12):
                matches, start, end = self.completer.complete(code, cursor, Budget())
                self.assertTrue(0 <= start <= end <= len(code))

    def test_is_bounded(self) -> None:
        names = {f"name{i}": i for i in range(300_000)}
        names["x" * 5000] = 1
        matches, *_ = Completer(names).complete("", 0, Budget())
        self.assertLessEqual(len(matches), MOST)
        names = {"big": {f"{i:0200}": i for i in range(100_000)}}
        matches, *_ = Completer(names).complete("big['", 5, Budget())
        self.assertLess(sum(map(len, matches)), 70_000)

    def test_objects_are_not_asked(self) -> None:
        names, ran = hostile.namespace()
        completer = Completer(names)
        for name in list(names):
            for code in (f"{name}.", f"{name}['", f"{name}[", f"{name}(", f"{name}.shape.", f"{name}[0].", f"{name}().",
                         f"from {name} import "):  # fmt: skip
                completer.complete(code, len(code), Budget())
        self.assertEqual(ran, [])
        self.assertEqual(completer.complete("bad_dict.__cl", 13, Budget())[0][:1], ["__class__"])


class Completeness(unittest.TestCase):
    def test_of_cells(self) -> None:
        for code, expected in (
            ("", "complete"), ("x = 1", "complete"), ("x = 1\n", "complete"), ("# only", "complete"),
            ("if x: y", "complete"), ("for x in y:\n    x\n", "complete"), ("f(1,\n  2)", "complete"),
            ("await x", "complete"), ("!ls -l", "complete"), ("files = !ls", "complete"), ("x = %time 1", "complete"),
            ("value?", "complete"), ("value.x ??", "complete"), ("?value", "complete"), ('"\\d"', "complete"),
            ("%%bash\nls\n", "complete"), ("'''a\nb'''", "complete"), ("@a\ndef f(): pass", "complete"),
            ("if x:\n    pass\nelse:\n    pass\n", "complete"), ("x = 5 % 3", "complete"),
            ("for x in y:", ("incomplete", "    ")), ("for x in y:\n    x", ("incomplete", "    ")),
            ("def f():\n    if x:", ("incomplete", "        ")), ("def f():\n    return 1", ("incomplete", "")),
            ("for x in y:\n    for z in x:\n        break", ("incomplete", "    ")),
            ("for x in y:\n    !ls", ("incomplete", "    ")), ("x = [1,\n  2,", ("incomplete", "  ")),
            ("x = '''\n   text", ("incomplete", "   ")), ("f(", ("incomplete", "")),
            ("x = 1 + \\\n", ("incomplete", "")),
            ("@a", ("incomplete", "")), ("try:\n    x", ("incomplete", "    ")), ("%%bash", ("incomplete", "")),
            ("%%bash\nls", ("incomplete", "")), ("async def f():", ("incomplete", "    ")),
            ("if x:  # why", ("incomplete", "    ")),
            ("x = 1 +", "invalid"), ("raise = 2", "invalid"), ("(\n))", "invalid"), ("  x", "invalid"),
            ("'open", "invalid"), ("import", "invalid"), ("else:", "invalid"), ("x y", "invalid"), ("\x00", "invalid"),
            ("x = 1\n" * 50_000, "unknown"), ("-" * 50_000 + "1", "unknown"),
        ):  # fmt: skip
            with self.subTest(code[:40]):
                status, indent = check(code)
                self.assertEqual((status, indent), expected if isinstance(expected, tuple) else (expected, ""))

    def test_survives_a_recursion_limit_that_is_far_too_high(self) -> None:
        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(10**6)
        self.assertEqual(check("a" + ".b" * 30_000)[0], "unknown")


if __name__ == "__main__":
    unittest.main()
