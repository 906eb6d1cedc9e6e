"""Provides two tools of which the server rejects one: the other one works, and calls of unknown tools are answered."""

import asyncio

from talaria import TalariaError
from talaria._aio import AsyncSession
from talaria._attached import Attached
from talaria._client import Session
from talaria._http import Transport


async def main():
    inner = Session(Transport("http://127.0.0.1:9", "t", 1, None), {"id": "s"})
    session = AsyncSession(inner)
    sent, failure = [], TalariaError("unreachable", "away")

    def register(self):
        if failure is not None:
            raise failure
        return {"bad": "why"}

    Attached._register = register
    Attached._send = lambda self, kind, fields: sent.append((kind, fields))

    @session.tool
    def good():
        return 1

    @session.tool
    def bad():
        return 2

    for code in ("unreachable", "tool_rejected"):  # what could not be handed over is handed over again
        try:
            await session.provide()
        except TalariaError as e:
            assert e.code == code, e
        else:
            raise AssertionError(code)
        failure = None
    assert list(inner._attached._tools) == ["good"], inner._attached._tools
    await session.provide()

    inner._attached._begin({"call_id": "c", "tool": "bad", "execution_id": "e", "arguments": {},
                            "deadline": "2026-01-02T12:00:00Z"})
    (kind, fields), = sent
    assert kind == "tool_result" and fields["call_id"] == "c" and "bad" in fields["error"]["message"], sent


asyncio.run(main())
