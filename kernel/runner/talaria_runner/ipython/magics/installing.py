"""%pip and its like."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys

from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.own.stdlib import load
from talaria_runner.packages import installs
from talaria_runner.packages.pip_arguments import Refused, parse
from talaria_runner.streams.commands import redirected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.ipython.contract import Shell


def line_pip(shell: Shell, line: str) -> None:
    """%pip install NAME …: installs packages into this session; %pip uninstall NAME … removes them. Anything else,
    such as %pip list, is done by the environment's pip."""
    _pip(shell, "pip", _words("pip", line))


def line_uv(shell: Shell, line: str) -> None:
    """%uv pip install NAME …: the same as %pip install NAME …"""
    words = _words("uv", line)
    if words[:1] != ["pip"]:
        raise UsageError(f"%uv {line}: a session has no project; install packages with %pip install NAME")
    _pip(shell, "uv pip", words[1:])


def line_conda(shell: Shell, line: str) -> None:
    """There is no conda: %pip installs packages."""
    raise UsageError(f"%conda {line}: there is no conda in a session; install packages with %pip install NAME")


def line_mamba(shell: Shell, line: str) -> None:
    """There is no mamba: %pip installs packages."""
    raise UsageError(f"%mamba {line}: there is no mamba in a session; install packages with %pip install NAME")


def _words(tool: str, line: str) -> list[str]:
    try:
        # A semicolon at the end is a habit of cells.
        return load("shlex").split(line.rstrip(" ;"), comments=True)
    except ValueError as e:
        raise UsageError(f"%{tool} {line}: {e}") from None


def _pip(shell: Shell, tool: str, words: list[str]) -> None:
    try:
        change = parse(words)
    except Refused as e:
        raise UsageError(f"%{tool}: {e}") from None
    if change is not None:
        installs.shared[0].install(change, _show)
        return
    shell.user_ns["_exit_code"] = shell.commands.run([sys.executable, "-m", "pip", *words], None, *redirected())


def _show(text: str) -> None:
    print(text, end="", flush=True)
