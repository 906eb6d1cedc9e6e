"""Numbers, dates, colours and texts of a chart in their JSON form, and bounded."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from math import inf
from sys import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy import ndarray

POINTS = 1000  # of one series
ALL_POINTS = 20_000  # of a figure
TEXT = 300  # characters of a label
_LOOKED_AT = 1_000_000  # points of a longer line are sampled evenly before its peaks are searched
_DIGITS = ".10g"


def number(value: float) -> float | int | None:
    """value with ten digits; None for NaN and infinities."""
    if value != value or value in (inf, -inf):
        return None
    value = float(format(value, _DIGITS))
    return int(value) if value.is_integer() and -1e15 < value < 1e15 else value


def numbers(values: object) -> list[float | int | None]:
    return [number(value) for value in floats(values).tolist()]


def floats(values: object) -> ndarray:
    """values as floats of one dimension, NaN where they are masked."""
    numpy = modules["numpy"]
    return numpy.ma.filled(numpy.ma.asarray(values, dtype=float), numpy.nan).ravel()


def dates(days: ndarray, epoch: object, zone: str) -> list[str | None]:
    """Days since epoch, a datetime64, in ISO 8601: no time of day where all are midnights."""
    numpy = modules["numpy"]
    good = numpy.isfinite(days) & (numpy.abs(days) < 3.6e6)  # within the years 1 to 9999
    micros = numpy.round(numpy.where(good, days, 0) * 86_400e6, -1).astype("int64")
    unit = "us"
    for unit_, size in (("D", 86_400_000_000), ("s", 1_000_000), ("ms", 1000)):
        if not (micros % size).any():
            unit = unit_
            break
    moments = epoch.astype("datetime64[us]") + micros.astype("timedelta64[us]")
    texts = numpy.datetime_as_string(moments.astype(f"datetime64[{unit}]")).tolist()
    suffix = "" if unit == "D" else zone
    return [text + suffix if ok else None for text, ok in zip(texts, good.tolist())]


def color(value: object) -> str | None:
    """value as #rrggbb, or #rrggbbaa if it is translucent; None if it is not a colour."""
    colors = modules["matplotlib.colors"]
    try:
        red, green, blue, alpha = colors.to_rgba(value)
        return colors.to_hex((red, green, blue, alpha), keep_alpha=alpha < 1) if alpha else None
    except (ValueError, TypeError):
        return None


def text(value: object) -> str:
    value = str(value)
    return value if len(value) <= TEXT else value[: TEXT - 1] + "…"


def if_any(key: str, value: object) -> dict[str, object]:
    """The text under that key, unless it is empty."""
    return {key: text(value)} if value else {}


def evenly(count: int, limit: int) -> slice:
    """Takes at most limit of count things, evenly."""
    return slice(None, None, max(1, -(-count // limit)))


def peaks(values: ndarray, limit: int) -> ndarray:
    """The indices of at most limit values that show the course of a line: the minimum and maximum of each stretch."""
    numpy = modules["numpy"]
    step = max(1, len(values) // _LOOKED_AT)
    seen = values[::step]
    stretches = max(1, limit // 2 - 1)
    size = len(seen) // stretches
    rows = seen[: size * stretches].reshape(stretches, size)
    starts = numpy.arange(stretches) * size
    low = numpy.where(numpy.isnan(rows), numpy.inf, rows).argmin(axis=1) + starts
    high = numpy.where(numpy.isnan(rows), -numpy.inf, rows).argmax(axis=1) + starts
    return numpy.unique(numpy.concatenate(([0], low, high, [len(seen) - 1]))) * step
