"""Environment variables."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os

from talaria_runner.ipython.magics.usage import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.ipython.contract import Shell

_SECRET = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL")


def line_env(shell: Shell, line: str) -> object:
    """%env: lists all environment variables; %env NAME: shows one; %env NAME=VALUE or %env NAME VALUE: sets it."""
    text = line.strip()
    if not text:
        return {name: "<hidden>" if _is_secret(name) else value for name, value in os.environ.items()}
    if "=" not in text and " " not in text:
        if text not in os.environ:
            raise UsageError(f"there is no environment variable {text}")
        return os.environ[text]
    line_set_env(shell, text)
    return None


def line_set_env(shell: Shell, line: str) -> None:
    """%set_env NAME=VALUE or %set_env NAME VALUE: sets an environment variable."""
    text = line.strip()
    name, _, value = text.partition("=" if "=" in text.partition(" ")[0] or " " not in text else " ")
    name, value = name.strip(), value.strip()
    if not name or ("=" not in text and " " not in text):
        raise UsageError("%set_env NAME=VALUE")
    if any(c.isspace() for c in name):
        raise UsageError(f"the name of a variable cannot contain blanks: {name!r}")
    os.environ[name] = value
    print(f"env: {name}={value}")


def _is_secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRET)
