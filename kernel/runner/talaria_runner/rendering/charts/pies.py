"""Pies and rings."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.scene import Scene, describe_color, kinds, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.rendering.charts.scene import Series


def read_pies(scene: Scene) -> list[Series]:
    """One series for each ring. Only the values' shares of the whole are known."""
    rings: dict[tuple[float, float], list[object]] = {}
    for patch in scene.free(scene.axes.patches):
        if "Wedge" in kinds(patch):
            rings.setdefault((patch.r, patch.width or patch.r), []).append(patch)
    found = []
    for (radius, width), wedges in rings.items():
        scene.take(wedges)
        shown = wedges[: scene.limit]
        series: Series = {
            "type": "pie",
            "labels": _labels(scene, shown, alone=len(rings) == 1),
            "shares": [values.number(round(abs(wedge.theta2 - wedge.theta1) / 360, 7)) for wedge in shown],
            "colors": [describe_color(wedge) for wedge in shown],
        }
        if width < radius:
            series["hole"] = values.number(1 - width / radius)
        if len(wedges) > len(shown):
            series["omitted"] = len(wedges) - len(shown)
        found.append(series)
    return found


def _labels(scene: Scene, wedges: list[object], alone: bool) -> list[str]:
    labels = [name_of(wedge) for wedge in wedges]
    legend = scene.axes.get_legend()
    if alone and not any(labels) and legend is not None and len(legend.get_texts()) == len(wedges):
        labels = [values.text(text.get_text()) for text in legend.get_texts()]
    return labels
