"""talaria.checkpoint and talaria.rollback: what cells ask for, and how a rollback ends them."""

from __future__ import annotations

from tests.case import RunnerCase
from tests.host import Outcome


class CheckpointAsks(RunnerCase):
    def setUp(self) -> None:
        self.asked: list[dict] = []
        self.run_cell("import talaria, threading, asyncio, os")

    def drive(self, code: str, interrupt: bool = False, **answer: object) -> Outcome:
        """Runs a cell; all that it asks for gets this answer, by default the id c7, or an interrupt and none."""
        id = self.runner.start(code)
        outcome = self.runner.executions[id]
        while not outcome.of("done"):
            frame = self.runner.next_frame()
            if frame["type"] == "ask_end":
                continue
            outcome.frames.append(frame)
            self.runner._place(outcome, frame)
            if frame.get("kind") == "after":
                self.asked.append(frame["body"])
                if interrupt:
                    self.runner.interrupt(id)
                    continue
                self.runner.send(type="answer", ask=frame["ask"], **(answer or {"body": {"checkpoint_id": "c7"}}))
        return outcome

    def test_a_checkpoint_returns_its_id(self) -> None:
        outcome = self.drive("talaria.checkpoint(), talaria.checkpoint('a é', level='saved')")
        self.assertEqual(outcome.text, "('c7', 'c7')", outcome.traceback)
        self.assertEqual(self.asked, [{"action": "checkpoint"}, {"action": "checkpoint", "name": "a é", "level": "saved"}])

    def test_a_refusal_is_an_exception_with_the_words(self) -> None:
        for call in ("talaria.checkpoint()", "talaria.rollback('x')"):
            outcome = self.drive(f"try: {call}\nexcept talaria.CheckpointError as e: print(type(e).__mro__[1].__name__, e)\n'on'", error="no, sorry")
            self.assertEqual((outcome.stdout, outcome.text), ("RuntimeError no, sorry\n", "'on'"))
        self.assertEqual(self.drive("talaria.rollback('x')", error="no").error["ename"], "CheckpointError")

    def test_what_is_no_text_is_a_type_error(self) -> None:
        for call in ("checkpoint(5)", "checkpoint(level=5)", "rollback(None)", "rollback('a', what=1)"):
            self.fail_cell(f"talaria.{call}", "TypeError")
        self.drive("talaria.checkpoint('\\ud800' + 'x' * 5000); talaria.rollback('y' * 5000)")
        self.assertEqual([len(body.get("name", body.get("to"))) for body in self.asked], [1000, 1000])

    def test_a_rollback_ends_the_cell(self) -> None:
        outcome = self.drive(
            "print('before')\ntry:\n    talaria.rollback('a', what='files', keep_user_edits=True)\nexcept Exception: print('caught')\n"
            "finally: print('finally')\nprint('after')\n1")
        self.assertEqual((outcome.status, outcome.stdout, outcome.text, outcome.error), ("ok", "before\nfinally\n", None, None))
        self.assertFalse(outcome.interrupted)
        self.assertEqual(self.asked, [{"action": "rollback", "to": "a", "what": "files", "keep_user_edits": True}])
        self.assertEqual(self.run_cell("1 + 1").text, "2")

    def test_a_rollback_ends_all_kinds_of_cells(self) -> None:
        for code in (
            "def f(): talaria.rollback('a')\nf(); print('after')",
            "await asyncio.sleep(0); talaria.rollback('a'); print('after')",
            "async def f(): talaria.rollback('a')\nawait asyncio.gather(f(), asyncio.sleep(0)); print('after')",
            "async def f(): talaria.rollback('a')\nasyncio.run(f()); print('after')",
            "get_ipython().run_cell(\"talaria.rollback('a')\"); print('after')",
            "%time talaria.rollback('a')\nprint('after')",
            "%timeit -n1 -r1 talaria.rollback('a')\nprint('after')",
            "%%capture x\ntalaria.rollback('a'); print('after')",
            "exec(\"talaria.rollback('a')\"); print('after')",
            "class A:\n    def __enter__(self): return self\n    def __exit__(self, *e): print('left')\nwith A(): talaria.rollback('a'); print('after')",
        ):
            with self.subTest(code):
                outcome = self.drive(code)
                self.assertEqual((outcome.status, outcome.error), ("ok", None), outcome.traceback)
                self.assertNotIn("after", outcome.stdout)
                self.assertEqual(outcome.stderr, "")
                self.assert_alive(self.runner)

    def test_a_callback_at_the_end_of_a_cell_may_go_back(self) -> None:
        self.run_cell("def back(): get_ipython().events.unregister('post_execute', back); talaria.rollback('a')")
        outcome = self.drive("get_ipython().events.register('post_execute', back); print('x')")
        self.assertEqual((outcome.status, outcome.stdout, outcome.stderr, len(self.asked)), ("ok", "x\n", "", 1))

    def test_an_interrupt_ends_the_wait(self) -> None:
        outcome = self.drive("talaria.rollback('a')", interrupt=True)
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))

    def test_a_thread_may_not_go_back(self) -> None:
        outcome = self.drive(
            "def f():\n    print(talaria.checkpoint())\n    try: talaria.rollback('a')\n    except talaria.CheckpointError as e: print(e)\n"
            "t = threading.Thread(target=f); t.start(); t.join()")
        self.assertEqual(outcome.stdout, "c7\ntalaria.rollback works only in the thread that runs the cell, because it ends the cell\n", outcome.stderr)
        self.assertEqual(self.asked, [{"action": "checkpoint"}])

    def test_other_processes_may_ask_for_nothing(self) -> None:
        self.run_cell(
            "def f(x):\n    said = []\n    for call in (talaria.checkpoint, lambda: talaria.rollback('a')):\n"
            "        try: call()\n        except talaria.CheckpointError as e: said.append(str(e))\n    return said")
        words = "talaria.{} works only in the kernel itself, not in an item of a map or another process that it started"
        outcome = self.drive("said = talaria.map(f, [1])[0]\n'\\n'.join(said)")
        self.assertEqual(outcome.text, repr("\n".join(words.format(name) for name in ("checkpoint", "rollback"))), outcome.traceback)
        outcome = self.drive(
            "r, w = os.pipe()\nif os.fork() == 0:\n    os.write(w, '\\n'.join(f(1)).encode()); os._exit(0)\nos.wait(); os.read(r, 1000).decode() == '\\n'.join(said)")
        self.assertEqual(outcome.text, "True", outcome.traceback)
        self.assertEqual(self.asked, [])

    def test_another_cell_s_task_asks_for_no_cell(self) -> None:
        self.run_cell("go = asyncio.Event()\nasync def f():\n    await go.wait(); talaria.checkpoint()\ntask = asyncio.create_task(f())")
        id = self.runner.start("go.set(); await asyncio.wait([task]); task.exception()")
        while (frame := self.runner.next_frame()).get("kind") != "after":
            pass
        self.assertNotIn("id", frame)
        self.runner.send(type="answer", ask=frame["ask"], error="no")
        self.assertEqual(self.runner.finish(id).text, "CheckpointError('no')")

    def test_the_module_lists_them(self) -> None:
        outcome = self.run_cell(
            "from talaria import *\ncheckpoint is talaria.checkpoint, rollback.__module__, CheckpointError.__module__, "
            "'when this cell has ended' in talaria.checkpoint.__doc__")
        self.assertEqual(outcome.text, "(True, 'talaria', 'talaria', True)")
        self.run_cell("del map")
