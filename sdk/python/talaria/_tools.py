"""Tools: functions of this program that cells of a session call."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import inspect
import json
import threading
import uuid
from typing import Any, Callable, Dict, Optional, Sequence

from ._schema import Parameters, read_docstring

MAX_RESULT = 16 << 20  #: bytes of JSON
_ENVELOPE = 4 << 10  # what a frame has around a result


class ToolError(Exception):
    """Raise this in a tool to give the cell an error: ``hermes_tools.ToolError`` with this ``code`` and ``message``."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ToolCall:
    """A call of a tool. A tool gets it in a parameter that is annotated with this class. It is safe for concurrent use.

    ``id`` names the call, and stays the same when an idempotent call is made again after a reconnect.
    ``execution_id`` is the id of the cell's execution. ``deadline`` is when the server gives up on the call, by its
    clock; it is None for a tool that was passed to ``run``.
    """

    def __init__(self, id: str, tool: str, execution_id: str, arguments: Dict[str, Any],
                 deadline: Optional[datetime.datetime] = None,
                 on_progress: Optional[Callable[[str], None]] = None) -> None:
        self.id = id
        self.tool = tool
        self.execution_id = execution_id
        self.arguments = arguments
        self.deadline = deadline
        #: why the call was cancelled: ``interrupted``, ``timeout``, ``deleted`` or ``disconnected``
        self.cancel_reason = ""
        self._on_progress = on_progress
        self._over = threading.Event()
        self._lock = threading.Lock()  # guards _hook
        self._hook: Optional[Callable[[], None]] = None

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. A long call checks it now and then, and returns early."""
        return self._over.is_set()

    def wait_cancelled(self, seconds: Optional[float] = None) -> bool:
        """Waits until the call is cancelled or the time has passed, and returns ``cancelled``."""
        return self._over.wait(seconds)

    def progress(self, message: str) -> None:
        """Reports the progress of the call to the cell. It does nothing for a tool that was passed to ``run``."""
        if self._on_progress is not None and not self.cancelled:
            self._on_progress(message)

    def cancel(self, reason: str) -> None:
        """Marks the call as cancelled, and cancels the coroutine that carries it out."""
        with self._lock:
            if self._over.is_set():
                return
            self.cancel_reason = reason
            self._over.set()
            hook = self._hook
        if hook is not None:
            hook()

    def on_cancel(self, hook: Callable[[], None]) -> None:
        """Sets a function that cancelling also calls; it is called at once if the call is already cancelled."""
        with self._lock:
            self._hook = hook
            over = self._over.is_set()
        if over:
            hook()


class Tool:
    """A function as a tool. It is immutable."""

    def __init__(self, function: Callable[..., Any], *, name: Optional[str] = None, description: Optional[str] = None,
                 parameters: Optional[Dict[str, Any]] = None, timeout_s: Optional[float] = None,
                 idempotent: bool = False, read_only: bool = False, requires_approval: bool = False,
                 loop: Optional[asyncio.AbstractEventLoop] = None) -> None:
        named = name or getattr(function, "__name__", "")
        if not named or not named.isidentifier():
            raise TypeError(f"the function {function!r} has no name that cells can use; pass name=")
        self.name = named
        self.idempotent = idempotent
        self._function = function
        self._loop = loop
        text, descriptions = read_docstring(function)
        self._parameters: Optional[Parameters] = None
        self._injected: Optional[str] = None
        if parameters is None:
            self._parameters = Parameters(function, descriptions, ToolCall)
            self._injected = self._parameters.injected_name
            parameters = self._parameters.schema
        else:
            self._injected = _injected(function)
        options = {"timeout_s": timeout_s, "idempotent": idempotent, "read_only": read_only,
                   "requires_approval": requires_approval}
        #: the tool as registered with the server
        self.declaration: Dict[str, Any] = {
            "name": named, "description": text if description is None else description, "parameters": parameters,
            **{key: value for key, value in options.items() if value},
        }

    def answer(self, call: ToolCall) -> Dict[str, Any]:
        """Carries a call out, in this thread and in the event loop for a coroutine. Returns the fields of tool_result."""
        try:
            arguments = self._parameters.convert(call.arguments) if self._parameters else dict(call.arguments)
            if self._injected:
                arguments[self._injected] = call
            value = self._function(**arguments)
            if inspect.isawaitable(value):
                value = self._await(call, value)
            return _result(call.id, value)
        except ToolError as e:
            return failure(call.id, e.message, e.code)
        except (asyncio.CancelledError, Exception) as e:  # noqa: B014  (CancelledError is no Exception)
            return failure(call.id, f"{type(e).__name__}: {e}")

    def _await(self, call: ToolCall, value: Any) -> Any:
        async def wait() -> Any:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None

            def cancel() -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            call.on_cancel(cancel)
            return await value

        if self._loop is None:
            return asyncio.run(wait())
        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result()


def _injected(function: Callable[..., Any]) -> Optional[str]:
    """The parameter that takes the ToolCall, of a function whose schema is given."""
    for p in inspect.signature(function).parameters.values():
        if p.annotation is ToolCall or p.annotation in ("ToolCall", "talaria.ToolCall"):
            return p.name
    return None


def _result(id: str, value: Any) -> Dict[str, Any]:
    encoded = json.dumps(value, allow_nan=False, default=_plain)
    size = len(encoded.encode())
    if size > MAX_RESULT - _ENVELOPE:
        return failure(id, f"the result has {size} bytes of JSON, but only {MAX_RESULT - _ENVELOPE} are allowed; "
                           "write it to a file of the session and return the path", "result_too_large")
    return {"call_id": id, "result": json.loads(encoded)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"the result holds a {type(value).__name__}, which is not JSON")


def failure(id: str, message: str, code: str = "") -> Dict[str, Any]:
    """The fields of tool_result for a call that failed."""
    return {"call_id": id, "error": {**({"code": code} if code else {}), "message": message}}


def new_id() -> str:
    """An id that no other client has."""
    return uuid.uuid4().hex


def run_in_thread(name: str, function: Callable[..., None], *args: Any) -> threading.Thread:
    """Starts a thread that does not keep the program from ending."""
    thread = threading.Thread(target=function, args=args, daemon=True, name=name)
    thread.start()
    return thread


def as_tools(tools: Sequence[Any], loop: Optional[asyncio.AbstractEventLoop] = None) -> Dict[str, Tool]:
    """Turns functions into tools, by name; a Tool stays as it is."""
    made = [t if isinstance(t, Tool) else Tool(t, loop=loop) for t in tools]
    return {t.name: t for t in made}
