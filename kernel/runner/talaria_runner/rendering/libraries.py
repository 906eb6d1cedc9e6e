"""Adapts libraries when user code imports them: how their objects are shown."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.own.hooks import Hooks
    from talaria_runner.rendering.display import Display


def follow(hooks: Hooks, display: Display) -> None:
    """Makes display show the objects of these libraries. Our code for a library is loaded after the library
    itself."""

    def show(formatter: Callable) -> None:
        if formatter not in display.formatters:  # the module was loaded again
            display.formatters.append(formatter)

    def pandas(module: object) -> None:
        from talaria_runner.rendering.tables import show_pandas

        show(show_pandas)

    def polars(module: object) -> None:
        from talaria_runner.rendering.tables import show_polars

        show(show_polars)

    def pyarrow(module: object) -> None:
        from talaria_runner.rendering.tables import show_pyarrow

        show(show_pyarrow)

    def images(module: object) -> None:
        from talaria_runner.rendering.pictures import show_image

        show(show_image)

    def plotly_figures(module: object) -> None:
        from talaria_runner.rendering import plots

        plots.adopt_figures(module)
        show(plots.show_plotly)

    def plotly(module: object) -> None:
        from talaria_runner.rendering import plots

        plots.adopt_plotly(module, display)

    def altair(module: object) -> None:
        from talaria_runner.rendering import plots

        plots.adopt_altair(module)

    hooks.after("pandas", pandas)
    hooks.after("polars", polars)
    hooks.after("pyarrow", pyarrow)
    hooks.after("PIL.Image", images)
    hooks.after("plotly.basedatatypes", plotly_figures)
    hooks.after("plotly.io._renderers", plotly)
    hooks.after("altair", altair)
