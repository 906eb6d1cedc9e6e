"""plotly and altair: figures as their own data, which a page draws, and not as megabytes of scripts."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os

from talaria_runner.own.hooks import made_by
from talaria_runner.run.execution import disguise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.rendering.display import Display

    Bundle = dict[str, object]

PLOTLY = "application/vnd.plotly.v1+json"
_RENDERER = "plotly_mimetype"
TEXT = 4000  # characters of a figure's description


def show_plotly(value: object) -> tuple[Bundle, Bundle] | None:
    """The formatter for plotly's figures, unless user code chose another renderer."""
    if not made_by(value, "plotly.basedatatypes", "BaseFigure") or not _is_ours():
        return None
    import plotly.io

    text = repr(value)
    if len(text) > TEXT:
        text = text[: TEXT - 1] + "…"
    return {"text/plain": text, **plotly.io.renderers[_RENDERER].to_mimebundle(value.to_dict())}, {}


def adopt_figures(module: object) -> None:
    """Makes figures be shown by show_plotly. Their own way asks for nbformat and IPython. module is
    plotly.basedatatypes."""
    original = module.BaseFigure._ipython_display_

    def show(self: object) -> None:
        if _is_ours():
            raise NotImplementedError
        original(self)

    disguise(show, original)
    module.BaseFigure._ipython_display_ = show


def adopt_plotly(module: object, display: Display) -> None:
    """Makes our renderer plotly's default, and makes show() use it. module is plotly.io._renderers."""
    if not os.environ.get("PLOTLY_RENDERER"):
        module.renderers.default = _RENDERER
    original = module.show

    def show(fig: object, renderer: str | None = None, validate: bool = True, **settings: object) -> None:
        if renderer is None and not settings and made_by(fig, "plotly.basedatatypes", "BaseFigure") and _is_ours():
            display.display(fig)
        else:
            original(fig, renderer, validate, **settings)

    disguise(show, original)
    module.show = show


def adopt_altair(module: object) -> None:
    """Makes charts be shown as Vega-Lite's JSON, and not as a page that loads scripts. module is altair."""
    if module.renderers.active == "default":
        module.renderers.enable("mimetype")


def _is_ours() -> bool:
    import plotly.io

    renderers = plotly.io.renderers
    return renderers.default == _RENDERER and renderers.render_on_display
