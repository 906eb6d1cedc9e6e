"""The acceptance steps of the Python client; acceptance.mjs has the same. Usage: acceptance.py URL TOKEN PROXY.

A line "@kill", "@cut" or "@lose" on stdout asks the test to restart the server, to cut the connections of the proxy, or to
drop the next answer. The test answers with an empty line on stdin when that is done.
"""

import asyncio
import io
import queue
import sys
import threading
import uuid
from dataclasses import dataclass
from typing import Dict, List, Literal, Optional

from talaria import AsyncTalaria, Talaria, TalariaError, ToolCall, ToolError

url, token, proxy = sys.argv[1:]
NUMBERS = "".join(f"{n}\n" for n in range(40))
COUNT = "import time\nfor n in range(40):\n    print(n, flush=True)\n    time.sleep(0.05)"
PICTURE = ("import base64\nclass P:\n  def _repr_png_(self):\n    return base64.b64decode("
           "'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\nP()")


def check(ok, *what):
    if not ok:
        raise AssertionError(what)


def ask(word):
    print("@" + word, flush=True)
    sys.stdin.readline()


def steps():
    talaria = Talaria(url, token)
    session = talaria.session("py-" + uuid.uuid4().hex)
    print("1 first result")
    got = session.run("6 * 7")
    check(got.ok and got.text == "42" and got.results[0].text == "42", got)
    print("2 streamed stdout and stderr")
    pieces, errors = [], []
    got = session.run("import sys\nprint('a', flush=True)\nprint('b', file=sys.stderr)", on_stdout=pieces.append,
                      on_stderr=errors.append)
    check("".join(pieces) == "a\n" == got.stdout and "".join(errors) == "b\n" == got.stderr, pieces, errors, got)
    print("3 picture")
    got = session.run(PICTURE)
    check(got.png and got.png.startswith(b"\x89PNG"), got)
    print("32 updated displays, and events")
    shown, events = [], []
    got = session.run("handle = display('half', display_id=True)\nhandle.update('full')\nprint('a\\n', end='')\n42",
                      on_display=lambda result: shown.append(result.text), on_event=events.append)
    check(shown == ["'half'", "'full'", "42"], shown)
    check([r.text for r in got.results] == ["'full'", "42"], got)
    check([e["type"] for e in events] == [
        "execution_queued", "execution_started", "display_data", "update_display_data", "stream", "execute_result",
        "execution_finished"], events)
    print("4 error")
    got = session.run("1/0")
    check(got.status == "error" and got.error.name == "ZeroDivisionError" and "1/0" in got.error.traceback, got)
    print("5 files in both directions")
    session.files.write("in/å b.txt", "hej")
    got = session.run("open('out.bin', 'wb').write(open('in/å b.txt', 'rb').read() * 2)")
    target = io.BytesIO()
    session.files.download("out.bin", target)
    check(session.files.read("out.bin") == b"hejhej" == target.getvalue())
    check(session.artifact(got.artifacts[0]) == b"hejhej", got)
    check([f["name"] for f in session.files.list("in")] == ["å b.txt"])
    session.files.delete("in")
    session.files.delete("in")
    check("in" not in [f["name"] for f in session.files.list()])
    print("6 interrupt")
    got = session.run("print('on', flush=True)\nwhile True: pass", on_stdout=lambda _: session.interrupt())
    check(got.status == "interrupted" and got.state == "kept", got)
    print("7 timeout")
    got = session.run("while True: pass", timeout=0.5)
    check(got.status == "timeout", got)
    print("8 input")
    asked = []
    got = session.run("print(input('Who? '))", on_input=lambda prompt, hidden: asked.append(prompt) or "Ada")
    check(got.stdout == "Ada\n" and asked == ["Who? "], got, asked)
    print("9 reset")
    session.run("x = 1")
    session.reset()
    check(session.run("x").error.name == "NameError")
    print("10 a kill of the server")
    seen = []
    asking = []

    def kill(text):
        seen.append(text)
        if not asking:
            asking.append(1)
            ask("kill")
    through = Talaria(proxy, token).session(session.id)
    got = through.run(COUNT, on_stdout=kill)
    check(got.ok and got.stdout == NUMBERS == "".join(seen), got)
    print("11 cut connections")
    cuts = []

    def cut(_):
        if len(cuts) < 5:
            cuts.append(1)
            ask("cut")
    got = through.run(COUNT, on_stdout=cut)
    check(got.ok and got.stdout == NUMBERS, got)
    print("12 a retry runs the cell once")
    cell = uuid.uuid4().hex
    through.run("runs = 0")
    first = through.run("runs += 1; print(runs)", id=cell)
    again = through.run("runs += 1; print(runs)", id=cell)
    check(first.stdout == again.stdout == "1\n" == through.run("print(runs)").stdout, first, again)
    print("33 an answer that is lost")
    ask("lose")
    got = through.run("runs += 1; print(runs)")
    check(got.stdout == "2\n" == through.run("print(runs)").stdout, got)
    ask("lose")
    try:
        through.reset()
        raise AssertionError("a reset was repeated")
    except TalariaError as e:
        check(e.code == "unreachable", e)
    events = list(through.events(follow=False))
    check([e["seq"] for e in events] == list(range(1, len(events) + 1)))
    print("13 delete")
    through.delete()
    through.delete()
    try:
        through.run("1")
        raise AssertionError("a deleted session runs cells")
    except TalariaError as e:
        check(e.code == "session_not_found" and e.status == 404 and e.hint, e)
    print("14 no server")
    try:
        Talaria("http://127.0.0.1:9", token).session("x")
        raise AssertionError("nothing listens there")
    except TalariaError as e:
        check(e.code == "unreachable", e)


