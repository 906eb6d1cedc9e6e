"""talaria.map, and the maps that clients ask for."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from _thread import get_ident
from posix import sched_getaffinity
from time import monotonic

from talaria_runner.own.stdlib import load
from talaria_runner.own.workspace import workspace
from talaria_runner.parallel.inside import METADATA
from talaria_runner.parallel.item import MapError, failure, summary
from talaria_runner.parallel.job import Job
from talaria_runner.parallel.pool import Pool, wait_for_news
from talaria_runner.run.execution import owner
from talaria_runner.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from talaria_runner.parallel.item import Outcome
    from talaria_runner.parallel.job import Parts
    from talaria_runner.run.execution import Execution
    from talaria_runner.wire.outbox import Outbox

ITEM = "application/vnd.talaria.map-item+json"  # how an item ended
RESULT = "application/vnd.talaria.map-result+json"  # what came of it

_WIDEST = 64
_TICK_S = 1.0  # between news of a map's progress
_MOST_PLAIN = 500  # characters of an item's text/plain


class Maps:
    """The maps of this kernel."""

    def __init__(self, parts: Parts, outbox: Outbox, main: int) -> None:
        """main is the identity of the main thread."""
        self._parts = parts
        parts.interrupts.waiting.add(wait_for_news.__code__)
        self._outbox = outbox
        self._main = main
        self._pools: list[Pool] = []
        self._last: Execution | None = None
        self._count = 0  # of the maps of that execution
        self.item_dir = ""  # of the item that this process runs, which may not exist yet; "" in the kernel itself

    def map(
        self, function: Callable[[object], object], items: Iterable[object], concurrency: int | None, timeout_s: float | None,
        on_error: str, as_completed: bool,
    ) -> list[object] | Iterator[tuple[int, object]]:  # fmt: skip
        """See the function that talaria_module.py makes of it."""
        if not callable(function):
            raise TypeError(f"talaria.map: {function!r} cannot be called")
        if on_error not in ("stop", "continue"):
            raise ValueError('talaria.map: on_error must be "stop" or "continue"')
        inputs = list(items)
        pool = self._pool(lambda index: function(inputs[index]), len(inputs), concurrency, timeout_s, False)
        results = self._results(pool, on_error == "stop")
        if as_completed:
            return results
        ordered: list[object] = [None] * len(inputs)
        try:
            for index, result in results:
                ordered[index] = result
        finally:
            results.close()
        return ordered

    def run(
        self, make: Callable[[object, int], object], inputs: list[object], concurrency: int | None, timeout_s: float | None,
        on_error: str,
    ) -> None:  # fmt: skip
        """Runs make, in copies, for each input and its index, and shows each outcome as a display of the cell."""
        pool = self._pool(lambda index: make(inputs[index], index), len(inputs), concurrency, timeout_s, True)
        outcomes = pool.outcomes(_TICK_S)
        try:
            for outcome in outcomes:
                if outcome is None:
                    continue
                self._show(pool.job.id, outcome, True)
                if outcome.status != "ok" and on_error == "stop":
                    return
        finally:
            outcomes.close()

    def end(self) -> None:
        """Ends what is left of the maps of a cell: one that yields results may have been left half-way."""
        while self._pools:
            self._pools.pop().end()

    def folder(self) -> str:
        """The item's folder, which exists from now on. Raises RuntimeError in the kernel itself."""
        if not self.item_dir:
            raise RuntimeError("talaria.item_dir is the folder of an item of a map; outside of a map there is none")
        os.makedirs(self.item_dir, exist_ok=True)
        return self.item_dir

    def _pool(
        self, work: Callable[[int], object], count: int, concurrency: int | None, timeout_s: float | None, as_json: bool
    ) -> Pool:
        if self._outbox.forked:
            raise RuntimeError("talaria.map works only in the kernel itself, not in an item of a map or another process that it started")
        if get_ident() != self._main:
            raise RuntimeError("talaria.map works only in the main thread: a copy has no other threads")
        width = _cpus() if concurrency is None else concurrency
        if type(width) is not int or not 1 <= width <= _WIDEST:
            raise ValueError(f"talaria.map: concurrency must be a whole number from 1 to {_WIDEST}")
        if timeout_s is not None and not timeout_s > 0:
            raise ValueError("talaria.map: timeout_s must be a number of seconds above 0, or None")
        id = self._new_id()
        top = f"{workspace()}/map/{id}"

        def folder(index: int) -> str:
            return f"{top}/{index}"

        def run(index: int) -> object:
            self.item_dir = folder(index)
            return work(index)

        pool = Pool(Job(self._parts, id, run, folder, count, width, timeout_s, as_json), self._parts.asks.execution())
        self._pools.append(pool)
        return pool

    def _new_id(self) -> str:
        """The execution's, with a number from the second map of an execution on."""
        execution = owner()
        if execution is not self._last:
            self._last, self._count = execution, 0
        self._count += 1
        return execution.id if self._count == 1 else f"{execution.id}-{self._count}"

    def _results(self, pool: Pool, stop: bool) -> Iterator[tuple[int, object]]:
        progress = _Progress(self, pool.job.id, pool.job.count)
        outcomes = pool.outcomes(_TICK_S)
        try:
            for outcome in outcomes:
                progress.add(outcome)
                if outcome is None:
                    continue
                if outcome.text or outcome.displays:
                    self._show(pool.job.id, outcome, False)
                result = _value(outcome)
                if stop and isinstance(result, MapError) and outcome.status != "ok":
                    raise result
                yield outcome.index, result
            if progress.ended < pool.job.count:
                raise RuntimeError("talaria.map: the cell that began this map has ended, and the map with it; consume its results in that cell")
            progress.end()
        finally:
            outcomes.close()
            if pool in self._pools:
                self._pools.remove(pool)

    def _show(self, id: str, outcome: Outcome, with_value: bool) -> None:
        """Sends what the item showed, and how it ended."""
        execution = owner()
        for display in outcome.displays:
            self._outbox.put(frames.display(execution, *display), marked=True)
        item: dict[str, object] = {
            "map": id, "index": outcome.index, "status": outcome.status, "duration_ms": outcome.duration_ms,
        }  # fmt: skip
        if outcome.status != "ok" and outcome.reason:
            item["reason"] = outcome.reason
        rest: dict[str, object] = {"text": outcome.text, "files": outcome.files}
        if outcome.value_type:
            rest["value_type"] = outcome.value_type
        if outcome.error is not None:
            name, message, lines = outcome.error
            rest["error"] = {"ename": name, "evalue": message, "traceback": lines}
        result = frames.encode(rest)
        if with_value and isinstance(outcome.value, str):
            result = f'{result[:-1]},"value":{outcome.value}}}'
        parts = [("text/plain", frames.quoted(_plain(outcome, with_value))), (ITEM, frames.encode(item)), (RESULT, result)]
        data = "{" + ",".join(f"{frames.quoted(mime)}:{value}" for mime, value in parts) + "}"
        about = frames.encode({METADATA: {"map": id, "index": outcome.index}})
        self._outbox.put(frames.display(execution, data, about, "", False), marked=True)
        self._outbox.flush()
        self._parts.interrupts.deliver()

    def show_text(self, text: str, display_id: str, update: bool) -> None:
        """Shows a text, or replaces the one with that display_id."""
        data = frames.encode({"text/plain": text})
        self._outbox.put(frames.display(owner(), data, "{}", display_id, update), marked=True)


