"""Tables as application/vnd.dataresource+json."""

from __future__ import annotations

import importlib.util
import itertools
import unittest

from tests.case import RunnerCase

MIME = "application/vnd.dataresource+json"
_PANDAS = unittest.skipUnless(importlib.util.find_spec("pandas"), "this interpreter has no pandas")


class TableCase(RunnerCase):
    def table(self, code: str) -> dict:
        return self.run_cell(code).result[MIME]

    def column(self, code: str) -> tuple[dict, list]:
        """The field and the cells of the last column."""
        table = self.table(code)
        field = table["schema"]["fields"][-1]
        return field, [row[field["name"]] for row in table["data"]]


@_PANDAS
class Pages(TableCase):
    serial = itertools.count()

    def page(self, reference: str, sort: list = [], offset: int = 0, count: int = 3, filter: str = "") -> dict:
        """Returns the answer. On a busy machine it may be too late to be sent: then it asks again."""
        for attempt in itertools.count():
            request = f"page{next(self.serial)}"
            asked = {"table": reference, "filter": filter, "sort": sort, "offset": offset, "count": count}
            self.runner.send(type="table", request_id=request, **asked)
            try:
                while True:
                    frame = self.runner.next_frame(1)
                    if frame.get("request_id") == request:
                        return frame
            except TimeoutError:
                self.assertLess(attempt, 60)

    def setUp(self) -> None:
        super().setUp()
        self.run_cell("import pandas as pd")

    def test_come_from_the_object_in_any_order(self) -> None:
        long = "df = pd.DataFrame({'n': range(5000), 's': [f'x{i % 7}' for i in range(5000)]})\ndf"
        reference = self.table(long)["table_id"]
        page = self.page(reference, offset=4998)
        self.assertEqual((page["state"], page["total"], page["rows"]), ("ok", 5000, [[4998, 4998, "x0"], [4999, 4999, "x1"]]))
        both = [{"column": 2, "descending": True}, {"column": 1, "descending": True}]
        self.assertEqual(self.page(reference, both, 0, 2)["rows"], [[4997, 4997, "x6"], [4990, 4990, "x6"]])
        self.assertEqual(self.page(reference, [{"column": 0, "descending": True}], 0, 1)["rows"], [[4999, 4999, "x1"]])
        self.assertEqual(self.page(reference, offset=10**9)["rows"], [])
        self.assertEqual(self.page(reference, [{"column": 9, "descending": True}])["state"], "unsortable")
        self.run_cell("df.loc[0, 'n'] = -1")
        self.assertEqual(self.page(reference, count=1)["rows"], [[0, -1, "x0"]])

    def test_can_be_of_some_rows_only(self) -> None:
        code = "df = pd.DataFrame({'s': [f'City {i % 100}' for i in range(5000)], 'n': [None, 1.5] * 2500})\ndf"
        reference = self.table(code)["table_id"]
        page = self.page(reference, filter="cITY 77", count=2)
        self.assertEqual((page["total"], page["rows"]), (50, [[77, "City 77", 1.5], [177, "City 77", 1.5]]))
        down = [{"column": 0, "descending": True}]
        self.assertEqual(self.page(reference, down, 49, filter="city 77")["rows"], [[77, "City 77", 1.5]])
        self.assertEqual(self.page(reference, down, filter="none")["total"], 0)  # that is how missing values are written, not a text

    def test_put_what_is_missing_last(self) -> None:
        values = "[2, None, 1] * 500, index=pd.to_datetime(['2021-01-01', None, '2020-01-01'] * 500)"
        reference = self.table(f"s = pd.Series({values})\ns")["table_id"]
        for column, first, last in ((1, 1, 2), (0, "2020-01-01", "2021-01-01")):
            for down in (False, True):
                sort = [{"column": column, "descending": down}]
                self.assertEqual(self.page(reference, sort, 0, 1)["rows"][0][column], last if down else first)
                self.assertIsNone(self.page(reference, sort, 1499, 1)["rows"][0][column])

    def test_are_not_of_what_is_gone_or_has_changed(self) -> None:
        reference = self.table("df = pd.DataFrame({'n': range(5000)})\ndf")["table_id"]
        self.run_cell("df['m'] = 1")
        self.assertEqual(self.page(reference)["state"], "changed")
        shown = self.run_cell("display(pd.DataFrame({'n': range(5000)}))").displays[0][MIME]["table_id"]
        self.run_cell("import gc\nn = gc.collect()")
        self.assertEqual(self.page(shown)["state"], "gone")
        self.assertEqual(self.page("never")["state"], "gone")

    def test_keep_nothing_alive(self) -> None:
        self.run_cell("import gc, weakref\nd = pd.DataFrame({'n': range(5000)})\nw = weakref.ref(d)")
        reference = self.run_cell("display(d)").displays[0][MIME]["table_id"]
        self.page(reference, [{"column": 1, "descending": True}])
        self.assertEqual(self.run_cell("del d\nn = gc.collect()\nprint(w())").stdout, "None\n")

    def test_of_objects_run_no_code_of_the_user(self) -> None:
        code = (
            "from decimal import Decimal\nclass C:\n    def __lt__(self, o): print('ran')\n    __eq__ = __gt__ = __str__ = __lt__\n"
            "    def __hash__(self): print('ran')\n    __repr__ = __hash__\n"
            "o = pd.Series([C(), Decimal('1.5'), [C()]] * 500, name='o')\nframe = o.to_frame()\nframe._repr_html_ = None"
        )
        self.run_cell(code)
        reference = self.run_cell("from talaria_runner.rendering.table_pages import remember\nprint(remember(frame))").stdout.strip()
        self.assertEqual([row[1] for row in self.page(reference)["rows"]], ["<C>", "1.5", "[<C>]"])
        self.assertEqual(self.page(reference, filter="<c>")["total"], 1000)
        page = self.page(reference, [{"column": 1, "descending": False}])
        self.assertEqual(page["state"], "unsortable")
        self.assertIn("in a cell", page["reason"])
        self.assertEqual(self.run_cell("print('end')").stdout, "end\n")

    def test_are_not_of_what_came_whole(self) -> None:
        self.assertNotIn("table_id", self.table("pd.DataFrame({'n': range(5)})"))


