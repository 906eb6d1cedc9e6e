"""matplotlib figures: shown at show() and at the end of the cell, then closed; each change of them once."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from io import BytesIO
from sys import modules

from talaria_runner.own.hooks import made_by
from talaria_runner.rendering.display import Display
from talaria_runner.run.execution import disguise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.figure import Figure


_DOTS = 2  # pixels per CSS pixel in a picture, so that it is sharp on high-density screens
_LARGEST = 4_000_000  # dots of a picture that has more than one per CSS pixel
_RUN_LENGTHS = 3  # zlib's Z_RLE: a third less time than its usual way, for 6 % more bytes of a chart
_FORMATS = {
    "png": "image/png",
    "png2x": "image/png",
    "retina": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
}


class Figures:
    def __init__(self, display: Display) -> None:
        self._display = display
        self._formats = ("retina",)
        self._options: dict[str, object] = {}
        display.formatters.append(self.bundle)

    def set_formats(self, formats: str | Iterable[str], **options: object) -> None:
        """Makes figures be shown in these formats: png with one dot per CSS pixel, retina (or png2x) with two
        by two, svg, jpeg or pdf. options are those of matplotlib's print_figure, bbox_inches="tight" unless
        it is given. For another format it raises ValueError and changes nothing."""
        chosen = (formats,) if isinstance(formats, str) else tuple(formats)
        for format in chosen:
            if not isinstance(format, str) or format not in _FORMATS:
                raise ValueError(f"figures cannot be shown as {format!r}, only as {', '.join(_FORMATS)}")
        self._formats = chosen
        self._options = options

    def adopt(self, pyplot: object) -> None:
        """Makes pyplot, the module, show figures here, whichever backend draws them."""
        from talaria_runner.rendering import charts  # noqa: F401  # what is loaded before a fork is shared by all forks

        def show(*args: object, **kwargs: object) -> None:
            self.flush()

        disguise(show, pyplot.show)
        pyplot.show = show

        def show_figure(figure: Figure, warn: bool = True) -> None:
            self._show(figure)

        disguise(show_figure, pyplot.Figure.show)
        pyplot.Figure.show = show_figure

    def adopt_inline(self, module: object) -> None:
        """Makes set_matplotlib_formats of matplotlib_inline, or of IPython, choose the formats of figures here."""

        def set_matplotlib_formats(*formats: str, **options: object) -> None:
            self.set_formats(formats, **options)

        set_matplotlib_formats.__module__ = module.__name__
        set_matplotlib_formats.__qualname__ = "set_matplotlib_formats"
        module.set_matplotlib_formats = set_matplotlib_formats

    def flush(self) -> None:
        """Shows the open figures in the order of their numbers and closes them."""
        helpers = modules.get("matplotlib._pylab_helpers")
        if helpers is None or "matplotlib.pyplot" not in modules:
            return
        managers = helpers.Gcf.get_all_fig_managers()
        if not managers:
            return
        self._display.write_out()
        try:
            for manager in managers:
                figure = manager.canvas.figure
                if figure.stale or not _was_shown(figure):
                    self._show(figure)
        finally:
            modules["matplotlib.pyplot"].close("all")

    def bundle(self, value: object) -> tuple[dict[str, object], dict[str, object]] | None:
        """The pictures and the data of value, if it is a figure."""
        if not made_by(value, "matplotlib.figure", "Figure"):
            return None
        data: dict[str, object] = {"text/plain": repr(value)}
        metadata: dict[str, object] = {}
        if not value.axes and not value.lines and not value.texts and not value.images:
            return data, metadata
        for format in self._formats:
            mime = _FORMATS[format]
            data[mime], size = self._draw(value, format)
            if size is not None:
                metadata[mime] = size

        from talaria_runner.rendering import charts

        chart = charts.describe(value)
        if chart is not None:
            data[charts.MIME] = chart
        value.stale = False
        value._shown = True
        return data, metadata

    def _draw(self, figure: Figure, format: str) -> tuple[str | bytes, dict[str, int] | None]:
        """The picture, and its size in CSS pixels if the picture itself does not contain that."""
        dots = 1
        if format in ("retina", "png2x"):
            width, height = figure.get_size_inches() * figure.dpi * _DOTS
            dots = _DOTS if width * height <= _LARGEST else 1
            format = "png"
        picture = BytesIO()
        settings = {
            "format": format, "dpi": figure.dpi * dots, "bbox_inches": "tight",
            "facecolor": figure.get_facecolor(), "edgecolor": figure.get_edgecolor(), **self._options,
        }  # fmt: skip
        if format == "png":
            settings.setdefault("pil_kwargs", {"compress_type": _RUN_LENGTHS})
        figure.canvas.print_figure(picture, **settings)
        if format == "svg":
            return picture.getvalue().decode(), None
        found = picture.getvalue()
        if format != "png":
            return found, None
        # A PNG has its width and height after the signature and the head of the first chunk.
        width, height = (int.from_bytes(found[at : at + 4], "big") for at in (16, 20))
        return found, {"width": round(width / dots), "height": round(height / dots)}

    def _show(self, figure: Figure) -> None:
        self._display.display(figure)


def _was_shown(figure: Figure) -> bool:
    return getattr(figure, "_shown", False)
