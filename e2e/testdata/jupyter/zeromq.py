"""Drives a Talaria kernel with jupyter_client, the library of jupyter console, qtconsole and nbconvert, as they do. It prints a
line where the test is to do something, and reads one when that is done."""

import queue
import sys

from jupyter_client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

PATIENCE = 60


def tell(word):
    print(word, flush=True)
    assert sys.stdin.readline().strip() == "done"


def run(client, code, answer=None, **options):
    """The reply to a cell, and what it showed: text of streams joined, then the rest in order."""
    text, shown = "", []

    def show(message):
        nonlocal text
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            text += content["text"]
        elif kind in ("execute_result", "display_data"):
            shown.append(content["data"])
        elif kind == "error":
            shown.append(content["ename"])

    if answer is not None:
        options.update(allow_stdin=True, stdin_hook=lambda message: client.input(answer))
    reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=show, **options)
    return reply["content"], text, shown


def patiently(ask, found):
    """The content of a reply. A kernel on a busy machine may answer too late, which is told as nothing found."""
    for _ in range(100):
        content = ask()
        if found(content):
            break
    return content


def is_complete(code):
    client.is_complete(code)
    return client.get_shell_msg(timeout=PATIENCE)["content"]


manager, client = start_new_kernel(kernel_name="talaria", startup_timeout=PATIENCE)
try:
    info = client.kernel_info(reply=True, timeout=PATIENCE)["content"]
    assert info["implementation"] == "talaria" and info["language_info"]["name"] == "python", info

    reply, text, shown = run(client, "print('out')\nx = 6 * 7\nx")
    assert (reply["status"], reply["execution_count"], text, shown) == ("ok", 1, "out\n", [{"text/plain": "42"}]), (reply, text, shown)
    reply, text, shown = run(client, "1 / 0")
    assert (reply["status"], reply["ename"], shown) == ("error", "ZeroDivisionError", ["ZeroDivisionError"]), (reply, shown)
    reply, text, shown = run(client, "name = input('who? ')\nprint(name * 2)", answer="ab")
    assert text == "abab\n", text
    reply, text, shown = run(client, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert any("image/png" in data for data in shown), shown
    reply, text, shown = run(client, "print('é' * 3_000_000)")
    assert text == "é" * 3_000_000 + "\n", len(text)
    reply, text, shown = run(client, "x", user_expressions={"twice": "x * 2"})
    assert reply["user_expressions"]["twice"]["data"]["text/plain"] == "84", reply

    matches = patiently(lambda: client.complete("impor", reply=True, timeout=PATIENCE)["content"], lambda c: c["matches"])["matches"]
    assert "import" in matches, matches
    found = patiently(lambda: client.inspect("len", reply=True, timeout=PATIENCE)["content"], lambda c: c["found"])
    assert found["found"], found
    whole = patiently(lambda: is_complete("for x in y:"), lambda c: c["status"] != "unknown")
    assert whole["status"] == "incomplete", whole
    history = client.history(hist_access_type="tail", n=1, reply=True, timeout=PATIENCE)["content"]["history"]
    assert history[-1][2] == "x", history

    # Another client of the same kernel sees what happens, and its own requests are answered to it alone.
    second = BlockingKernelClient(connection_file=manager.connection_file)
    second.load_connection_file()
    second.start_channels()
    second.wait_for_ready(timeout=PATIENCE)
    assert run(second, "x + 1")[2] == [{"text/plain": "43"}]
    try:
        raise AssertionError(client.get_shell_msg(timeout=0.2))
    except queue.Empty:
        pass
    second.stop_channels()

    # An interrupt ends the cell and keeps the variables.
    cell = client.execute("while True: pass")
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["msg_type"] == "execute_input" and message["parent_header"]["msg_id"] == cell:
            break
    manager.interrupt_kernel()
    assert client.get_shell_msg(timeout=PATIENCE)["content"]["ename"] == "KeyboardInterrupt"
    assert run(client, "x")[2] == [{"text/plain": "42"}]

    # The server is killed while a cell prints: nothing is lost, and nothing comes twice.
    cell = client.execute("import time\nfor n in range(40):\n    print(n, flush=True)\n    time.sleep(0.1)")
    lines = ""
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["parent_header"].get("msg_id") != cell:
            continue
        if message["msg_type"] == "stream":
            if not lines:
                tell("kill the server")
            lines += message["content"]["text"]
        elif message["content"].get("execution_state") == "idle":
            break
    assert lines == "".join(f"{n}\n" for n in range(40)), lines
    assert client.get_shell_msg(timeout=PATIENCE)["content"]["status"] == "ok"

    # The death of the interpreter ends its cells, and the next one starts another.
    reply, text, shown = run(client, "open('kept', 'w').close()\nimport os\nos._exit(3)")
    assert reply["status"] == "error" and "exit:3" in reply["evalue"], reply
    assert run(client, "os.path.exists('kept')")[0]["ename"] == "NameError"

    # A restart drops the variables and keeps the files.
    manager.restart_kernel()
    client.wait_for_ready(timeout=PATIENCE)
    reply, text, shown = run(client, "import os\n'name' in dir(), os.path.exists('kept')")
    assert (reply["execution_count"], shown) == (1, [{"text/plain": "(False, True)"}]), (reply, shown)

    tell("the session is there")
finally:
    client.stop_channels()
    manager.shutdown_kernel()
tell("the session is gone")
