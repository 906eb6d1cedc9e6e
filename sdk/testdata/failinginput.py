"""Runs cells whose on_input fails: run raises at once, and interrupts the cell."""

import asyncio
import threading
import time

from talaria._aio import AsyncSession
from talaria._client import Session
from talaria._http import Transport


class Waiting(Session):
    """Has a cell that waits for input until it is interrupted."""

    def execution_events(self, body, stop=None):
        self.interrupted = threading.Event()
        yield {"type": "input_request", "seq": 1, "execution_id": body["id"], "request_id": "r", "prompt": "",
               "password": False}
        self.interrupted.wait(5)

    def interrupt(self, execution_id=None):
        assert execution_id == "c", execution_id
        self.interrupted.set()


def fail(prompt, password):
    raise LookupError("no answer")


session = Waiting(Transport("http://127.0.0.1:9", "t", 1, None), {"id": "s"})
for run in (lambda: session.run("input()", id="c", on_input=fail),
            lambda: asyncio.run(AsyncSession(session).run("input()", id="c", on_input=fail))):
    began = time.monotonic()
    try:
        run()
    except LookupError:
        pass
    else:
        raise AssertionError("run did not raise")
    assert time.monotonic() - began < 1, "run raised late"
    assert session.interrupted.is_set(), "the cell still waits"
