"""Text that C code has printed and still keeps in its buffers."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def flusher() -> Callable[[], None]:
    """A function that calls fflush(NULL). ctypes itself takes ten times as long to import as the part used here."""
    try:
        from _ctypes import call_function, dlopen, dlsym

        address = dlsym(dlopen(None, 2), "fflush")
    except (ImportError, OSError):
        return lambda: None
    return lambda: call_function(address, (None,))
