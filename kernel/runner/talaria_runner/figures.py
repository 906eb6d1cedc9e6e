"""matplotlib figures: shown at show() and at the end of the cell, then closed, each change of them once."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from io import BytesIO
from sys import modules

from talaria_runner.display import Display
from talaria_runner.execution import disguise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Figures:
    def __init__(self, display: Display) -> None:
        self._display = display
        display.formatters.append(self.bundle)

    def adopt(self, pyplot: object) -> None:
        """Has pyplot, the module, show figures here, whichever backend draws them."""

        def show(*args: object, **kwargs: object) -> None:
            self.flush()

        disguise(show, pyplot.show)
        pyplot.show = show

        def show_figure(figure: Figure, warn: bool = True) -> None:
            self._show(figure)

        disguise(show_figure, pyplot.Figure.show)
        pyplot.Figure.show = show_figure

    def flush(self) -> None:
        """Shows the open figures in the order of their numbers and closes them."""
        helpers = modules.get("matplotlib._pylab_helpers")
        if helpers is None or "matplotlib.pyplot" not in modules:
            return
        managers = helpers.Gcf.get_all_fig_managers()
        if not managers:
            return
        try:
            for manager in managers:
                figure = manager.canvas.figure
                if figure.stale or not _was_shown(figure):
                    self._show(figure)
        finally:
            modules["matplotlib.pyplot"].close("all")

    def bundle(self, value: object) -> tuple[dict[str, object], dict[str, object]] | None:
        """The picture of value, if it is a figure."""
        module = modules.get("matplotlib.figure")
        if module is None or not isinstance(value, module.Figure):
            return None
        text = {"text/plain": repr(value)}
        if not value.axes and not value.lines and not value.texts and not value.images:
            return text, {}
        picture = BytesIO()
        value.canvas.print_figure(
            picture, format="png", dpi=value.dpi, bbox_inches="tight",
            facecolor=value.get_facecolor(), edgecolor=value.get_edgecolor(),
        )  # fmt: skip
        png = picture.getvalue()
        value.stale = False
        value._shown = True
        # A PNG has its width and height behind the signature and the first chunk's head.
        size = {"width": int.from_bytes(png[16:20], "big"), "height": int.from_bytes(png[20:24], "big")}
        return {**text, "image/png": png}, {"image/png": size}

    def _show(self, figure: Figure) -> None:
        self._display.display(figure)


def _was_shown(figure: Figure) -> bool:
    return getattr(figure, "_shown", False)