class _Progress:
    """A line about how far a map is, from when it has run for a while."""

    def __init__(self, maps: Maps, id: str, count: int) -> None:
        self._maps = maps
        self._id = f"map:{id}"
        self._count = count
        self.ended = self._failed = 0
        self._next = monotonic() + _TICK_S
        self._shown = False

    def add(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.ended += 1
            self._failed += outcome.status != "ok"
        if monotonic() >= self._next:
            self._next = monotonic() + _TICK_S
            self._tell()

    def end(self) -> None:
        if self._shown:
            self._tell()

    def _tell(self) -> None:
        text = f"map: {self.ended:,} of {self._count:,} items have ended"
        if self._failed:
            text += f", {self._failed:,} failed"
        self._maps.show_text(text, self._id, self._shown)
        self._shown = True


def _value(outcome: Outcome) -> object:
    """The result of the function, or the MapError that says why there is none."""
    if outcome.status != "ok":
        return failure(outcome)
    try:
        return load("pickle").loads(outcome.value)
    except Exception as e:
        outcome.status = "error"
        outcome.error = (type(e).__name__, str(e), [f"{type(e).__name__}: {e}"])
        return failure(outcome)


def _plain(outcome: Outcome, with_value: bool) -> str:
    """One line about the item, and what it printed."""
    said = ""
    if outcome.status != "ok":
        said = summary(outcome)
    elif with_value and isinstance(outcome.value, str):
        said = outcome.value
    line = f"[{outcome.index}] {outcome.status}" + (f": {said}" if said else "")
    text = f"{line}\n{outcome.text}".rstrip("\n")
    return text if len(text) <= _MOST_PLAIN else f"{text[:_MOST_PLAIN]}\n[…]"


def _cpus() -> int:
    """How many copies run at a time unless the call says otherwise: as many as the session has CPUs."""
    count = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(_WIDEST, int(count) if count.isdecimal() else len(sched_getaffinity(0))))
