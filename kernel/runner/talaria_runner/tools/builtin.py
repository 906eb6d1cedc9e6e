"""The built-in tools, which the runner carries out itself, inside the sandbox."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.tools import files, terminal
from talaria_runner.tools.failures import ToolError, ToolUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def run(tool: str, arguments: dict[str, object], check: Callable[[], None]) -> dict[str, object]:
    """Runs a built-in tool. check is called often, and raises when the cell is interrupted. Raises ToolError."""
    arguments = {name: value for name, value in arguments.items() if value is not None}
    try:
        if tool == "read_file":
            return files.read_file(**arguments)
        if tool == "write_file":
            return files.write_file(**arguments)
        if tool == "terminal":
            return terminal.terminal(check, **arguments)
        if tool == "search_files":
            arguments.pop("order", None)
            return files.search_files(check, **arguments)
        if tool == "patch" and arguments.pop("mode", "replace") == "replace":
            return files.replace(**arguments)
    except OSError as e:
        code = "not_found" if isinstance(e, FileNotFoundError) else "failed"
        raise ToolError(f"{arguments.get('path', tool)}: {e.strerror}", code) from None
    except TypeError as e:
        raise ToolError(f"{tool}: {e}", "invalid_arguments") from None
    raise ToolUnavailable(f"this kernel has no built-in tool {tool!r} of that mode", "unavailable")
