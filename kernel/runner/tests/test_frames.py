"""The frames between host and runner. In testdata they are as their sender writes them: runner_*.json as
written here, host_*.json as the tests of the host write them (kernel/golden_test.go). Each side reads the
other's."""

from __future__ import annotations

import json
import os
import unittest
from unittest import mock

from talaria_runner.errors.stacks import Shown
from talaria_runner.ipython.comm_inbox import Inbox
from talaria_runner.own.reserve import Reserve
from talaria_runner.packages.pip_arguments import parse
from talaria_runner.questions import Requests
from talaria_runner.run.execution import Execution
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.run.sources import Sources
from talaria_runner.wire import frames
from talaria_runner.wire.asks import Asks
from talaria_runner.wire.lines import Line
from talaria_runner.wire.outbox import Outbox
from talaria_runner.wire.reader import Reader
from tests.host import RUNNER

_UPDATE = "UPDATE_GOLDEN" in os.environ  # writes the files of the frames that the runner sends

_CELL = Execution("cell-1", "1/0", 1, False, True)
_CELL.status, _CELL.interrupted = "error", True


def _error() -> str:
    shown = Shown("<cell 1>", 1, "<module>", True, "cell-1")
    shown.first, shown.behind = 1, 2
    lines = ["Traceback (most recent call last):", '  File "<cell 1>", line 1, in <module>', "ZeroDivisionError: division by zero"]
    return frames.error(_CELL, "ZeroDivisionError", "division by zero", lines, [shown], "divide by something else")


def _change(line: str) -> dict[str, object]:
    return parse(line.split()).fields()


# A frame of every type that the runner sends, and whether it can carry a mark.
_SENT = {
    "ready": (frames.ready("0123abcd"), False),
    "stream": (frames.stream(_CELL, "stdout", "<é>\n"), True),
    "display": (frames.display(_CELL, '{"text/plain":"x"}', '{"image/png":{"width":3}}', "d", True), True),
    "clear": (frames.clear(_CELL, True), True),
    "result": (frames.result(_CELL, '{"text/plain":"2"}', "{}"), False),
    "error": (_error(), False),
    "ask_input": (frames.ask(_CELL, "0a1b", "input", {"prompt": "Who? ", "password": True}), False),
    "ask_install": (
        frames.ask(_CELL, "0a1b", "install", _change("install -U --reinstall --no-deps --pre -q numpy>=2 a")), False,
    ),
    "ask_install_of_no_cell": (frames.ask(None, "0a1b", "install", _change("uninstall a")), False),
    "ask_tools": (frames.ask(_CELL, "0a1b", "tools", {}), False),
    "ask_tool": (frames.ask(_CELL, "0a1b", "tool", {"tool": "web_search", "arguments": {"query": "é", "limit": 5}}), False),
    "ask_checkpoint": (
        frames.ask(_CELL, "0a1b", "after", {"action": "checkpoint", "name": "before é", "level": "saved"}), False,
    ),
    "ask_rollback": (
        frames.ask(_CELL, "0a1b", "after", {"action": "rollback", "to": "before é", "what": "files", "keep_user_edits": True}), False,
    ),
    "tool_end": (frames.tool_end(_CELL, "0a1b", ("not_found", "no such file"), 12), False),
    "tool_end_ok": (frames.tool_end(_CELL, "0a1b", None, 0), False),
    "comm": (
        frames.comm(
            _CELL, "open", "c1", "jupyter.widget", '{"state":{"value":7}}', '{"version":"2.1.0"}', ["AAr/", ""]
        ), True,
    ),
    "expressions": (
        frames.expressions(
            _CELL, {"n": frames.value('{"text/plain":"3"}', "{}"), "m": frames.failure("NameError", "m", ["NameError: m"])}
        ), False,
    ),
    "comm_end": (frames.comm_end(Execution("comm~m1", "", 0, True, False)), False),
    "ask_end": (frames.ask_end("0a1b"), False),
    "done": (frames.done(_CELL), False),
    "completion": (frames.answer("7", "completion", {"matches": ["value"], "start": 0, "end": 4}), False),
    "inspection": (frames.answer("8", "inspection", {"found": True, "data": {"text/plain": "int"}}), False),
    "completeness": (frames.answer("9", "completeness", {"status": "incomplete", "indent": "    "}), False),
    "copied": (
        frames.answer(
            "13", "copied",
            {"pid": 7, "reason": "", "losses": [{"name": "t", "reason": "a thread"}]},
        ), False,
    ),
    "later": (frames.answer("13", "later", {}), False),
    "saved": (
        frames.answer(
            "14", "saved",
            {"reason": "", "count": 2, "lost": [{"name": "g", "type": "generator", "reason": "it runs"}], "bytes": 900, "digest": "0a1b0a1b"},
        ), False,
    ),
    "loaded": (
        frames.answer("15", "loaded", {"reason": "it is damaged", "count": 0, "lost": [], "bytes": 0, "digest": ""}), False,
    ),
    "pong": (frames.answer("12", "pong", {}), False),
    "variables": (
        frames.answer("10", "variables", {"items": [{"name": "value", "type": "int", "preview": "5"}], "total": 1}), False,
    ),
    "table_page": (
        frames.answer("11", "table_page", {"state": "ok", "reason": "", "offset": 20, "total": 21, "rows": [[1, "a"]]}), False,
    ),
}  # fmt: skip


def _golden(name: str) -> str:
    return f"{RUNNER}/testdata/{name}.json"


