"""The list of variables."""

from __future__ import annotations

import unittest

from talaria_runner.introspection.budget import Budget
from talaria_runner.introspection.completion import Completer
from talaria_runner.introspection.inspection import Inspector
from talaria_runner.introspection.variables import MOST, Variable, variables
from talaria_runner.run.sources import Sources
from tests import hostile

try:
    import numpy
    import pandas
except ImportError:
    numpy = pandas = None

_CELL = '''
import collections, dataclasses, datetime, decimal, enum, os

class Frame:
    """Looks like a frame of polars."""
    dtypes = ["Int64", "String"]
    def __init__(self): self._columns, self._rows = {"a": [1, 2, 3], "b": list("xyz")}, 3
    @property
    def shape(self): return (self._rows, len(self._columns))
    @property
    def columns(self): return ["a", "b"]

class Tensor:
    def __init__(self): self.shape, self.dtype, self.nbytes = (2, 3), "torch.float32", 24

class Liar:
    shape, dtype, nbytes, columns = (-1, "x"), 7, -5, [[]]

@dataclasses.dataclass
class Box:
    width: int = 3

class Colour(enum.Enum):
    RED = 1

Pair = collections.namedtuple("Pair", "left right")
frame, tensor, liar, box, colour, pair = Frame(), Tensor(), Liar(), Box(), Colour.RED, Pair(1, "two")
number, text, flag, nothing, real, raw = 5, "words", True, None, 2.5, b"raw"
numbers, table, unique, empty = [1, 2, 3], {"k": [1, {}]}, {1}, ()
counted, queue, ordered = collections.Counter("aab"), collections.deque([1, 2]), collections.OrderedDict(a=1)
large, long = 1 << 5000, "x" * 1000
words = ["x" * 1000] * 500
day, moment, price = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2), decimal.Decimal("1.50")
broken = ValueError("why")
lines = "two\\nlines\\x1b[0m"
def function(width, height=2): pass
_hidden = __also = 1
'''


def listed(names: dict[str, object]) -> dict[str, Variable]:
    found, total = variables(names, Budget())
    assert len(found) == total, (len(found), total)
    return {variable.name: variable for variable in found}


