"""Hints for common errors: what to do next, in the last line of the traceback.

Nothing here runs user code, changes anything or takes long. If finding a hint fails, there is none.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import builtins
import sys
from posix import listdir
from sys import modules

from talaria_runner.errors import file_hints, network_hints, table_hints
from talaria_runner.introspection.closest import closest
from talaria_runner.introspection.sizes import biggest, readable
from talaria_runner.packages import installs
from talaria_runner.packages.module_names import PACKAGES, SHORT_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_LONGEST = 1000  # characters
_FOLDERS = 40  # of sys.path that are searched
_Module = type(sys)


class Hint:
    """The text of a hint. inline, if Python itself has words for the same, follows the message instead."""

    __slots__ = ("text", "inline")

    def __init__(self, text: str, inline: str = "") -> None:
        self.text = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
        self.inline = inline


def find(
    error: BaseException, message: str, loss: str = "", gone: dict[str, str] | None = None
) -> Hint | None:
    """Returns the hint for an error that ended a cell, given its message, when and why earlier variables were lost, and
    what those were that could not be saved, by name."""
    kind = type(error)
    text = network_hints.find(error)
    if text is not None:
        return Hint(text)
    if issubclass(kind, ModuleNotFoundError):
        text = _module(error)
    elif issubclass(kind, ImportError):
        return _imported(error, message)
    elif issubclass(kind, UnboundLocalError):
        return None
    elif issubclass(kind, NameError):
        return _saved(error, gone or {}) or _with_loss(error, _name(error), loss)
    elif issubclass(kind, AttributeError):
        return _attribute(error)
    elif issubclass(kind, OSError):
        text = file_hints.find(error)
    elif issubclass(kind, MemoryError):
        text = _memory()
    elif issubclass(kind, KeyError):
        text = table_hints.find(error)
    return Hint(text) if text else None


def _module(error: ImportError) -> str | None:
    name = vars(ImportError)["name"].__get__(error)
    if type(name) is not str or not name or len(name) > 200:
        return None
    top, dot, rest = name.partition(".")
    parent = name.rpartition(".")[0]
    if dot and parent in modules:
        return f"{parent} is installed, but has no module {name.rpartition('.')[2]}; the code may expect another version of it"
    if top in sys.stdlib_module_names:
        return f"{top} is part of the standard library, but this installation of Python does not include it"
    names = _importable()
    near = [] if name in PACKAGES or top in PACKAGES else closest(top, names, far=1 / 4)
    package = PACKAGES.get(name) or PACKAGES.get(top) or top.replace("_", "-")
    off = installs.shared[0].off if installs.shared else ""
    install = f"packages cannot be installed here: {off}" if off else f"install it with: %pip install {package}"
    if near:
        return f"did you mean {near[0]!r}? If not, {install}"
    return install


def _importable() -> list[str]:
    """The names of the modules that can be imported, as far as they are files."""
    names = dict.fromkeys(sys.stdlib_module_names)
    for folder in list(sys.path)[:_FOLDERS]:
        if type(folder) is not str:
            continue
        try:
            entries = listdir(folder or ".")
        except OSError:
            continue
        for entry in entries[:2000]:
            name, dot, kind = entry.partition(".")
            if name.isidentifier() and not name.startswith("_") and (not dot or kind == "py" or kind.endswith("so")):
                names[name] = None
    return list(names)


def _imported(error: ImportError, message: str) -> Hint | None:
    """cannot import name 'x' from 'y'."""
    name = vars(ImportError)["name"].__get__(error)
    module = modules.get(name) if type(name) is str else None
    before, found, rest = message.partition("cannot import name '")
    if type(module) is not _Module or before or not found:
        return None
    return _meant(rest.partition("'")[0], vars(module))


def _name(error: NameError) -> Hint | None:
    name = vars(NameError)["name"].__get__(error)
    frame = _innermost(error)
    if type(name) is not str or frame is None:
        return None
    if name in SHORT_NAMES:
        return Hint(f"did you forget `{SHORT_NAMES[name]}`?")
    if name in sys.stdlib_module_names:
        text = f"did you forget `import {name}`?"
        return Hint(text, f". Did you forget to import '{name}'?")
    return _meant(name, [*frame.f_locals, *frame.f_globals, *vars(builtins)])


def _with_loss(error: NameError, hint: Hint | None, loss: str) -> Hint | None:
    """Adds to the hint that variables were lost, if the name was looked up among the variables of cells.

    Nobody knows whether an earlier kernel had the name, so the hint does not claim it."""
    name = _name_in_cells(error) if loss else ""
    if not name:
        return hint
    text = f"{loss}; if {name!r} was one of them, rerun the cell that defines it"
    return Hint(f"{hint.text} {text[0].upper()}{text[1:]}" if hint else text)


def _saved(error: NameError, gone: dict[str, str]) -> Hint | None:
    """What the variable was, if there was one that could not be saved."""
    what = gone.get(_name_in_cells(error)) if gone else None
    if what is None:
        return None
    text = f"{what}; rerun the cell that created it"
    return Hint(text, f": {text}")


def _name_in_cells(error: NameError) -> str:
    """The name that was not found, if it was looked up among the variables of cells."""
    name = vars(NameError)["name"].__get__(error)
    frame = _innermost(error)
    if type(name) is not str or frame is None or frame.f_globals is not vars(modules["__main__"]):
        return ""
    return "" if name in frame.f_code.co_freevars or name in frame.f_code.co_cellvars else name


def _attribute(error: AttributeError) -> Hint | None:
    name = vars(AttributeError)["name"].__get__(error)
    owner = vars(AttributeError)["obj"].__get__(error)
    if type(name) is not str or owner is None:
        return None
    names: dict[object, None] = dict.fromkeys(table_hints.columns_of(owner))
    for cls in _MRO(type(owner)) if not issubclass(type(owner), type) else _MRO(owner):
        names.update(dict.fromkeys(_DICT(cls)))
    if type(owner) is _Module:
        names.update(dict.fromkeys(vars(owner)))
    else:
        own = _instance(owner)
        if type(own) is dict:
            names.update(dict.fromkeys(list(own)[:1000]))
    wanted = [other for other in names if type(other) is str and other.startswith("_") == name.startswith("_")]
    return _meant(name, wanted)


_MRO = vars(type)["__mro__"].__get__
_DICT = vars(type)["__dict__"].__get__


def _instance(owner: object) -> object:
    """The attributes of owner, without asking a class of the user for them."""
    for cls in _MRO(type(owner)):
        slot = _DICT(cls).get("__dict__")
        if type(slot) is type(_DICT(_Sample)["__dict__"]):
            return slot.__get__(owner)
    return None


class _Sample:
    pass


def _meant(name: str, names: object) -> Hint | None:
    near = closest(name, names)
    if not near:
        return None
    return Hint(f"did you mean {near[0]!r}?", f". Did you mean: '{near[0]}'?")


def _memory() -> str:
    largest = ", ".join(f"{name} ({readable(size)})" for name, size in biggest(vars(modules["__main__"]), 3))
    text = "delete variables that are no longer needed (del NAME), or process the data in smaller parts"
    return f"{text}; the largest variables are {largest}" if largest else text


def _innermost(error: BaseException) -> FrameType | None:
    entry = vars(BaseException)["__traceback__"].__get__(error)
    if entry is None:
        return None
    while entry.tb_next is not None:
        entry = entry.tb_next
    return entry.tb_frame
