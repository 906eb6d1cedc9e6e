"""Where the session's files are."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from posix import getcwd

_remembered = ""


def remember() -> None:
    """Reads the path from the environment, before user code can change it."""
    global _remembered
    try:
        _remembered = (os.environ.get("TALARIA_WORKSPACE") or getcwd()).rstrip("/")
    except OSError:
        _remembered = "/nowhere"


def workspace() -> str:
    """Its path, without a trailing slash; outside a session the directory that the runner started in."""
    return _remembered
