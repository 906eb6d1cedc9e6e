"""Pictures of PIL, formulas of sympy, figures of plotly and altair, and the shape of what they send."""

from __future__ import annotations

import base64
import importlib.util
import textwrap
import unittest

from tests.case import RunnerCase

PLOTLY = "application/vnd.plotly.v1+json"


def _size(png: str) -> tuple[int, int]:
    data = base64.b64decode(png)
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@unittest.skipUnless(importlib.util.find_spec("PIL"), "this interpreter has no PIL")
class Pictures(RunnerCase):
    def picture(self, code: str) -> dict:
        return self.run_cell("import PIL.Image\n" + code).of("result")[0]

    def test_come_as_they_are(self) -> None:
        frame = self.picture("PIL.Image.new('RGB', (30, 20), 'red')")
        self.assertEqual(_size(frame["data"]["image/png"]), (30, 20))
        self.assertEqual(frame["metadata"], {"image/png": {"width": 30, "height": 20}})
        self.assertRegex(frame["data"]["text/plain"], r"^<PIL.Image.Image image mode=RGB size=30x20 at \w+>$")

    def test_of_all_modes_come(self) -> None:
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F", "I;16"):
            for side in (10, 1500):
                with self.subTest(mode=mode, side=side):
                    frame = self.picture(f"PIL.Image.new({mode!r}, ({side}, {side}))")
                    width = _size(frame["data"]["image/png"])[0]
                    self.assertEqual(width, side if side == 10 else 750)

    def test_that_are_large_come_smaller(self) -> None:
        frame = self.picture("big = PIL.Image.new('RGB', (5000, 3000)); big")
        self.assertEqual(frame["metadata"]["image/png"], {"width": 1667, "height": 1000})
        self.assertTrue(frame["data"]["text/plain"].endswith(", shown at 1667x1000"))
        self.assertEqual(self.run_cell("big.size").text, "(5000, 3000)")

    def test_that_png_does_not_make_small_come_as_jpeg(self) -> None:
        code = "import os\nPIL.Image.frombytes('RGB', (1400, 1400), os.urandom(1400 * 1400 * 3))"
        frame = self.picture(code)
        self.assertEqual(sorted(frame["data"]), ["image/jpeg", "text/plain"])
        self.assertEqual(frame["metadata"]["image/jpeg"], {"width": 1400, "height": 1400})

    def test_without_area_are_text(self) -> None:
        self.assertEqual(list(self.picture("PIL.Image.new('RGB', (0, 5))")["data"]), ["text/plain"])

    def test_that_are_broken_fail_no_cell(self) -> None:
        code = """
            import io
            out = io.BytesIO(); PIL.Image.new("RGB", (50, 50)).save(out, "PNG")
            PIL.Image.open(io.BytesIO(out.getvalue()[:60]))
            """
        outcome = self.run_cell("import PIL.Image\n" + textwrap.dedent(code))
        self.assertIn("text/plain", outcome.result)
        self.assertNotIn("image/png", outcome.result)
        self.assertIn("Error", outcome.stderr)


@unittest.skipUnless(importlib.util.find_spec("sympy"), "this interpreter has no sympy")
class Formulas(RunnerCase):
    def test_come_as_latex_and_text(self) -> None:
        result = self.run_cell("import sympy\nsympy.Integral(sympy.Symbol('x') ** 2)").result
        self.assertEqual(result["text/latex"], r"$\displaystyle \int x^{2}\, dx$")
        self.assertEqual(result["text/plain"], "Integral(x**2, x)")


_LIBRARIES = {
    "plotly/__init__.py": "",
    "plotly/basedatatypes.py": """
        class BaseFigure:
            def to_dict(self): return {"data": [{"y": [1, 2]}]}
            def __repr__(self): return "Figure(" + "x" * 9000 + ")"
            def show(self, *args, **kwargs):
                import plotly.io
                return plotly.io.show(self, *args, **kwargs)
            def _ipython_display_(self):
                import plotly.io
                if plotly.io.renderers.render_on_display and plotly.io.renderers.default:
                    plotly.io.show(self)
                else:
                    print("plain")
        """,
    "plotly/io/__init__.py": "from plotly.io._renderers import renderers, show",
    "plotly/io/_renderers.py": """
        class Renderer:
            def to_mimebundle(self, figure): return {"application/vnd.plotly.v1+json": figure}
        class Renderers(dict):
            default = "browser"
            render_on_display = True
        renderers = Renderers(plotly_mimetype=Renderer())
        def show(fig, renderer=None, validate=True, **settings): print("shown by", renderer or renderers.default)
        """,
    "altair.py": """
        class Renderers:
            active = "default"
            def enable(self, name): self.active = name
        renderers = Renderers()
        class Chart:
            def _repr_mimebundle_(self, include=None, exclude=None):
                if renderers.active == "mimetype":
                    return {"application/vnd.vegalite.v5+json": {"mark": "bar"}, "text/plain": "<altair>"}
                return {"text/html": "<script>"}
        """,
}


class OtherLibraries(RunnerCase):
    """Most machines lack these libraries: the stand-ins do what the real ones do where it matters."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        files = {name: textwrap.dedent(text) for name, text in _LIBRARIES.items()}
        cls.runner.run(
            f"import os\nos.makedirs('plotly/io')\nfor name, text in {files!r}.items():\n"
            "    with open(name, 'w') as f: f.write(text)\n"
            "from plotly.basedatatypes import BaseFigure\nimport plotly.io"
        )

    def test_plotly_comes_as_its_data(self) -> None:
        outcome = self.run_cell("BaseFigure()")
        self.assertEqual(outcome.result[PLOTLY], {"data": [{"y": [1, 2]}]})
        self.assertEqual(len(outcome.result["text/plain"]), 4000)
        self.assertEqual(sorted(outcome.result), [PLOTLY, "text/plain"])
        for code in ("BaseFigure().show()", "display(BaseFigure())"):
            outcome = self.run_cell(code)
            self.assertEqual((outcome.displays[0][PLOTLY], outcome.stdout), ({"data": [{"y": [1, 2]}]}, ""))

    def test_plotly_keeps_a_renderer_that_was_chosen(self) -> None:
        self.assertEqual(self.run_cell("BaseFigure().show('png')").stdout, "shown by png\n")
        self.run_cell("plotly.io.renderers.default = 'svg'")
        try:
            outcome = self.run_cell("BaseFigure()")
            self.assertEqual((outcome.stdout, outcome.result), ("shown by svg\n", None))
            self.assertEqual(self.run_cell("BaseFigure().show()").stdout, "shown by svg\n")
        finally:
            self.run_cell("plotly.io.renderers.default = 'plotly_mimetype'")

    def test_plotly_shows_nothing_when_told_so(self) -> None:
        self.run_cell("plotly.io.renderers.render_on_display = False")
        try:
            self.assertEqual(self.run_cell("BaseFigure()").stdout, "plain\n")
        finally:
            self.run_cell("plotly.io.renderers.render_on_display = True")

    def test_altair_comes_as_vega_lite(self) -> None:
        result = self.run_cell("import altair\naltair.Chart()").result
        self.assertEqual(result, {"application/vnd.vegalite.v5+json": {"mark": "bar"}, "text/plain": "<altair>"})


if __name__ == "__main__":
    unittest.main()
