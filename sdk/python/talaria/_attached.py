"""The connection of a client that provides tools and decides approvals."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import json
import threading
from typing import Any, Dict, List, Optional

from ._approvals import Approval, Decide, decide
from ._errors import TalariaError
from ._http import Backoff, Broken, Stop, Transport, passing, path
from ._tools import Tool, ToolCall, failure, new_id, run_in_thread
from ._websocket import Closed, WebSocket

# Closes after which a further connection may succeed: going away, an internal error, a restart, try again later.
_PASSING_CLOSES = {1001, 1005, 1006, 1011, 1012, 1013}


class Disconnected(Exception):
    """The connection was lost before the reply came."""


class Attached:
    """A WebSocket of a session that carries out calls, and connects again when it is lost. It is safe for concurrent use.

    It connects with the first tool or the first approval callback.
    """

    def __init__(self, transport: Transport, session_id: str, client_id: Optional[str]) -> None:
        self._http = transport
        self._session = session_id
        self._client_id = client_id or new_id()
        self._stop = Stop()
        self._changing = threading.Lock()  # one change of the tools at a time
        self._state = threading.Condition()  # guards what follows
        self._thread: Optional[threading.Thread] = None
        self._socket: Optional[WebSocket] = None
        self._registered = False  # on this connection
        self._ended: Optional[TalariaError] = None
        self._tools: Dict[str, Tool] = {}
        self._calls: Dict[str, ToolCall] = {}
        self._waiting: Dict[str, concurrent.futures.Future[Any]] = {}
        self._decide: Optional[Decide] = None
        self._asked: Dict[str, bool] = {}  # the approvals that were handed to the callback

    def add(self, tools: List[Tool]) -> None:
        """Provides more tools, and waits until the server has accepted them."""
        with self._changing:
            with self._state:
                before = dict(self._tools)
                self._tools.update({t.name: t for t in tools})
            try:
                reasons = self._register()
            except TalariaError:
                with self._state:
                    self._tools = before
                raise
            rejected = [t.name for t in tools if t.name in reasons]
            with self._state:
                for name in rejected:  # the server has the others
                    self._tools.pop(name, None)
                    if name in before:
                        self._tools[name] = before[name]
            for name in rejected:
                raise TalariaError("tool_rejected", f"the server rejected the tool {name}: {reasons[name]}")

    def remove(self, name: str) -> None:
        """Withdraws a tool."""
        with self._changing:
            with self._state:
                if self._tools.pop(name, None) is None:
                    return
            self._register()

    def on_approval(self, decide: Decide) -> None:
        """Lets a function decide approvals, and waits until the server has registered it."""
        with self._changing:
            with self._state:
                self._decide = decide
            self._connected()
        self._ask_pending()

    def wait(self) -> None:
        """Waits until ``close`` or the end of the session. Raises the reason if the connection is lost for good."""
        with self._state:
            if self._thread is None:
                raise RuntimeError("there is nothing to serve: first add a tool, or a callback for approvals")
            while self._ended is None:
                self._state.wait()
            if self._ended.code not in ("closed", "session_not_found"):
                raise self._ended

    def close(self) -> None:
        """Withdraws the tools, and cancels the calls that run. It is idempotent."""
        with self._state:
            connected = self._socket is not None and self._registered and bool(self._tools)
            self._tools = {}
        if connected:
            with contextlib.suppress(Disconnected, TalariaError, concurrent.futures.TimeoutError):
                self._ask("tools", {"tools": [], "client_id": self._client_id}, 5.0)
        with self._state:
            socket, thread = self._socket, self._thread
        self._end(TalariaError("closed", "the tools were withdrawn"))
        if socket is not None:
            socket.close()
        self._stop.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _register(self) -> Dict[str, str]:
        """Tells the server which tools there are. Returns the reasons for those that it rejected."""
        while True:
            self._connected()
            with self._state:
                tools = [t.declaration for t in self._tools.values()]
            try:
                reply = self._ask("tools", {"tools": tools, "client_id": self._client_id})
                return {r["name"]: r["reason"] for r in reply["rejected"]}
            except Disconnected:
                continue  # the next connection registers them, but its reply is not ours

    def _connected(self) -> None:
        """Waits for a connection that has its tools registered."""
        with self._state:
            if self._thread is None:
                self._thread = run_in_thread("talaria-tools", self._serve)
            while not self._registered:
                if self._ended is not None:
                    raise self._ended
                self._state.wait()

    def _serve(self) -> None:
        backoff = Backoff(self._http.outage)
        target = path("sessions", self._session, "ws")
        while True:
            cause: BaseException = ConnectionError("the connection was lost")
            try:
                socket = self._http.websocket(target, self._stop)
            except Broken as e:
                cause = e
                if not self._http.reached:
                    return self._end(self._http.unreachable(e))
            except TalariaError as e:
                cause = e
                if not passing(e):
                    return self._end(e)
            else:
                try:
                    self._read(socket, backoff)
                except (OSError, ValueError, KeyError, TypeError) as e:  # lost, or a frame that is not understood
                    cause = e
                finally:
                    self._lost(socket)
                if isinstance(cause, Closed) and cause.code not in _PASSING_CLOSES:
                    return self._end(_problem(cause))
            if self._stop.event.is_set() or not backoff.wait(self._stop):
                return self._end(self._http.unreachable(cause))

    def _read(self, socket: WebSocket, backoff: Backoff) -> None:
        with self._state:
            if self._ended is not None:
                raise ConnectionError("closed")
            self._socket = socket
        while True:
            message = socket.receive()
            if message.startswith(b'{"seq":') and b'"approval_request"' not in message:
                continue  # an event of a cell, which run() reads
            frame = json.loads(message)
            backoff.reset()
            kind = frame.get("type")
            if kind == "hello":
                self._greeted()
            elif kind == "reply":
                self._replied(frame)
            elif kind == "tool_request":
                self._begin(frame)
            elif kind == "tool_cancel":
                with self._state:
                    call = self._calls.get(frame["call_id"])
                if call is not None:
                    call.cancel(frame["reason"])
            elif kind == "approval_request":
                self._ask_callback(frame)

    def _greeted(self) -> None:
        with self._state:
            tools = [t.declaration for t in self._tools.values()]
        if tools:
            answered = self._send("tools", {"tools": tools, "client_id": self._client_id})
            answered.add_done_callback(self._registered_or_refused)
        else:
            self._ready()
        if self._decide is not None:
            run_in_thread("talaria-approval", self._ask_pending)

    def _registered_or_refused(self, answered: concurrent.futures.Future[Any]) -> None:
        why = answered.exception()
        if why is None:
            self._ready()
        elif isinstance(why, TalariaError):  # all of it, such as by a token that may not run cells
            self._end(why)

    def _ready(self) -> None:
        with self._state:
            self._registered = self._socket is not None
            self._state.notify_all()

    def _replied(self, frame: Dict[str, Any]) -> None:
        with self._state:
            answered = self._waiting.pop(str(frame["id"]), None)
        if answered is None:
            return
        if frame["ok"]:
            answered.set_result(frame.get("result"))
        else:
            error = frame["error"]
            answered.set_exception(TalariaError(error["code"], error["detail"], error.get("status", 0)))

    def _send(self, kind: str, fields: Dict[str, Any]) -> concurrent.futures.Future[Any]:
        """Sends a frame. The future has the result of its reply, or Disconnected."""
        id, answered = new_id(), concurrent.futures.Future()
        with self._state:
            socket = self._socket
            if socket is not None:
                self._waiting[id] = answered
        try:
            if socket is None:
                raise Disconnected()
            socket.send(json.dumps({"type": kind, "id": id, **fields}).encode())
        except (OSError, Disconnected) as e:
            if socket is not None:
                socket.abandon()  # the thread that reads fails what waits
            else:
                answered.set_exception(e)
        return answered

    def _ask(self, kind: str, fields: Dict[str, Any], timeout: Optional[float] = None) -> Any:
        return self._send(kind, fields).result(timeout)

    def _lost(self, socket: WebSocket) -> None:
        """Fails what waits for replies, and cancels the calls that are not handed over again."""
        socket.abandon()
        with self._state:
            self._socket, self._registered = None, False
            waiting, self._waiting = list(self._waiting.values()), {}
            lost = [c for c in self._calls.values() if c.tool not in self._tools or not self._tools[c.tool].idempotent]
        for answered in waiting:
            answered.set_exception(Disconnected())
        for call in lost:
            call.cancel("disconnected")

    def _end(self, why: TalariaError) -> None:
        with self._state:
            if self._ended is None:
                self._ended = why
            calls = list(self._calls.values())
            self._state.notify_all()
        for call in calls:
            call.cancel("disconnected")

    def _begin(self, frame: Dict[str, Any]) -> None:
        """Carries out a call, unless it is still running from before the connection was lost."""
        id = frame["call_id"]
        call = ToolCall(id, frame["tool"], frame["execution_id"], frame["arguments"], _time(frame["deadline"]),
                        lambda message: self._progress(id, message))
        with self._state:
            tool = self._tools.get(call.tool)
            if id in self._calls or self._ended is not None:
                return
            if tool is not None:
                self._calls[id] = call
        if tool is None:
            self._send("tool_result", failure(id, f"the client does not provide the tool {call.tool} any more"))
            return
        run_in_thread("talaria-" + call.tool, self._carry_out, tool, call)

    def _progress(self, id: str, message: str) -> None:
        self._send("tool_progress", {"call_id": id, "message": message})  # the reply says nothing of use

    def _carry_out(self, tool: Tool, call: ToolCall) -> None:
        try:
            answer = tool.answer(call)
            while not call.cancelled:
                try:
                    self._connected()
                    self._ask("tool_result", answer)
                    return
                except Disconnected:
                    continue  # a call that is not handed over again was cancelled
        except TalariaError:
            pass  # nobody waits for the call any more
        finally:
            with self._state:
                self._calls.pop(call.id, None)

    def _ask_pending(self) -> None:
        """Lets the callback decide what was asked before this connection."""
        try:
            for a in self._http.call("GET", path("sessions", self._session, "approvals"), {"state": "pending"})["items"]:
                self._ask_callback(a)
        except TalariaError:
            pass  # the connection fails alike, and says so

    def _ask_callback(self, fields: Dict[str, Any]) -> None:
        with self._state:
            id = fields["approval_id"]
            if self._decide is None or id in self._asked:
                return
            self._asked[id] = True
            callback = self._decide
        run_in_thread("talaria-approval", decide, self._http, self._session, Approval.of(fields), callback)


def _problem(closed: Closed) -> TalariaError:
    code = "session_not_found" if closed.reason == "session_deleted" else closed.reason or "closed_by_server"
    return TalariaError(code, str(closed))


def _time(text: str) -> datetime.datetime:
    # Python before 3.11 does not read "Z".
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
