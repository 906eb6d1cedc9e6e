"""Box plots, recognised by the lines that they consist of."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.scene import Scene, describe_color, kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.rendering.charts.scene import Series

_NEAR = 1e-9
_LINES = 5000  # that are examined
_CORNERS = frozenset((5, 6, 11, 12))  # of a closed line around a box, and around one with notches


class _Box:
    """One box: its center along the categories, and the rest across them."""

    def __init__(self, center: float, width: float, low: float, high: float) -> None:
        self.center = center
        self.width = width
        self.quartiles = (low, high)
        self.median: float | None = None
        self.ends = [low, high]
        self.mean: float | None = None
        self.outliers: list[float] = []
        self.points: list[list[float]] = []  # of the markers, line by line
        self.parts: list[object] = []
        self.color: object = None

    def holds(self, position: float) -> bool:
        return abs(position - self.center) < _NEAR + self.width * 1e-6


def read_boxes(scene: Scene) -> list[Series]:
    for column in (0, 1):
        found = _find(scene, column)
        if found:
            scene.take(part for box in found for part in box.parts)
            return [_describe(scene, found, vertical=column == 0)]
    return []


def _find(scene: Scene, column: int) -> list[_Box]:
    """The boxes whose centers are along that column, each with its whiskers. column is 0 for x, 1 for y."""
    numpy = modules["numpy"]
    boxes: dict[float, _Box] = {}
    lines = scene.free(scene.axes.lines)[:_LINES]
    patches = [patch for patch in scene.free(scene.axes.patches)[:_LINES] if "PathPatch" in kinds(patch)]
    for artist in (*lines, *patches):
        points = artist.get_path().vertices if artist in patches else artist.get_xydata()
        box = _as_box(points, column) if len(points) in _CORNERS else None
        if box is not None and all(scene.in_data(artist)):
            box.parts.append(artist)
            if artist in patches:
                box.color = describe_color(artist)
            boxes[round(box.center, 9)] = box
    for line in lines if boxes else ():
        points = numpy.asarray(line.get_xydata(), dtype=float)
        along, across = points[:, column], points[:, 1 - column]
        box = boxes.get(round(float(along.min() + along.max()) / 2, 9)) if len(along) else None
        if box is not None and line not in box.parts and _add(box, line, along, across):
            box.parts.append(line)
    for box in boxes.values():
        _sort_points(box)
    # A rectangle without whiskers or a median is not a box plot.
    return [box for box in boxes.values() if box.median is not None and len(box.parts) > 3]


def _as_box(points: object, column: int) -> _Box | None:
    """A closed line with four corners, or ten if it has notches."""
    along, across = points[:, column], points[:, 1 - column]
    if not (points[0] == points[4 if len(points) < 7 else 10]).all():
        return None
    corners = 4 if len(points) < 7 else 10
    along, across = along[:corners], across[:corners]
    low, high = float(across[0]), float(across[2 if corners == 4 else 5])
    if not (across[0] == across[1] and along[0] != along[1]) or {float(v) for v in across[:2]} != {low}:
        return None
    low, high = min(low, high), max(low, high)
    return _Box(float(along.min() + along.max()) / 2, float(along.max() - along.min()), low, high)


def _add(box: _Box, artist: object, along: object, across: object) -> bool:
    """Assigns a line to the box. Returns False if it is not one of the box's."""
    low, high = box.quartiles
    if (along == along[0]).all() and box.holds(float(along[0])):
        if len(along) == 2 and artist.get_linestyle() not in ("None", ""):
            end = float(across[1])
            if float(across[0]) not in (low, high):
                return False
            box.ends[0 if float(across[0]) == low and end <= low else 1] = end
            return True
        if artist.get_linestyle() not in ("None", ""):
            return False
        box.points.append(across.tolist())
        return True
    if len(along) != 2 or across[0] != across[1] or along[1] - along[0] > box.width * 1.01:
        return False
    at = float(across[0])
    if low <= at <= high and box.median is None and at not in box.ends:
        box.median = at
    elif low <= at <= high and box.median is None and abs(along[1] - along[0]) > box.width * 0.6:
        box.median = at
    elif at not in box.ends:
        box.mean = at
    return True


def _sort_points(box: _Box) -> None:
    """Separates the mean, which comes first and lies within the whiskers if it is alone, from the outliers."""
    points = box.points
    if points and len(points[0]) == 1 and (len(points) > 1 or box.ends[0] <= points[0][0] <= box.ends[1]):
        box.mean = points.pop(0)[0]
    box.outliers = [value for line in points for value in line]


def _describe(scene: Scene, boxes: list[_Box], vertical: bool) -> Series:
    numpy = modules["numpy"]
    along = scene.x if vertical else scene.y
    centers = numpy.array([box.center for box in boxes])
    along.name_categories(centers)
    left = scene.limit
    described = []
    for box, position in zip(boxes, along.names(centers)):
        outliers = box.outliers[:left]
        left -= len(outliers)
        found: dict[str, object] = {
            "position": position,
            "low": values.number(box.ends[0]),
            "q1": values.number(box.quartiles[0]),
            "median": values.number(box.median),
            "q3": values.number(box.quartiles[1]),
            "high": values.number(box.ends[1]),
            "outliers": values.numbers(outliers),
        }
        if box.color is not None:
            found["color"] = box.color
        if box.mean is not None:
            found["mean"] = values.number(box.mean)
        if len(outliers) < len(box.outliers):
            found["omitted"] = len(box.outliers) - len(outliers)
        described.append(found)
    return {"type": "box", "orientation": "vertical" if vertical else "horizontal", "boxes": described[: scene.limit]}
