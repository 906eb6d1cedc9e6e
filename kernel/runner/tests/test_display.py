"""Rich display."""

from __future__ import annotations

import importlib.util
import unittest

from tests.case import STDLIB, RunnerCase
from tests.host import Runner

_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Reprs(RunnerCase):
    def bundle(self, body: str) -> dict:
        lines = "\n".join("    " + line for line in body.split("\n"))
        return self.run_cell(f"class A:\n{lines}\nA()").result or {}

    def test_give_their_types(self) -> None:
        data = self.bundle('def _repr_html_(self): return "<i>h</i>"')
        self.assertEqual(data["text/html"], "<i>h</i>")
        self.assertRegex(data["text/plain"], r"<__main__\.A object at")
        data = self.bundle(
            'def _repr_svg_(self): return "<svg/>"\ndef _repr_latex_(self): return "$x$"\n'
            'def _repr_markdown_(self): return "**b**"\ndef _repr_json_(self): return {"a": [1, None]}\n'
            'def _repr_javascript_(self): return "1"\ndef _repr_png_(self): return b"\\x89PNG"\n'
            'def _repr_jpeg_(self): return b"\\xff\\xd8"\ndef _repr_pdf_(self): return b"%PDF"'
        )
        del data["text/plain"]
        self.assertEqual(
            data,
            {
                "image/svg+xml": "<svg/>", "text/latex": "$x$", "text/markdown": "**b**",
                "application/json": {"a": [1, None]}, "application/javascript": "1", "image/png": "iVBORw==",
                "image/jpeg": "/9g=", "application/pdf": "JVBERg==",
            },
        )  # fmt: skip

    def test_may_give_metadata(self) -> None:
        code = (
            'class M:\n    def _repr_mimebundle_(self, **k): return {"text/plain": "m"}, {"text/plain": {"w": 3}}\n'
            'M()'
        )
        outcome = self.run_cell(code)
        self.assertEqual(outcome.of("result")[0]["data"], {"text/plain": "m"})
        self.assertEqual(outcome.of("result")[0]["metadata"], {"text/plain": {"w": 3}})
        code = 'class P:\n    def _repr_png_(self): return b"x", {"width": 4}\nP()'
        self.assertEqual(self.run_cell(code).of("result")[0]["metadata"], {"image/png": {"width": 4}})

    def test_are_left_out_where_they_say_nothing(self) -> None:
        self.assertEqual(list(self.bundle("def _repr_html_(self): return None")), ["text/plain"])
        self.assertEqual(list(self.bundle("def __getattr__(self, name): return lambda *a, **k: 'any'")), ["text/plain"])
        code = 'class HH:\n    def _repr_html_(self): return "x"\nHH'
        self.assertEqual(list(self.run_cell(code).result), ["text/plain"])

    def test_that_raise_leave_the_cell_ok(self) -> None:
        outcome = self.run_cell("class B:\n    def __repr__(self): raise ValueError('bad repr')\nB()")
        self.assertIsNone(outcome.result)
        self.assertIn("ValueError: bad repr", outcome.stderr)
        self.assertIn("raise ValueError", outcome.stderr)
        self.assertNotIn("talaria_runner", outcome.stderr)
        outcome = self.run_cell("class H:\n    def _repr_html_(self): 1/0\nH()")
        self.assertEqual(list(outcome.result), ["text/plain"])
        self.assertIn("ZeroDivisionError", outcome.stderr)

    def test_may_show_themselves(self) -> None:
        outcome = self.run_cell('class D:\n    def _ipython_display_(self): print("custom")\nD()')
        self.assertEqual((outcome.stdout, outcome.result), ("custom\n", None))

    def test_of_numbers_that_are_not_json(self) -> None:
        code = (
            'class J:\n    def _repr_json_(self):\n'
            '        return {"nan": float("nan"), 1: {2, }, "t": (1,), "inf": [float("inf")]}\nJ()'
        )
        self.assertEqual(
            self.run_cell(code).result["application/json"], {"nan": None, "1": [2], "t": [1], "inf": [None]}
        )
        outcome = self.run_cell("class K:\n    def _repr_json_(self): x = []; x.append(x); return x\nK()")
        self.assertEqual(list(outcome.result), ["text/plain"])
        self.assertIn("ValueError", outcome.stderr)

    def test_with_lone_surrogates_are_sent(self) -> None:
        self.assertIn("\ud800", self.bundle("def __repr__(self): return '\\ud800'")["text/plain"])


