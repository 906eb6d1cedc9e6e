"""Where the session's files are."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from posix import getcwd

_remembered = ""


def remember() -> None:
    """Takes the path from the environment, before user code can change that."""
    global _remembered
    try:
        _remembered = (os.environ.get("TALARIA_WORKSPACE") or getcwd()).rstrip("/")
    except OSError:
        _remembered = "/nowhere"


def workspace() -> str:
    """Its path, without a slash at the end; outside of a session the directory that the runner began in."""
    return _remembered
