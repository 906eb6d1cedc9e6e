"""What a name stands for, as text."""

from __future__ import annotations

import textwrap
import unittest

from talaria_runner.introspection.inspection import Inspector
from talaria_runner.run.execution import Execution
from talaria_runner.run.sources import Sources
from tests import hostile

_CELL = '''
import collections, functools, inspect, json

def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

@logged
def area(width: float, height: "float" = 2.0, /, *sides, unit: list[int] | None = None, **more) -> dict[str, int]:
    """Area of a thing.

        Indented.
    Not indented.
    """
    text = """
not the end
"""
    return (width *
height)
# not a part of it

class Box:
    """A box."""

    def __init__(self, size, name="box"):
        """Makes a box."""
        self._size = size

    size = property(lambda self: self._size)

    @property
    def shape(self) -> tuple:
        return (self._size, len(self.__class__.__name__))

    @property
    def promised(self) -> str:
        raise RuntimeError("run")

    @functools.cached_property
    def kept(self) -> "collections.OrderedDict":
        raise RuntimeError("run")

    @classmethod
    def of(cls, size): return cls(size)

    @staticmethod
    def unit(): pass

class Empty:
    pass

box = Box((1, 2))
rows = [{"name": "first"}, {"name": "second"}]
twice = lambda number: 2 * number
partial = functools.partial(area, 1)
signed = lambda *args: None
signed.__signature__ = inspect.signature(area)
'''


class Inspection(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        sources = Sources()
        name = sources.add(Execution("e1", _CELL, 1, False, False))
        cls.names: dict[str, object] = {"__name__": "__main__"}
        exec(compile(_CELL, name, "exec", dont_inherit=True), cls.names)
        cls.inspector = Inspector(cls.names, sources)

    def text(self, expression: str, detail: int = 0) -> str:
        bundle = self.inspector.bundle(expression, detail)
        self.assertIsNotNone(bundle, expression)
        self.assertEqual(list(bundle), ["text/plain"])
        return bundle["text/plain"]

    def field(self, expression: str, name: str) -> str:
        for line in self.text(expression).split("\n"):
            if line.startswith(name + ":"):
                return line[len(name) + 1:].strip()
        self.fail(f"no {name} in {self.text(expression)!r}")

    def test_of_a_function(self) -> None:
        self.assertEqual(self.text("area"), textwrap.dedent('''\
            Signature:
            area(
                width: float,
                height: float = 2.0,
                /,
                *sides,
                unit: list[int] | None = None,
                **more,
            ) -> dict[str, int]
            Docstring:
            Area of a thing.

                Indented.
            Not indented.
            File:           <cell 1>
            Type:           function'''))  # fmt: skip

    def test_source_of_a_function_ends_where_it_does(self) -> None:
        source = self.text("area", 1)
        self.assertIn("@logged\ndef area(", source)
        self.assertIn("    return (width *\nheight)\nFile:", source)
        self.assertNotIn("not a part", source)

    def test_of_a_class(self) -> None:
        text = self.text("Box")
        self.assertIn("Init signature: Box(size, name='box')\nDocstring:      A box.\n", text)
        self.assertIn("Init docstring: Makes a box.", text)
        self.assertIn("class Box:", self.text("Box", 1))
        self.assertIn("class Empty:\n    pass\nFile:           <cell 1>", self.text("Empty", 1))

    def test_signatures(self) -> None:
        for expression, signature in (
            ("box.__init__", "__init__(size, name='box')"),
            ("Box.__init__", "__init__(self, size, name='box')"),
            ("Box.of", "of(size)"),
            ("box.unit", "unit()"),
            ("twice", "twice(number)"),
            ("'a'.join", "join(iterable, /)"),
            ("str.join", "join(self, iterable, /)"),
            ("len", "len(obj, /)"),
            ("sorted", r"sorted(iterable, /, *, key=None, reverse=False)"),
            ("[].append", "append(object, /)"),
            ("collections.OrderedDict.popitem", "popitem(self, /, last=True)"),
            ("Box(1).of", "of(size)"),
        ):
            with self.subTest(expression):
                self.assertEqual(self.field(expression, "Signature"), signature)
        self.assertIn("signed(\n    width: float,\n    height: float = 2.0,\n", self.text("signed"))

    def test_of_values(self) -> None:
        for expression, kind, form in (
            ("rows[-1]['name']", "str", "'second'"),
            ("rows", "list", "[{'name': 'first'}, {'name': 'second'}]"),
            ("box", "Box", "<Box>"),
            ("box.size", "tuple", "(1, 2)"),
            ("3.5", "float", "3.5"),
            ("json", "module", "<module json>"),
        ):
            with self.subTest(expression):
                self.assertEqual(self.field(expression, "Type"), kind)
                self.assertEqual(self.field(expression, "String form"), form)
        self.assertEqual(self.field("rows", "Length"), "2")
        self.assertEqual(self.field("box.promised", "Type"), "str")
        self.assertEqual(self.field("box.kept", "Type"), "collections.OrderedDict")

    def test_of_library_source(self) -> None:
        self.assertIn("def dumps(obj, *", self.text("json.dumps", 1))
        self.assertIn("class JSONDecoder(object):", self.text("json.JSONDecoder", 1))

    def test_of_what_is_not_known(self) -> None:
        for expression in ("", "nothing", "box.nothing", "rows[7]", "rows[", "for", "area()", "1/0", "a" * 5000,
                           "(" * 300, "-" * 1500 + "1", "rows[box]", "__import__('os').x"):  # fmt: skip
            with self.subTest(expression[:20]):
                self.assertIsNone(self.inspector.bundle(expression, 0))

    def test_is_bounded(self) -> None:
        self.names["long"] = type("long", (), {"__doc__": "x" * 5_000_000})
        self.assertLess(len(self.text("long")), 200_000)


class Hostile(unittest.TestCase):
    def test_objects_are_not_asked(self) -> None:
        names, ran = hostile.namespace()
        inspector = Inspector(names, Sources())
        attributes = ("", ".shape", ".field", ".prop", ".__doc__", ".__class__", "['key']", "[0]", ".inner", ".value")
        for name in list(names):
            for attribute in attributes:
                for detail in (0, 1):
                    bundle = inspector.bundle(name + attribute, detail)
                    self.assertLess(len(str(bundle)), 500_000)
        self.assertEqual(ran, [])
        self.assertIn("Docstring:      Documented.", inspector.bundle("bad_default", 0)["text/plain"])
        self.assertIn("first=<Everything field=1>", inspector.bundle("bad_default", 0)["text/plain"])


if __name__ == "__main__":
    unittest.main()
