"""Maps: one function or cell, many inputs, each in a copy of the session's interpreter."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Union

from ._execution import ExecutionError, Result

Code = Union[str, Callable[..., Any]]


@dataclass
class MapItem:
    """The outcome of one input.

    ``status`` is ``ok``, ``error``, ``timeout``, ``died``, ``cancelled`` or ``unlogged``. ``value`` is the value as
    JSON; if ``value_type`` is ``repr``, it is the value's repr instead. ``text`` is what it printed, with its
    traceback, ``results`` what it displayed, ``artifacts`` are the files in its folder, for ``Session.artifact``.
    ``raw`` is the item as the server sent it.
    """

    index: int
    status: str
    reason: Optional[str]
    value: Any
    value_type: Optional[str]
    text: str
    error: Optional[ExecutionError]
    results: List[Result]
    artifacts: List[Dict[str, Any]]
    duration_ms: int
    raw: Dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether it ran to its end without an exception."""
        return self.status == "ok"

    @staticmethod
    def of(raw: Dict[str, Any]) -> MapItem:
        """Reads an item as the server sent it."""
        shown = [Result(o["data"], o.get("metadata", {})) for o in raw["outputs"] if "data" in o]
        return MapItem(raw["index"], raw["status"], raw.get("reason"), raw.get("value"), raw.get("value_type"), raw["text"],
                       _error(raw), shown, raw["artifacts"], raw["duration_ms"], raw)


@dataclass
class MapResult:
    """A map that has ended, with its items in the order of the inputs.

    ``status``, ``reason`` and ``error`` are those of the execution, whose id is ``id``: a map whose items failed is
    ``ok``. ``raw`` is the summary as the server sent it.
    """

    id: str
    status: str
    reason: Optional[str]
    error: Optional[ExecutionError]
    items: List[MapItem] = field(default_factory=list)
    raw: Dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every item ran to its end without an exception."""
        return self.status == "ok" and all(item.ok for item in self.items)

    @property
    def values(self) -> List[Any]:
        """The values of all items, None for those that failed."""
        return [item.value for item in self.items]


class MapCollector:
    """Builds the result of a map from the lines of its stream."""

    def __init__(self) -> None:
        self.result: Optional[MapResult] = None  #: once the map has ended
        self._items: Dict[int, MapItem] = {}
        self._seen: Set[int] = set()  # by the thread that reads, which may be ahead

    def fresh(self, line: Dict[str, Any]) -> bool:
        """Whether a line is new: a reopened stream begins with the items that have ended."""
        if line.get("index") in self._seen:
            return False
        if "index" in line:
            self._seen.add(line["index"])
        return True

    def take(self, line: Dict[str, Any]) -> Optional[MapItem]:
        """Adds a line, and returns the item in it. The last line is the summary."""
        if line.get("type") == "summary":
            items = [self._items[index] for index in sorted(self._items)]
            self.result = MapResult(line["execution_id"], line["status"], line.get("reason"), _error(line), items, line)
            return None
        item = MapItem.of(line)
        self._items[item.index] = item
        return item


def map_body(id: str, code: Optional[Code], inputs: Iterable[Any], function: Optional[str], concurrency: Optional[int],
             timeout: Optional[float], on_error: str) -> Dict[str, Any]:
    """The body of ``POST /v1/sessions/{id}/map``."""
    if (code is None) == (function is None):
        raise ValueError("give either code or function")
    body: Dict[str, Any] = {"id": id, "inputs": list(inputs), "on_error": on_error}
    if function is not None:
        body["function"] = function
    else:
        body["code"] = code if isinstance(code, str) else _source(code)
    if concurrency is not None:
        body["concurrency"] = concurrency
    if timeout is not None:
        body["timeout_s"] = timeout
    return body


def _source(function: Any) -> str:
    """A cell that defines a function of this program and calls it with the item."""
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise ValueError("code must be a string or a function defined with def; write a lambda as a cell that uses item")
    if function.__code__.co_freevars:
        names = ", ".join(function.__code__.co_freevars)
        raise ValueError(f"{function.__name__} uses variables of its enclosing function: {names}; pass them in the inputs")
    call = f"{function.__name__}(item)"
    if inspect.iscoroutinefunction(function):
        call = "await " + call
    return f"{textwrap.dedent(inspect.getsource(function))}\n{call}"


def _error(raw: Dict[str, Any]) -> Optional[ExecutionError]:
    error = raw.get("error")
    if not error:
        return None
    return ExecutionError(error["ename"], error["evalue"], "\n".join(error["traceback"]), error.get("hint"))