class DisplayFunction(RunnerCase):
    def test_needs_no_import(self) -> None:
        self.assertEqual(self.run_cell("display(3)").displays, [{"text/plain": "3"}])
        outcome = self.run_cell('display(1); print("between"); display("two", [3])')
        self.assertEqual(outcome.order, ["display", "stdout", "display", "display", "done"])

    def test_shows_raw_bundles(self) -> None:
        code = 'display({"text/plain": "t", "application/x-custom+json": {"k": 2}}, raw=True, metadata={"m": 1})'
        frame = self.run_cell(code).of("display")[0]
        self.assertEqual(frame["data"], {"text/plain": "t", "application/x-custom+json": {"k": 2}})
        self.assertEqual(frame["metadata"], {"m": 1})

    def test_updates_what_was_shown(self) -> None:
        outcome = self.run_cell("h = display('a', display_id=True); h.update('b'); h.display('c')")
        frames = outcome.of("display")
        self.assertEqual([f["update"] for f in frames], [False, True, False])
        self.assertEqual(len({f["display_id"] for f in frames}), 1)
        self.assertTrue(frames[0]["display_id"])
        outcome = self.run_cell("from IPython.display import update_display\nupdate_display(5, display_id='x')")
        frame = outcome.of("display")[0]
        self.assertEqual((frame["display_id"], frame["update"]), ("x", True))
        self.assertRegex(self.run_cell("display(1, display_id='y')").text, "DisplayHandle display_id=y")

    def test_clears(self) -> None:
        outcome = self.run_cell(
            "from IPython.display import clear_output\nprint('a'); clear_output(wait=True); print('b')"
        )
        self.assertEqual(outcome.order, ["stdout", "clear", "stdout", "done"])
        self.assertEqual(outcome.of("clear")[0]["wait"], True)

    def test_refuses_what_is_too_large(self) -> None:
        outcome = self.run_cell("display({'image/png': b'x' * (30 << 20)}, raw=True)")
        self.assertEqual(outcome.displays, [])
        self.assertRegex(outcome.stderr, r"40\.0 MiB \(image/png\).*32 MiB")
        self.assertEqual(len(self.run_cell("display({'image/png': b'x' * (20 << 20)}, raw=True)").displays), 1)

    def test_publishes_bundles(self) -> None:
        code = (
            "from IPython.display import publish_display_data\n"
            "publish_display_data({'text/plain': 'p'}, {'text/plain': 1})"
        )
        frame = self.run_cell(code).of("display")[0]
        self.assertEqual((frame["data"], frame["metadata"]), ({"text/plain": "p"}, {"text/plain": 1}))

    def test_shows_objects_of_ipython(self) -> None:
        code = "from IPython.display import display, HTML, Image\ndisplay(HTML('<b>x</b>')); HTML('y')"
        outcome = self.run_cell(code)
        self.assertEqual((outcome.displays[0]["text/html"], outcome.result["text/html"]), ("<b>x</b>", "y"))

    def test_works_in_threads(self) -> None:
        code = "import threading\nt = threading.Thread(target=display, args=(5,)); t.start(); t.join()"
        self.assertEqual(self.run_cell(code).displays, [{"text/plain": "5"}])


