"""In, Out, _, __ and ___, kept in builtins: a name that user code gives to something of its own hides them."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

_KEPT_RESULTS = 100
_KEPT_SOURCES = 1000


class History:
    def __init__(self, builtins: dict[str, object]) -> None:
        self._builtins = builtins
        self._results: dict[int, object] = {}
        self._sources: list[str] = [""]
        builtins.update({"In": self._sources, "Out": self._results, "_": "", "__": "", "___": ""})
        self._last: object = ""

    def add_source(self, count: int, code: str) -> None:
        """Makes it In[count]. Old ones become empty."""
        sources = self._sources
        sources.extend([""] * min(count - len(sources) + 1, count + 1))
        sources[count] = code
        if count > _KEPT_SOURCES:
            sources[count - _KEPT_SOURCES] = ""

    def add_result(self, count: int, value: object) -> None:
        """Makes it Out[count] and _, unless user code keeps something else under that name, as gettext does."""
        builtins, results = self._builtins, self._results
        if value is results:
            return
        results[count] = value
        builtins[f"_{count}"] = value
        while len(results) > _KEPT_RESULTS:
            oldest = next(iter(results))
            del results[oldest]
            builtins.pop(f"_{oldest}", None)
        if builtins.get("_", self._last) is self._last:
            builtins["___"] = builtins.get("__")
            builtins["__"] = self._last
            builtins["_"] = self._last = value
