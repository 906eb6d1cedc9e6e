"""What a cell leaves behind, collected from its events."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

Event = Dict[str, Any]


@dataclass
class Result:
    """A value that a cell displayed, in every form that it has: ``data`` maps media types to values."""

    data: Dict[str, Any]
    metadata: Dict[str, Any] = field(default_factory=dict)
    display_id: Optional[str] = None
    is_main: bool = False  #: whether it is the value of the cell's last expression

    @property
    def text(self) -> str:
        """The value as plain text."""
        return str(self.data.get("text/plain", ""))

    @property
    def html(self) -> Optional[str]:
        """The value as HTML, which is not sanitized."""
        return self.data.get("text/html")

    @property
    def png(self) -> Optional[bytes]:
        """The bytes of the picture, if the value is one."""
        encoded = self.data.get("image/png")
        return None if encoded is None else base64.b64decode(encoded)


@dataclass(frozen=True)
class ExecutionError:
    """The exception that ended a cell."""

    name: str
    value: str
    traceback: str
    hint: Optional[str] = None


@dataclass
class Execution:
    """A cell that has finished.

    ``text`` is what a language model should read. ``stdout`` and ``stderr`` are all that was printed, ``results``
    what was displayed, ``raw`` is the execution as the server sent it.
    """

    id: str
    status: str = "queued"
    reason: Optional[str] = None
    state: str = "kept"
    text: str = ""
    stdout: str = ""
    stderr: str = ""
    results: List[Result] = field(default_factory=list)
    error: Optional[ExecutionError] = None
    artifacts: List[Dict[str, Any]] = field(default_factory=list)
    execution_count: Optional[int] = None
    raw: Dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the cell ran to its end without an exception."""
        return self.status == "ok"

    @property
    def pngs(self) -> List[bytes]:
        """The bytes of all pictures, in order."""
        return [png for png in (r.png for r in self.results) if png is not None]

    @property
    def png(self) -> Optional[bytes]:
        """The bytes of the last picture, if there is one."""
        pngs = self.pngs
        return pngs[-1] if pngs else None


class Collector:
    """Builds an execution from its events; each is taken once."""

    def __init__(self, execution_id: str) -> None:
        self.execution = Execution(execution_id)
        self.done = False
        self._clear = False
        self._out: Dict[str, List[str]] = {"stdout": [], "stderr": []}

    def take(self, event: Event) -> Optional[Result]:
        """Adds an event, and returns the result that it displayed or changed."""
        kind, execution = event["type"], self.execution
        if kind == "clear_output":
            self._clear = event["wait"]
            if not event["wait"]:
                execution.results.clear()
        elif kind == "stream":
            self._out.setdefault(event["name"], []).append(event["text"])
        elif kind in ("display_data", "execute_result"):
            if self._clear:
                execution.results.clear()
                self._clear = False
            shown = Result(event["data"], event["metadata"], event.get("display_id"), kind == "execute_result")
            execution.results.append(shown)
            return shown
        elif kind == "update_display_data":
            return self._update(event)
        elif kind == "error":
            execution.error = ExecutionError(
                event["ename"], event["evalue"], "\n".join(event["traceback"]), event.get("hint"))
        elif kind == "execution_finished":
            self._finish(event["execution"])
        return None

    def _update(self, event: Event) -> Optional[Result]:
        changed = None
        for shown in self.execution.results:
            if shown.display_id is not None and shown.display_id == event.get("display_id"):
                shown.data, shown.metadata, changed = event["data"], event["metadata"], shown
        return changed

    def _finish(self, raw: Dict[str, Any]) -> None:
        execution = self.execution
        execution.raw = raw
        for name in ("status", "state", "text", "artifacts", "execution_count", "reason"):
            setattr(execution, name, raw.get(name, getattr(execution, name)))
        error = raw.get("error")
        if error and execution.error is None:
            execution.error = ExecutionError(
                error["ename"], error["evalue"], "\n".join(error["traceback"]), error.get("hint"))
        execution.stdout = "".join(self._out["stdout"])
        execution.stderr = "".join(self._out["stderr"])
        self.done = True
