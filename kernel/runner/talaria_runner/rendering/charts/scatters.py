"""Scatters, hexagons included."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.heatmaps import describe_scale
from talaria_runner.rendering.charts.scene import Scene, describe_color, kinds, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.rendering.charts.scene import Series


def read_scatters(scene: Scene) -> list[Series]:
    found = []
    for artist in scene.free(scene.axes.collections)[: scene.most]:
        names = kinds(artist)
        if not names & {"PathCollection", "PolyCollection", "RegularPolyCollection"}:
            continue
        places = artist.get_offsets()
        if "PathCollection" not in names and (len(places) < 2 or artist.get_array() is None):
            continue
        if "PathCollection" in names and not _is_in_data(artist, scene):
            continue  # shapes of their own, as those of contour
        scene.take((artist,))
        if len(places):
            found.append(artist)
    return scene.read_each(found, _describe)


def _is_in_data(artist: object, scene: Scene) -> bool:
    return any(artist.get_offset_transform().contains_branch_seperately(scene.axes.transData))


def _describe(scene: Scene, artist: object) -> Series:
    numpy = modules["numpy"]
    places = numpy.ma.filled(numpy.ma.asarray(artist.get_offsets(), dtype=float), numpy.nan)
    chosen = values.evenly(len(places), scene.limit)
    series: Series = {"type": "scatter", "name": name_of(artist)}
    measured, colors = artist.get_array(), artist.get_facecolor()
    if not len(colors):
        colors = artist.get_edgecolor()
    if measured is not None:
        series["measured"] = values.numbers(numpy.ma.ravel(measured)[chosen])
        series["colormap"] = describe_scale(artist)
    elif len(colors) == len(places) > 1 and (colors != colors[0]).any():
        series["colors"] = [values.color(color) for color in colors[chosen]]
    else:
        series["color"] = describe_color(artist)
    sizes = artist.get_sizes() if "PathCollection" in kinds(artist) else ()
    if len(sizes) == len(places) > 1 and numpy.ptp(sizes):
        series["sizes"] = values.numbers(sizes[chosen])
    series["x"] = scene.x.values(places[chosen, 0])
    series["y"] = scene.y.values(places[chosen, 1])
    if len(series["x"]) < len(places):
        series["omitted"] = len(places) - len(series["x"])
    return series
