"""Areas between two lines, and bands and lines across the whole of the axes."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.scene import Scene, describe_color, kinds, name_of, other

TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy import ndarray

    from talaria_runner.rendering.charts.scene import Series


def read_areas(scene: Scene) -> list[Series]:
    """Areas made by fill_between, fill_betweenx and stackplot."""
    found = []
    for artist in scene.free(scene.axes.collections)[: scene.most]:
        if "PolyCollection" not in kinds(artist) or len(artist.get_offsets()) > 1 or artist.get_array() is not None:
            continue
        pieces = [path.vertices for path in artist.get_paths()[: scene.limit]]
        for column in (0, 1):
            sides = [_sides(points, column) for points in pieces]
            if sides and None not in sides:
                scene.take((artist,))
                found.append(_describe(artist, sides, column, scene))
                break
    _find_stacks(found)
    return found


def _find_stacks(areas: list[Series]) -> None:
    """If each area begins at the end of the one before, as those of stackplot do, the values are those of the
    areas, and not their edges."""
    level, edge = 0, None
    for below, area in zip([None, *areas], areas):
        top = area["values"]
        if below is None or area["positions"] != below["positions"] or area.get("base") != edge:
            level = 0
        elif all(isinstance(value, (int, float)) for value in (*top, *edge)):
            level += 1
            below["stack"], area["stack"] = level - 1, level
            area["values"] = [values.number(float(high - low)) for high, low in zip(top, edge)]
        edge = top


def read_bands(scene: Scene) -> list[Series]:
    """Areas made by axvspan and axhspan."""
    found = []
    for patch in scene.free(scene.axes.patches):
        along_x, along_y = scene.in_data(patch)
        if along_x == along_y:
            continue
        scene.take((patch,))
        box = patch.get_path().transformed(patch.get_patch_transform()).get_extents()
        key, axis, ends = ("x", scene.x, box.intervalx) if along_x else ("y", scene.y, box.intervaly)
        low, high = axis.values(ends)
        found.append(
            {"type": "reference_band", "name": name_of(patch), "color": describe_color(patch), "axis": key,
             "from": low, "to": high}
        )  # fmt: skip
    return found


def read_segments(scene: Scene) -> list[Series]:
    """Lines made by hlines, vlines and eventplot."""
    found = []
    for artist in scene.free(scene.axes.collections)[: scene.most]:
        if "LineCollection" not in kinds(artist):
            continue
        scene.take((artist,))
        along_x, along_y = scene.in_data(artist)
        paths = artist.get_paths()
        segments = [path.vertices for path in paths[: scene.limit]]
        if not (along_x and along_y) or not segments or {len(segment) for segment in segments} != {2}:
            found.append(other(artist))
            continue
        ends = modules["numpy"].array(segments)
        colors = artist.get_color()
        series = {
            "type": "segments",
            "name": name_of(artist),
            "color": values.color(colors[0]) if len(colors) else None,
            "x": scene.x.values(ends[:, 0, 0]),
            "y": scene.y.values(ends[:, 0, 1]),
            "x_end": scene.x.values(ends[:, 1, 0]),
            "y_end": scene.y.values(ends[:, 1, 1]),
        }
        if len(paths) > len(segments):
            series["omitted"] = len(paths) - len(segments)
        found.append(series)
    return found


def _sides(points: ndarray, column: int) -> tuple[ndarray, ndarray, ndarray] | None:
    """The positions and both sides of a polygon that goes along one side and comes back along the other."""
    numpy = modules["numpy"]
    points = numpy.asarray(points)
    if len(points) % 2 and (points[0] == points[-1]).all():
        points = points[:-1]
    count = len(points) // 2 - 1
    if count < 1 or len(points) % 2:
        return None
    there, back = points[1 : count + 1], points[count + 2 : 2 * count + 2][::-1]
    at = there[:, column]
    if len(back) != count or not (at == back[:, column]).all():
        return None
    return at, there[:, 1 - column], back[:, 1 - column]


def _describe(artist: object, sides: list[tuple[ndarray, ndarray, ndarray]], column: int, scene: Scene) -> Series:
    numpy = modules["numpy"]
    gap = numpy.array([numpy.nan])
    columns = []
    for i in range(3):
        parts = [part for piece in sides for part in (piece[i], gap)][:-1]
        columns.append(numpy.concatenate(parts))
    at, value, base = columns
    if numpy.nan_to_num(base).any() and numpy.nan_to_num(base - value).sum() > 0 or not numpy.nan_to_num(value).any():
        value, base = base, value
    series: Series = {
        "type": "area",
        "name": name_of(artist),
        "color": describe_color(artist),
        "orientation": "vertical" if column == 0 else "horizontal",
    }
    if len(at) > scene.limit:
        chosen = values.peaks(value, scene.limit)
        series["omitted"] = len(at) - len(chosen)
        at, value, base = at[chosen], value[chosen], base[chosen]
    along, across = (scene.x, scene.y) if column == 0 else (scene.y, scene.x)
    series["positions"] = along.values(at)
    series["values"] = across.values(value)
    if numpy.nan_to_num(base).any():
        series["base"] = across.values(base)
    return series