@_PANDAS
class Frames(TableCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.runner.run("import pandas as pd, numpy as np, datetime, decimal")

    def test_say_what_they_have(self) -> None:
        table = self.table("pd.DataFrame({'a': [1, 2], 'b': [1.5, np.nan]})")
        self.assertEqual(
            table,
            {
                "schema": {
                    "fields": [
                        {"name": "index", "type": "integer", "dtype": "int64", "index": True},
                        {"name": "a", "type": "integer", "dtype": "int64", "null_count": 0},
                        {"name": "b", "type": "number", "dtype": "float64", "null_count": 1},
                    ],
                    "primaryKey": ["index"],
                },
                "data": [{"index": 0, "a": 1, "b": 1.5}, {"index": 1, "a": 2, "b": None}],
                "total_rows": 2,
                "total_columns": 2,
                "truncated": False,
            },
        )

    def test_have_cells_of_every_kind(self) -> None:
        cases = [
            ("np.array([0.1, np.inf], 'f4')", "number", [0.1, None]),
            ("np.array([0.1, np.nan], np.longdouble)", "number", [0.1, None]),
            ("[True, False]", "boolean", [True, False]),
            ("pd.array([1, None], dtype='Int64')", "integer", [1, None]),
            ("pd.array(['x', None], dtype='string')", "string", ["x", None]),
            ("pd.to_datetime(['2024-01-02', None])", "datetime", ["2024-01-02", None]),
            ("pd.to_datetime(['2024-01-02 03:04:05', None])", "datetime", ["2024-01-02T03:04:05", None]),
            ("pd.to_datetime(['2024-01-02T03:04:05.000000007'])", "datetime", ["2024-01-02T03:04:05.000000007"]),
            ("pd.to_datetime(['2024-01-02']).tz_localize('Asia/Tokyo')", "datetime", ["2024-01-02T00:00:00+09:00"]),
            ("pd.to_timedelta(['25h', '-2.5s', None])", "duration", ["P1DT3600S", "-P0DT2.5S", None]),
            ("pd.period_range('2024-01', periods=2, freq='M')", "string", ["2024-01", "2024-02"]),
            ("pd.interval_range(0, 1)", "string", ["(0, 1]"]),
            ("[decimal.Decimal('1.10'), None]", "string", ["1.10", None]),
            ("[datetime.date(2024, 1, 2), pd.NaT]", "string", ["2024-01-02", None]),
            ("[{'a': [1, (2,)]}, [b'x']]", "string", ["{'a': [1, (2,)]}", "[b'x']"]),
            ("[1, 'a', None]", "any", [1, "a", None]),
            ("[2**60, 1]", "string", [str(2**60), "1"]),
            ("[1 + 2j]", "string", ["(1+2j)"]),
            ("[np.float32(0.5), np.int8(3)]", "number", [0.5, 3]),
            ("['x' * 600]", "string", ["x" * 499 + "…"]),
        ]
        for code, kind, cells in cases:
            with self.subTest(code):
                field, found = self.column(f"pd.DataFrame({{'c': {code}}})")
                self.assertEqual((field["type"], found), (kind, cells))

    def test_of_categories_list_them(self) -> None:
        field, cells = self.column("pd.DataFrame({'c': pd.Categorical(['x', None], ['y', 'x'], ordered=True)})")
        self.assertEqual((field["constraints"], field["ordered"], cells), ({"enum": ["y", "x"]}, True, ["x", None]))

    def test_have_names_that_differ(self) -> None:
        table = self.table("pd.DataFrame([[1, 2, 3]], columns=['a', 'a', 'index'])")
        fields = table["schema"]["fields"]
        self.assertEqual([field["name"] for field in fields], ["level_0", "a", "a.1", "index"])
        self.assertEqual(fields[2]["title"], "a")
        self.assertEqual(table["data"], [{"level_0": 0, "a": 1, "a.1": 2, "index": 3}])

    def test_have_names_that_differ_on_the_wire(self) -> None:
        table = self.table(r"pd.DataFrame([[1, 2, 3]], columns=['a\ud800', 'a\udc80', 'x' * 600])")
        names = [field["name"] for field in table["schema"]["fields"]]
        self.assertEqual(names, ["index", "a\ufffd", "a\ufffd.1", "x" * 499 + "…"])

    def test_of_many_levels(self) -> None:
        code = """
            index = pd.MultiIndex.from_tuples([("x", 1), ("x", 2)], names=["k", None])
            pd.DataFrame([[1, 2], [3, 4]], index=index, columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
            """
        table = self.table("\n".join(line.strip() for line in code.splitlines()))
        self.assertEqual(table["data"][1], {"k": "x", "level_1": 2, "a / 1": 3, "b / 2": 4})
        self.assertEqual(table["schema"]["primaryKey"], ["k", "level_1"])

    def test_with_repeated_index_have_no_key(self) -> None:
        self.assertNotIn("primaryKey", self.table("pd.DataFrame({'a': [1, 2]}, index=[0, 0])")["schema"])

    def test_that_are_long_give_their_first_rows(self) -> None:
        table = self.table("pd.DataFrame({'i': np.arange(5_000_000), 'f': np.zeros(5_000_000)})")
        self.assertEqual((len(table["data"]), table["total_rows"], table["truncated"]), (1000, 5_000_000, True))
        # Facts that are cheap to know are reported, and nothing that must be counted among millions.
        self.assertEqual(table["schema"]["fields"][1]["null_count"], 0)
        self.assertNotIn("null_count", table["schema"]["fields"][2])

    def test_that_are_wide_give_their_first_columns(self) -> None:
        table = self.table("pd.DataFrame(np.zeros((500, 300)))")
        self.assertEqual(len(table["schema"]["fields"]), 101)
        self.assertEqual((len(table["data"]), table["total_columns"], table["truncated"]), (200, 300, True))

    def test_with_much_text_give_fewer_rows(self) -> None:
        outcome = self.run_cell("pd.DataFrame({'s': ['\\u00e4' * 500] * 1000})")
        self.assertLess(len(outcome.result[MIME]["data"]), 200)
        self.assertGreater(len(outcome.result[MIME]["data"]), 100)

    def test_without_bounds_of_their_own_have_ours(self) -> None:
        code = (
            "names = ['display.max_rows', 'display.max_columns', 'display.max_colwidth']\n"
            "with pd.option_context(*[part for name in names for part in (name, None)]):\n"
            "    display(pd.DataFrame({'i': np.arange(1_000_000), 's': 'y' * 5000}))"
        )
        data = self.run_cell(code).displays[0]
        self.assertLess(len(data["text/html"]), 3_000_000)
        self.assertLess(len(data["text/plain"]), 3_000_000)
        self.assertEqual(data["text/html"].count("<tr"), 1002)
        self.assertEqual(self.run_cell("pd.get_option('display.max_rows')").text, "60")

    def test_without_anything(self) -> None:
        self.assertEqual(self.table("pd.DataFrame()")["data"], [])
        self.assertEqual(self.table("pd.DataFrame({'a': []})")["schema"]["fields"][1]["name"], "a")

    def test_of_one_column_are_series(self) -> None:
        outcome = self.run_cell("pd.Series([1, 2], name='n')")
        self.assertEqual(list(outcome.result), ["text/plain", MIME])
        self.assertEqual(outcome.result[MIME]["data"], [{"index": 0, "n": 1}, {"index": 1, "n": 2}])

    def test_that_show_themselves_do(self) -> None:
        code = "class F(pd.DataFrame):\n    def _repr_html_(self): return '<b>own</b>'\nF({'a': [1]})"
        outcome = self.run_cell(code)
        self.assertEqual(outcome.result["text/html"], "<b>own</b>")
        self.assertIn(MIME, outcome.result)
        code = (
            "class G(pd.DataFrame):\n    def _repr_mimebundle_(self, **k): return {'text/plain': 'own'}\nG({'a': [1]})"
        )
        result = self.run_cell(code).result
        self.assertEqual(result["text/plain"], "own")
        self.assertNotIn(MIME, result)

    def test_with_hostile_cells(self) -> None:
        code = """
class Meta(type):
    @property
    def __name__(cls): raise ValueError
class A(metaclass=Meta): pass
class B:
    def __str__(self): raise ValueError
class S(str):
    def __len__(self): return 1 << 60
    def __getitem__(self, i): raise ValueError
class C:
    def __str__(self): return S('sly')
class D:
    __module__ = 'numpy'
    ndim = 0
    def item(self): return E()
class E(D):
    __module__ = 'numpy'
    def item(self): return D()
class F:
    __module__ = 'datetime'
    def isoformat(self): return 5
F.__name__ = 'date'
loop = []; loop.append(loop)
"""
        self.run_cell(code)
        field, cells = self.column("pd.DataFrame({'o': [A(), B(), C(), D(), F(), loop]})")
        self.assertEqual(cells[:5], ["<object>", "<B>", "sly", "<object>", "<object>"])
        self.assertEqual(cells[5], "[[[[…]]]]")

    def test_that_lie_are_text(self) -> None:
        code = """
class Liar(pd.DataFrame):
    shape = property(lambda self: 1 / 0)
    iloc = property(lambda self: 1 / 0)
    def __repr__(self): return 'liar'
    def _repr_html_(self): return None
Liar({'a': [1]})
"""
        outcome = self.run_cell(code)
        self.assertEqual((outcome.result, outcome.stderr), ({"text/plain": "liar"}, ""))

    def test_of_a_library_that_was_replaced_do_no_harm(self) -> None:
        code = """
import sys
from unittest.mock import MagicMock
real = {name: sys.modules[name] for name in ("pandas", "PIL.Image", "matplotlib.figure") if name in sys.modules}
sys.modules.update({name: MagicMock() for name in real})
display(object())
sys.modules.update(real)
"""
        outcome = self.run_cell(code)
        self.assertEqual(outcome.stderr, "")
        self.assertEqual([list(data) for data in outcome.displays], [["text/plain"]])

    def test_with_strangers_ask_few_of_them(self) -> None:
        code = (
            "class P:\n    n = 0\n    def __str__(self): P.n += 1; return 'p'\n"
            "f = pd.DataFrame({'o': [P() for i in range(900)]}); f"
        )
        self.assertEqual(self.table(code)["data"][899]["o"], "<P>")
        self.assertLess(int(self.run_cell("P.n").text), 300)

    def test_with_slow_strangers_ask_fewer_of_them(self) -> None:
        code = (
            "import time\nclass Q:\n    n = 0\n    def __repr__(self): return 'q'\n"
            "    def __str__(self): Q.n += 1; time.sleep(0.3); return 'q'\n"
            "pd.Series([Q() for i in range(900)])"
        )
        self.assertEqual(self.table(code)["data"][1]["values"], "<Q>")


_POLARS = """
import sys, types
module = types.ModuleType("NAME")
class Column:
    def __init__(self, name, values): self.name, self.values = name, values
    dtype = type = "Int64"
    null_count = MISSING
    def head(self, n): return Column(self.name, self.values[:n])
    def slice(self, at, n): return self.head(n)
    def to_list(self): return self.values
    to_pylist = to_list
class DataFrame:
    height = num_rows = 5000
    schema = types.SimpleNamespace(names=["a", "a"])
    def get_columns(self): return [Column("a", list(range(5000))), Column("b", [None] * 5000)]
    def column(self, i): return self.get_columns()[i]
    def _repr_html_(self): return "<table></table>"
    def __str__(self): return "shape: (5000, 2)"
DataFrame.__module__ = "NAME"
module.DataFrame = module.Table = module.RecordBatch = DataFrame
open("NAME.py", "w").write("")
import NAME
vars(NAME).update(vars(module))
NAME.DataFrame()
"""


class OtherFrames(TableCase):
    def test_of_polars(self) -> None:
        result = self.run_cell(_POLARS.replace("NAME", "polars").replace("MISSING", "lambda self: 7")).result
        self.assertEqual((result["text/plain"], result["text/html"]), ("shape: (5000, 2)", "<table></table>"))
        fields = result[MIME]["schema"]["fields"]
        self.assertEqual(fields[0], {"name": "a", "type": "integer", "dtype": "Int64", "null_count": 7})
        self.assertEqual((len(result[MIME]["data"]), result[MIME]["total_rows"]), (1000, 5000))

    def test_of_pyarrow(self) -> None:
        result = self.run_cell(_POLARS.replace("NAME", "pyarrow").replace("MISSING", "7")).result
        self.assertEqual(list(result), ["text/plain", MIME])
        self.assertEqual(result[MIME]["data"][3], {"a": 3, "a.1": None})
        self.assertEqual(result[MIME]["total_columns"], 2)


if __name__ == "__main__":
    unittest.main()