class Golden(unittest.TestCase):
    def test_frames_are_what_the_runner_sends(self) -> None:
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        self.addCleanup(os.close, write_end)
        outbox = Outbox(mock.Mock(control=write_end, pipes=()))
        outbox._marking = True
        for name, (head, marked) in _SENT.items():
            with self.subTest(name):
                outbox.add(head, marked)
                outbox._drain()
                sent = os.read(read_end, 1 << 16).decode().removeprefix("\n")
                if _UPDATE:
                    with open(_golden("runner_" + name), "w") as f:
                        f.write(sent)
                with open(_golden("runner_" + name)) as f:
                    self.assertEqual(sent, f.read())

    def test_every_frame_of_the_runner_is_tested(self) -> None:
        files = {name for name in os.listdir(f"{RUNNER}/testdata") if name.startswith("runner_")}
        self.assertEqual(files, {f"runner_{name}.json" for name in _SENT})


class Reading(unittest.TestCase):
    """How the reader decodes the host's frames."""

    def setUp(self) -> None:
        self.sent: list[dict] = []
        outbox = mock.Mock(put=lambda head: self.sent.append(json.loads(head + "}")))
        self.interrupts = Interrupts()
        self.interrupts.request = mock.Mock()
        self.asks = Asks(outbox, self.interrupts)
        self.requests = Requests({"value": 5}, Sources(), None, outbox, lambda work: work())
        self.accepted: list[Execution] = []
        control = os.open(os.devnull, os.O_RDONLY)
        self.addCleanup(os.close, control)
        self.comms: list[dict] = []
        self.wishes: list[dict] = []
        self.reader = Reader(
            control, self.interrupts, self.asks, self.requests, (), self.accepted.append, Reserve(), self.comms.append,
            self.wishes.append,
        )  # fmt: skip

    def read(self, name: str) -> None:
        with open(_golden("host_" + name), "rb") as f:
            self.reader._handle(Line(bytearray(f.read().strip()), False))

    def test_of_cells(self) -> None:
        self.read("execute")
        (cell,) = self.accepted
        self.assertEqual((cell.id, cell.code, cell.count, cell.silent, cell.allow_stdin, cell.expressions),
                         ("cell-1", "print('<é>')\n", 3, False, True, {"n": "1 + 2"}))  # fmt: skip
        self.interrupts.execution = cell
        self.read("interrupt")
        self.interrupts.request.assert_called_once_with(cell)

    def test_of_answers_to_asks(self) -> None:
        search = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        tools = [
            {"name": "web_search", "description": "Searches.", "parameters": search},
            {"name": "gh__issues", "server": "gh"}, {"name": "terminal", "builtin": True}, {"name": "old", "gone": True},
        ]  # fmt: skip
        for name, body, error, code in (
            ("answer_tools", {"tools": tools}, "", ""),
            ("answer_tool", {"result": {"a": [1, "é"]}}, "", ""),
            ("answer_tool_run", {"run": True, "mounts": ["/data"]}, "", ""),
            ("answer_tool_error", {}, "it took too long", "timeout"),
            ("answer_after", {"checkpoint_id": "0198"}, "", ""),
            ("answer_input", {"value": "Ada"}, "", ""),
            ("answer_install", {"packages": [{"name": "numpy", "version": "2.1"}, {"name": "old", "version": ""}]}, "", ""),
            ("answer_error", {}, "no such package", ""),
        ):
            with self.subTest(name):
                with mock.patch("talaria_runner.wire.asks.urandom", lambda size: b"\x0a\x1b"):
                    ask = self.asks.ask("input", {}, None, "")
                self.read("progress")
                self.assertFalse(ask.answered)
                self.read(name)
                self.assertEqual((list(ask.progress()), ask.body, ask.error, ask.code), (["Collecting numpy\n"], body, error, code))

    def test_of_questions_about_names(self) -> None:
        for name, id, kind in (
            ("complete", "7", "completion"), ("inspect", "8", "inspection"), ("is_complete", "9", "completeness"),
            ("variables", "10", "variables"), ("table", "11", "table_page"), ("ping", "12", "pong"),
        ):  # fmt: skip
            with self.subTest(name):
                self.sent.clear()
                self.read(name)
                self.assertEqual([(frame["request_id"], frame["type"]) for frame in self.sent], [(id, kind)])

    def test_of_what_is_done_between_cells(self) -> None:
        self.read("copy")
        self.read("aside")
        self.read("save")
        self.read("load")
        self.assertEqual([frame["type"] for frame in self.wishes], ["copy", "aside", "save", "load"])

    def test_of_messages_to_comms(self) -> None:
        self.read("comm")
        self.read("comm_open")
        inbox = Inbox(mock.Mock(), mock.Mock(), mock.Mock(), self.interrupts, mock.Mock(), mock.Mock())
        for frame in self.comms:
            inbox.put(frame)
        first, second = inbox._waiting
        self.assertEqual((first.execution.id, first.action, first.comm, second.action, second.target),
                         ("comm~m1", "msg", "c1", "open", "jupyter.widget.control"))  # fmt: skip
        self.assertEqual(first.msg["header"]["msg_id"], "m1")
        self.assertEqual(first.msg["content"], {"comm_id": "c1", "data": {"method": "update", "state": {"value": 7}}})
        self.assertEqual((first.msg["metadata"], first.msg["buffers"]), ({"version": "2.1.0"}, [b"\0\n\xff", b""]))

    def test_every_frame_of_the_host_is_tested(self) -> None:
        names = "comm comm_open execute interrupt progress answer_input answer_install answer_error answer_tools answer_tool answer_tool_run answer_tool_error answer_after complete inspect is_complete variables table ping copy aside save load"
        files = {name for name in os.listdir(f"{RUNNER}/testdata") if name.startswith("host_")}
        self.assertEqual(files, {f"host_{name}.json" for name in names.split()})


if __name__ == "__main__":
    unittest.main()
