"""Questions of clients about the namespace, answered while a cell runs.

Neither the main thread can answer them, as it may be in a cell, nor the reader, which is there for
interrupts. So a separate thread does, which is started for the first waiting question and ends when none
waits. The asker waits for at most budget.ANSWER: a later answer is not sent at all.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _collections import deque
from _thread import allocate_lock
from time import monotonic

from talaria_runner.introspection.budget import Budget
from talaria_runner.introspection.completeness import check
from talaria_runner.introspection.completion import Completer
from talaria_runner.introspection.inspection import Inspector
from talaria_runner.introspection.variables import Variable, variables
from talaria_runner.run.sources import Sources
from talaria_runner.wire import frames
from talaria_runner.wire.outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WAITING = 64  # requests; further ones get no answer
_WORKERS = 4  # of which all but one hang in something unforeseen
_HANGS = 1.0  # s


class _Worker:
    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since = monotonic()  # when it began its current work


class Requests:
    def __init__(
        self,
        namespace: dict[str, object],
        sources: Sources,
        magics: Callable[[], Iterable[str]] | None,
        outbox: Outbox,
        start: Callable[[Callable[[], None]], None],
    ) -> None:
        """start runs a function in a new thread."""
        self._namespace = namespace
        self._completer = Completer(namespace, magics)
        self._inspector = Inspector(namespace, sources)
        self._outbox = outbox
        self._start = start
        self._lock = allocate_lock()  # for the queue and the workers, and never held while anything is computed
        self._queue: deque[tuple[str, dict[str, object], Budget]] = deque()
        self._workers: list[_Worker] = []
        self._answers = {
            "complete": self._complete,
            "inspect": self._inspect,
            "is_complete": self._is_complete,
            "variables": self._variables,
            "table": self._table,
            "ping": lambda frame, budget: ("pong", {}),
        }

    def put(self, kind: str, frame: dict[str, object]) -> None:
        """Queues a request to be answered, unless too many wait. Called by the reader."""
        if kind not in self._answers:
            return
        now = monotonic()
        with self._lock:
            if len(self._queue) >= _WAITING:
                return
            self._queue.append((kind, frame, Budget()))
            if len(self._workers) >= _WORKERS or any(now - worker.since < _HANGS for worker in self._workers):
                return
            worker = _Worker()
            self._workers.append(worker)
        try:
            self._start(lambda: self._work(worker))
        except (RuntimeError, MemoryError):  # there can be no more threads
            with self._lock:
                self._workers.remove(worker)
                self._queue.clear()

    def _work(self, worker: _Worker) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._workers.remove(worker)
                    return
                kind, frame, budget = self._queue.popleft()
                worker.since = monotonic()
            try:
                if not budget.is_expired:
                    answer = frames.answer(frame["request_id"], *self._answers[kind](frame, budget))
                    if not budget.is_expired:
                        self._outbox.put(answer)
            except BaseException:
                pass  # nobody needs to be told: without an answer the kernel counts as busy
            frame = None

    def _complete(self, frame: dict[str, object], budget: Budget) -> tuple[str, dict[str, object]]:
        matches, start, end = self._completer.complete(frame["code"], frame["cursor"], budget)
        return "completion", {"matches": matches, "start": start, "end": end}

    def _inspect(self, frame: dict[str, object], budget: Budget) -> tuple[str, dict[str, object]]:
        data = self._inspector.at(frame["code"], frame["cursor"], frame["detail"])
        return "inspection", {"found": data is not None, "data": data or {}}

    def _is_complete(self, frame: dict[str, object], budget: Budget) -> tuple[str, dict[str, object]]:
        status, indent = check(frame["code"])
        return "completeness", {"status": status, "indent": indent}

    def _variables(self, frame: dict[str, object], budget: Budget) -> tuple[str, dict[str, object]]:
        listed, total = variables(self._namespace, budget)
        return "variables", {"items": [_fields(variable) for variable in listed], "total": total}

    def _table(self, frame: dict[str, object], budget: Budget) -> tuple[str, dict[str, object]]:
        from talaria_runner.rendering import table_pages, tables

        sort = [(key["column"], key["descending"]) for key in frame["sort"]]
        wanted = table_pages.Wanted(frame["table"], frame.get("filter", "").casefold(), sort, tables.COLUMNS)
        return "table_page", table_pages.page(wanted, frame["offset"], frame["count"], tables.BYTES)


def _fields(variable: Variable) -> dict[str, object]:
    names = ("name", "type", "shape", "dtype", "size_bytes", "preview")
    fields = {name: getattr(variable, name) for name in names}
    return {name: value for name, value in fields.items() if value is not None}
