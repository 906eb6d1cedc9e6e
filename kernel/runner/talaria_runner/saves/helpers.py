"""cloudpickle and dill, where the environment has them, for the types that they save and pickle does not."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.own.stdlib import load
from talaria_runner.saves import rebuild

_registered = load("copyreg").dispatch_table
_simple = load("pickle")._Pickler.dispatch
_tables: list[dict[type, object]] = []  # of cloudpickle and of dill, once they were looked for


def reduce(value: object, cls: type) -> object:
    """As __reduce__; None if neither is needed, or can."""
    if cls in _registered or cls in _simple:
        return None
    if not _tables:
        _tables.extend((_of_cloudpickle(), _of_dill()))
    if cls in _tables[0]:
        return _tables[0][cls](value)
    if cls in _tables[1]:
        try:
            return value.__reduce_ex__(5)
        except Exception:
            pass  # dill is for these: it would lose what other objects share with this one
        return rebuild.by_dill, (rebuild.module("dill").dumps(value),)
    return None


def _of_cloudpickle() -> dict[type, object]:
    try:
        return dict(rebuild.module("cloudpickle").CloudPickler._dispatch_table)
    except Exception:
        return {}


def _of_dill() -> dict[type, object]:
    try:
        return dict(rebuild.module("dill").Pickler.dispatch)
    except Exception:
        return {}
