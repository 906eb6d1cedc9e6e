"""Shared by the readers of the artists of one pair of axes."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.rendering.charts import values
from talaria_runner.rendering.charts.axis import Axis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    Series = dict[str, object]


class Scene:
    """One pair of axes. limit is how many points a series of it may have, and most how many series are read."""

    def __init__(self, axes: object, limit: int, most: int) -> None:
        self.axes = axes
        self.x = Axis(axes.xaxis)
        self.y = Axis(axes.yaxis)
        self.limit = limit
        self.most = most
        self.taken: set[int] = set()  # ids of the artists that already belong to a series

    def take(self, artists: object) -> None:
        self.taken.update(id(artist) for artist in artists)

    def free(self, artists: object) -> list[object]:
        """The visible ones that belong to no series yet."""
        return [artist for artist in artists if id(artist) not in self.taken and artist.get_visible()]

    def read_each(self, artists: list[object], read: Callable[[Scene, object], Series | None]) -> list[Series]:
        """What read returns for each of them; one that cannot be read spoils no other."""
        found = []
        for artist in artists:
            try:
                series = read(self, artist)
            except Exception:
                series = other(artist)
            if series is not None:
                found.append(series)
        return found

    def in_data(self, artist: object) -> tuple[bool, bool]:
        """Whether its x and y are positions along the axes, and not on the page."""
        x, y = artist.get_transform().contains_branch_seperately(self.axes.transData)
        return bool(x), bool(y)

    def points(self, series: Series, x: ndarray, y: ndarray) -> Series:
        """Gives the series its points, or as many as show its course."""
        chosen = slice(None)
        if len(x) > self.limit:
            chosen = values.peaks(y, self.limit)
            series["omitted"] = len(x) - len(chosen)
        return {**series, "x": self.x.values(x[chosen]), "y": self.y.values(y[chosen])}


def other(artist: object) -> Series:
    return {"type": "other", "artist": values.text(type(artist).__name__), "count": 1}


def kinds(artist: object) -> set[str]:
    """The names of its classes in matplotlib."""
    return {kind.__name__ for kind in type(artist).__mro__ if kind.__module__.startswith(("matplotlib.", "mpl_"))}


def name_of(artist: object) -> str:
    """The label for the legend; empty where it has none."""
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else values.text(label)


def describe_color(artist: object) -> object:
    """The colour of an artist that is filled."""
    fill = artist.get_facecolor()
    found = values.color(fill[0] if getattr(fill, "ndim", 1) == 2 and len(fill) else fill)
    return found or values.color(artist.get_edgecolor())
