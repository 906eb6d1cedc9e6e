"""Heat maps and pictures: imshow, matshow, pcolormesh, hist2d."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.scene import Scene, kinds, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy import ndarray

    from talaria_runner.rendering.charts.scene import Series

SIDE = 64  # rows and columns of a larger one are sampled evenly


def read_heatmaps(scene: Scene) -> list[Series]:
    numpy = modules["numpy"]
    found = []
    for artist in scene.free([*scene.axes.images, *scene.axes.collections]):
        names = kinds(artist)
        if not names & {"AxesImage", "QuadMesh"}:
            continue
        scene.take((artist,))
        cells = artist.get_array()
        if cells is None:
            continue
        if "QuadMesh" in names:
            corners = numpy.ma.filled(numpy.ma.asarray(artist.get_coordinates(), dtype=float), numpy.nan)
            shape = corners.shape[0] - 1, corners.shape[1] - 1
            if cells.size != shape[0] * shape[1]:  # gouraud: a value at each corner
                shape = corners.shape[:2]
                x, y = corners[0, :, 0], corners[:, 0, 1]
            else:
                x = (corners[0, 1:, 0] + corners[0, :-1, 0]) / 2
                y = (corners[1:, 0, 1] + corners[:-1, 0, 1]) / 2
            cells = cells.reshape(shape)
        elif cells.ndim != 2:
            found.append(
                {"type": "image", "name": name_of(artist), "rows": cells.shape[0], "columns": cells.shape[1]}
            )
            continue
        else:
            left, right, bottom, top = artist.get_extent()
            if artist.origin == "upper":
                bottom, top = top, bottom
            x, y = _middles(left, right, cells.shape[1]), _middles(bottom, top, cells.shape[0])
        found.append(_describe(artist, cells, x, y, scene))
    return found


def describe_scale(artist: object) -> dict[str, object]:
    """How numbers become colours."""
    low, high = artist.get_clim()
    scale: dict[str, object] = {
        "name": values.text(artist.get_cmap().name),
        "limits": [None if end is None else values.number(float(end)) for end in (low, high)],
    }
    bar = getattr(artist, "colorbar", None)
    if bar is not None:
        scale.update(values.if_any("label", bar.ax.get_ylabel() or bar.ax.get_xlabel()))
    if type(artist.norm).__name__ != "Normalize":
        scale["scale"] = values.text(type(artist.norm).__name__)
    return scale


def _describe(artist: object, cells: ndarray, x: ndarray, y: ndarray, scene: Scene) -> Series:
    rows, columns = values.evenly(len(y), SIDE), values.evenly(len(x), SIDE)
    scene.x.name_categories(x)
    scene.y.name_categories(y)
    chosen = cells[rows, columns]
    series: Series = {
        "type": "heatmap",
        "name": name_of(artist),
        "colormap": describe_scale(artist),
        "x": scene.x.names(x[columns]),
        "y": scene.y.names(y[rows]),
        "values": [values.numbers(row) for row in chosen],
    }
    if chosen.size < cells.size:
        series["rows"], series["columns"] = cells.shape
        series["omitted"] = int(cells.size - chosen.size)
    return series


def _middles(first: float, last: float, count: int) -> ndarray:
    return first + (modules["numpy"].arange(count) + 0.5) * (last - first) / count