@dataclass
class Trip:
    city: str
    days: int = 3


def plan(trip: Trip, mode: Literal["train", "boat"] = "train", tags: Optional[List[str]] = None) -> Dict[str, object]:
    """Plans a trip.

    Args:
        trip: where to
        mode: how to go
    """
    if trip.city == "atlantis":
        raise ToolError("no such city", code="no_city")
    if trip.city == "ys":
        raise ValueError("flooded")
    return {"type": type(trip).__name__, "city": trip.city, "days": trip.days, "mode": mode, "tags": tags}


def steps_of_tools():
    talaria = Talaria(proxy, token)
    session = talaria.session("tools-" + uuid.uuid4().hex)

    def text(code, **options):
        got = session.run(code, **options)
        check(got.ok, got)
        return got.stdout
    print("17 a tool from a function")
    check(session.tool(plan) is plan)
    check(text("""
import hermes_tools, inspect
from hermes_tools import plan
print(inspect.getdoc(plan).splitlines()[0])
print(plan({"city": "oslo"}), plan(trip={"city": "lund", "days": "5"}, mode="boat", tags=["a"]))
""") == "Plans a trip.\n{'type': 'Trip', 'city': 'oslo', 'days': 3, 'mode': 'train', 'tags': None} "
          "{'type': 'Trip', 'city': 'lund', 'days': 5, 'mode': 'boat', 'tags': ['a']}\n")
    print("18 errors with codes")
    check(text("""
for city in "atlantis", "ys", 7:
    try: plan({"city": city, "days": "many"} if city == 7 else {"city": city})
    except hermes_tools.ToolError as e: print(e.code, "|", e.message)
""").splitlines()[:2] == ["no_city | no such city", "tool_error | ValueError: flooded"])
    print("19 calls at once")
    meet = threading.Barrier(8)

    @session.tool(name="together", read_only=True)
    def gather(n: int) -> int:
        meet.wait(60)
        return n
    check(text("""
from concurrent.futures import ThreadPoolExecutor
from hermes_tools import together
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(together, range(8))))
""") == "[0, 1, 2, 3, 4, 5, 6, 7]\n")
    print("20 an interrupt and a time limit cancel calls")
    reasons = queue.Queue()

    @session.tool(timeout_s=0.3)
    def brief(call: ToolCall):
        call.wait_cancelled()
        reasons.put(call.cancel_reason)

    @session.tool
    def endless(call: ToolCall):
        call.progress("waiting")
        session.interrupt(call.execution_id)
        call.wait_cancelled()
        reasons.put(call.cancel_reason)
    check(text("kept = 42\ntry: hermes_tools.brief()\nexcept hermes_tools.ToolTimeout as e: print(e.code)") == "timeout\n")
    check(reasons.get(timeout=60) == "timeout")
    check(session.run("hermes_tools.endless()").status == "interrupted" and reasons.get(timeout=60) == "interrupted")
    check(text("print(kept)") == "42\n")
    print("21 a lost connection during calls")
    calls = []

    def lose(how):
        def once(n: int, call: ToolCall):
            calls.append((how, n, call.id))
            if len(calls) == 1:
                ask(how)
            return n + 1
        return once
    session.tool(lose("cut"), name="cut_once", idempotent=True)
    session.tool(lose("kill"), name="kill_once", idempotent=True)

    @session.tool
    def cut_twice(call: ToolCall):
        ask("cut")
        call.wait_cancelled()
        reasons.put(call.cancel_reason)
    for how in "cut", "kill":
        check(text(f"print(hermes_tools.{how}_once(n=41))") == "42\n")
        check([c[:2] for c in calls] == [(how, 41)], calls)
        calls.clear()
    check(text("try: hermes_tools.cut_twice()\nexcept hermes_tools.ProviderGone: print('gone')") == "gone\n")
    check(reasons.get(timeout=60) == "disconnected")
    check(text("print(hermes_tools.together.__name__)") == "together\n")
    print("22 tools that are not taken, and that are withdrawn")
    try:
        session.tool(plan, name="aio")
        raise AssertionError("hermes_tools has an aio of its own")
    except TalariaError as e:
        check(e.code == "tool_rejected" and "aio" in e.message, e)
    session.remove_tool("together")
    check(text("try: hermes_tools.together(n=1)\nexcept hermes_tools.ToolUnavailable: print('none')") == "none\n")
    session.close()
    check(text("try: plan({'city': 'oslo'})\nexcept hermes_tools.ToolUnavailable: print('none')") == "none\n")
    print("23 tools of one cell, over HTTP")

    def double(n: int) -> int:
        return 2 * n
    own = "from hermes_tools import double\nprint(double(n=4), double(n=5))"
    pieces = []
    check(text(own, tools=[double], on_stdout=pieces.append) == "8 10\n" == "".join(pieces))
    check(text(own.replace("(n=5)", "(n=double(n=5))"), tools=[double]) == "8 20\n")

    def stop(call: ToolCall):
        session.interrupt(call.execution_id)
        call.wait_cancelled()
        reasons.put(call.cancel_reason)
    got = session.run("from hermes_tools import stop\nstop()", tools=[stop])
    check(got.status == "interrupted" and reasons.get(timeout=60) == "interrupted", got)
    check(not session.run("from hermes_tools import double\ndouble(n=1)").ok)
    print("24 a download that was cut")
    session.run("data = bytes(range(256)) * (128 << 10)\nopen('big', 'wb').write(data)")

    class Target(io.BytesIO):
        def write(self, piece):
            if not self.tell():
                ask("cut")
            return super().write(piece)
    target = Target()
    session.files.download("big", target)
    check(target.getvalue() == bytes(range(256)) * (128 << 10))

    class Changed(Target):
        def write(self, piece):
            if not self.tell():
                session.files.write("big", "other")
            return super().write(piece)
    try:
        session.files.download("big", Changed())
        raise AssertionError("the file was changed")
    except TalariaError as e:
        check(e.code == "file_changed", e)
    session.delete()


