"""In, Out, _, __ and ___, kept in builtins: a name that user code defines itself hides them.

Large results, and the variables of functions that failed, are not kept alive for long: anything that takes
more than LARGE is available in the next cell, and gone after it. It is gone before that cell if the cell does
not mention it, since it may need the memory.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from gc import collect

from talaria_runner.introspection.sizes import estimate, readable
from talaria_runner.introspection.variables import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

LARGE = 32 << 20  # bytes of one result, or of all variables of a traceback
MOST = 128 << 20  # bytes of all results
_KEPT_RESULTS = 100
_KEPT_SOURCES = 1000
_FRAMES = 1000  # of a traceback that are examined
_UNDERSCORES = ("_", "__", "___")
_DEBUGGERS = ("pdb", "debug", "last_", "post_mortem")
_SCALARS = frozenset((int, float, bool, complex, type(None)))


class Results(dict):
    """Out."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.total = 0  # of the sizes of those that are not large
        self.gone: dict[int, int] = {}  # the sizes of those that were too large to keep

    def __missing__(self, count: object) -> object:
        size = self.gone.get(count) if type(count) is int else None
        if size is None:
            raise KeyError(count)
        raise KeyError(
            f"the result of cell {count} took {readable(size)} and was kept for one cell only; "
            "give a large result a name to keep it"
        )


Results.__module__ = "builtins"


class History:
    """The methods let go of the user's values, whose code may run then: they are called below the guard."""

    def __init__(self, builtins: dict[str, object], namespace: dict[str, object]) -> None:
        self._builtins = builtins
        self._namespace = namespace
        self._results = Results()
        self._sources: list[str] = [""]
        records.update({"In": self._sources, "Out": self._results})
        builtins.update({**records, "_": "", "__": "", "___": ""})
        self._last: object = ""
        self._large: set[int] = set()  # counts of results that are dropped with the next cell
        self._old: set[int] = set()  # those that are dropped at the end of this one
        self._failure = 0  # 1 if a large traceback is dropped with the next cell, 2 if at the end of this one

    def sources(self) -> dict[int, str]:
        """The sources that are kept, by number."""
        return {number: source for number, source in enumerate(self._sources) if source}

    def forget(self, results: bool, sources: bool) -> None:
        """Drops all results, all sources, or both."""
        if results:
            for number in list(self._results):
                self._forget(number)
            self._large.clear()
            self._old.clear()
            for name in _UNDERSCORES:
                self._builtins[name] = ""
            self._last = ""
        if sources:
            self._sources[:] = [""] * len(self._sources)

    def add_source(self, count: int, code: str) -> None:
        """Stores the source as In[count]. Old ones become empty."""
        sources = self._sources
        sources.extend([""] * min(count - len(sources) + 1, count + 1))
        sources[count] = code
        if count > _KEPT_SOURCES:
            sources[count - _KEPT_SOURCES] = ""

    def add_result(self, count: int, value: object) -> None:
        """Stores the value as Out[count] and _, unless user code keeps something else under that name, as
        gettext does."""
        builtins, results = self._builtins, self._results
        if value is results:
            return
        size = 0 if type(value) in _SCALARS else estimate(value, (self._namespace,))
        self._forget(count)
        results[count] = value
        results.sizes[count] = size
        if size > LARGE:
            self._large.add(count)
        else:
            results.total += size
        builtins[f"_{count}"] = value
        if len(results) > _KEPT_RESULTS or results.total > MOST:
            self._bound()
        if builtins.get("_", self._last) is self._last:
            builtins["___"] = builtins.get("__")
            builtins["__"] = self._last
            builtins["_"] = self._last = value

    def add_failure(self, error: BaseException) -> None:
        """Makes the error the one that pdb.pm() examines."""
        traceback = vars(BaseException)["__traceback__"].__get__(error)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
        sys.last_exc = error
        self._failure = 1 if self._held(traceback) > LARGE else 0

    @property
    def holds(self) -> bool:
        """Whether there is something for release to let go of."""
        return bool(self._old) or self._failure == 2

    def before(self) -> bool:
        """A cell begins: large values from before are dropped with it. Returns the value of holds."""
        self._old, self._large = self._large, set()
        if self._failure:
            self._failure = 2
        return self.holds

    def release(self, code: str | None = None) -> None:
        """Lets go of large values: before a cell, whose source is code, of those that it does not mention;
        after it, of all that existed before it."""
        if self._old and (code is None or not _mentions(code)):
            for count in self._old:
                self._drop(count)
            self._old.clear()
        if self._failure == 2 and (code is None or not any(word in code for word in _DEBUGGERS)):
            for name in ("last_type", "last_value", "last_traceback", "last_exc"):
                vars(sys).pop(name, None)
            self._failure = 0
            collect()  # a failure often refers to itself in a cycle

    def _bound(self) -> None:
        """Forgets the oldest results if there are too many."""
        results = self._results
        for count in [count for count in results.sizes if count not in results]:
            self._forget(count)  # user code removed it
        for count in list(results)[:-1]:
            if len(results) <= _KEPT_RESULTS and results.total <= MOST:
                break
            if count not in self._large:
                self._forget(count)

    def _forget(self, count: int) -> object:
        """Removes the result from Out and its number, and returns it."""
        results = self._results
        size = results.sizes.pop(count, 0)
        if size <= LARGE:
            results.total -= size
        self._builtins.pop(f"_{count}", None)
        return results.pop(count, None)

    def _drop(self, count: int) -> None:
        """Lets go of a large result for good."""
        builtins, results = self._builtins, self._results
        results.gone[count] = results.sizes.get(count, 0)
        while len(results.gone) > _KEPT_RESULTS:
            del results.gone[next(iter(results.gone))]
        value = self._forget(count)
        for name in _UNDERSCORES:
            if builtins.get(name) is value:
                builtins[name] = ""
        if self._last is value:
            self._last = ""

    def _held(self, traceback: TracebackType | None) -> int:
        """The bytes that the variables of the frames keep alive."""
        total = 0
        for _ in range(_FRAMES):
            if traceback is None or total > LARGE:
                break
            frame = traceback.tb_frame
            if frame.f_globals is not frame.f_locals:
                total += estimate(list(frame.f_locals.values()), (self._namespace,))
            traceback = traceback.tb_next
        return total


def _mentions(code: str) -> bool:
    """Whether the source mentions Out, _, __, ___ or a name like _3."""
    if "Out" in code:
        return True
    at = code.find("_")
    while at >= 0:
        end = at
        while end < len(code) and code[end] == "_":
            end += 1
        while end < len(code) and code[end].isdigit():
            end += 1
        alone = at == 0 or not (code[at - 1].isalnum() or code[at - 1] == ".")
        if alone and (end == len(code) or not (code[end].isalnum() or code[end] == "_")):
            return True
        at = code.find("_", end)
    return False
