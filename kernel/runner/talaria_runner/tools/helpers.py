"""What hermes_tools has beside the tools."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from time import sleep

from talaria_runner.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def json_parse(text: str) -> object:
    """Parses JSON, even if its strings contain control characters or it begins with a byte order mark. Raises
    ValueError."""
    try:
        return frames.parse(text)
    except StopIteration:
        raise ValueError("the text is not JSON") from None


def shell_quote(text: object) -> str:
    """The text as one word of a shell command."""
    text = str(text)
    if text and all(c.isascii() and c.isalnum() or c in "@%+=:,./-_" for c in text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def retry(fn: Callable[[], object], max_attempts: int = 3, delay: float = 2) -> object:
    """Calls fn until it succeeds, at most max_attempts times. Waits delay seconds after the first failure, and twice as
    long after each further one. Raises the last error."""
    attempt = 0
    while True:
        try:
            return fn()
        except Exception:
            attempt += 1
            if attempt >= max_attempts:
                raise
        sleep(delay * 2 ** (attempt - 1))


for _function in (json_parse, shell_quote, retry):
    _function.__module__ = "hermes_tools"
