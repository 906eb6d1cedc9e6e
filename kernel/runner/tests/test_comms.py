"""Comms: messages both ways, the order in which they are handled, and whose output is whose."""

from __future__ import annotations

from base64 import b64decode, b64encode

from tests.case import STDLIB, RunnerCase
from tests.host import Outcome, Runner

_ECHO = """
from comm import create_comm
seen = []
channel = create_comm("echo", data={"n": 1}, metadata={"v": 2}, buffers=[b"\\x00\\n\\xff"])
def on_msg(msg):
    seen.append(msg["content"]["data"])
    print("got", msg["content"]["data"], msg["header"]["msg_id"])
    channel.send(msg["content"]["data"], buffers=msg["buffers"])
channel.on_msg(on_msg)
"""


def _say(runner: Runner, id: str, comm: str, data: object, buffers: tuple[bytes, ...] = (), **further: str) -> str:
    id = "comm~" + id
    runner.executions[id] = Outcome()
    frame = {"action": "msg", "target": "", **further}
    encoded = [b64encode(buffer).decode() for buffer in buffers]
    runner.send(type="comm", id=id, comm=comm, data=data, metadata={}, buffers=encoded, **frame)
    return id


class Comms(RunnerCase):
    def setUp(self) -> None:
        self.serial = 0

    def open(self) -> str:
        (opened,) = self.run_cell(_ECHO).of("comm")
        self.assertEqual((opened["action"], opened["target"], opened["data"], opened["metadata"]),
                         ("open", "echo", {"n": 1}, {"v": 2}))  # fmt: skip
        self.assertEqual([b64decode(buffer) for buffer in opened["buffers"]], [b"\0\n\xff"])
        return opened["comm"]

    def say(self, comm: str, data: object, *buffers: bytes, **further: str) -> str:
        return _say(self.runner, f"{self.id()}-{len(self.runner.executions)}", comm, data, buffers, **further)

    def handled(self, id: str) -> Outcome:
        return self.runner.finish(id, until="comm_end")

    def test_a_message_between_cells_is_handled_with_its_buffers(self) -> None:
        comm = self.open()
        large = bytes(range(256)) * 4096
        id = self.say(comm, {"a": [1, None]}, large, b"")
        outcome = self.handled(id)
        self.assertEqual(outcome.stdout, f"got {{'a': [1, None]}} {id.removeprefix('comm~')}\n")
        (answer,) = outcome.of("comm")
        self.assertEqual((answer["id"], answer["comm"], answer["data"]), (id, comm, {"a": [1, None]}))
        self.assertEqual([b64decode(buffer) for buffer in answer["buffers"]], [large, b""])

    def test_a_message_that_cannot_be_read_is_handled_in_its_turn(self) -> None:
        comm = self.open()
        sent = [self.say(comm, 1), self.say(comm, 2, action="other"), self.say(comm, 3)]
        id = "comm~digits"
        self.runner.executions[id] = Outcome()
        self.runner.control.sendall(
            b'{"type":"comm","id":"%s","comm":"%s","data":%s}\n' % (id.encode(), comm.encode(), b"1" * 5000)
        )
        self.handled(id)
        self.assertEqual([len(self.runner.executions[each].of("comm_end")) for each in sent], [1, 1, 1])
        self.assertEqual(self.run_cell("seen").text, "[1, 3]")

    def test_messages_are_handled_before_a_cell_that_came_later_and_after_one_that_runs(self) -> None:
        comm = self.open()
        running = self.runner.start("input()\nprint(seen)", allow_stdin=True)
        question = self.runner.finish(running, until="input").of("input")[0]
        ids = [self.say(comm, n) for n in range(3)]
        self.runner.answer(question, "go on")
        self.assertEqual(self.runner.finish(running).stdout, "[]\n")
        ids += [self.say(comm, n) for n in range(3, 6)]
        later = self.runner.start("print(seen)")
        for id in ids:
            self.handled(id)
        self.assertEqual(self.runner.finish(later).stdout, "[0, 1, 2, 3, 4, 5]\n")

    def test_a_message_is_handled_while_a_cell_awaits(self) -> None:
        comm = self.open()
        id = self.runner.start(
            "import asyncio\ndone = asyncio.Event()\nchannel.on_msg(lambda msg: (print('inside'), done.set()))\nprint('waiting')\n"
            "await done.wait()\nprint('after')"
        )
        self.runner.finish(id, until="stream")
        message = self.say(comm, {})
        self.assertEqual(self.handled(message).stdout, "inside\n")
        self.assertTrue(self.runner.finish(id).stdout.endswith("after\n"))

    def test_a_handler_that_fails_reports_it_and_the_next_one_runs(self) -> None:
        comm = self.open()
        self.run_cell("def fail(msg): 1/0\nchannel.on_msg(fail)")
        outcome = self.handled(self.say(comm, {}))
        self.assertIn("ZeroDivisionError", outcome.stderr)
        self.assertNotIn("talaria_runner", outcome.stderr)
        self.run_cell("channel.on_msg(on_msg)")
        self.assertIn("got 2", self.handled(self.say(comm, 2)).stdout)

    def test_an_endless_handler_is_interrupted_with_and_without_a_cell_behind_it(self) -> None:
        comm = self.open()
        self.run_cell("def loop(msg):\n    print('on', flush=True)\n    while True: pass\nchannel.on_msg(loop)")
        message = self.say(comm, {})
        self.runner.finish(message, until="stream")
        self.runner.interrupt(message)
        self.assertIn("KeyboardInterrupt", self.handled(message).stderr)
        message = self.say(comm, {})
        self.runner.finish(message, until="stream")
        cell = self.runner.start("print('never')")
        self.runner.interrupt(cell)
        self.assertIn("KeyboardInterrupt", self.handled(message).stderr)
        outcome = self.runner.finish(cell)
        self.assertEqual((outcome.stdout, outcome.interrupted), ("", True))
        self.assert_alive(self.runner)

    def test_a_front_end_opens_and_closes_a_comm(self) -> None:
        self.run_cell(
            "def opened(comm, msg):\n    print('opened', comm.comm_id, msg['content']['data'])\n"
            "    comm.on_close(lambda msg: print('closed'))\n    comm.send('welcome')\n"
            "get_ipython().kernel.comm_manager.register_target('mine', opened)"
        )
        outcome = self.handled(self.say("f1", {"x": 1}, action="open", target="mine"))
        self.assertEqual(outcome.stdout, "opened f1 {'x': 1}\n")
        self.assertEqual([frame["data"] for frame in outcome.of("comm")], ["welcome"])
        self.assertEqual(self.handled(self.say("f1", {}, action="close")).stdout, "closed\n")
        self.assertEqual(self.handled(self.say("f1", {})).frames[:-1], [])

    def test_a_comm_for_which_there_is_no_target_is_closed(self) -> None:
        outcome = self.handled(self.say("f2", {}, action="open", target="unknown"))
        self.assertEqual([(frame["action"], frame["comm"]) for frame in outcome.of("comm")], [("close", "f2")])

    def test_values_that_json_lacks_and_messages_that_are_too_large(self) -> None:
        self.open()
        outcome = self.run_cell("import datetime\nchannel.send({'nan': float('nan'), 'day': datetime.date(2026, 1, 2), 3: {4}})")
        self.assertEqual(outcome.of("comm")[0]["data"], {"nan": None, "day": "2026-01-02", "3": [4]})
        self.fail_cell("channel.send({}, buffers=[bytes(13 << 20)])", "ValueError")
        self.fail_cell("channel.send({}, buffers=[b''] * 1025)", "ValueError")

    def test_frames_that_are_not_of_the_contract_do_nothing(self) -> None:
        comm = self.open()
        self.runner.executions["comm~w"] = Outcome()
        for wrong in ({"buffers": [7]}, {"action": "other"}, {"id": 7}, {"metadata": None, "buffers": None}):
            frame = {"type": "comm", "id": "comm~w", "action": "msg", "comm": comm, "target": "", "data": {}, "metadata": {}, "buffers": []}
            self.runner.send(**{**frame, **wrong})
        self.assertIn("got 3", self.handled(self.say(comm, 3)).stdout)

    def test_a_callback_uses_the_output_of_the_message(self) -> None:
        comm = self.open()
        self.run_cell("channel.on_msg(lambda msg: print(get_ipython().kernel.get_parent()['header']['msg_id'] == msg['msg_id']))")
        self.assertEqual(self.handled(self.say(comm, {})).stdout, "True\n")
        outcome = self.run_cell("get_ipython().kernel._parent_header['header']['msg_id']")
        self.assertEqual(outcome.text, repr(outcome.of("done")[0]["id"]))

    def test_an_installed_ipykernel_uses_this_kernels_comms(self) -> None:
        self.open()
        outcome = self.run_cell(
            "import ipykernel.comm, comm\n"
            "isinstance(channel, ipykernel.comm.Comm), comm.get_comm_manager() is get_ipython().kernel.comm_manager"
        )
        self.assertEqual(outcome.text, "(True, True)")


@STDLIB
class Threads(RunnerCase):
    def test_a_comm_is_used_in_a_thread(self) -> None:
        self.run_cell("from ipykernel.comm import Comm\nimport threading\nchannel = Comm('t')")
        outcome = self.run_cell("t = threading.Thread(target=channel.send, args=('from a thread',)); t.start(); t.join()")
        self.assertEqual([frame["data"] for frame in outcome.of("comm")], ["from a thread"])
