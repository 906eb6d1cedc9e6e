"""The front ends' messages to comms, until the main thread handles them: in order, between cells and while a cell
awaits."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _collections import deque
from binascii import a2b_base64

from talaria_runner.ipython.comms import FRONT_END, CommManager, request
from talaria_runner.rendering.display import Display
from talaria_runner.rendering.figures import Figures
from talaria_runner.run.execution import Execution, current
from talaria_runner.run.guard import Guard
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire import frames
from talaria_runner.wire.outbox import Outbox

_KINDS = {"open": "comm_open", "msg": "comm_msg", "close": "comm_close"}


class _Message:
    __slots__ = ("execution", "action", "comm", "target", "msg", "begun")

    def __init__(self, execution: Execution, action: str, comm: str, target: str, msg: dict[str, object]) -> None:
        self.execution = execution  # for whom what its handler prints is
        self.action = action
        self.comm = comm
        self.target = target
        self.msg = msg
        self.begun = False  # it is not handled twice


class Inbox:
    """put is for the reader; the other methods are for the main thread."""

    def __init__(
        self, manager: CommManager, outbox: Outbox, guard: Guard, interrupts: Interrupts, display: Display, figures: Figures
    ) -> None:
        self._manager = manager
        self._outbox = outbox
        self._guard = guard
        self._interrupts = interrupts
        self._display = display
        self._figures = figures
        self._waiting: deque[_Message] = deque()
        self.received = 0  # messages so far,
        self.handled = 0  # and of these

    def put(self, frame: dict[str, object]) -> None:
        """Takes a frame of the host. Raises KeyError, TypeError or ValueError for one that is not of the contract."""
        id, action = frame["id"], frame["action"]
        if not isinstance(id, str) or not isinstance(frame["comm"], str):
            raise TypeError("ids are strings")
        content: dict[str, object] = {"comm_id": frame["comm"], "data": frame["data"]}
        if action == "open":
            content["target_name"] = frame["target"]
        buffers = [memoryview(a2b_base64(buffer)) for buffer in frame["buffers"]]
        msg = request(id.removeprefix(FRONT_END), _KINDS[action], content, frame["metadata"], buffers)
        self._waiting.append(_Message(Execution(id, "", 0, True, False), action, frame["comm"], frame["target"], msg))
        self.received += 1

    def forget(self) -> None:
        """Drops what waits."""
        self._waiting.clear()
        self.handled = self.received

    def handle(self) -> None:
        """Handles the next message, which there is. Called between cells; if it raises, it is called again."""
        message = self._waiting[0]
        execution = message.execution
        if not message.begun:
            self._interrupts.execution = execution
            message.begun = True
            before = current.set(execution)
            try:
                self._outbox.begin()
                error = self._guard.run(execution, lambda: self._give(message))
                if error is not None:
                    self._guard.run(execution, lambda: self._display.report(error))
                self._guard.run(execution, self._figures.flush)
            finally:
                current.reset(before)
                error = None
        if self._interrupts.execution is execution:
            self._interrupts.execution = None
        self._end(message)

    def handle_while_awaiting(self) -> bool:
        """Handles the next message, if there is one, in a callback of the event loop. True if there are more."""
        if not self._waiting or self._waiting[0].begun:
            return False
        message = self._waiting[0]
        message.begun = True
        current.set(message.execution)  # in the context of the callback
        try:
            self._give(message)
        except Exception as e:
            self._display.report(e)
        finally:
            self._end(message)
        return bool(self._waiting)

    def _give(self, message: _Message) -> None:
        self._manager.take(message.action, message.comm, message.target, message.msg)

    def _end(self, message: _Message) -> None:
        self._outbox.put(frames.comm_end(message.execution))
        self._waiting.popleft()
        self.handled += 1
