"""The time limit of an answer. Whatever is found by then is the answer."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from time import monotonic

ANSWER = 0.2  # s until nobody waits for the answer any more
_WORK = 0.12  # s for finding it: the rest is for sending it while a busy cell takes the time


class Budget:
    __slots__ = ("_end", "_expiry")

    def __init__(self) -> None:
        begun = monotonic()
        self._end = begun + _WORK
        self._expiry = begun + ANSWER

    @property
    def is_over(self) -> bool:
        return monotonic() > self._end

    @property
    def is_expired(self) -> bool:
        return monotonic() > self._expiry
