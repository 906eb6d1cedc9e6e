"""The built-in tools, which the runner carries out itself, inside the sandbox."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.tools import files, patches, places, search, terminal
from talaria_runner.tools.failures import ToolError, ToolUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def run(tool: str, arguments: dict[str, object], mounts: list[str], check: Callable[[], None]) -> dict[str, object]:
    """Runs a built-in tool. mounts are the directories that it may use besides the workspace. check is called often, and
    raises when the cell is interrupted. Raises ToolError."""
    places.allow(mounts)
    arguments = {name: value for name, value in arguments.items() if value is not None}
    try:
        if tool == "read_file":
            return files.read_file(**arguments)
        if tool == "write_file":
            return files.write_file(**arguments)
        if tool == "terminal":
            return terminal.terminal(check, **arguments)
        if tool == "search_files":
            return search.search_files(check, **arguments)
        if tool == "patch":
            return _patch(check, **arguments)
    except OSError as e:
        code = "not_found" if isinstance(e, FileNotFoundError) else "failed"
        raise ToolError(f"{arguments.get('path', tool)}: {e.strerror}", code) from None
    except (TypeError, ValueError) as e:
        raise ToolError(f"{tool}: {e}", "invalid_arguments") from None
    raise ToolUnavailable(f"this kernel has no built-in tool {tool!r}", "unavailable")


def _patch(check: Callable[[], None], mode: str = "replace", patch: str = "", **others: object) -> dict[str, object]:
    if mode == "replace":
        return files.replace(**others)
    if mode != "patch":
        raise ToolError(f'mode is {mode!r}; it must be "replace" or "patch"', "invalid_arguments")
    return patches.apply(check, patch)
