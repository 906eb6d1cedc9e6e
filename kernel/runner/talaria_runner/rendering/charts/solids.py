"""Lines and points of axes in three dimensions."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.scene import Scene, describe_color, kinds, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.rendering.charts.scene import Series


def read_solids(scene: Scene) -> list[Series]:
    numpy = modules["numpy"]
    found = []
    for artist in scene.free((*scene.axes.lines, *scene.axes.collections)):
        names = kinds(artist)
        if "Line3D" in names:
            kind, color, points = "line", values.color(artist.get_color()), artist.get_data_3d()
        elif "Path3DCollection" in names:
            kind, color, points = "scatter", describe_color(artist), artist._offsets3d
        else:
            continue
        scene.take((artist,))
        points = [numpy.ma.filled(numpy.ma.asarray(one, dtype=float), numpy.nan).ravel() for one in points]
        chosen = values.evenly(len(points[0]), scene.limit)
        series: Series = {"type": kind, "name": name_of(artist), "color": color}
        for key, one in zip("xyz", points):
            series[key] = values.numbers(one[chosen])
        if len(series["x"]) < len(points[0]):
            series["omitted"] = len(points[0]) - len(series["x"])
        found.append(series)
    scene.take((*scene.axes.lines,))
    return found