@unittest.skipIf(importlib.util.find_spec("IPython"), "this interpreter has IPython itself")
class Shim(RunnerCase):
    def test_has_the_classes_of_ipython(self) -> None:
        code = (
            "from IPython.display import display, Markdown, JSON, SVG, Latex, Javascript, HTML, Math, Code, Pretty\n"
            'display(Markdown("*m*"), JSON({"a":1}), SVG("<svg xmlns=\'x\'/>"), Latex("$a$"), Javascript("1"), '
            'HTML("<b>"), Math("x^2"), Code("x=1", language="python"), Pretty("p"))'
        )
        shown = self.run_cell(code).displays
        for data, (mime, value) in zip(
            shown,
            [
                ("text/markdown", "*m*"), ("application/json", {"a": 1}), ("image/svg+xml", "<svg xmlns='x'/>"),
                ("text/latex", "$a$"), ("application/javascript", "1"), ("text/html", "<b>"),
                ("text/latex", "$\\displaystyle x^2$"), ("text/plain", "x=1"), ("text/plain", "p"),
            ],
            strict=True,
        ):  # fmt: skip
            self.assertEqual(data[mime], value)

    def test_has_images(self) -> None:
        code = (
            f'import base64\nraw = base64.b64decode("{_PIXEL}")\nfrom IPython.display import Image\n'
            f'Image(data=raw, width=5)'
        )
        outcome = self.run_cell(code)
        self.assertEqual(outcome.result["image/png"], _PIXEL)
        self.assertEqual(outcome.of("result")[0]["metadata"], {"image/png": {"width": 5}})
        self.run_cell("open('p.png', 'wb').write(raw);")
        self.assertEqual(self.run_cell("Image('p.png')").result["image/png"], _PIXEL)
        self.assertIn('src="https://x/y.png"', self.run_cell("Image(url='https://x/y.png')").result["text/html"])
        self.fail_cell("Image('missing.png')", "FileNotFoundError")

    def test_has_the_modules_of_ipython(self) -> None:
        self.assertEqual(
            self.run_cell("from IPython import display as d, get_ipython\ntype(get_ipython()).__name__, d.HTML('x').data").text,
            "('ZMQInteractiveShell', 'x')",
        )
        self.assertEqual(
            self.run_cell("from IPython.core.display import HTML, display\nHTML.__module__").text,
            "'IPython.core.display'",
        )
        self.fail_cell("import IPython.nothing", "ModuleNotFoundError")

    def test_has_audio(self) -> None:
        self.assertIn(
            "data:audio/wav;base64,",
            self.run_cell("from IPython.display import Audio\nAudio([0, .5, 1], rate=8000)").result["text/html"],
        )

    def test_has_videos_and_links_to_files(self) -> None:
        shown = self.run_cell("from IPython.display import FileLink, Video, YouTubeVideo\nYouTubeVideo('abc', start=30)._repr_html_()").text
        self.assertIn('src="https://www.youtube.com/embed/abc?start=30"', shown)
        self.assertIn('src="https://x/v.mp4"', self.run_cell("Video('https://x/v.mp4')").result["text/html"])
        shown = self.run_cell("open('v.webm', 'wb').write(b'1234')\nVideo('v.webm', embed=True, width=40)").result["text/html"]
        self.assertIn("data:video/webm;base64,MTIzNA==", shown)
        self.assertIn(' width="40"', shown)
        link = self.run_cell("FileLink('v.webm')").result
        self.assertIn(">v.webm</a>", link["text/html"])
        self.assertEqual(link["text/plain"], self.run_cell("import os; print(os.path.abspath('v.webm'))").text.strip())
        self.assertNotIn("<a ", self.run_cell("FileLink('<missing>')").result["text/html"])
        self.fail_cell("FileLink('.')", "ValueError")


class Shadowed(RunnerCase):
    @STDLIB
    def test_shim_gives_way_to_the_real_one(self) -> None:
        with Runner() as runner:
            runner.run("import os; os.mkdir('IPython'); open('IPython/__init__.py', 'w').write('real = 1')")
            self.assertEqual(runner.run("import IPython; IPython.real").text, "1")
