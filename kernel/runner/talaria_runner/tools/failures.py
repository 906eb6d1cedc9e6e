"""Exceptions of the calls of tools."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401


class ToolError(Exception):
    """The call of a tool failed. code is a word to branch on, message says what happened."""

    def __init__(self, message: str = "", code: str = "error") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class ToolUnavailable(ToolError):
    """The tool is not available, or no longer."""


class ToolTimeout(ToolError):
    """The tool did not answer in time."""


class ToolLimit(ToolError):
    """A limit on tool calls was reached."""


class ProviderGone(ToolError):
    """The provider of the tool disconnected before it answered."""


class ApprovalDenied(ToolError):
    """A person refused the call."""


_CLASSES = {
    "unavailable": ToolUnavailable, "timeout": ToolTimeout, "limit": ToolLimit, "provider_gone": ProviderGone,
    "denied": ApprovalDenied,
}  # fmt: skip
ALL = (ToolError, *_CLASSES.values())

for _class in ALL:
    _class.__module__ = "hermes_tools"


def failure(code: str, message: str) -> ToolError:
    """The exception that a code stands for."""
    return _CLASSES.get(code, ToolError)(message, code or "error")