def steps_of_approvals():
    session = Talaria(proxy, token).session("asks-" + uuid.uuid4().hex, approvals="all")
    print("26 approvals")
    asked = []

    @session.tool(requires_approval=True)
    def send(text: str) -> str:
        return "sent " + text

    @session.on_approval
    def decide(approval):
        asked.append(approval.kind)
        return "deny" if "secret" in approval.detail else "once"
    got = session.run("from hermes_tools import send\nprint(send(text='a' + 'b'))")
    check(got.stdout == "sent ab\n" and asked == ["cell", "tool"], got, asked)
    got = session.run("try: send(text='sec' + 'ret')\nexcept Exception as e: print(type(e).__name__)")
    check(got.stdout == "ApprovalDenied\n", got)
    got = session.run("secret = 1")
    check(got.status == "cancelled" and got.reason == "denied", got)
    session.close()
    session.delete()


def steps_of_checkpoints_and_maps():
    talaria = Talaria(proxy, token)
    session = talaria.session("back-" + uuid.uuid4().hex)
    print("28 checkpoints")
    first = session.run("x = 1\nopen('a', 'w').write('one')")
    point = session.checkpoint("good")
    check(point.name == "good" and point.level == "live" and point.execution_id == first.id and not point.undo, point)
    session.run("x = 2\nopen('a', 'w').write('two')")
    changed = session.diff(point)
    check([f["path"] for f in changed["files"]] == ["a"] and [v["name"] for v in changed["variables"]] == ["x"], changed)
    check(session.diff(point.id, point) == {"files": [], "variables": []})
    done = session.rollback(point)
    check(done.checkpoint_id == point.id and done.undo_level == "live" and done.files == 1 and not done.not_restored, done)
    check(session.run("x, open('a').read()").text == "(1, 'one')")
    session.rollback(done.undo, what="files")
    check(session.run("x, open('a').read()").text == "(1, 'two')")
    check(session.rollback(first, keep_user_edits=True).checkpoint_id == point.id)
    listed = session.checkpoints()
    check(len(listed) == 4 and listed[-1] == point and listed[0].undo, listed)
    check(session.checkpoint(level="files").reason)
    session.delete_checkpoint(point)
    session.delete_checkpoint(point.id)
    try:
        session.rollback(point)
        raise AssertionError("a deleted checkpoint was there")
    except TalariaError as e:
        check(e.code == "checkpoint_gone" and e.hint, e)
    before = session.run("x = 3", checkpoint=True)
    check(session.checkpoints()[0].execution_id != before.id and session.diff(session.checkpoints()[0])["variables"])
    disk = session.checkpoint("disk", level="saved")
    check(disk.level == "saved" and not disk.reason, disk)
    [early] = session.fork(checkpoint=disk)
    check(early.run("x").text == "3")
    print("28 hibernation and forks")
    session.run("x = 1; y = [1]; g = (i for i in y)")
    way, other = session.fork(2, "another way")
    check([v["name"] for v in session.hibernate()] == ["g"] and session.info["state"] == "hibernated", session.info)
    check(len(session.hibernate()) == 1 and "not_saved" not in session.info)
    check([v["name"] for v in session.wake()] == ["g"] and session.info["state"] == "idle", session.info)
    check(session.wake() == [])
    check(way.run("y.append(2)\nx, y, open('a').read()").text == "(1, [1, 2], 'one')" and way.info["name"] == "another way")
    check(other.run("y").text == session.run("y").text == "[1]")
    try:
        session.fork(65)
        raise AssertionError("there were 65 forks")
    except TalariaError as e:
        check(e.code == "invalid_request", e)
    way.delete()
    other.delete()
    print("29 maps")
    ended = []
    got = session.map("print('at', item)\nitem * 10 + index + x", [3, 1, 2], on_item=ended.append)
    check(got.ok and got.values == [31, 12, 23] and got.items[1].text == "at 1\n", got)
    check(sorted(i.index for i in ended) == [0, 1, 2], ended)
    check(session.map(doubled, ["a", [1]]).values == ["aa", [1, 1]])
    got = session.map(function="len", inputs=["ab", 7], concurrency=1)
    check(not got.ok and got.status == "ok" and got.values == [2, None] and got.items[1].error.name == "TypeError", got)
    got = session.map(PICTURE + "\nimport talaria\n(talaria.item_dir / 'f').write_text(item)\ndisplay(P())\n{1}", ["file"])
    check(got.items[0].results[0].png and got.items[0].value_type == "repr" and got.items[0].value == "{1}", got)
    check(session.artifact(got.items[0].artifacts[0]) == b"file", got)
    got = session.map("if item: raise ValueError(item)", [1, 0, 0], concurrency=1, on_error="stop")
    check([i.status for i in got.items] == ["error", "cancelled", "cancelled"], got)
    got = session.map("while item: pass", [1, 0], timeout=5)  # in real time, and a busy machine may be slow to begin the second
    check([i.status for i in got.items] == ["timeout", "ok"], got)
    got = session.map(function="nothing", inputs=[1])
    check(got.status == "error" and got.error.name == "NameError" and not got.ok, got)
    for wrong in (lambda: session.map(lambda item: item, [1]), lambda: session.map(inputs=[1]), lambda: around(session)):
        try:
            wrong()
            raise AssertionError("there is no code")
        except ValueError:
            pass
    print("30 a map while the server is killed")
    ended = []

    def kill(item):
        ended.append(item.index)
        if len(ended) in (1, 3):
            ask("kill" if len(ended) == 1 else "cut")
    got = session.map("import time; time.sleep(0.05); item * 2", range(20), concurrency=1, on_item=kill)
    check(got.values == [2 * n for n in range(20)] and sorted(ended) == list(range(20)), got, ended)
    session.delete()


