"""What clients ask about the namespace while the runner is idle, and while a cell runs."""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
import unittest
from _thread import allocate_lock, start_new_thread
from unittest import mock

from talaria_runner import questions
from talaria_runner.run.sources import Sources
from tests import hostile
from tests.case import RunnerCase
from tests.host import PATIENCE, Runner

_SLEEP = "import time\nnow = 5\nprint('begun', flush=True)\ntime.sleep(60)"
_SPIN = "now = 5\nprint('begun', flush=True)\nwhile True: pass"


class Hanging(unittest.TestCase):
    def test_one_that_hangs_does_not_hold_up_the_next(self) -> None:
        entered, leave, answers = allocate_lock(), allocate_lock(), queue.SimpleQueue()
        entered.acquire()
        leave.acquire()

        def magics() -> list[str]:
            entered.release()
            leave.acquire()
            return []

        class Outbox:
            put = answers.put

        asked = questions.Requests({"own": 1}, Sources(), magics, Outbox(), lambda f: start_new_thread(f, ()))
        with mock.patch.object(questions, "_HANGS", 0.0):
            asked.put("complete", {"request_id": "hangs", "code": "%x", "cursor": 2})
            self.assertTrue(entered.acquire(True, PATIENCE))
            asked.put("complete", {"request_id": "next", "code": "ow", "cursor": 2})
            self.assertIn('"next","matches":["own"]', answers.get(True, PATIENCE))
        leave.release()


class Requests(RunnerCase):
    serial = itertools.count()

    def ask(self, kind: str, runner: Runner | None = None, **fields: object) -> dict:
        """Returns the answer; frames of executions that come before it are kept. On a busy machine an answer
        may be too late to be sent: then it asks again."""
        runner = runner or self.runner
        deadline = time.monotonic() + PATIENCE
        while True:
            request_id = f"r{next(self.serial)}"
            runner.send(type=kind, request_id=request_id, **fields)
            try:
                while True:
                    frame = runner.next_frame(1)
                    if frame.get("request_id") == request_id:
                        return frame
                    if "request_id" not in frame:
                        runner.executions[frame["id"]].frames.append(frame)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise

    def test_all_kinds(self) -> None:
        self.run_cell("import math\nvalue = [1, 2, 3]\ndef function(width, height=2):\n    'Documented.'")
        answer = self.ask("complete", code="valu", cursor=4)
        self.assertEqual((answer["type"], answer["matches"], answer["start"], answer["end"]),
                         ("completion", ["value"], 0, 4))  # fmt: skip
        answer = self.ask("inspect", code="function(1, ", cursor=12, detail=0)
        self.assertEqual((answer["type"], answer["found"]), ("inspection", True))
        self.assertIn("function(width, height=2)\nDocstring:      Documented.", answer["data"]["text/plain"])
        source = self.ask("inspect", code="function", cursor=3, detail=1)["data"]["text/plain"]
        self.assertIn("def function(width", source)
        self.assertFalse(self.ask("inspect", code="nothing", cursor=3, detail=0)["found"])
        answer = self.ask("is_complete", code="for x in y:")
        self.assertEqual((answer["status"], answer["indent"]), ("incomplete", "    "))
        items = {item["name"]: item for item in self.ask("variables")["items"]}
        self.assertEqual(items["value"]["type"], "list")
        self.assertEqual(items["value"]["shape"], [3])
        self.assertNotIn("math", items)
        self.assertNotIn("In", items)

    def test_while_a_cell_runs(self) -> None:
        for code in (_SLEEP, _SPIN):
            with self.subTest(code):
                id = self.runner.start(code)
                self.runner.finish(id, until="stream")
                names = [item["name"] for item in self.ask("variables")["items"]]
                self.assertIn("now", names)
                self.assertEqual(self.ask("complete", code="no", cursor=2)["matches"][0], "now")
                self.runner.interrupt(id)
                self.assertTrue(self.runner.finish(id).interrupted)

    def test_are_not_seen_by_cells(self) -> None:
        before = self.run_cell("import threading; threading.active_count(), sorted(globals())").text
        self.ask("variables")
        self.assertEqual(self.run_cell("threading.active_count(), sorted(globals())").text, before)

    def test_warn_of_nothing(self) -> None:
        outcome = self.run_cell("x = {}")
        for code in (
            'x = "\\d"', "'\\\\777' b'\\\\u' '\\\\N{EM DASH}'", "1if x else 2", "[0x1for x in (1,)]",
            "1.5_0or 1e5and x", "x is 5", "(5)(6)", "assert (x, 1)",
        ):  # fmt: skip
            self.ask("is_complete", code=code)
            self.ask("complete", code=f"({code}).re", cursor=len(code) + 5)
        self.run_cell("1")
        self.assertEqual((outcome.of("stream"), outcome.stderr), ([], ""))

    def test_are_answered_in_their_order_and_leave_no_thread(self) -> None:
        for number in range(20):
            self.runner.send(type="complete", request_id=f"many{number}", code="pri", cursor=3)
        answered = []
        with contextlib.suppress(TimeoutError):
            while len(answered) < 20:
                answered.append(int(self.runner.next_frame(2)["request_id"].removeprefix("many")))
        self.assertEqual((answered, bool(answered)), (sorted(set(answered)), True))
        count = "len(__import__('os').listdir('/proc/self/task'))"
        threads = int(self.run_cell(count).text)
        self.ask("variables")
        deadline = time.monotonic() + 20
        while int(self.run_cell(count).text) > threads:
            self.assertLess(time.monotonic(), deadline)

    def test_bad_frames_are_passed_over(self) -> None:
        for frame in (
            {"type": "complete"},
            {"type": "complete", "request_id": "x", "code": 5, "cursor": "y"},
            {"type": "inspect", "request_id": "x", "code": None, "cursor": 0, "detail": 0},
            {"type": "nothing", "request_id": "x"},
            {"type": ["complete"], "request_id": "x"},
        ):
            self.runner.send(**frame)
        self.assertEqual(self.ask("is_complete", code="1")["status"], "complete")
        self.assert_alive(self.runner)

    def test_hostile_objects_are_not_asked(self) -> None:
        with Runner() as runner:
            self.assertEqual(runner.run("ran = []\n" + hostile.SOURCE + "\ndel ran[:]").status, "ok")
            names = [item["name"] for item in self.ask("variables", runner)["items"]]
            self.assertIn("everything", names)
            for name in names:
                for code in (name, name + ".", name + "['", name + "("):
                    self.ask("complete", runner, code=code, cursor=len(code))
                    self.ask("inspect", runner, code=code, cursor=len(code), detail=1)
            self.assertEqual(runner.run("ran").text, "[]")

    def test_of_a_million_names(self) -> None:
        with Runner() as runner:
            cell = "globals().update({f'name{i}': i for i in range(1_000_000)}); newest = 1"
            self.assertEqual(runner.run(cell).status, "ok")
            self.assertEqual(self.ask("complete", runner, code="newes", cursor=5)["matches"], ["newest"])
            answer = self.ask("variables", runner)
            self.assertLessEqual(len(answer["items"]), 1000)
            self.assertGreater(answer["total"], 1_000_000)