class Variables(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        names: dict[str, object] = {"__name__": "__main__", "__builtins__": __builtins__}
        exec(compile(_CELL, "<cell 1>", "exec", dont_inherit=True), names)
        cls.found = listed(names)

    def test_are_told_with_their_shapes(self) -> None:
        for name, kind, shape, dtype, preview in (
            ("number", "int", None, None, "5"),
            ("text", "str", None, None, "'words'"),
            ("flag", "bool", None, None, "True"),
            ("nothing", "NoneType", None, None, "None"),
            ("real", "float", None, None, "2.5"),
            ("raw", "bytes", None, None, "b'raw'"),
            ("numbers", "list", [3], None, "[1, 2, 3]"),
            ("table", "dict", [1], None, "{'k': [1, {}]}"),
            ("unique", "set", [1], None, "{1}"),
            ("empty", "tuple", [0], None, "()"),
            ("counted", "Counter", [2], None, "collections.Counter({'a': 2, 'b': 1})"),
            ("queue", "deque", [2], None, "collections.deque([1, 2])"),
            ("ordered", "OrderedDict", [1], None, "collections.OrderedDict({'a': 1})"),
            ("pair", "Pair", [2], None, "Pair(left=1, right='two')"),
            ("box", "Box", None, None, "<Box width=3>"),
            ("colour", "Colour", None, None, "<Colour.RED: 1>"),
            ("frame", "Frame", [3, 2], "Int64, String", "3 rows × 2 columns: a, b"),
            ("tensor", "Tensor", [2, 3], "torch.float32", "<Tensor 2 × 3 torch.float32>"),
            ("liar", "Liar", None, None, "<Liar>"),
            ("day", "date", None, None, "datetime.date(2024, 1, 2)"),
            ("moment", "datetime", None, None, "datetime.datetime(2024, 1, 2, 0, 0)"),
            ("price", "Decimal", None, None, "Decimal('1.50')"),
            ("broken", "ValueError", None, None, "ValueError('why')"),
            ("large", "int", None, None, "<int of 5001 bits>"),
            ("function", "function", None, None, "function(width, height=2)"),
            ("Frame", "type", None, None, "<class Frame>"),
            ("lines", "str", None, None, r"'two\nlines\x1b[0m'"),
        ):
            with self.subTest(name):
                v = self.found[name]
                self.assertEqual((v.type, v.shape, v.dtype, v.preview), (kind, shape, dtype, preview))

    def test_sizes(self) -> None:
        self.assertEqual(self.found["tensor"].size_bytes, 24)
        self.assertEqual(self.found["liar"].size_bytes, None)
        self.assertGreater(self.found["long"].size_bytes, 1000)
        self.assertGreater(self.found["words"].size_bytes, 500_000)
        self.assertLess(len(self.found["words"].preview), 101)

    def test_ours_and_modules_are_hidden(self) -> None:
        names = {"In": [], "Out": {}, "exit": exit, "get_ipython": hostile.namespace, "display": print}
        names |= {"open": [3.5], "quit": 1}
        exec("def display_of(): pass", names)
        self.assertEqual(set(listed(names)), {"open", "quit", "display_of"})
        hidden = {"os", "collections", "_hidden", "__also", "__name__"}
        self.assertEqual(hidden & set(self.found), set())

    def test_are_bounded(self) -> None:
        names = {f"name{i}": i for i in range(300_000)}
        found, total = variables(names, Budget())
        self.assertLessEqual(len(found), MOST)
        self.assertEqual(total, 300_000)

    def test_objects_are_not_asked(self) -> None:
        names, ran = hostile.namespace()
        found = listed(names)
        self.assertEqual(ran, [])
        self.assertEqual(found["everything"].preview, "<Everything field=1>")
        self.assertEqual(found["bad_list"].shape, [2])
        self.assertEqual(found["circle"].shape, [1])
        self.assertEqual(found["huge_list"].shape, [3_000_000])
        self.assertGreater(found["huge_list"].size_bytes, 24_000_000)
        for variable in found.values():
            self.assertLessEqual(len(variable.preview), 100)


@unittest.skipIf(pandas is None, "numpy and pandas are not installed")
class Libraries(unittest.TestCase):
    def test_of_numpy_and_pandas(self) -> None:
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.0, 2.0]})
        found = listed({
            "array": numpy.arange(12).reshape(3, 4), "scalar": numpy.float64(2.5), "frame": frame,
            "series": frame["c"], "strings": numpy.array(["a", "b"]), "objects": numpy.array([object()]),
            "categories": frame["b"].astype("category"), "dates": pandas.date_range("2024", periods=3),
            "large": numpy.zeros((1000, 1000)), "wide": pandas.DataFrame(numpy.zeros((2, 5000))),
            "none": pandas.DataFrame(), "moment": pandas.Timestamp("2024-01-02"),
        })  # fmt: skip
        for name, kind, shape, dtype, size, preview in (
            ("array", "ndarray", [3, 4], "int64", 96, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]"),
            ("scalar", "float64", None, "float64", 8, "2.5"),
            ("frame", "DataFrame", [2, 3], "int64, object, float64", 48, "2 rows × 3 columns: a, b, c"),
            ("series", "Series", [2], "float64", 16, "[1.0, 2.0]"),
            ("objects", "ndarray", [1], "object", 8, "[<object>]"),
            ("strings", "ndarray", [2], "<U1", 8, "['a', 'b']"),
            ("categories", "Series", [2], "category", None, None),
            ("dates", "DatetimeIndex", [3], "datetime64[ns]", 24, None),
            ("large", "ndarray", [1000, 1000], "float64", 8_000_000, None),
            ("wide", "DataFrame", [2, 5000], "float64 × 5000", 80_000, None),
            ("none", "DataFrame", [0, 0], None, 0, None),
            ("moment", "Timestamp", None, None, None, None),
        ):
            with self.subTest(name):
                v = found[name]
                self.assertEqual((v.type, v.shape), (kind, shape))
                for got, wanted in ((v.dtype, dtype), (v.size_bytes, size), (v.preview, preview)):
                    if wanted is not None and not (dtype == "object" or "object" in str(dtype)):
                        self.assertEqual(got, wanted)
                self.assertNotEqual(v.preview, "")

    def test_of_ranges_make_no_arrays(self) -> None:
        index = pandas.RangeIndex(5, 10**9)
        found = listed({"index": index, "frame": pandas.DataFrame({"a": [1, 2]}).index})
        self.assertEqual((found["index"].shape, found["index"].dtype), ([10**9 - 5], "int64"))
        self.assertLess(found["index"].size_bytes, 1000)
        self.assertIn("999999995 in all", found["index"].preview)
        self.assertEqual(found["frame"].preview, "[0, 1]")
        self.assertNotIn("_data", index._cache)

    def test_completion_and_inspection_of_frames(self) -> None:
        frame = pandas.DataFrame({"alpha": [1, 2], "beta": ["x", "y"]})
        names = {"frame": frame, "array": numpy.zeros(2, dtype=[("field", "i4")]), "numpy": numpy}
        completer, inspector = Completer(names), Inspector(names, Sources())
        for code, match in (
            ("frame.alp", "alpha"), ("frame.alpha.medi", "median"), ("frame['beta'].str.upp", "upper"),
            ("frame['al", "alpha']"), ("frame.groupby('be", "beta'"), ("frame.columns.toli", "tolist"),
            ("frame.index.is_uni", "is_unique"), ("frame.values.resh", "reshape"), ("array['fi", "field']"),
            ("array.dtype.na", "names"), ("numpy.zeros(sha", "shape="), ("frame.merge(how", "how="),
        ):  # fmt: skip
            with self.subTest(code):
                self.assertIn(match, completer.complete(code, len(code), Budget())[0])
        self.assertIn("groupby(", inspector.bundle("frame.groupby", 0)["text/plain"])
        self.assertIn("2 rows × 2 columns: alpha, beta", inspector.bundle("frame", 0)["text/plain"])

    def test_first_rows_of_frames(self) -> None:
        when = pandas.date_range("2024-01-02", periods=7)
        frame = pandas.DataFrame({
            "city": ["Lund", "a\nb", "x" * 99, "", "e", "f", "g"], "n": range(7), "part": [0.1 + 0.2, *[1.0] * 6], "day": when,
            "aware": when.tz_localize("UTC"), "kind": pandas.Categorical(list("ababaab")), "odd": [None, [1], {}, object(), 5, 6, 7],
        })  # fmt: skip
        wide = pandas.DataFrame(numpy.zeros((2, 30)), index=pandas.MultiIndex.from_tuples([(1, "a"), (2, "b")]))
        inspector = Inspector({"frame": frame, "wide": wide, "none": frame[:0], "series": frame["n"]}, Sources())
        text = inspector.bundle("frame", 0)["text/plain"]
        lines = text.partition("First rows:\n")[2].split("\n")
        self.assertEqual([line.split() for line in lines[:2]], [
            ["city", "n", "part", "day", "aware", "kind", "odd"],
            ["0", "Lund", "0", "0.3", "2024-01-02", "00:00:00", "2024-01-02", "00:00:00Z", "a", "None"],
        ])  # fmt: skip
        self.assertEqual(len({len(line) for line in lines[:6]}), 1)
        self.assertEqual(lines[6:8], ["…", "Docstring:"])
        self.assertIn("a b", lines[2])
        self.assertIn("(2, 'b')  0  0  0  0  0  0  0  0  …\n", inspector.bundle("wide", 0)["text/plain"])
        for name in ("none", "series"):
            self.assertNotIn("First rows", inspector.bundle(name, 0)["text/plain"])

    def test_first_rows_ask_nothing_of_the_user(self) -> None:
        names, ran = {"pandas": pandas}, []
        names["ran"] = ran
        exec(compile('''
import datetime

class Zone(datetime.tzinfo):
    def utcoffset(self, at): ran.append(1); return datetime.timedelta(hours=2)
    def dst(self, at): ran.append(1); return datetime.timedelta(0)
    def tzname(self, at): ran.append(1); return "zone"

class Loud:
    def __repr__(self): ran.append(1); return "loud"
    __str__ = __hash__ = __repr__

zoned = pandas.date_range("2024-01-02", periods=3).tz_localize("UTC").tz_convert(Zone())
a = pandas.DataFrame({"zoned": zoned})
b = a.set_index("zoned", drop=False)
c = pandas.DataFrame({"n": [1, 2, 3]}, index=pandas.MultiIndex.from_arrays([zoned, [1, 2, 3]]))
d = pandas.DataFrame({"o": [Loud(), zoned[0], 1]})
del ran[:]
''', "<cell 1>", "exec", dont_inherit=True), names)  # fmt: skip
        inspector = Inspector(names, Sources())
        texts = {name: inspector.bundle(name, 0)["text/plain"] for name in "abcd"}
        self.assertEqual(ran, [])
        self.assertIn("2024-01-02 00:00:00Z  2024-01-02 00:00:00Z\n", texts["b"])
        self.assertNotIn("First rows", texts["c"])
        self.assertIn("<Loud>", texts["d"])
        self.assertIn("2024-01-02 00:00:00Z", texts["d"])

    def test_of_classes_that_derive_from_them(self) -> None:
        names, ran = {"numpy": numpy, "pandas": pandas}, []
        names["ran"] = ran
        exec(compile('''
class Array(numpy.ndarray):
    def __array_finalize__(self, other): ran.append(1)
    def __repr__(self): ran.append(1)
    T = flat = property(lambda self: ran.append(1))

class Frame(pandas.DataFrame):
    @property
    def _constructor(self): ran.append(1)
    def __getattribute__(self, name):
        ran.append(1)
        return super().__getattribute__(name)

class Faker:
    __module__, __qualname__ = "pandas.core.frame", "DataFrame"
    axes = columns = shape = property(lambda self: ran.append(1))

array, frame, faker = numpy.zeros((2, 2)).view(Array), Frame({"a": [1, 2]}), Faker()
del ran[:]
''', "<cell 1>", "exec", dont_inherit=True), names)  # fmt: skip
        found = listed(names)
        self.assertEqual(ran, [])
        self.assertEqual((found["array"].shape, found["array"].dtype), ([2, 2], "float64"))
        self.assertEqual(found["frame"].shape, [2, 1])
        self.assertEqual(found["faker"].shape, None)
        self.assertIn("0  1\n", Inspector(names, Sources()).bundle("frame", 0)["text/plain"])
        self.assertEqual(ran, [])


if __name__ == "__main__":
    unittest.main()
