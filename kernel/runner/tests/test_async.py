"""Top-level await and the one event loop."""

from __future__ import annotations

from tests.case import RunnerCase


class Await(RunnerCase):
    def test_gives_a_value(self) -> None:
        code = "import asyncio\nasync def co(): await asyncio.sleep(.01); return 8\nawait co()"
        self.assertEqual(self.run_cell(code).text, "8")
        self.assertEqual(self.run_cell("x = await co()\nx + 1").text, "9")
        self.assertIsNone(self.run_cell("await co();").result)
        self.assertEqual(self.run_cell("[await co() for _ in range(2)]").text, "[8, 8]")
        code = (
            "class C:\n    async def __aenter__(self): return 5\n    async def __aexit__(self, *a): pass\n"
            "async with C() as v:\n    print(v)"
        )
        self.assertEqual(self.run_cell(code).stdout, "5\n")

    def test_raises_what_is_raised(self) -> None:
        outcome = self.fail_cell("async def bad(): 1/0\nawait bad()", "ZeroDivisionError")
        self.assertIn("1/0", outcome.traceback)
        self.assertNotIn("asyncio", outcome.traceback)
        self.fail_cell("import asyncio, sys\nasync def leave(): sys.exit(2)\nawait leave()", "SystemExit")
        self.fail_cell("import asyncio\nasyncio.current_task().cancel(); await asyncio.sleep(5)", "CancelledError")

    def test_has_one_loop_for_all_cells(self) -> None:
        self.run_cell("import asyncio\nloop = asyncio.get_running_loop() if await asyncio.sleep(0) is None else 0")
        self.assertEqual(self.run_cell("(await asyncio.sleep(0), asyncio.get_running_loop() is loop)[1]").text, "True")
        self.assertEqual(self.run_cell("asyncio.get_event_loop() is loop").text, "True")

    def test_leaves_asyncio_run_to_plain_cells(self) -> None:
        code = "import asyncio\nasync def z(): return 1\nasyncio.run(z())"
        self.assertEqual(self.run_cell(code).text, "1")
        self.assertEqual(self.run_cell("await z()").text, "1")
        self.assertEqual(self.run_cell(code).text, "1")
        self.assertEqual(self.run_cell("asyncio.get_event_loop().run_until_complete(z())").text, "1")


    def test_leaves_asyncio_run_to_cells_that_await(self) -> None:
        code = "import asyncio\nasync def z(): return 1\nasync def outer(): return asyncio.run(z())\n"
        self.assertEqual(self.run_cell(code + "await outer()").text, "1")
        code = "await asyncio.sleep(0)\nwith asyncio.Runner() as r: print(r.run(z()))"
        self.assertEqual(self.run_cell(code).stdout, "1\n")
        self.assertEqual(self.run_cell("t = asyncio.create_task(z()); asyncio.run(z()), await t").text, "(1, 1)")
        self.assertEqual(self.run_cell("asyncio.get_running_loop() is t.get_loop()").text, "True")


class Tasks(RunnerCase):
    def test_survive_the_cell(self) -> None:
        code = (
            "import asyncio\ngot = []\nasync def bg():\n    for i in range(2):\n        await asyncio.sleep(.02)\n"
            "        got.append(i)\n{}"
        )
        for start in (
            "t = asyncio.create_task(bg())",
            "t = asyncio.ensure_future(bg())",
            "t = asyncio.get_event_loop().create_task(bg())",
            "await asyncio.sleep(0); t = asyncio.create_task(bg())",
        ):
            with self.subTest(start):
                self.run_cell(code.format(start))
                self.assertEqual(self.run_cell("import asyncio; await t; got").text, "[0, 1]")

    def test_run_while_no_cell_does(self) -> None:
        code = (
            "import asyncio\nasync def bg2():\n    await asyncio.sleep(.05); print('from the task\\n', end='')\n"
            "t = asyncio.create_task(bg2())"
        )
        starter = self.run_cell(code)
        # The frame arrives without another cell, and belongs to the cell that created the task.
        frame = self.runner.next_frame()
        self.assertEqual((frame["type"], frame["text"]), ("stream", "from the task\n"))
        self.assertEqual(frame["id"], starter.frames[-1]["id"])
        self.assertEqual(self.run_cell("t.done()").text, "True")

    def test_are_told_apart_by_their_cells(self) -> None:
        code = (
            "import asyncio\nasync def say(w):\n    for _ in range(3): await asyncio.sleep(.005); print(w)\n"
            "t = asyncio.create_task(say('{}'))"
        )
        first = self.run_cell(code.format("first"))
        second = self.run_cell(code.format("second"))
        third = self.run_cell("print('third'); await t; await asyncio.sleep(.02)")
        self.assertEqual(first.stdout.replace("\n", " "), "first first first ")
        self.assertEqual(second.stdout.replace("\n", " "), "second second second ")
        self.assertEqual(third.stdout, "third\n")

    def test_that_hog_the_idle_loop_are_broken_by_an_interrupt(self) -> None:
        code = (
            "import asyncio\nasync def hog():\n    await asyncio.sleep(0)\n    print('hogging\\n', end='', flush=True)\n"
            "    while True: pass\nt = asyncio.create_task(hog())"
        )
        self.run_cell(code)
        self.assertEqual(self.runner.next_frame()["text"], "hogging\n")
        id = self.runner.start("1")
        self.runner.interrupt(id)
        outcome = self.runner.finish(id)
        self.assertTrue(outcome.interrupted or outcome.status == "ok")
        self.assert_alive(self.runner)

    def test_are_reported_once_where_they_fail_unseen(self) -> None:
        self.run_cell("import asyncio\nasync def fails(): await asyncio.sleep(.01); 1/0")
        self.run_cell("t = asyncio.create_task(fails())")
        outcome = self.run_cell("await asyncio.sleep(.05); t = None")
        self.assertEqual(outcome.stderr, "")
        report = "".join(o.stderr for o in self.runner.executions.values())
        self.assertEqual(report.count("never retrieved"), 1)
        self.assertNotIn("talaria_runner", report)

    def test_of_an_executor_are_of_the_cell_that_gave_them(self) -> None:
        self.run_cell("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)")
        for word in ("first", "second"):
            self.assertEqual(self.run_cell(f"pool.submit(print, {word!r}).result()").stdout, f"{word}\n")

    def test_wake_the_idle_loop_from_threads(self) -> None:
        code = (
            "import asyncio, threading\nloop = asyncio.get_event_loop()\n"
            "threading.Timer(0.05, lambda: loop.call_soon_threadsafe(print, 'woken')).start()"
        )
        starter = self.run_cell(code)
        frame = self.runner.next_frame()
        self.assertEqual((frame["text"].rstrip(), frame["id"]), ("woken", starter.frames[-1]["id"]))

    def test_whose_loop_is_closed_by_user_code_do_no_harm(self) -> None:
        self.run_cell("import asyncio\nasyncio.get_event_loop().close()")
        self.assertEqual(self.run_cell("await asyncio.sleep(0, 4)").text, "4")
        self.run_cell("import os\nos.closerange(3, 20)")
        self.runner.run("await asyncio.sleep(0.01, 5)")
        self.assertEqual(self.run_cell("await asyncio.sleep(0.01, 5)").text, "5")
