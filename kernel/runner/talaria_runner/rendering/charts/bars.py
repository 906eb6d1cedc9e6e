"""Bars and histograms: their orientation, and how the bars of several series are arranged."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.lines import errors
from talaria_runner.rendering.charts.scene import Scene, describe_color, kinds, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy import ndarray

    from talaria_runner.rendering.charts.axis import Axis
    from talaria_runner.rendering.charts.scene import Series


class _Bars:
    """The bars of one container. centers and widths are along the categories, bases and sizes across them."""

    def __init__(self, container: object, patches: list[object], vertical: bool) -> None:
        numpy = modules["numpy"]
        box = numpy.array([(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in patches], dtype=float)
        box = box.reshape(-1, 4)
        along, across = (0, 1) if vertical else (1, 0)
        self.container = container
        self.vertical = vertical
        self.centers: ndarray = box[:, along] + box[:, along + 2] / 2
        self.widths: ndarray = numpy.abs(box[:, along + 2])
        self.bases: ndarray = box[:, across]
        self.sizes: ndarray = box[:, across + 2]
        self.colors = [describe_color(patch) for patch in patches]
        self.name = name_of(container) or (name_of(patches[0]) if patches else "")
        self.offset = 0.0
        self.group = 0
        self.level = 0


def read_bars(scene: Scene) -> tuple[list[Series], str | None]:
    """The series, and how several are arranged: "grouped", "stacked", "grouped_stacked" or "overlaid"."""
    found = []
    for container in scene.axes.containers:
        if "BarContainer" in kinds(container) and id(container) not in scene.taken:
            patches = container.patches[: scene.limit]
            patches = [patch for patch in patches if patch.get_visible() and patch.get_x() == patch.get_x()]
            scene.take(container.patches)
            if container.errorbar is not None:
                scene.take((container.errorbar, *container.errorbar.lines[1], *container.errorbar.lines[2]))
            if patches and len(found) < scene.most:
                found.append(_Bars(container, patches, _is_vertical(container)))
    if not found:
        return [], None
    vertical = found[0].vertical
    axis = scene.x if vertical else scene.y
    axis.name_categories(modules["numpy"].concatenate([bars.centers for bars in found]))
    edges = _edges(found) if axis.kind == "number" else None
    if edges is not None:
        return [_histogram(bars, edges, scene) for bars in found], None
    arrangement = _arrange(found, axis)
    return [_describe(bars, scene, arrangement) for bars in found], arrangement


def read_outlines(scene: Scene) -> list[Series]:
    """Histograms that were drawn as one outline."""
    found = []
    for patch in scene.free(scene.axes.patches):
        if "StepPatch" in kinds(patch):
            counts, edges, base = patch.get_data()
            outline = values.floats(edges), values.floats(counts)
            vertical = getattr(patch, "orientation", "vertical") == "vertical"
        elif "Polygon" in kinds(patch) and all(scene.in_data(patch)):
            outline = _outline(patch.get_xy())
            vertical = True
        else:
            continue
        if outline is None:
            continue
        scene.take((patch,))
        edges, counts = outline
        found.append(
            {
                "type": "histogram",
                "name": name_of(patch),
                "color": describe_color(patch),
                "orientation": "vertical" if vertical else "horizontal",
                "bins": (scene.x if vertical else scene.y).values(edges[: scene.limit + 1]),
                "values": values.numbers(counts[: scene.limit]),
                **_omitted(len(counts), scene),
            }
        )
    return found


def _outline(points: ndarray) -> tuple[ndarray, ndarray] | None:
    """The edges and heights of a histogram that was drawn as a polygon: each edge twice, then perhaps the way back."""
    for count in (len(points) // 2, (len(points) + 3) // 4, (len(points) + 2) // 4):
        x, y = points[: 2 * count, 0], points[: 2 * count, 1]
        if count < 2 or len(x) != 2 * count or not (x[::2] == x[1::2]).all() or not (x[2::2] > x[:-2:2]).all():
            continue
        if (y[1:-1:2] == y[2::2]).all():
            return x[::2], y[1:-1:2]
    return None


def _is_vertical(container: object) -> bool:
    orientation = getattr(container, "orientation", None)
    if orientation is not None:
        return orientation == "vertical"
    patches = container.patches
    return len({round(patch.get_y(), 9) for patch in patches}) <= len({round(patch.get_x(), 9) for patch in patches})


def _edges(found: list[_Bars]) -> ndarray | None:
    """The edges of the bins, if these bars are a histogram: they touch, or their groups are evenly spaced,
    and they are not at whole numbers with a width of one."""
    numpy = modules["numpy"]
    if len({len(bars.centers) for bars in found}) != 1 or len(found[0].centers) < 2:
        return None
    first = found[0]
    lefts, rights = first.centers - first.widths / 2, first.centers + first.widths / 2
    near = numpy.abs(numpy.diff(first.centers)).max() * 1e-6
    if all(numpy.abs(bars.centers - first.centers).max() <= near for bars in found):
        if numpy.abs(lefts[1:] - rights[:-1]).max() > near:
            return None
        edges = numpy.append(lefts, rights[-1])
    elif any(numpy.abs(bars.bases).any() for bars in found):
        return None
    else:
        middles = numpy.mean([bars.centers for bars in found], axis=0)
        pitch = numpy.diff(middles)
        if numpy.ptp(pitch) > near or pitch[0] <= 0:
            return None
        edges = numpy.append(middles - pitch[0] / 2, middles[-1] + pitch[0] / 2)
    middles = (edges[1:] + edges[:-1]) / 2
    whole = numpy.abs(middles - middles.round()).max() < 1e-9
    return None if whole and numpy.abs(numpy.diff(edges) - 1).max() < 1e-9 else edges


def _arrange(found: list[_Bars], axis: Axis) -> str | None:
    """Numbers the groups next to each other and the levels on top of each other."""
    numpy = modules["numpy"]
    same = len({len(bars.centers) for bars in found}) == 1
    for bars in found:
        if axis.places():
            bars.offset = axis.offset(bars.centers)
        elif same:
            bars.offset = float(numpy.median(bars.centers - found[0].centers))
    near = min(float(numpy.median(bars.widths)) for bars in found) / 10
    offsets: list[float] = []
    for offset in sorted(bars.offset for bars in found):
        if not offsets or offset - offsets[-1] > near:
            offsets.append(offset)
    stacked = overlaid = False
    for number, offset in enumerate(offsets):
        members = [bars for bars in found if abs(bars.offset - offset) <= near]
        for level, bars in enumerate(members):
            bars.group, bars.level = number, level
        if len(members) > 1:
            raised = any(numpy.abs(bars.bases).any() for bars in members[1:])
            stacked, overlaid = stacked or raised, overlaid or not raised
    if stacked:
        return "grouped_stacked" if len(offsets) > 1 else "stacked"
    if len(offsets) > 1:
        return "grouped"
    return "overlaid" if overlaid else None


def _describe(bars: _Bars, scene: Scene, arrangement: str | None) -> Series:
    along, across = (scene.x, scene.y) if bars.vertical else (scene.y, scene.x)
    series: Series = {
        "type": "bar",
        "name": bars.name,
        **_colors(bars),
        "orientation": "vertical" if bars.vertical else "horizontal",
        "positions": along.names(bars.centers),
        "values": values.numbers(bars.sizes),
        "width": values.number(float(bars.widths[0])),
    }
    if bars.bases.any():
        series["base"] = across.values(bars.bases)
    if arrangement in ("grouped", "grouped_stacked"):
        series["group"] = bars.group
    if arrangement in ("stacked", "grouped_stacked"):
        series["stack"] = bars.level
    if bars.container.errorbar is not None:
        series.update(errors(scene, bars.container.errorbar))
    return {**series, **_omitted(len(bars.container.patches), scene)}


def _histogram(bars: _Bars, edges: ndarray, scene: Scene) -> Series:
    series: Series = {
        "type": "histogram",
        "name": bars.name,
        **_colors(bars),
        "orientation": "vertical" if bars.vertical else "horizontal",
        "bins": values.numbers(edges),
        "values": values.numbers(bars.sizes),
    }
    if bars.bases.any():
        series["base"] = values.numbers(bars.bases)
    return {**series, **_omitted(len(bars.container.patches), scene)}


def _colors(bars: _Bars) -> Series:
    if len(set(bars.colors)) > 1:
        return {"colors": bars.colors}
    return {"color": bars.colors[0]}


def _omitted(count: int, scene: Scene) -> Series:
    return {"omitted": count - scene.limit} if count > scene.limit else {}
