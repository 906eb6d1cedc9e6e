"""Tables as application/vnd.dataresource+json: the first rows, and the total of everything.

A frame of ten million rows costs what its first rows cost.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.own.hooks import made_by
from talaria_runner.rendering.table_pages import remember
from talaria_runner.rendering.table_values import Cells, cut, size_of
from talaria_runner.wire.outbox import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Bundle = dict[str, object]
    # A column's parts: its first values as JSON, its type in the terms of a table schema, and the rest of its
    # field.
    Column = tuple[list[object], str, dict[str, object]]

MIME = "application/vnd.dataresource+json"
ROWS = 1000
COLUMNS = 100
CELLS = 20_000
BYTES = 512 << 10  # about, as JSON
COUNTED = 2_000_000  # numbers among which missing ones are counted; of objects a tenth
CATEGORIES = 100  # that a field lists
TEXTS = 2_000_000  # characters of a frame as text, if pandas' options set no bound
WIDTH = 2000  # characters of one cell of that


class Table:
    """The description of a table. rows and columns are its totals."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = rows
        self.columns = columns
        self.cells = Cells()
        self._fields: list[Bundle] = []
        self._data: list[list[object]] = []
        self._names: set[str] = set()

    @property
    def shown_rows(self) -> int:
        return min(self.rows, ROWS, CELLS // max(1, self.shown_columns))

    @property
    def shown_columns(self) -> int:
        return min(self.columns, COLUMNS)

    def add(self, label: object, column: Column) -> None:
        """Adds a column. Its name is made unique, and the label kept as the title if the name differs."""
        data, kind, further = column
        title = printable(label if type(label) is str else self._title(label))
        name, number = cut(title), 0
        while name in self._names:
            number += 1
            name = f"{cut(title)}.{number}"
        self._names.add(name)
        field: Bundle = {"name": name, "type": kind, **further}
        if name != title:
            field["title"] = cut(title)
        self._fields.append(field)
        self._data.append(data)

    def describe(self, keys: bool) -> Bundle:
        """With keys, the index fields identify the rows."""
        rows = self._fitting()
        names = [field["name"] for field in self._fields]
        schema: Bundle = {"fields": self._fields}
        index = [field["name"] for field in self._fields if field.get("index")]
        if index and keys:
            schema["primaryKey"] = index
        return {
            "schema": schema,
            "data": [dict(zip(names, row)) for row in zip(*(column[:rows] for column in self._data))],
            "total_rows": self.rows,
            "total_columns": self.columns,
            "truncated": rows < self.rows or self.shown_columns < self.columns,
        }

    def _title(self, label: object) -> str:
        if type(label) is tuple:
            return " / ".join(str(self.cells.cell(part)) for part in label[:20])
        return str(self.cells.cell(label))

    def _fitting(self) -> int:
        """How many of the rows fit into BYTES; at least the first one."""
        rows = len(self._data[0]) if self._data else 0
        frame = sum(len(str(field["name"])) + 5 for field in self._fields)
        left = BYTES
        for number, costs in enumerate(zip(*(size_of(column) for column in self._data))):
            left -= frame + sum(costs)
            if left < 0 and number:
                return number
        return rows


def show_pandas(value: object) -> tuple[Bundle, Bundle] | None:
    """The formatter for pandas: text, HTML of frames, and the table."""
    is_frame = made_by(value, "pandas", "DataFrame")
    if not is_frame and not made_by(value, "pandas", "Series") or hasattr(type(value), "_repr_mimebundle_"):
        return None
    pandas = modules["pandas"]
    data: Bundle = {}
    try:
        settings = _settings(pandas, value)
    except Exception:
        settings = []
    forms = [("text/html", "_repr_html_"), ("text/latex", "_repr_latex_")]
    if settings:
        forms.insert(0, ("text/plain", "__repr__"))
    with pandas.option_context(*settings) if settings else _Unbounded():
        for mime, name in forms:
            try:
                method = getattr(value, name, None)
                found = method() if callable(method) else None
            except Exception:
                continue  # it is asked for its text as well, and an exception there is reported
            if found is not None:
                data[mime] = found
    return _with_table(data, lambda: _of_pandas(pandas, value, is_frame))


def show_polars(value: object) -> tuple[Bundle, Bundle] | None:
    """The formatter for polars."""
    if not made_by(value, "polars", "DataFrame"):
        return None
    data: Bundle = {"text/plain": str(value)}
    html = value._repr_html_()
    if html is not None:
        data["text/html"] = html
    return _with_table(data, lambda: _of_columns(value.height, value.get_columns(), "to_list"))


def show_pyarrow(value: object) -> tuple[Bundle, Bundle] | None:
    """The formatter for tables and record batches of pyarrow."""
    if not made_by(value, "pyarrow", "Table") and not made_by(value, "pyarrow", "RecordBatch"):
        return None
    names = value.schema.names
    columns = [_Named(name, value.column(i)) for i, name in enumerate(names[:COLUMNS])]
    rows = value.num_rows
    return _with_table({"text/plain": str(value)}, lambda: _of_columns(rows, columns, "to_pylist", len(names)))


class _Named:
    """A column of pyarrow, as polars has them."""

    def __init__(self, name: str, column: object) -> None:
        self.name = name
        self.dtype = column.type
        self._column = column

    def head(self, count: int) -> object:
        return self._column.slice(0, count)

    def null_count(self) -> int:
        return self._column.null_count


def _with_table(data: Bundle, describe: Callable[[], Bundle]) -> tuple[Bundle, Bundle]:
    try:
        data[MIME] = describe()
    except Exception:
        pass  # an unusual frame of its kind: its text and HTML are shown
    return data, {}


def _of_columns(rows: int, columns: list[object], to_list: str, count: int | None = None) -> Bundle:
    table = Table(rows, len(columns) if count is None else count)
    for column in columns[: table.shown_columns]:
        values, kind = table.cells.column(getattr(column.head(table.shown_rows), to_list)())
        table.add(column.name, (values, kind, {"dtype": cut(str(column.dtype)), "null_count": column.null_count()}))
    return table.describe(keys=False)


def _of_pandas(pandas: object, value: object, is_frame: bool) -> Bundle:
    rows = len(value)
    table = Table(rows, value.shape[1] if is_frame else 1)
    head = value.iloc[: table.shown_rows]
    labels = list(value.columns[: table.shown_columns]) if is_frame else [value.name]
    index = head.index
    levels = [index.get_level_values(i) for i in range(min(index.nlevels, 10))]
    for number, level in enumerate(levels):
        label = level.name
        if label is None:
            label = f"level_{number}" if len(levels) > 1 or "index" in labels else "index"
        table.add(label, (*_cells(table, level), {"dtype": cut(str(level.dtype)), "index": True}))
    numpy = modules["numpy"]
    budget = COUNTED
    for number, label in enumerate(labels):
        column = value.iloc[:, number] if is_frame else value
        further: Bundle = {"dtype": cut(str(column.dtype))}
        cost = 0 if isinstance(column.dtype, numpy.dtype) and column.dtype.kind in "iub" else rows
        cost *= 10 if column.dtype.kind == "O" else 1
        if cost <= budget:
            budget -= cost
            further["null_count"] = int(column.isna().sum()) if cost else 0
        if hasattr(column.dtype, "categories"):
            further.update(_categories(table, column.dtype))
        cells = _cells(table, column.iloc[: table.shown_rows])
        table.add("values" if label is None and not is_frame else label, (*cells, further))
    unique = isinstance(value.index, pandas.RangeIndex) or (rows <= ROWS and value.index.is_unique)
    described = table.describe(keys=unique)
    if described["truncated"] and (reference := remember(value)) is not None:
        described["table_id"] = reference
    return described


def _cells(table: Table, column: object) -> tuple[list[object], str]:
    """The values of a series or an index."""
    dtype = column.dtype
    if isinstance(dtype, modules["numpy"].dtype):
        values = column.to_numpy()
        return table.cells.numbers(values) if dtype.kind in "iubfMm" else table.cells.column(values.tolist())
    values, kind = table.cells.column(list(column))
    if hasattr(dtype, "tz"):
        kind = "datetime"
    elif hasattr(dtype, "categories"):
        kind = "string" if kind == "any" else kind
    return values, kind


def _categories(table: Table, dtype: object) -> Bundle:
    if len(dtype.categories) > CATEGORIES:
        return {}
    values, _ = _cells(table, dtype.categories)
    return {"constraints": {"enum": values}, "ordered": bool(dtype.ordered)}


def _settings(pandas: object, value: object) -> list[object]:
    """Options of pandas, with their values, that keep its text finite, such as that of a long frame with
    max_rows None. Empty if the user's own suffice."""
    settings: list[object] = []

    def bound(name: str, present: int, most: int, *further: object) -> None:
        allowed = pandas.get_option(name)
        if present > most and (allowed is None or allowed > most):
            settings.extend((name, most, *further))

    bound("display.max_rows", len(value), ROWS, "display.min_rows", ROWS)
    columns = 1
    if value.ndim == 2:
        columns = value.shape[1]
        bound("display.max_columns", columns, COLUMNS)
        columns = min(columns, COLUMNS)
    width = TEXTS // max(1, columns * min(len(value), ROWS, pandas.get_option("display.max_rows") or ROWS))
    bound("display.max_colwidth", WIDTH + 1, max(50, min(width, WIDTH)))
    return settings


class _Unbounded:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass
