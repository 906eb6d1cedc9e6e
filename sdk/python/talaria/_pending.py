"""Tools of one execution, carried out over plain HTTP."""

from __future__ import annotations

import threading
from typing import Any, Dict, List

from ._errors import TalariaError
from ._execution import Event
from ._http import Transport, path
from ._tools import Tool, ToolCall, run_in_thread


class PendingCalls:
    """Carries out the calls of the tools that came with an execution. It ends with the execution.

    A call is noticed at once if no other one is running here, otherwise when one of those has been answered.
    """

    def __init__(self, transport: Transport, session_id: str, body: Dict[str, Any], tools: Dict[str, Tool]) -> None:
        self._http = transport
        self._base = path("sessions", session_id, "executions")
        self._body = body
        self._tools = tools
        self._lock = threading.Lock()  # guards what follows
        self._calls: Dict[str, ToolCall] = {}  # all that were seen
        self._over = False

    def start(self) -> None:
        """Begins to look for calls, in a thread."""
        if self._tools:
            run_in_thread("talaria-tools", self._look)

    def take(self, event: Event) -> None:
        """Notes what an event of the execution says about its calls."""
        if event["type"] == "tool_result":
            with self._lock:
                call = self._calls.get(event["call_id"])
            if call is not None:
                call.cancel("interrupted")  # one that was answered has returned
        elif event["type"] == "execution_finished":
            self.end()

    def end(self) -> None:
        """Cancels what runs."""
        with self._lock:
            self._over = True
            calls = list(self._calls.values())
        for call in calls:
            call.cancel("interrupted")

    def _look(self) -> None:
        """Repeats the request until its answer has calls, or the execution is over."""
        while not self._over:
            try:
                # The same request again runs nothing, and waits for calls like the first one.
                if not self._handle(self._http.call("POST", self._base, body=self._body, repeatable=True)):
                    return
            except TalariaError:
                return  # the stream of events fails alike, and says so

    def _handle(self, execution: Dict[str, Any]) -> bool:
        """Carries out the calls that are new, and returns whether nobody else looks for further ones."""
        pending: List[Dict[str, Any]] = execution.get("pending_tool_calls") or []
        fresh: List[ToolCall] = []
        with self._lock:
            for p in pending:
                if p["call_id"] not in self._calls and not self._over:
                    call = ToolCall(p["call_id"], p["tool"], execution["id"], p["arguments"])
                    self._calls[call.id] = call
                    fresh.append(call)
        for call in fresh:
            run_in_thread("talaria-" + call.tool, self._carry_out, call)
        return not pending and execution["status"] in ("queued", "running")

    def _carry_out(self, call: ToolCall) -> None:
        answer = self._tools[call.tool].answer(call)
        try:
            execution = self._http.call("POST", f"{self._base}/{call.execution_id}/tool_results",
                                        body={"results": [answer]}, repeatable=True)
            if self._handle(execution):
                self._look()
        except TalariaError as e:
            if e.code == "no_call_pending":  # it was interrupted, or an answer was repeated
                self._look()
