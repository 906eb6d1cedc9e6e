"""Making an ordinary interpreter, with a runner in it, out of one that was started with less for a quick start."""

import os
import site
import sys
import types
from collections.abc import Callable
from typing import NoReturn

from . import limits, places

Serve = Callable[[int], NoReturn]

engine = "stdlib"  # of the runners that are made here, and in what is forked from here


def make_ordinary(preload: Callable[[], None] = lambda: None) -> Serve:
    """Undoes what pid 1 went without, site-packages among them, calls preload, and makes a runner. What it returns
    serves the host on the runner's control socket."""
    # First of all: what it binds when it is imported is to be what there was before anything else was.
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


def forget_init() -> None:
    """Takes this package out of sight. Freeing it would write to memory that all kernels have in common, as would
    looking at the names of all modules."""
    _forgotten.extend(sys.modules.pop(name) for name in _PACKAGE if name in sys.modules)


_forgotten: list[types.ModuleType] = []
_FILES = os.listdir(os.path.dirname(__file__))
_PACKAGE = ("talaria_init", *(f"talaria_init.{name[:-3]}" for name in _FILES if name.endswith(".py")))
