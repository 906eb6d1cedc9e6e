"""Pages of tables that were shown, in any order of their rows, read from the objects themselves while these
live.

Nothing is kept alive for it: a table is remembered by a weak reference. No code of the user runs for it,
since it would run beside their cell. Frames and series of pandas only.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _thread import allocate_lock
from _weakref import ref
from posix import urandom
from sys import modules
from time import monotonic

from talaria_runner.introspection.classes import comes_from, is_a
from talaria_runner.introspection.tabular import is_genuine
from talaria_runner.rendering.table_values import Cells, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    Sort = list[tuple[int, bool]]  # columns, the most important one first; and whether in descending order

MOST = 256  # tables that are remembered
ROWS = 500  # of one page
SORTABLE = 4_000_000  # rows
SEARCHED = 4_000_000  # cells
OBJECTS = 500_000  # rows of a column of Python objects, which lets no other code run while it is sorted
_LEVELS = 10
_FRESH = 30.0  # s for which an order is reused: values may change under it
_PLAIN = frozenset((bool, int, float))


class Unsortable(Exception):
    """Its message says why."""


class Busy(Exception):
    """Another thread is already sorting; a later request finds its result."""


class Wanted:
    """Which rows of a table, in which order. shown is how many of its columns are shown."""

    __slots__ = ("reference", "filter", "sort", "shown")

    def __init__(self, reference: str, filter: str, sort: Sort, shown: int) -> None:
        self.reference = reference
        self.filter = filter  # in lower case; "" for all rows
        self.sort = sort
        self.shown = shown

    @property
    def key(self) -> tuple[str, str, Sort]:
        return self.reference, self.filter, self.sort


class _Shown:
    __slots__ = ("object", "shape")

    def __init__(self, value: object) -> None:
        self.object = ref(value)
        self.shape = _shape(value)


_shown: dict[str, _Shown] = {}
_sorting = allocate_lock()
_order: tuple[tuple[str, str, Sort], float, int, ndarray] | None = None  # the last one requested


def remember(value: object) -> str | None:
    """A reference to a table that is shown; None if it cannot have pages."""
    is_frame = is_genuine(value, "pandas", "DataFrame")
    if not is_frame and not is_genuine(value, "pandas", "Series") or not comes_from(type(value), "pandas"):
        return None
    reference = urandom(8).hex()
    _shown[reference] = _Shown(value)
    while len(_shown) > MOST:
        _shown.pop(next(iter(_shown)), None)
    return reference


def page(wanted: Wanted, offset: int, count: int, size: int) -> dict[str, object]:
    """Rows from offset on, as lists of cells: the index first, then as many columns as the table shows; as
    many rows as fit into size bytes. state is "gone" if the object is, and "changed" if it has other rows or
    columns now."""
    known = _shown.get(wanted.reference)
    value = None if known is None else known.object()
    if value is None:
        _forget(wanted.reference)
        return _nothing("gone")
    if _shape(value) != known.shape:
        return _nothing("changed")
    try:
        order = _ordered(wanted, value) if wanted.sort or wanted.filter else None
    except Unsortable as e:
        return {**_nothing("unsortable"), "reason": e.args[0]}
    total = len(value) if order is None else len(order)
    offset = min(offset, total)
    end = min(offset + min(count, ROWS), total)
    part = value.iloc[offset:end] if order is None else value.iloc[order[offset:end]]
    columns = _columns(part, wanted.shown)
    cells = Cells(asks=False)
    rows = [list(row) for row in zip(*(_cells(cells, column()) for column in columns))]
    return {"state": "ok", "offset": offset, "total": total, "rows": rows[: _fitting(rows, size)]}


def _nothing(state: str) -> dict[str, object]:
    return {"state": state, "offset": 0, "total": 0, "rows": []}


def _forget(reference: str) -> None:
    global _order
    _shown.pop(reference, None)
    order = _order
    if order is not None and order[0][0] == reference:
        _order = None


def _shape(value: object) -> tuple[object, ...]:
    """What must be unchanged for rows and columns to be those that were shown."""
    if value.ndim == 1:
        return len(value), str(value.dtype), _label(value.name), str(value.index.dtype)
    dtypes = tuple(str(dtype) for dtype in list(value.dtypes)[:100])
    return (*value.shape, dtypes, tuple(_label(label) for label in list(value.columns)[:100]), str(value.index.dtype))


def _label(label: object) -> str:
    return label if type(label) is str else repr(label) if type(label) in _PLAIN else type(label).__name__


def _fitting(rows: list[list[object]], size: int) -> int:
    for number, row in enumerate(rows):
        size -= sum(size_of(row)) + len(row)
        if size < 0 and number:
            return number
    return len(rows)


def _columns(value: object, shown: int) -> list[Callable[[], object]]:
    """A function for each column that returns its values: the index first."""
    levels = min(value.index.nlevels, _LEVELS)
    columns: list[Callable[[], object]] = [lambda i=i: value.index.get_level_values(i) for i in range(levels)]
    if value.ndim == 1:
        return [*columns, lambda: value]
    return [*columns, *(lambda i=i: value.iloc[:, i] for i in range(min(value.shape[1], shown)))]


def _cells(cells: Cells, column: object) -> list[object]:
    dtype = column.dtype
    if not is_a(dtype, modules["numpy"].dtype):
        if not comes_from(type(dtype), "pandas"):
            return ["…"] * len(column)  # its array belongs to the user
        return cells.column(list(column))[0]
    values = column.to_numpy()
    return cells.numbers(values)[0] if dtype.kind in "iubfMm" else cells.column(values.tolist())[0]


def _ordered(wanted: Wanted, value: object) -> ndarray:
    """The positions of the rows in that order. A long sort ends after its caller has given up; the next
    request finds its result."""
    global _order
    order = _order
    if order is not None and order[0] == wanted.key and monotonic() - order[1] < _FRESH and order[2] == len(value):
        return order[3]
    if len(value) > SORTABLE:
        raise Unsortable(f"it has more than {SORTABLE:,} rows; sort it in a cell")
    if not _sorting.acquire(False):
        raise Busy
    try:
        _order = None  # free its memory first
        found = _filtered(wanted, value) if wanted.filter else None
        if wanted.sort:
            places = _sorted(wanted, value if found is None else value.iloc[found])
            found = places if found is None else found[places]
        _order = (wanted.key, monotonic(), len(value), found)
        return found
    finally:
        _sorting.release()


def _filtered(wanted: Wanted, value: object) -> ndarray:
    """The positions of the rows that have the text in one of the shown columns, as these are shown."""
    numpy = modules["numpy"]
    columns = _columns(value, wanted.shown)
    if len(value) * len(columns) > SEARCHED:
        raise Unsortable(f"it has more than {SEARCHED:,} cells to search; filter it in a cell")
    matches = numpy.zeros(len(value), dtype=bool)
    for column in columns:
        cells = _cells(Cells(asks=False), column())
        text = wanted.filter
        matches |= numpy.fromiter((cell is not None and text in str(cell).casefold() for cell in cells), bool, len(cells))
    return numpy.flatnonzero(matches)


def _sorted(wanted: Wanted, value: object) -> ndarray:
    columns = _columns(value, value.shape[1] if value.ndim > 1 else 1)
    if any(number >= len(columns) for number, _ in wanted.sort):
        raise Unsortable("it has no such column")
    keys = [_key(columns[number](), down) for number, down in wanted.sort]
    return modules["numpy"].lexsort(keys[::-1])


def _key(column: object, down: bool) -> ndarray:
    """Numbers in the order of the values, or in reverse; missing values are last in both."""
    numpy = modules["numpy"]
    dtype = column.dtype
    if is_a(dtype, numpy.dtype) and dtype.kind in "iubfMm":
        values = column.to_numpy()
        if dtype.kind == "f":
            return -values if down else values
        if dtype.kind in "Mm":
            missing = numpy.isnat(values)
            values = values.view("i8")
            values = ~values if down else values.copy()
            values[missing] = numpy.iinfo("i8").max
            return values
        return ~values if down else values
    return _ranks(column, down)


def _ranks(column: object, down: bool) -> ndarray:
    numpy, pandas = modules["numpy"], modules["pandas"]
    if not is_a(column.dtype, numpy.dtype) and not comes_from(type(column.dtype), "pandas"):
        raise Unsortable("the column has a custom type; sort it in a cell")
    if hasattr(column.dtype, "categories"):
        column = column if hasattr(column, "cat") else pandas.Series(column)
        codes, uniques = column.cat.codes.to_numpy(), list(column.dtype.categories)
        places = range(len(uniques)) if column.dtype.ordered else _places(uniques)
    else:
        if len(column) > OBJECTS:
            raise Unsortable(f"a column of this kind has more than {OBJECTS:,} rows; sort it in a cell")
        values = list(column)
        if {type(value) for value in values} - _PLAIN - _sortable():
            raise Unsortable("the column holds objects that cannot be ordered here; sort it in a cell")
        codes, found = pandas.factorize(numpy.array(values, dtype=object))
        uniques = list(found)
        places = _places(uniques)
    count = len(uniques)
    ranks = numpy.empty(count + 1, dtype="i8")
    for place, number in enumerate(places):
        ranks[number] = count - place if down else place
    ranks[count] = count + 1  # missing values have the code -1
    return ranks[codes]


def _places(values: list[object]) -> list[int]:
    """The ranks of the values. Text is compared without regard to case."""
    kinds = {type(value) for value in values}
    if kinds <= {str}:
        return sorted(range(len(values)), key=lambda i: (values[i].casefold(), values[i]))
    if not kinds <= _PLAIN and len(kinds) > 1 or kinds - _PLAIN - _sortable():
        raise Unsortable("the column holds values of several kinds; sort it in a cell")
    return sorted(range(len(values)), key=values.__getitem__)


def _sortable() -> set[type]:
    """Classes whose order is defined by C code, and those of missing values."""
    found: set[type] = {str, bytes, type(None)}
    for module, names in (
        ("datetime", ("date", "datetime", "time", "timedelta")), ("decimal", ("Decimal",)),
        ("pandas", ("Timestamp", "Timedelta", "Period", "Interval")), ("numpy", ("float64", "int64", "bool_", "str_")),
    ):  # fmt: skip
        for name in names:
            cls = getattr(modules.get(module), name, None)
            if isinstance(cls, type):
                found.add(cls)
    for name in ("NaT", "NA"):
        found.add(type(getattr(modules.get("pandas"), name, None)))
    return found
