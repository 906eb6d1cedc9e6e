"""numpy, pandas and matplotlib, if the interpreter has them."""

from __future__ import annotations

import base64
import importlib.util
import unittest

from tests.case import RunnerCase
from tests.host import Runner

_MATPLOTLIB = unittest.skipUnless(importlib.util.find_spec("matplotlib"), "this interpreter has no matplotlib")
_PANDAS = unittest.skipUnless(importlib.util.find_spec("pandas"), "this interpreter has no pandas")


@_PANDAS
class Tables(RunnerCase):
    def test_come_as_html_and_text(self) -> None:
        outcome = self.run_cell('import pandas as pd\npd.DataFrame({"a":[1,2]})')
        self.assertIn("<table", outcome.result["text/html"])
        self.assertRegex(outcome.text, r"a\n0  1")

    def test_in_containers_are_text(self) -> None:
        text = self.run_cell('import pandas as pd\n[pd.Series([1, 2]), 3]').text
        self.assertTrue(text.startswith("[0    1\n 1    2\n dtype: int64,\n 3]"), text)

    def test_of_numpy(self) -> None:
        self.assertEqual(self.run_cell("import numpy as np\nnp.arange(3)").text, "array([0, 1, 2])")
        code = 'display({"application/json": {"n": np.int64(3), "f": np.float64("nan"), "a": np.arange(2), "l": np.longdouble(1.5)}}, raw=True)'
        self.assertEqual(self.run_cell(code).displays, [{"application/json": {"n": 3, "f": None, "a": [0, 1], "l": "1.5"}}])


@_MATPLOTLIB
class Figures(RunnerCase):
    env = {"MPLBACKEND": "Agg"}

    def pictures(self, outcome) -> list[str]:
        return [data["image/png"] for data in outcome.displays if "image/png" in data]

    def test_come_at_the_end_of_the_cell(self) -> None:
        outcome = self.run_cell(
            'import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1,3,2]); print("x")'
        )
        self.assertEqual(outcome.order, ["stdout", "display", "done"])
        frame = outcome.of("display")[0]
        self.assertEqual(frame["data"]["text/plain"], "<Figure size 640x480 with 1 Axes>")
        png = base64.b64decode(frame["data"]["image/png"])
        self.assertTrue(png.startswith(b"\x89PNG"))
        # Two dots for each CSS pixel.
        size = {"width": int.from_bytes(png[16:20], "big") / 2, "height": int.from_bytes(png[20:24], "big") / 2}
        for side, dots in size.items():
            self.assertAlmostEqual(frame["metadata"]["image/png"][side], dots, delta=0.5)
        self.assertEqual(list(frame["data"]), ["text/plain", "image/png", "application/vnd.talaria.chart+json"])
        self.assertEqual(self.run_cell("plt.get_fignums()").text, "[]")

    def test_come_at_show_in_order(self) -> None:
        outcome = self.run_cell('import matplotlib.pyplot as plt\nprint("a"); plt.plot([1]); plt.show(); print("b")')
        self.assertEqual(outcome.order, ["stdout", "display", "stdout", "done"])
        self.assertEqual(outcome.stderr, "")
        outcome = self.run_cell("from matplotlib.pyplot import show\nplt.plot([1]); show(block=False)")
        self.assertEqual(len(self.pictures(outcome)), 1)

    def test_come_each(self) -> None:
        code = "import matplotlib.pyplot as plt\nfor i in range(2):\n    plt.figure(); plt.plot([i])"
        self.assertEqual(len(self.pictures(self.run_cell(code))), 2)

    def test_come_after_an_error_too(self) -> None:
        outcome = self.fail_cell("import matplotlib.pyplot as plt\nplt.plot([1]); 1/0", "ZeroDivisionError")
        self.assertEqual(len(self.pictures(outcome)), 1)

    def test_that_are_saved_and_closed_do_not_come(self) -> None:
        code = (
            'import matplotlib.pyplot as plt, os\n'
            'plt.plot([1]); plt.savefig("o.png"); plt.close(); os.path.getsize("o.png") > 500'
        )
        outcome = self.run_cell(code)
        self.assertEqual((outcome.text, outcome.displays), ("True", []))

    def test_that_are_saved_and_open_come(self) -> None:
        outcome = self.run_cell('import matplotlib.pyplot as plt\nplt.plot([1]); plt.savefig("o.png")')
        self.assertEqual(len(self.pictures(outcome)), 1)

    def test_as_the_value_come_once(self) -> None:
        outcome = self.run_cell("import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); plt.close(fig); fig")
        self.assertIn("image/png", outcome.result)
        self.assertIn("Figure size", outcome.text)
        outcome = self.run_cell("fig, ax = plt.subplots(); ax.plot([1]); fig")
        self.assertIn("image/png", outcome.result)
        self.assertEqual(outcome.displays, [])

    def test_shown_by_hand_come_again_only_when_changed(self) -> None:
        self.run_cell("import matplotlib.pyplot as plt")
        self.assertEqual(len(self.pictures(self.run_cell("fig, ax = plt.subplots(); ax.plot([1]); display(fig)"))), 1)
        code = "fig, ax = plt.subplots(); ax.plot([1]); display(fig); ax.set_title('t');"
        self.assertEqual(len(self.pictures(self.run_cell(code))), 2)
        self.assertEqual(len(self.pictures(self.run_cell("fig, ax = plt.subplots(); ax.plot([1]); fig.show()"))), 1)

    def test_of_a_backend_chosen_by_user_code_come(self) -> None:
        with Runner() as runner:
            code = (
                "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
                "plt.plot([1]); plt.show()"
            )
            outcome = runner.run(code)
            self.assertEqual(len(self.pictures(outcome)), 1)
            self.assertEqual(outcome.stderr, "")

    def test_come_in_the_formats_that_were_chosen(self) -> None:
        plot = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1, 2]); fig"
        sharp = self.run_cell(plot).of("result")[0]["metadata"]["image/png"]
        choose = "from IPython.display import set_matplotlib_formats as choose\nchoose({})"
        try:
            self.run_cell(choose.format("'svg', 'png'"))
            data = self.run_cell(plot).result
            self.assertIn("<svg", data["image/svg+xml"])
            width = int.from_bytes(base64.b64decode(data["image/png"])[16:20], "big")
            self.assertAlmostEqual(width, sharp["width"], delta=1)
            self.assertIn("application/vnd.talaria.chart+json", data)
            self.run_cell(choose.format("'jpeg'"))
            self.assertTrue(self.run_cell(plot).result["image/jpeg"].startswith("/9j/"))
            outcome = self.fail_cell(choose.format("'gif'"), "ValueError")
            self.assertIn("'gif', only as png, png2x, retina", outcome.error["evalue"])
        finally:
            self.run_cell(choose.format("'retina'"))

    def test_that_are_huge_have_one_dot_for_each_pixel(self) -> None:
        code = "import matplotlib.pyplot as plt\nfig = plt.figure(figsize=(20, 12)); fig.add_subplot().plot([1]); fig"
        frame = self.run_cell(code).of("result")[0]
        png = base64.b64decode(frame["data"]["image/png"])
        self.assertEqual(frame["metadata"]["image/png"]["width"], int.from_bytes(png[16:20], "big"))

    def test_that_cannot_be_drawn_fail_no_cell(self) -> None:
        outcome = self.run_cell("import matplotlib.pyplot as plt\nplt.plot([1]); plt.title(r'$\\frac{$')")
        self.assertIn("ValueError", outcome.stderr)
        self.assertEqual(self.run_cell("plt.get_fignums()").text, "[]")
