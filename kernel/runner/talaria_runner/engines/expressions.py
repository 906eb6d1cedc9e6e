"""Expressions that a front end wants evaluated after a cell, as in Jupyter's execute_request."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.run.execution import Execution
from talaria_runner.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Values(Protocol):
        def value_of(self, execution: Execution, source: str) -> str:
            """What the expression evaluates to, or its exception, as JSON."""

MOST = 1 << 20  # bytes of all values, as JSON
_REFUSAL = 256  # bytes that a refused value takes, and its name's quotes


def evaluate(execution: Execution, engine: Values) -> dict[str, str]:
    """The values by name, each as JSON."""
    values = {}
    left = MOST - sum([len(frames.quoted(name)) + _REFUSAL for name in execution.expressions])
    for name, source in execution.expressions.items():
        value = engine.value_of(execution, source)
        if len(value) > left:
            value = frames.failure("ValueError", f"the value takes {len(value)} bytes, and only {max(0, left)} are left", [])
        else:
            left -= len(value)
        values[name] = value
    return values