def doubled(item):
    return item * 2


def around(session):
    factor = 2

    def scaled(item):
        return item * factor
    return session.map(scaled, [1])


async def steps_of_tokens():
    print("27 tokens")
    server, aio = Talaria(proxy, token), AsyncTalaria(proxy, token)
    session = server.session()
    made = session.token()
    check(made["token"] and made["rights"] == ["read"], made)
    mine = server.tokens()
    check(any("session" not in t and "last_used_at" in t for t in mine), mine)
    check([t["session"] for t in await aio.tokens() if t["id"] == made["id"]] == [session.id], mine)
    await aio.revoke_token(made["id"])
    check(all(t["id"] != made["id"] for t in server.tokens()))
    try:
        server.revoke_token(made["id"])
        raise AssertionError("a token was revoked twice")
    except TalariaError as e:
        check(e.code == "not_found", e)
    print("34 a token for one session")
    session.run("x = 1")
    one = session.token(["run", "write"], expires=60)
    check(one["rights"] == ["read", "run", "write"], one)
    visitor = Talaria(proxy, one["token"])
    with visitor.session(session.id) as visited:
        visited.tool(len, name="length", parameters={"type": "object"})
        visited.files.write("a.txt", "a")
        got = visited.run("x += 1\nprint(x, open('a.txt').read())")
        check(got.stdout == "2 a\n", got)
    other = await aio.session(session.id)
    two = await other.token(["run"])
    check((await (await AsyncTalaria(proxy, two["token"]).session(session.id)).run("x")).text == "2")
    for what, code in (
        (lambda: visitor.session(session.id, idle_timeout_s=99), "forbidden"),
        (lambda: visited.token(), "forbidden"),
        (lambda: visitor.session(session.id + "x"), "session_not_found"),
    ):
        try:
            what()
            raise AssertionError(f"it was not {code}")
        except TalariaError as e:
            check(e.code == code, e)
    session.delete()
    print("35 a session that exists with other settings")
    session = server.session("settings-" + uuid.uuid4().hex, idle_timeout_s=99)
    try:
        server.session(session.id, idle_timeout_s=77)
        raise AssertionError("the settings differ")
    except TalariaError as e:
        check(e.code == "session_conflict" and "if_exists" in e.message and "if_exists" in e.hint, e)
    check(server.session(session.id, if_exists="keep", idle_timeout_s=77).info["idle_timeout_s"] == 99)
    check(server.session(session.id, if_exists="apply", idle_timeout_s=77).info["idle_timeout_s"] == 77)
    check((await aio.session(session.id, if_exists="apply", idle_timeout_s=66)).info["idle_timeout_s"] == 66)
    session.delete()


