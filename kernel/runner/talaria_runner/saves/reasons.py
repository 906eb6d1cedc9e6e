"""Why a variable could not be saved or loaded, in words."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.introspection.classes import qualified_name
from talaria_runner.introspection.preview import class_name

_LONGEST = 300  # characters
NO_TIME = "there was no time left to save it"

_KINDS = {
    "generator": "a generator cannot be saved: its function has not finished",
    "async_generator": "a generator cannot be saved: its function has not finished",
    "coroutine": "a coroutine cannot be saved: its function has not finished",
    "frame": "a frame cannot be saved: it belongs to a running function",
    "traceback": "a traceback cannot be saved: it refers to the frames of functions",
    "ReferenceType": "a weak reference cannot be saved",
    "weakref": "a weak reference cannot be saved",
    "weakproxy": "a weak reference cannot be saved",
    "socket": "a connection cannot be saved",
    "Connection": "a connection cannot be saved",
    "Cursor": "a connection cannot be saved",
    "lock": "a lock that is held cannot be saved",
    "RLock": "a lock that is held cannot be saved",
    "Popen": "a process cannot be saved",
    "memoryview": "a memoryview of this kind cannot be saved",
    "mmap": "a mapped file cannot be saved",
}


class Refused(Exception):
    """The message says why."""


def refused(value: object) -> Refused:
    """For a value of a type that cannot be saved."""
    name = class_name(type(value))
    return Refused(_KINDS.get(name.rpartition(".")[2]) or f"Python cannot save objects of type {name}")


def of(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = ""
    kind = qualified_name(type(error))
    if type(error) is Refused:
        return _cut(message)
    if isinstance(error, TypeError) and message.startswith("cannot pickle '"):
        name = message.split("'")[1]
        return _cut(_KINDS.get(name.rpartition(".")[2]) or f"Python cannot save objects of type {name}")
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or its code calls itself"
    if isinstance(error, MemoryError):
        return "there was not enough memory to save it"
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    return _cut(f"{kind}: {message}" if message else kind)


def _cut(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
