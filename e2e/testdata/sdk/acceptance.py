"""The acceptance steps of the Python client; acceptance.mjs has the same. Usage: acceptance.py URL TOKEN PROXY.

A line "@kill" or "@cut" on stdout asks the test to restart the server, or to cut the connections of the proxy.
"""

import asyncio
import io
import sys
import uuid

from talaria import AsyncTalaria, Talaria, TalariaError

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


def steps():
    talaria = Talaria(url, token)
    session = talaria.session("py-" + uuid.uuid4().hex)
    print("1 first result")
    got = session.run("6 * 7")
    check(got.ok and got.text == "42" and got.results[0].text == "42", got)
    print("2 streamed stdout")
    pieces = []
    got = session.run("import sys\nprint('a', flush=True)\nprint('b', file=sys.stderr)", on_stdout=pieces.append)
    check("".join(pieces) == "a\n" == got.stdout and got.stderr == "b\n", pieces, got)
    print("3 picture")
    got = session.run(PICTURE)
    check(got.png and got.png.startswith(b"\x89PNG"), got)
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


async def steps_of_asyncio():
    session = await AsyncTalaria(proxy, token).session("aio-" + uuid.uuid4().hex)

    async def answer(prompt, hidden):
        return "Ada"
    print("15 asyncio")
    pieces = []
    got = await session.run("print(input('Who? '))\n1", on_stdout=pieces.append, on_input=answer)
    check(got.ok and pieces == ["Ada\n"] and got.results[0].is_main, got)
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
print("done")
