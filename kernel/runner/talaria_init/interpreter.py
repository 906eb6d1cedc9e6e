"""Makes an ordinary interpreter, with a runner in it, from one that was started with less for a quick start."""

import os
import site
import sys
import types
from collections.abc import Callable
from typing import NoReturn

from . import limits, places

Serve = Callable[[int], NoReturn]

SCRIPT = "script"  # the engine of sandboxes that run one file of Python instead of cells
engine = "stdlib"  # of the runners that are made here, and in processes forked from here


def make_ordinary(preload: Callable[[], None] = lambda: None) -> Serve:
    """Restores what pid 1 did without, site-packages among them, calls preload, and makes a runner. The
    returned function serves the host on the runner's control socket. With the engine SCRIPT there is no
    runner, and the function cannot be called."""
    if engine == SCRIPT:
        prepare = _no_runner
    else:
        # First of all: it must bind, on import, what existed before anything else was imported.
        from talaria_runner.main import prepare

    sys.path.remove(places.library)
    site.main()
    sys.argv[:] = [""]
    sys.orig_argv[:] = [sys.executable]
    sys.dont_write_bytecode = True
    sys.modules["__main__"] = types.ModuleType("__main__")
    limits.shrink_thread_stacks()
    preload()
    return prepare(engine)


def _no_runner(_: str) -> Serve:
    def serve(_: int) -> NoReturn:
        raise RuntimeError("this environment runs files, not cells")

    return serve


def forget_init() -> None:
    """Hides this package. Freeing it would write to memory that all kernels share, and so would looking at
    the names of all modules."""
    _forgotten.extend(sys.modules.pop(name) for name in _PACKAGE if name in sys.modules)


_forgotten: list[types.ModuleType] = []
_FILES = os.listdir(os.path.dirname(__file__))
_PACKAGE = ("talaria_init", *(f"talaria_init.{name[:-3]}" for name in _FILES if name.endswith(".py")))
