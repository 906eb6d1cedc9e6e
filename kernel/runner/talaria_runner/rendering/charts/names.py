"""Legends, and the names of series that only they have."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.scene import describe_color, kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.rendering.charts.scene import Series


def describe_legend(axes: object) -> dict[str, object] | None:
    legend = axes.get_legend()
    if legend is None:
        return None
    found: dict[str, object] = {"labels": [values.text(text.get_text()) for text in legend.get_texts()[:200]]}
    title = legend.get_title().get_text()
    if title and title != "None":
        found["title"] = values.text(title)
    return found


def name_series(axes: object, series: list[Series]) -> None:
    """Names series without a label after the legend entry of the same colour."""
    names = _names(axes.get_legend())
    for one in series:
        if one["type"] == "box":
            for box in one["boxes"]:
                box.update(values.if_any("name", names.get(_opaque(box.get("color")))))
        elif one["type"] == "scatter" and "colors" in one and names:
            one["names"] = [names.get(_opaque(color)) for color in one["colors"]]
        elif not one.get("name") and one["type"] not in ("pie", "other"):
            one["name"] = names.get(_opaque(one.get("color")), "")
        if not one.get("name", "x"):
            del one["name"]


def _names(legend: object) -> dict[object, str]:
    """The names of colours. A colour of two entries gives no name."""
    if legend is None:
        return {}
    handles = getattr(legend, "legend_handles", None) or getattr(legend, "legendHandles", [])
    found: dict[object, str] = {}
    for handle, text in zip(handles, legend.get_texts()):
        key = _opaque(values.color(handle.get_color()) if "Line2D" in kinds(handle) else describe_color(handle))
        found[key] = "" if key in found else values.text(text.get_text())
    found.pop(None, None)
    return found


def _opaque(color: object) -> object:
    return color[:7] if isinstance(color, str) else None
