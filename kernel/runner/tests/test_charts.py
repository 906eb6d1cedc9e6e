"""Charts as data: the examples of docs/charts.md, and what must neither fail nor take long."""

from __future__ import annotations

import importlib.util
import json
import re
import textwrap
import unittest
from pathlib import Path

from tests.case import RunnerCase

MIME = "application/vnd.talaria.chart+json"
_DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "charts.md"
_EXAMPLE = re.compile(r"```python\n(.*?)```\n```json\n(.*?)```\n", re.DOTALL)
_IMPORTS = "import matplotlib.pyplot as plt\nimport numpy as np\nimport pandas as pd\n"


class ChartCase(RunnerCase):
    env = {"MPLBACKEND": "Agg"}

    def chart(self, code: str) -> dict:
        outcome = self.run_cell(_IMPORTS + textwrap.dedent(code))
        self.assertEqual(outcome.stderr, "")
        charts = [data for data in outcome.displays if "image/png" in data]
        self.assertEqual(len(charts), 1)
        return charts[0].get(MIME)

    def axes(self, code: str) -> dict:
        return self.chart(code)["axes"][0]

    def series(self, code: str) -> list[dict]:
        return self.axes(code)["series"]

    def assert_has(self, found: object, expected: object, where: str = "") -> None:
        """found matches expected, but objects may have further members."""
        if isinstance(expected, dict):
            for key, value in expected.items():
                self.assertIn(key, found, where)
                self.assert_has(found[key], value, f"{where}.{key}")
        elif isinstance(expected, list):
            self.assertEqual(len(found), len(expected), where)
            for number, (one, other) in enumerate(zip(found, expected)):
                self.assert_has(one, other, f"{where}[{number}]")
        elif isinstance(expected, float):
            self.assertAlmostEqual(found, expected, msg=where)
        else:
            self.assertEqual(found, expected, where)


