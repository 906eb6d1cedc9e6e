"""Calls of tools, and the list of the tools that there are."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from _thread import allocate_lock, get_ident
from sys import modules
from time import monotonic

from talaria_runner.run.execution import Execution
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.tools.failures import ToolError, ToolLimit, failure
from talaria_runner.wire import frames
from talaria_runner.wire.asks import ENDED, Ask, Asks
from talaria_runner.wire.outbox import printable

_MOST_OPEN = 1024
_MOST_ARGUMENTS = 1 << 20  # bytes of JSON
_DEEPEST = 150  # levels of nesting
_INTERRUPT = 1.0  # s that an interrupt may be late
_IN_CHILD = "tools can be called only in the kernel itself, not in a process that it started"
_LATE = "tools can be called only while the cell that makes the call is running"
_INTERRUPTED = ("interrupted", "it was interrupted")


def stand(lock: object) -> None:
    """Waits for an interrupt that is on its way. It may raise here."""
    lock.acquire(True, _INTERRUPT)


class Calls:
    """Its methods are safe in every thread."""

    def __init__(self, asks: Asks, interrupts: Interrupts, main: int) -> None:
        """main is the identity of the main thread."""
        self._asks = asks
        self._interrupts = interrupts
        self._main = main
        self._specs: dict[str, dict[str, object]] = {}
        self._listed: Execution | None = None  # that the list was pulled for
        self._open = 0
        interrupts.waiting.add(stand.__code__)

    def can_list(self) -> bool:
        """Whether the host can be asked which tools there are."""
        return self._asks.execution() is not None

    def specs(self, name: str | None = None) -> dict[str, dict[str, object]]:
        """The tools by name. They are asked for once in each execution, and again where name is not among them. Outside of
        a cell they are those that were seen last."""
        execution = self._asks.execution()
        if execution is None or execution is self._listed and (name is None or name in self._specs):
            return self._specs
        ask = self._wait(self._begin("tools", {}, execution))
        seen = {tool["name"]: tool for tool in ask.body["tools"]}
        gone = {old: {**spec, "gone": True} for old, spec in self._specs.items() if old not in seen}
        self._specs, self._listed = {**gone, **seen}, execution
        return self._specs

    def call(self, tool: str, arguments: dict[str, object]) -> object:
        """Calls a tool and returns its result. Raises ToolError."""
        execution = self._execution()
        ask = self._begin("tool", {"tool": tool, "arguments": arguments}, execution)
        try:
            self._wait(ask)
        except KeyboardInterrupt:
            if ask.body.get("run"):  # it was given to us in the same moment
                self._asks.tool_ended(ask, execution, _INTERRUPTED, 0)
            raise
        if ask.body.get("run"):
            return self._carry_out(ask, execution, tool, arguments)
        return _result(ask)

    async def acall(self, tool: str, arguments: dict[str, object]) -> object:
        """As call, without holding up the event loop."""
        loop = modules["asyncio"].get_running_loop()
        execution = self._execution()
        ask = self._begin("tool", {"tool": tool, "arguments": arguments}, execution)
        done = loop.create_future()

        def settle() -> None:
            if ask.answered and not done.done():
                done.set_result(None)

        def news() -> None:
            try:
                loop.call_soon_threadsafe(settle)
            except Exception:
                pass  # the loop is closed: nobody waits any more

        try:
            ask.on_news(news)
            await done
        finally:
            self._end(ask)
        if ask.code == ENDED:
            raise modules["asyncio"].CancelledError
        if ask.body.get("run"):
            return await loop.run_in_executor(None, self._carry_out, ask, execution, tool, arguments)
        return _result(ask)

    def _carry_out(self, ask: Ask, execution: Execution, tool: str, arguments: dict[str, object]) -> object:
        """Runs a built-in tool, and tells the host how it ended."""
        from talaria_runner.tools import builtin

        interrupts = execution.interrupts

        def check() -> None:
            if get_ident() == self._main:
                self._interrupts.deliver()
            elif execution.interrupts != interrupts:
                raise KeyboardInterrupt

        began = monotonic()
        error: tuple[str, str] | None = _INTERRUPTED
        try:
            result = builtin.run(tool, ask.body.get("result") or arguments, ask.body.get("mounts", []), check)
            error = None
            return result
        except ToolError as e:
            error = (e.code, e.message)
            raise
        finally:
            self._asks.tool_ended(ask, execution, error, int(1000 * (monotonic() - began)))

    def _execution(self) -> Execution:
        execution = self._asks.execution()
        if execution is None:
            raise ToolError(_LATE, "late")
        return execution

    def _begin(self, kind: str, body: dict[str, object], execution: Execution) -> Ask:
        if kind == "tool":
            _check(body["arguments"])
        if self._open >= _MOST_OPEN:
            raise ToolLimit(f"{_MOST_OPEN:,} tool calls are open, which is the limit; wait for some of them first", "limit")
        ask = self._asks.ask(kind, body, execution, _IN_CHILD)
        self._open += 1
        return ask

    def _end(self, ask: Ask) -> None:
        self._open -= 1
        self._asks.end(ask)

    def _wait(self, ask: Ask) -> Ask:
        try:
            for text in ask.progress():
                print(text, file=sys.stderr)
            if ask.code == ENDED:
                self._stop()
        finally:
            self._end(ask)
        if ask.error:
            raise failure(ask.code, ask.error)
        return ask

    def _stop(self) -> None:
        """Ends a call that was interrupted. In the main thread the signal comes, if it has not yet."""
        if get_ident() == self._main:
            self._interrupts.deliver()
            lock = allocate_lock()
            lock.acquire()
            stand(lock)
        raise KeyboardInterrupt


def _check(arguments: dict[str, object]) -> None:
    """Raises ToolError for what cannot be sent: the host would not read it, and nobody would answer."""
    level: list[object] = [arguments]
    for _ in range(_DEEPEST):
        for o in level:
            plain = not isinstance(o, dict) or all(type(key) is str and key.isascii() for key in o)
            if not plain and len(set(map(_name, o))) < len(o):
                raise ToolError("the arguments of the call have two keys that are the same in JSON", "invalid_arguments")
        level = [v for o in level for v in (o.values() if isinstance(o, dict) else o) if isinstance(v, (dict, list, tuple))]
        if not level:
            break
        if len(level) > _MOST_ARGUMENTS:
            raise ToolLimit("the arguments of the call take more than the limit of 1 MiB; put them into a file", "limit")
    else:
        raise ToolError(f"the arguments of the call are nested more than {_DEEPEST} levels deep", "invalid_arguments")
    try:
        size = len(frames.encode(arguments))
    except (TypeError, ValueError) as e:
        raise ToolError(f"the arguments of the call cannot be sent as JSON: {e}", "invalid_arguments") from None
    if size > _MOST_ARGUMENTS:
        raise ToolLimit(f"the arguments of the call take {size:,} bytes, more than the limit of 1 MiB; put them into a file", "limit")


def _name(key: object) -> str:
    """A key of a dictionary as the host reads it, if that is possible."""
    if isinstance(key, str):
        return printable(key)
    try:
        return frames.encode({key: 0})[2:-4]
    except (TypeError, ValueError):
        return str(id(key))  # which is refused as a whole


def _result(ask: Ask) -> object:
    """The result of an answered call; a text that is JSON is what it says."""
    if ask.error:
        raise failure(ask.code, ask.error)
    result = ask.body.get("result")
    if isinstance(result, str):
        try:
            return frames.parse(result)
        except (ValueError, StopIteration, RecursionError):
            pass
    return result
