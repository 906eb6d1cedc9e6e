"""The data of a chart, read from what matplotlib has drawn. docs/charts.md describes the format."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.areas import read_areas, read_bands, read_segments
from talaria_runner.rendering.charts.axis import Axis
from talaria_runner.rendering.charts.bars import read_bars, read_outlines
from talaria_runner.rendering.charts.boxes import read_boxes
from talaria_runner.rendering.charts.heatmaps import read_heatmaps
from talaria_runner.rendering.charts.lines import read_error_bars, read_lines, read_stems
from talaria_runner.rendering.charts.names import describe_legend, name_series
from talaria_runner.rendering.charts.pies import read_pies
from talaria_runner.rendering.charts.scatters import read_scatters
from talaria_runner.rendering.charts.scene import Scene, other
from talaria_runner.rendering.charts.solids import read_solids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.rendering.charts.scene import Series

MIME = "application/vnd.talaria.chart+json"
VERSION = 1
AXES = 64  # of one figure
SERIES = 1000  # of one figure, and a fifth of them of one pair of axes
NOTES = 50  # texts of one pair of axes

# Readers that come first take their artists away from later ones.
_READERS: tuple[Callable[[Scene], list[Series]], ...] = (
    read_error_bars, read_stems, read_boxes, read_pies, read_lines, read_heatmaps, read_areas, read_bands,
    read_outlines, read_scatters, read_segments,
)  # fmt: skip


def describe(figure: object) -> dict[str, object] | None:
    """The chart of a figure that has been drawn; None if it has no data, or cannot be read. Raises nothing
    except an interrupt."""
    try:
        with modules["numpy"].errstate(all="ignore"):
            return _describe(figure)
    except Exception:
        return None


def _describe(figure: object) -> dict[str, object] | None:
    every = [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"][:AXES]
    artists = sum(len(axes.lines) + len(axes.collections) + len(axes.containers) for axes in every)
    limit = max(20, min(values.POINTS, values.ALL_POINTS // max(1, artists)))
    most = min(SERIES // 5, SERIES // max(1, len(every)))
    found = []
    for axes in every:
        try:
            described = {**_describe_axes(Scene(axes, limit, most)), **_place(axes, every)}
        except Exception:
            described = {"series": [other(axes)]}
        found.append(described)
    if not any(axes["series"] for axes in found):
        return None
    width, height = figure.get_size_inches() * figure.dpi
    chart: dict[str, object] = {"version": VERSION, "width": round(width), "height": round(height)}
    title = getattr(figure, "_suptitle", None)
    if title is not None:
        chart.update(values.if_any("title", title.get_text()))
    chart["axes"] = found
    return chart


def _describe_axes(scene: Scene) -> dict[str, object]:
    axes = scene.axes
    series, arrangement = _series(scene)
    legend = describe_legend(axes)
    name_series(axes, series)
    found: dict[str, object] = values.if_any("title", axes.get_title() or axes.get_title("left"))
    if axes.name != "rectilinear":
        found["projection"] = values.text(axes.name)
    if any(one["type"] != "pie" for one in series):
        found["x"], found["y"] = scene.x.describe(), scene.y.describe()
        if axes.name == "3d":
            found["z"] = Axis(axes.zaxis).describe()
    if legend is not None:
        found["legend"] = legend
    if arrangement is not None:
        found["bar_mode"] = arrangement
    found["series"] = series[: scene.most]
    omitted = len(series[scene.most :]) + len(scene.free(axes.lines))
    if omitted:
        found["omitted_series"] = omitted
    notes = _notes(scene) if not any(one["type"] == "pie" for one in series) else []
    if notes:
        found["notes"] = notes
    return found


def _series(scene: Scene) -> tuple[list[Series], str | None]:
    """What is drawn in the axes, and how its bars are arranged. Artists that cannot be read are counted by kind."""
    axes = scene.axes
    series: list[Series] = []
    others: dict[str, int] = {}
    arrangement = None
    try:
        bars, arrangement = read_bars(scene) if axes.name != "3d" else ([], None)
        series += bars
    except Exception:
        others["BarContainer"] = 1
    for read in _READERS if axes.name != "3d" else (read_solids,):
        try:
            series += read(scene)
        except Exception:
            name = read.__name__.partition("_")[2]
            others[name] = others.get(name, 0) + 1
    for artist in scene.free((*axes.collections, *axes.patches)):
        if not _has_size(artist):
            continue  # it is there for the legend
        name = values.text(type(artist).__name__)
        others[name] = others.get(name, 0) + 1
    series += [{"type": "other", "artist": name, "count": count} for name, count in others.items()]
    return series, arrangement


def _has_size(artist: object) -> bool:
    if hasattr(artist, "get_width") and hasattr(artist, "get_height"):
        return bool(artist.get_width() and artist.get_height())
    return bool(artist.get_paths() if hasattr(artist, "get_paths") else True)


def _notes(scene: Scene) -> list[dict[str, object]]:
    """Texts within the axes."""
    notes = []
    for text in scene.free(scene.axes.texts)[:NOTES]:
        if not text.get_text():
            continue
        note: dict[str, object] = {"text": values.text(text.get_text())}
        numpy = modules["numpy"]
        if getattr(text, "xycoords", "data") == "data":
            x, y = getattr(text, "xy", None) or text.get_unitless_position()
            if hasattr(text, "xy") or all(scene.in_data(text)):
                x = scene.axes.xaxis.convert_units(x)
                y = scene.axes.yaxis.convert_units(y)
                note["x"] = scene.x.values(numpy.array([x], dtype=float))[0]
                note["y"] = scene.y.values(numpy.array([y], dtype=float))[0]
        notes.append(note)
    return notes


def _place(axes: object, every: list[object]) -> dict[str, object]:
    """Where the axes are: a row and column of a grid, or on top of others with which they share an axis."""
    for index, twin in enumerate(every):
        if twin is axes:
            break
        if axes._twinned_axes.joined(axes, twin):
            return {"twin_of": index, "shared": "x" if axes.get_shared_x_axes().joined(axes, twin) else "y"}
    spec = axes.get_subplotspec()
    if spec is None:
        return {}
    spec = spec.get_topmost_subplotspec()
    rows, columns = spec.get_gridspec().get_geometry()
    if rows * columns == 1:
        return {}
    place = {"row": spec.rowspan.start, "column": spec.colspan.start}
    for key, span in (("rows", spec.rowspan), ("columns", spec.colspan)):
        if len(span) > 1:
            place[key] = len(span)
    return {"grid": place}