@unittest.skipUnless(
    importlib.util.find_spec("matplotlib") and importlib.util.find_spec("pandas"),
    "this interpreter has no matplotlib or no pandas",
)
class Charts(ChartCase):
    def test_are_as_documented(self) -> None:
        examples = _EXAMPLE.findall(_DOCUMENT.read_text())
        self.assertGreater(len(examples), 10)
        for code, expected in examples:
            with self.subTest(code):
                chart, expected = self.chart(code), json.loads(expected)
                self.assert_has(chart if "axes" in expected else chart["axes"][0], expected)

    def test_of_pandas_have_dates(self) -> None:
        code = "pd.Series([1, 2], pd.period_range('2024-01', periods=2, freq='M'), name='v').plot(legend=True)"
        axes = self.axes(code)
        self.assertEqual(axes["x"]["type"], "date")
        self.assert_has(axes["series"], [{"type": "line", "name": "v", "x": ["2024-01-01", "2024-02-01"]}])

    def test_of_times_in_a_zone_say_so(self) -> None:
        code = "plt.plot(pd.date_range('2024-01-01 10:30', periods=2, tz='Europe/Berlin'), [1, 2])"
        self.assertEqual(self.series(code)[0]["x"], ["2024-01-01T09:30:00Z", "2024-01-02T09:30:00Z"])

    def test_group_bars_that_were_placed_by_hand(self) -> None:
        axes = self.axes(
            """
            x = np.arange(3)
            plt.bar(x - 0.2, [1, 2, 3], 0.4, label="m", yerr=[0.1, 0.1, 0.1])
            plt.bar(x + 0.2, [3, 2, 1], 0.4, label="w")
            plt.bar(x + 0.2, [1, 1, 1], 0.4, bottom=[3, 2, 1], label="v")
            plt.xticks(x, ["G1", "G2", "G3"])
            """
        )
        self.assertEqual(axes["bar_mode"], "grouped_stacked")
        self.assert_has(axes["series"][0]["y_error"], {"low": [0.9, 1.9, 2.9], "high": [1.1, 2.1, 3.1]})
        self.assert_has(
            axes["series"],
            [
                {"name": "m", "positions": ["G1", "G2", "G3"], "group": 0, "stack": 0},
                {"name": "w", "values": [3, 2, 1], "group": 1, "stack": 0},
                {"name": "v", "values": [1, 1, 1], "base": [3, 2, 1], "group": 1, "stack": 1},
            ],
        )

    def test_of_several_histograms(self) -> None:
        for how in ("", ", histtype='step'", ", histtype='stepfilled'"):
            with self.subTest(how):
                series = self.series(f"plt.hist([[0.1, 0.2, 1.1], [1.2]], bins=[0, 1, 2], label=['u', 'v']{how})")
                found = {one["name"]: one for one in series}
                self.assertEqual({one["type"] for one in series}, {"histogram"})
                if how == "":  # whole numbers could be categories
                    continue
                self.assert_has(found["u"], {"bins": [0, 1, 2], "values": [2, 1]})
                self.assert_has(found["v"], {"bins": [0, 1, 2], "values": [0, 1]})

    def test_of_steps(self) -> None:
        self.assert_has(self.series("plt.stairs([1, 2], [0, 1, 3])"), [{"type": "histogram", "bins": [0, 1, 3]}])
        self.assert_has(self.series("plt.step([1, 2], [3, 4], where='post')"), [{"step": "after"}])

    def test_of_boxes_that_lie(self) -> None:
        series = self.series("plt.boxplot([[1, 2, 3], [2, 3, 4]], vert=False, patch_artist=True, notch=True)")
        self.assert_has(series, [{"type": "box", "orientation": "horizontal"}])
        self.assert_has(series[0]["boxes"][1], {"low": 2, "q1": 2.5, "median": 3, "q3": 3.5, "high": 4})

    def test_of_meshes(self) -> None:
        code = "plt.pcolormesh([0, 1, 3], [0, 10, 20], [[1, 2], [3, 4]])"
        expected = {"type": "heatmap", "x": [0.5, 2], "y": [5, 15], "values": [[1, 2], [3, 4]]}
        self.assert_has(self.series(code), [expected])

    def test_of_three_dimensions(self) -> None:
        chart = self.axes("plt.figure().add_subplot(projection='3d').plot([1, 2], [3, 4], [5, 6])")
        self.assert_has(chart, {"projection": "3d", "series": [{"x": [1, 2], "y": [3, 4], "z": [5, 6]}]})

    def test_name_series_after_the_legend(self) -> None:
        code = "plt.plot([1, 2]); plt.plot([2, 1]); plt.legend(['one', 'two'])"
        self.assertEqual([one["name"] for one in self.series(code)], ["one", "two"])
        code = (
            "plt.scatter([1, 2], [1, 2], c=['red', 'blue'])\n"
            "for c in ('red', 'blue'): plt.scatter([], [], color=c, label=c + '!')\nplt.legend()"
        )
        self.assertEqual(self.series(code)[0]["names"], ["red!", "blue!"])

    def test_say_what_they_leave_out(self) -> None:
        line = self.series("y = np.zeros(1_000_000); y[777_777] = 5; plt.plot(y)")[0]
        self.assertEqual(len(line["x"]) + line["omitted"], 1_000_000)
        self.assertLessEqual(len(line["x"]), 1000)
        self.assertEqual(line["x"][line["y"].index(5)], 777_777)
        axes = self.axes("for i in range(300): plt.plot([i])")
        self.assertEqual((len(axes["series"]), axes["omitted_series"]), (200, 100))
        image = self.series("plt.imshow(np.zeros((300, 100)))")[0]
        self.assertEqual((image["rows"], image["columns"], len(image["values"])), (300, 100, 60))

    def test_are_not_there_without_data(self) -> None:
        self.assertIsNone(self.chart("plt.subplots()"))
        self.assertIsNone(self.chart("plt.figure().text(0.5, 0.5, 'only text')"))

    def test_of_what_is_not_understood_say_so(self) -> None:
        series = self.series("plt.contour(np.arange(9).reshape(3, 3))")
        self.assertEqual({one["type"] for one in series}, {"other"})
        self.assertGreaterEqual(series[0]["count"], 1)

    def test_of_hostile_artists_fail_nothing(self) -> None:
        chart = self.chart(
            """
            from matplotlib.lines import Line2D
            class Liar(Line2D):
                armed = False
                def get_label(self): return 1 / 0 if Liar.armed else "liar"
            class Deep(Line2D):
                def get_color(self): return [[["red"]]]
                def get_marker(self): return object()
            ax = plt.gca()
            ax.add_line(Liar([1, 2], [3, 4])); ax.bar([1], [2])
            Liar.armed = True
            """
        )
        self.assert_has(chart["axes"][0]["series"], [{"type": "bar"}, {"type": "other", "artist": "Liar", "count": 1}])
        code = """
            from matplotlib.figure import Figure
            class Closed(Figure):
                n = 0
                @property
                def axes(self):
                    Closed.n += 1
                    if Closed.n > DRAWN: raise ValueError("axes")
                    return super().axes
            fig = Closed(); fig.add_subplot().plot([1]); Closed.n = 0
            """
        self.run_cell(textwrap.dedent(code).replace("DRAWN", "1000"))
        frame = self.run_cell("fig").result
        self.assertIn(MIME, frame)
        self.run_cell("total, Closed.n = Closed.n, 0")
        self.run_cell(textwrap.dedent(code).replace("DRAWN", "total - 1"))
        outcome = self.run_cell("fig")
        self.assertIn("image/png", outcome.result)
        self.assertNotIn(MIME, outcome.result)
        self.assertEqual(outcome.stderr, "")

    def test_leave_the_figure_as_it_was(self) -> None:
        code = "fig, ax = plt.subplots(); ax.plot([1, 2]); ax.set_ylim(0, 9)\ndisplay(fig)\n[float(limit) for limit in ax.get_ylim()], float(fig.dpi)"
        outcome = self.run_cell(_IMPORTS + code)
        self.assertEqual(outcome.text, "([0.0, 9.0], 100.0)")
        self.assertEqual(len(outcome.displays), 1)


if __name__ == "__main__":
    unittest.main()
