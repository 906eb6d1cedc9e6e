"""One axis of a chart: what its numbers mean."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.show.charts import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy import ndarray

TICKS = 200  # labels of one axis
_CATEGORIES = 5000  # whose names are looked up
_AT = 1e-6  # how near to a tick is at it

_DATE_FORMATTERS = frozenset(("DateFormatter", "AutoDateFormatter", "ConciseDateFormatter"))
_OWN_TEXTS = frozenset(
    ("FixedFormatter", "FuncFormatter", "FormatStrFormatter", "StrMethodFormatter", "PercentFormatter",
     "EngFormatter", "IndexFormatter")
)  # fmt: skip


class Axis:
    """Reads an axis of matplotlib. kind is "number", "date" or "category"."""

    def __init__(self, axis: object) -> None:
        self._axis = axis
        self.kind = "number"
        self._periods: object = None  # the frequency of which pandas counts periods here
        self._epoch: object = None
        self._zone = ""
        self._places: list[tuple[float, str]] | None = None
        self._find_kind()

    def describe(self) -> dict[str, object]:
        axis = self._axis
        found: dict[str, object] = {**values.if_any("label", axis.get_label().get_text()), "type": self.kind}
        if self.kind == "category":
            found["categories"] = [text for _, text in sorted(self.places()[:TICKS])]
            if axis.get_inverted():
                found["inverted"] = True
        else:
            numpy = modules["numpy"]
            low, high = sorted(axis.get_view_interval().tolist())
            found["scale"] = axis.get_scale()
            found["limits"] = self.values(numpy.array([high, low] if axis.get_inverted() else [low, high]))
            within = [(at, text) for at, text in self.places() if low <= at <= high]
            if within and not _are_numbers(within):
                found["ticks"] = [{"at": self.values(numpy.array([at]))[0], "text": text} for at, text in within]
        if axis.get_label_position() in ("right", "top"):
            found["side"] = axis.get_label_position()
        return found

    def values(self, positions: ndarray) -> list[object]:
        """Positions along the axis as numbers, ISO dates or the names of categories."""
        if self.kind == "date":
            return self._dates(positions)
        if self.kind == "category":
            return self._names(positions, _AT)
        return values.numbers(positions)

    def name_categories(self, positions: ndarray, beside: bool = True, digits: bool = True) -> None:
        """Makes it an axis of categories, if its ticks were given names and all positions are at one, or beside it.
        Without digits, names that have some are taken for other ways to write numbers."""
        if self.kind != "number" or not self.places() or not len(positions):
            return
        if _are_numbers(self.places()) or not (digits and self._is_listed() or _are_words(self.places())):
            return
        if self._nearest(positions)[1].max() < (self._reach() if beside else _AT):
            self.kind = "category"

    def names(self, positions: ndarray) -> list[object]:
        """The same as values, but of what may stand beside the place of its category."""
        if self.kind == "category":
            return self._names(positions, self._reach())
        return self.values(positions)

    def offset(self, positions: ndarray) -> float:
        """How far positions are from their categories."""
        if not self.places() or not len(positions):
            return 0.0
        at = modules["numpy"].array([at for at, _ in self.places()])
        return float(modules["numpy"].median(positions - at[self._nearest(positions)[0]]))

    def places(self) -> list[tuple[float, str]]:
        """The ticks that were given texts of their own."""
        if self._places is None:
            try:
                self._places = self._find_places()
            except Exception:
                self._places = []
        return self._places

    def _is_listed(self) -> bool:
        """Whether the texts were given one by one, and are not made by a function."""
        formatter = self._axis.get_major_formatter()
        made_by = getattr(getattr(formatter, "func", None), "func", None)
        return type(formatter).__name__ == "FixedFormatter" or getattr(made_by, "__name__", "") == "_format_with_dict"

    def _find_kind(self) -> None:
        axis = self._axis
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        names = {kind.__name__ for kind in type(converter).__mro__}
        units = getattr(axis, "units", None)
        frequency = getattr(axis, "freq", None)
        if "StrCategoryConverter" in names and hasattr(units, "_mapping"):
            self.kind = "category"
            mapping = list(units._mapping.items())[:_CATEGORIES]
            self._places = [(float(at), values.text(name)) for name, at in mapping]
        elif frequency is not None and "pandas" in modules:
            self.kind = "date"
            self._periods = frequency
        elif names & {"DateConverter", "_SwitchableDateConverter", "ConciseDateConverter"} or (
            type(axis.get_major_formatter()).__name__ in _DATE_FORMATTERS
        ):
            self.kind = "date"
            self._epoch = modules["numpy"].datetime64(modules["matplotlib.dates"].get_epoch())
            self._zone = "Z" if hasattr(units, "utcoffset") else ""

    def _find_places(self) -> list[tuple[float, str]]:
        axis = self._axis
        formatter = axis.get_major_formatter()
        if not _OWN_TEXTS.intersection(kind.__name__ for kind in type(formatter).__mro__):
            return []
        at = list(axis.get_majorticklocs())[:TICKS]
        texts = formatter.format_ticks(at)
        return [(float(a), values.text(text)) for a, text in zip(at, texts) if text]

    def _dates(self, positions: ndarray) -> list[str | None]:
        if self._periods is None:
            return values.dates(positions, self._epoch, self._zone)
        numpy, pandas = modules["numpy"], modules["pandas"]
        good = numpy.isfinite(positions)
        ordinals = numpy.where(good, positions, 0).round().astype("int64")
        kind = pandas.PeriodDtype(self._periods)
        moments = pandas.arrays.PeriodArray(ordinals, dtype=kind).to_timestamp().to_numpy()
        epoch = numpy.datetime64("1970-01-01", "us")
        days = (moments.astype("datetime64[us]") - epoch).astype("int64") / 86_400e6
        return values.dates(numpy.where(good, days, numpy.nan), epoch, "")

    def _names(self, positions: ndarray, reach: float) -> list[object]:
        places = self.places()
        if not places:
            return values.numbers(positions)
        nearest, distances = self._nearest(positions)
        return [
            places[i][1] if near else values.number(position)
            for i, near, position in zip(nearest.tolist(), (distances <= reach).tolist(), positions.tolist())
        ]

    def _nearest(self, positions: ndarray) -> tuple[ndarray, ndarray]:
        """For each position the index of the place next to it, and how far that is."""
        numpy = modules["numpy"]
        at = numpy.array([at for at, _ in self.places()])
        order = numpy.argsort(at, kind="stable")
        right = numpy.searchsorted(at[order], positions).clip(0, len(at) - 1)
        left = (right - 1).clip(0)
        a, b = order[left], order[right]
        nearest = numpy.where(numpy.abs(positions - at[a]) <= numpy.abs(positions - at[b]), a, b)
        return nearest, numpy.abs(positions - at[nearest])

    def _reach(self) -> float:
        """Half of the distance of two ticks."""
        at = sorted(at for at, _ in self.places())
        return min((b - a for a, b in zip(at, at[1:]) if b > a), default=1.0) / 2 + 1e-9


def _are_words(places: list[tuple[float, str]]) -> bool:
    """Whether there is no digit in any text."""
    return not any(character.isdigit() for _, text in places for character in text)


def _are_numbers(places: list[tuple[float, str]]) -> bool:
    """Whether the texts say nothing but the places themselves."""
    try:
        return all(abs(float(text.replace("\N{MINUS SIGN}", "-")) - at) < 1e-6 for at, text in places)
    except ValueError:
        return False
