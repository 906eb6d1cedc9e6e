"""Lines, scatters that were drawn as lines, error bars, stems and reference lines."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.axis import TICKS
from talaria_runner.rendering.charts.scene import Scene, kinds, name_of, other

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.rendering.charts.scene import Series

_DASHES = {"--": "dashed", "-.": "dashdot", ":": "dotted"}
_NO_LINE = ("None", "none", " ", "")
_STEPS = {"steps": "before", "steps-pre": "before", "steps-mid": "middle", "steps-post": "after"}


def read_lines(scene: Scene) -> list[Series]:
    lines = scene.free(scene.axes.lines)[: scene.most]
    scene.take(lines)
    try:
        _name_categories(scene, lines)
    except Exception:
        pass  # one of the lines has no points; the others give their numbers
    return scene.read_each(lines, _read_line)


def read_error_bars(scene: Scene) -> list[Series]:
    found = []
    for container in scene.axes.containers:
        if "ErrorbarContainer" not in kinds(container) or id(container) in scene.taken:
            continue
        data, caps, bars = container.lines
        scene.take((*caps, *bars))
        if data is None:
            continue
        scene.take((data,))
        series = _read_line(scene, data)
        if series is None or "x" not in series:
            continue
        series["name"] = name_of(container) or series["name"]
        found.append({**series, **errors(scene, container)})
    return found


def errors(scene: Scene, container: object) -> Series:
    """Where the error bars of a container end, as many as a series may have."""
    bars = list(container.lines[2])
    found: Series = {}
    for has, key, axis, column in ((container.has_xerr, "x", scene.x, 0), (container.has_yerr, "y", scene.y, 1)):
        if has and bars:
            paths = bars.pop(0).get_paths()[: scene.limit]
            ends = modules["numpy"].array([path.vertices[[0, -1], column] for path in paths]).reshape(-1, 2)
            found[f"{key}_error"] = {"low": axis.values(ends[:, 0]), "high": axis.values(ends[:, 1])}
    return found


def read_stems(scene: Scene) -> list[Series]:
    found = []
    for container in scene.axes.containers:
        if "StemContainer" in kinds(container):
            markers, stems, base = container
            scene.take((markers, base, *(stems if isinstance(stems, list) else [stems])))
            series = _read_line(scene, markers)
            if series is not None:
                found.append({**series, "type": "stem", "name": name_of(container)})
    return found


def _name_categories(scene: Scene, lines: list[object]) -> None:
    """An axis whose ticks have names is one of categories if all points of all lines are at ticks."""
    if not scene.x.places() and not scene.y.places():
        return
    lines = [line for line in lines if len(line.get_xdata(orig=False)) and all(scene.in_data(line))]
    if not lines or sum(len(line.get_xdata(orig=False)) for line in lines) > TICKS * len(lines):
        return
    numpy = modules["numpy"]
    points = numpy.concatenate([numpy.asarray(line.get_xydata(), dtype=float) for line in lines])
    scene.x.name_categories(points[:, 0], beside=False)
    scene.y.name_categories(points[:, 1], beside=False, digits=False)


def _read_line(scene: Scene, line: object) -> Series | None:
    if "AxLine" in kinds(line):
        return other(line)
    along_x, along_y = scene.in_data(line)
    x, y = values.floats(line.get_xdata(orig=False)), values.floats(line.get_ydata(orig=False))
    if len(x) != len(y) or not len(x):
        return None
    series: Series = {"type": "line", "name": name_of(line), "color": values.color(line.get_color())}
    if along_x != along_y:
        key, axis, at = ("y", scene.y, y) if along_y else ("x", scene.x, x)
        return {**series, "type": "reference_line", "axis": key, "at": axis.values(at[:1])[0]}
    if not along_x:
        return None
    marker = line.get_marker()
    if marker not in _NO_LINE and marker is not None:
        series["marker"] = values.text(marker)
    dash = line.get_linestyle()
    if dash in _NO_LINE:
        if "marker" not in series:
            return None
        series["type"] = "scatter"
        series["color"] = values.color(line.get_markerfacecolor()) or series["color"]
    elif dash in _DASHES:
        series["dash"] = _DASHES[dash]
    if line.get_drawstyle() in _STEPS:
        series["step"] = _STEPS[line.get_drawstyle()]
    return scene.points(series, x, y)