async def tools_of_asyncio():
    session = await AsyncTalaria(proxy, token).session("aio-tools-" + uuid.uuid4().hex)
    print("25 tools of asyncio")
    waiting = asyncio.Queue()

    @session.tool
    async def meet(n: int) -> int:
        await waiting.put(n)
        while waiting.qsize() < 4:
            await asyncio.sleep(0)
        return n

    @session.tool
    async def endless(call: ToolCall):
        try:
            await session.interrupt(call.execution_id)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await waiting.put(call.cancel_reason)
            raise
    got = await session.run("""
from hermes_tools import aio
import asyncio
print(await asyncio.gather(*[aio.meet(n=n) for n in range(4)]))""")
    check(got.stdout == "[0, 1, 2, 3]\n", got)
    for _ in range(4):
        waiting.get_nowait()
    got = await session.run("import hermes_tools\nhermes_tools.endless()")
    check(got.status == "interrupted" and await waiting.get() == "interrupted", got)

    async def own(n: int) -> int:
        return n + 1
    got = await session.run("from hermes_tools import own\nprint(own(n=1))", tools=[own])
    check(got.stdout == "2\n", got)
    asked = []

    async def decide(approval):
        asked.append(approval.summary)
        return "deny"

    @session.tool(requires_approval=True)
    async def send():
        raise AssertionError("it was denied")
    await session.on_approval(decide)
    got = await session.run("try: hermes_tools.send()\nexcept hermes_tools.ApprovalDenied: print('denied')")
    check(got.stdout == "denied\n" and len(asked) == 1, got, asked)
    serving = asyncio.ensure_future(session.serve())
    await session.delete()
    await serving


