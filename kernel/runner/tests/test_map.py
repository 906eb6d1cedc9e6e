"""talaria.map and %%map: functions and cells over inputs, in forked copies of the interpreter."""

from __future__ import annotations

import json
import os
import pathlib

from tests.case import RunnerCase
from tests.host import Outcome

ITEM = "application/vnd.talaria.map-item+json"
RESULT = "application/vnd.talaria.map-result+json"


def items(outcome: Outcome) -> dict[int, dict]:
    """What the displays of a map say of each item."""
    found = {}
    for data in outcome.displays:
        if ITEM in data:
            assert data[ITEM]["index"] not in found, "an item is told twice"
            found[data[ITEM]["index"]] = {**data[ITEM], **data[RESULT], "plain": data["text/plain"]}
    return found


class Map(RunnerCase):
    def setUp(self) -> None:
        self.run_cell("import talaria, os, sys, time")

    def magic(self, code: str = "", **options: object) -> dict[int, dict]:
        return items(self.run_cell(f"%%map\n{json.dumps(options)}\n{code}"))

    def test_results_come_in_order(self) -> None:
        outcome = self.run_cell(
            "base = 10\ndef make(k):\n    return lambda x: x * k + base\n"
            "talaria.map(make(2), range(40), concurrency=4) == [2 * x + 10 for x in range(40)]")
        self.assertEqual(outcome.text, "True")
        shown = [data["text/plain"] for data in outcome.displays]  # progress, if it takes longer than a second
        self.assertEqual([text for text in shown if not text.startswith("map: ")], [])
        self.assertEqual(self.run_cell("talaria.map(len, [])").text, "[]")

    def test_variables_of_a_copy_are_gone(self) -> None:
        outcome = self.run_cell(
            "seen = []\ndef f(x):\n    seen.append(x); return len(seen), os.getpid() != parent\n"
            "parent = os.getpid()\ntalaria.map(f, [1, 2, 3]), seen")
        self.assertEqual(outcome.text, "([(1, True), (1, True), (1, True)], [])")

    def test_the_first_failure_is_raised(self) -> None:
        outcome = self.runner.run(
            "def f(x):\n    print('said', x)\n    if x == 2: raise ValueError('bad %d' % x)\n    return x\n"
            "try: talaria.map(f, [1, 2, 3], concurrency=1)\nexcept talaria.MapError as e: kept = e\nraise kept")
        self.assertEqual(outcome.error["ename"], "MapError")
        self.assertIn("item 1: ValueError: bad 2", outcome.error["evalue"])
        self.assertNotIn("talaria_runner", outcome.traceback)
        self.assertEqual(
            self.run_cell("kept.index, kept.status, kept.ename, kept.evalue, kept.text, 'raise ValueError' in kept.traceback").text,
            "(1, 'error', 'ValueError', 'bad 2', 'said 2\\n', True)")

    def test_failures_are_results(self) -> None:
        outcome = self.run_cell(
            "def f(x):\n    if x == 0: return 'fine'\n    if x == 1: 1 / 0\n    if x == 2: os.kill(os.getpid(), 9)\n"
            "    if x == 3: os._exit(7)\n    if x == 4: sys.exit(1)\n    if x == 5: return lambda: 0\n    if x == 6: time.sleep(600)\n"
            "found = talaria.map(f, range(6), on_error='continue') + talaria.map(f, [6], on_error='continue', timeout_s=1)\n"
            "[r if isinstance(r, str) else (r.index, r.status, str(r).partition('\\n')[0].partition(': ')[2]) for r in found]")
        got = eval(outcome.text)
        self.assertEqual(got[:5], [
            "fine", (1, "error", "ZeroDivisionError: division by zero"), (2, "died", "its process died (signal:SIGKILL)"),
            (3, "died", "its process died (exit:7)"), (4, "error", "SystemExit: 1"),
        ])  # fmt: skip
        self.assertEqual(got[5][:2], (5, "error"))
        self.assertIn("<lambda>", got[5][2])
        self.assertEqual(got[6], (0, "timeout", "exceeded its timeout of 1 s"))

    def test_results_as_they_end(self) -> None:
        outcome = self.run_cell(
            "def f(x):\n    while x and not os.path.exists(f'done{x - 1}'): time.sleep(0.01)\n    open(f'done{x}', 'w').close(); return x\n"
            "got = []\nfor i, r in talaria.map(lambda x: f(3 - x), range(4), concurrency=4, as_completed=True): got.append((i, r))\ngot")
        self.assertEqual(sorted(eval(outcome.text)), [(0, 3), (1, 2), (2, 1), (3, 0)])
        self.run_cell("for i, r in talaria.map(abs, range(100), as_completed=True): break")
        self.run_cell("half = talaria.map(lambda x: os.getpid(), [1], as_completed=True)")
        self.run_cell("half = talaria.map(lambda x: x and time.sleep(600), [0, 1], concurrency=2, as_completed=True); next(half)")
        self.fail_cell("list(half)", "RuntimeError")
        self.run_cell(
            "def f(x):\n    while x and not os.path.exists('both'): time.sleep(0.01)\n"
            "half = talaria.map(f, range(3), concurrency=3, as_completed=True); next(half)\n"
            "open('both', 'w').close(); time.sleep(0.5); next(half)")
        self.fail_cell("list(half)", "RuntimeError")

    def test_copies_use_openmp_after_the_loop_over_the_results_has(self) -> None:
        """A copy that is forked while threads of OpenMP run waits for them without end."""
        outcome = self.run_cell(
            "import ctypes\ntry: parallel = ctypes.CDLL('libgomp.so.1').GOMP_parallel\nexcept OSError: parallel = print\n"
            "def f(x): parallel(ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p), None, 4, 0); return x\n"
            "got = []\nfor i, r in talaria.map(f, range(3), concurrency=1, timeout_s=20, on_error='continue', as_completed=True): f(0); got.append(r)\ngot")
        self.assertEqual(outcome.text, "[0, 1, 2]")

    def test_the_loop_over_the_results_takes_no_time_of_the_items(self) -> None:
        """The second result is more than a pipe holds, and is there only while the loop is busy with the first."""
        outcome = self.run_cell(
            "def f(x):\n    while x and not os.path.exists('first'): time.sleep(0.01)\n    return 'x' * 1_000_000\n"
            "got = []\nfor i, r in talaria.map(f, range(2), concurrency=2, timeout_s=5, on_error='continue', as_completed=True):\n"
            "    open('first', 'w').close(); time.sleep(0 if i else 5.5); got.append(len(str(r)))\ngot")
        self.assertEqual(outcome.text, "[1000000, 1000000]")

    def test_starting_other_items_takes_no_time_of_an_item(self) -> None:
        outcome = self.run_cell(
            "pause = 3\nos.register_at_fork(after_in_parent=lambda: time.sleep(pause))\n"
            "got = talaria.map(lambda x: 'x' * 1_000_000, range(3), concurrency=3, timeout_s=5, on_error='continue')\n"
            "pause = 0\n[len(str(r)) for r in got]")
        self.assertEqual(outcome.text, "[1000000, 1000000, 1000000]")

    def test_text_and_displays_belong_to_the_item(self) -> None:
        outcome = self.run_cell(
            "def f(x):\n    print('out', x); print('err', file=sys.stderr); os.system('echo shell'); display(x); return x\n"
            "talaria.map(f, [5])")
        self.assertEqual((outcome.stdout, outcome.stderr, outcome.text), ("", "", "[5]"))
        shown, item = outcome.of("display")
        self.assertEqual((shown["data"]["text/plain"], shown["metadata"]["talaria_map"]["index"]), ("5", 0))
        self.assertEqual(sorted(item["data"][RESULT]["text"].split()), ["5", "err", "out", "shell"])

    def test_what_c_code_printed_before_is_not_of_the_items(self) -> None:
        outcome = self.run_cell(
            "import ctypes\nsay = lambda text: ctypes.CDLL(None).printf(text)\nsay(b'before\\n')\n"
            "for i, r in talaria.map(abs, range(2), concurrency=1, as_completed=True): say(b'between\\n')")
        self.assertEqual((items(outcome), sorted(outcome.stdout.split())), ({}, ["before", "between", "between"]))

    def test_long_text_is_bounded(self) -> None:
        outcome = self.run_cell("def f(x):\n    for i in range(200_000): print(i, 'x' * 20)\ntalaria.map(f, [1])")
        text = next(data[RESULT]["text"] for data in outcome.displays if RESULT in data)
        self.assertLess(len(text), 300_000)
        self.assertTrue(text.startswith("0 x") and text.endswith("199999 " + "x" * 20 + "\n") and "were left out" in text)

    def test_a_cell_for_each_input(self) -> None:
        found = self.magic("scale = 3\nprint('at', index)\nitem * scale", inputs=[1, 2, 3])
        self.assertEqual([found[i]["value"] for i in range(3)], [3, 6, 9])
        self.assertEqual((found[1]["text"], found[1]["status"], found[1]["plain"]), ("at 1\n", "ok", "[1] ok: 6\nat 1"))
        self.fail_cell("scale", "NameError")
        self.fail_cell("item", "NameError")

    def test_a_function_for_each_input(self) -> None:
        self.run_cell("class Odd: pass\nasync def later(x): return x + 1\ndef f(x):\n    return {'a': (x, None)} if x else Odd()")
        found = self.magic(inputs=[1, 0], function="f")
        self.assertEqual((found[0]["value"], found[0].get("value_type")), ({"a": [1, None]}, None))
        self.assertTrue(found[1]["value"].startswith("<__main__.Odd object"))
        self.assertEqual(found[1]["value_type"], "repr")
        self.assertEqual(self.magic(inputs=[1], function="later")[0]["value"], 2)
        self.assertEqual(self.magic(inputs=["a/b"], function="os.path.basename")[0]["value"], "b")
        self.assertEqual(self.magic(inputs=["nan"], function="float")[0]["value_type"], "repr")
        self.run_cell("def odd(x): return eval(x)")
        odd = self.magic(inputs=["{1: 2, '1': 3}", "[{'a': {True: 1, 'true': 2}}]", "{'\\ud800': 1, '\\ud801': 2}", "__import__('json').loads('[' * 198 + ']' * 198)"], function="odd")
        self.assertEqual([odd[i].get("value_type") for i in range(4)], ["repr"] * 4, "which the host would not take")
        self.assertEqual(self.magic(inputs=["{1: {2: 3}, '2': [[]] * 300}"], function="odd")[0]["value"], {"1": {"2": 3}, "2": [[]] * 300})
        self.fail_cell('%%map\n{"inputs": [1], "function": "nothing"}', "NameError")
        self.fail_cell('%%map\n{"inputs": [1], "function": "sys"}', "TypeError")
        self.fail_cell('%%map\n{"inputs": [1]}', "UsageError")
        self.fail_cell('%%map\n{"inputs": [1], "what": 1}\nitem', "UsageError")

    def test_a_cell_may_await_and_use_magics(self) -> None:
        found = self.magic("import asyncio\nawait asyncio.sleep(0)\n!echo shell\nitem", inputs=[4])
        self.assertEqual((found[0]["value"], found[0]["text"]), (4, "shell\n"))

    def test_a_failing_item_stops_the_rest_if_asked(self) -> None:
        found = self.magic("1 / item", inputs=[1, 0, 1], concurrency=1, on_error="stop")
        self.assertEqual([found[i]["status"] for i in found], ["ok", "error"])
        self.assertEqual(found[1]["error"]["ename"], "ZeroDivisionError")
        self.assertEqual(len(self.magic("1 / item", inputs=[1, 0, 1], concurrency=1)), 3)

    def test_files_of_an_item(self) -> None:
        id = self.runner.start(
            '%%map\n{"inputs": [7, 8]}\nimport talaria, os\nopen(os.path.join(talaria.item_dir, "a.txt"), "w").write("x" * item)\n'
            'os.mkdir(talaria.item_dir() + "/sub"); (talaria.item_dir / "sub" / "b").write_text("")\nos.path.relpath(talaria.item_dir)')
        found = items(self.runner.finish(id))
        self.assertEqual(found[1]["value"], f"map/{id}/1")
        self.assertEqual(found[1]["files"], [[f"map/{id}/1/a.txt", 8], [f"map/{id}/1/sub/b", 0]])
        self.assertEqual(self.run_cell("hasattr(talaria, 'item_dir'), os.getcwd() == os.path.realpath('.')").text, "(False, True)")
        self.assertEqual(self.run_cell("[str(talaria.map(lambda x: talaria.item_dir, [0])[0])[-2:] for _ in range(2)]").text, "['/0', '/0']")

    def test_an_interrupt_ends_all_copies(self) -> None:
        id = self.runner.start(
            "def f(x):\n    open(f'pid{x}', 'w').write(str(os.getpid())); os.rename(f'pid{x}', f'ready{x}'); os.system('sleep 600')\n"
            "kept = 5\ndisplay(1)\nfor _ in talaria.map(f, range(2), concurrency=2, as_completed=True): pass")
        self.runner.finish(id, until="display")
        folder = self.runner.directory.name
        while not all(os.path.exists(f"{folder}/ready{x}") for x in range(2)):
            os.sched_yield()
        pids = [int(pathlib.Path(folder, f"ready{x}").read_text()) for x in range(2)]
        self.runner.interrupt(id)
        outcome = self.runner.finish(id)
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))
        for pid in pids:
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)
        self.assertEqual(self.run_cell("kept").text, "5")

    def test_an_interrupt_loses_no_copy_that_is_being_forked(self) -> None:
        """fork is followed by code of the standard library, which counts as user code elsewhere."""
        id = self.runner.start(
            "import signal, warnings\nr, w = os.pipe2(os.O_NONBLOCK); os.set_blocking(r, True); signal.set_wakeup_fd(w)\n"
            "def f(x):\n    open(f'pid{x}', 'w').write(str(os.getpid())); os.rename(f'pid{x}', f'ready{x}'); os.system('sleep 600')\n"
            "leave = warnings.catch_warnings.__exit__\n"
            "def leave_late(*args):\n    global r\n    while not os.path.exists('ready0'): os.sched_yield()\n"
            "    open('late', 'w').close()\n    if r is not None: os.read(r, 1); r = None  # a signal has come\n    return leave(*args)\n"
            "warnings.catch_warnings.__exit__ = leave_late\n"
            "try: talaria.map(f, range(2), concurrency=2)\nfinally: warnings.catch_warnings.__exit__ = leave; signal.set_wakeup_fd(-1)")
        folder = pathlib.Path(self.runner.directory.name)
        while not (folder / "late").exists():
            os.sched_yield()
        self.runner.interrupt(id)
        outcome = self.runner.finish(id)
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))
        self.assertRaises(ProcessLookupError, os.kill, int((folder / "ready0").read_text()), 0)

    def test_random_numbers_differ(self) -> None:
        self.run_cell("import random")
        outcome = self.run_cell("len(set(talaria.map(lambda x: random.random(), range(5))))")
        self.assertEqual(outcome.text, "5")

    def test_no_warning_is_given(self) -> None:
        outcome = self.run_cell("import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('always')\n    talaria.map(abs, [1])")
        self.assertEqual(outcome.stderr, "")

    def test_maps_do_not_nest_and_need_the_main_thread(self) -> None:
        outcome = self.run_cell(
            "found = talaria.map(lambda x: talaria.map(abs, [x]), [1], on_error='continue')\n"
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor() as pool: late = pool.submit(talaria.map, abs, [1]).exception()\nfound[0].ename, type(late).__name__")
        self.assertEqual(outcome.text, "('RuntimeError', 'RuntimeError')")
        self.fail_cell("talaria.map(abs, [1], concurrency=0)", "ValueError")
        self.fail_cell("talaria.map(abs, [1], timeout_s=0)", "ValueError")
        self.fail_cell("talaria.map(3, [1])", "TypeError")

    def test_input_is_refused(self) -> None:
        outcome = self.run_cell("talaria.map(lambda x: input(), [1], on_error='continue')[0].ename", allow_stdin=True)
        self.assertEqual(outcome.text, "'StdinNotImplementedError'")

    def test_a_copy_calls_tools_through_the_kernel(self) -> None:
        tools = [{"name": "twice", "parameters": {"properties": {"n": {}}}},
                 {"name": "write_file", "builtin": True, "parameters": {"properties": {"path": {}, "content": {}}}}]  # fmt: skip
        id = self.runner.start(
            "import hermes_tools as h\n"
            "def f(n):\n    h.write_file(path=f'w{n}', content='x' * n); return h.twice(n=n)\ntalaria.map(f, range(4), timeout_s=600, concurrency=4)")
        outcome = self.runner.executions[id]
        while not outcome.of("done"):
            frame = self.runner.next_frame()
            outcome.frames.append(frame)
            self.runner._place(outcome, frame)
            if frame.get("kind") == "tools":
                self.runner.send(type="answer", ask=frame["ask"], body={"tools": tools})
            elif frame.get("kind") == "tool":
                body = {"run": True} if frame["body"]["tool"] == "write_file" else {"result": 2 * frame["body"]["arguments"]["n"]}
                self.runner.send(type="answer", ask=frame["ask"], body=body)
        self.assertEqual(outcome.text, "[0, 2, 4, 6]", outcome.traceback)
        calls = {frame["ask"]: frame["body"]["tool"] for frame in outcome.of("tool")}
        self.assertEqual(sorted(calls.values()), ["twice"] * 4 + ["write_file"] * 4)
        self.assertEqual([(calls[f["ask"]], f["ok"]) for f in outcome.of("tool_end")], [("write_file", True)] * 4)
        self.assertEqual(self.run_cell("os.path.getsize('w3')").text, "3")

    def test_an_item_that_is_given_up_calls_no_tool(self) -> None:
        id = self.runner.start(
            "import hermes_tools as h\nh.act\n"
            "def f(n):\n    while n and not os.path.exists('left'): time.sleep(0.01)\n    return n and h.act()\n"
            "for i, r in talaria.map(f, range(2), concurrency=2, as_completed=True): open('left', 'w').close(); time.sleep(0.5); break")
        outcome = self.runner.executions[id]
        while not outcome.of("done"):
            frame = self.runner.next_frame()
            outcome.frames.append(frame)
            self.runner._place(outcome, frame)
            if frame.get("kind") == "tools":
                self.runner.send(type="answer", ask=frame["ask"], body={"tools": [{"name": "act", "parameters": {}}]})
        self.assertEqual(outcome.status, "ok", outcome.traceback)
        self.assertEqual([frame for frame in outcome.frames if frame.get("kind") == "tool"], [])

    def test_a_call_that_an_item_was_to_carry_out_ends_with_it(self) -> None:
        id = self.runner.start(
            "import hermes_tools as h\nh.write_file\n"
            "def f(n):\n    while not n and not os.path.exists('asked'): time.sleep(0.01)\n    return n and h.write_file(path='never', content='')\n"
            "for i, r in talaria.map(f, range(2), concurrency=2, as_completed=True):\n"
            "    print('busy', flush=True)\n    while not os.path.exists('answered'): time.sleep(0.01)\n    time.sleep(0.3); break")
        outcome, folder, call = self.runner.executions[id], pathlib.Path(self.runner.directory.name), ""
        while not outcome.of("done"):
            frame = self.runner.next_frame()
            outcome.frames.append(frame)
            self.runner._place(outcome, frame)
            if frame.get("kind") == "tools":
                self.runner.send(type="answer", ask=frame["ask"], body={"tools": [{"name": "write_file", "builtin": True, "parameters": {}}]})
            elif frame.get("kind") == "tool":
                call = frame["ask"]
                (folder / "asked").touch()
            elif call and "busy" in frame.get("text", ""):
                self.runner.send(type="answer", ask=call, body={"run": True})
                (folder / "answered").touch()
        self.assertEqual([(f["ask"], f["ok"]) for f in outcome.of("tool_end")], [(call, False)])

    def test_a_map_that_takes_long_tells_how_far_it_is(self) -> None:
        id = self.runner.start("def f(x):\n    while not os.path.exists('go'): time.sleep(0.01)\ntalaria.map(f, [1, 2], concurrency=2);")
        self.runner.finish(id, until="display")
        pathlib.Path(self.runner.directory.name, "go").touch()
        outcome = self.runner.finish(id)
        texts = [frame["data"]["text/plain"] for frame in outcome.of("display")]
        self.assertEqual((texts[0], texts[-1]), ("map: 0 of 2 items have ended", "map: 2 of 2 items have ended"))
        self.assertEqual(len({frame["display_id"] for frame in outcome.of("display")}), 1)

    def test_a_kernel_without_maps_loads_nothing(self) -> None:
        from tests.host import Runner

        with Runner() as fresh:
            outcome = fresh.run("import sys\nsorted(m for m in sys.modules if m.startswith('talaria_runner.parallel'))")
        self.assertEqual(outcome.text, "['talaria_runner.parallel', 'talaria_runner.parallel.talaria_module']")
