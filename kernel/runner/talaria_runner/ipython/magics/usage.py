"""What magics raise when they are not used as they can be."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401


class UsageError(Exception):
    """A magic was called in a way that it does not know."""


UsageError.__module__ = "builtins"