async def checkpoints_and_maps_of_asyncio():
    session = await AsyncTalaria(proxy, token).session("aio-back-" + uuid.uuid4().hex)
    print("31 checkpoints and maps of asyncio")
    first = await session.run("x = 1")
    point = await session.checkpoint("good")
    await session.run("x = 2")
    check((await session.diff(point))["variables"] == [{"name": "x", "change": "modified"}])
    done = await session.rollback(point, what="variables")
    check([p.id for p in await session.checkpoints()] == [done.undo, point.id])
    check((await session.run("x")).text == "1")
    await session.rollback(first)
    await session.delete_checkpoint(point)
    [fork] = await session.fork()
    check(await session.hibernate() == [] and await session.wake() == [])
    check((await fork.run("x")).text == "1")
    await fork.delete()
    ended = []

    async def later(item):
        import asyncio
        await asyncio.sleep(0)
        return item + 1
    got = await session.map(later, [1, 2], on_item=ended.append)
    check(got.values == [2, 3] and len(ended) == 2, got)
    started = asyncio.Event()
    task = asyncio.ensure_future(session.map("while item: pass", [0, 1], concurrency=1, on_item=lambda _: started.set()))
    await started.wait()
    task.cancel()
    try:
        await task
        raise AssertionError("the task was not cancelled")
    except asyncio.CancelledError:
        pass
    check((await session.run("5")).text == "5")
    await session.delete()


async def steps_of_asyncio():
    session = await AsyncTalaria(proxy, token).session("aio-" + uuid.uuid4().hex)

    async def answer(prompt, hidden):
        return "Ada"
    print("15 asyncio")
    pieces = []
    got = await session.run("print(input('Who? '))\n1", on_stdout=pieces.append, on_input=answer)
    check(got.ok and "".join(pieces) == "Ada\n" and got.results[0].is_main, got)
    await session.files.write("a.txt", "a")
    check(await session.files.read("a.txt") == b"a")
    check([e["seq"] async for e in session.events(follow=False)][:2] == [1, 2])
    both = await asyncio.gather(session.run("2"), session.run("3"))
    check([e.text for e in both] == ["2", "3"], both)
    print("16 a cancelled task interrupts its cell")
    started = asyncio.Event()
    task = asyncio.ensure_future(session.run("print(1, flush=True)\nwhile True: pass",
                                             on_stdout=lambda _: started.set()))
    await started.wait()
    task.cancel()
    try:
        await task
        raise AssertionError("the task was not cancelled")
    except asyncio.CancelledError:
        pass
    check((await session.run("5")).text == "5")
    await session.delete()


steps()
asyncio.run(steps_of_asyncio())
steps_of_tools()
steps_of_approvals()
asyncio.run(tools_of_asyncio())
asyncio.run(steps_of_tokens())
steps_of_checkpoints_and_maps()
asyncio.run(checkpoints_and_maps_of_asyncio())
print("done")
