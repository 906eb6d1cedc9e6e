"""The user's variables, for a list of them: what each is, how large, and what it looks like."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401


from talaria_runner.introspection import facts, lookup
from talaria_runner.introspection.budget import Budget
from talaria_runner.introspection.classes import module_of, qualified_name
from talaria_runner.introspection.lookup import Found
from talaria_runner.introspection.preview import WIDTH, class_name, cut, preview
from talaria_runner.introspection.signatures import signature
from talaria_runner.wire.outbox import printable

MOST = 1000  # variables
records: dict[str, object] = {}  # what the engine keeps in builtins or in the namespace: In, Out, and those of IPython
_NAME = 200  # characters
_TYPE = 120
_RECORDS = {"In": list, "Out": dict}
_FUNCTIONS = frozenset(("exit", "quit", "get_ipython", "display", "open"))
_OURS = frozenset(("_sitebuiltins", "IPython", "talaria_runner"))  # modules of classes with instances of these names


class Variable:
    __slots__ = ("name", "type", "shape", "dtype", "size_bytes", "preview")

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.type = type
        self.shape: list[int] | None = None
        self.dtype: str | None = None
        self.size_bytes: int | None = None
        self.preview = ""


def variables(namespace: dict[str, object], budget: Budget) -> tuple[list[Variable], int]:
    """The variables by name, and how many there are: more than are listed if there are very many, or time ran out."""
    keys = lookup.first(namespace)
    unseen = dict.__len__(namespace) - len(keys)
    names = sorted({name for name in keys if _is_shown(name)})
    listed = []
    hidden = 0
    for name in names:
        if len(listed) >= MOST or budget.is_over:
            break
        value = lookup.get(namespace, name)
        if value is lookup.MISSING or _is_module(value) or is_of_engine(name, value, namespace):
            hidden += 1
            continue
        listed.append(describe(name, value))
    return listed, len(names) - hidden + unseen


def describe(name: str, value: object) -> Variable:
    cls = type(value)
    variable = Variable(printable(name[:_NAME]), printable(cut(qualified_name(cls), _TYPE)))
    try:
        found = facts.of(value)
    except Exception:
        found = facts.Facts()  # it changes while it is examined, or is of an unknown version
    variable.shape, variable.size_bytes = found.shape, found.size_bytes
    if found.dtype:
        variable.dtype = printable(cut(found.dtype, _TYPE))
    try:
        text = found.preview or _call(name, value) or preview(value, WIDTH)
    except Exception:
        text = f"<{class_name(cls)}>"
    variable.preview = printable(cut(text, WIDTH))
    return variable


def _call(name: str, value: object) -> str | None:
    return signature(name, Found(value)) if type(value) is lookup.Function else None


def _is_shown(name: object) -> bool:
    return type(name) is str and not name.startswith("_")


def _is_module(value: object) -> bool:
    return lookup.derives(type(value), lookup.Module)


def is_of_engine(name: str, value: object, namespace: dict[str, object]) -> bool:
    """Whether it is something that the kernel put there; not something of the user's with one of these names."""
    return lookup.derives(type(value), _RECORDS[name]) if name in _RECORDS else is_function_of_engine(name, value, namespace)


def is_function_of_engine(name: str, value: object, namespace: dict[str, object]) -> bool:
    cls = type(value)
    if name not in _FUNCTIONS:
        return False
    if cls is lookup.Function:
        return value.__globals__ is not namespace
    return lookup.one_of(cls, (lookup.Builtin, lookup.Method)) or module_of(cls).partition(".")[0] in _OURS
