"""Importing a module of the standard library late, although the workspace may hold a file of the same name."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from sys import modules

_FOLDER = getattr(sys, "_stdlib_dir", None) or ""


def load(name: str) -> object:
    """The module of that name of the standard library."""
    module = modules.get(name)
    if module is not None and _is_standard(module):
        return module
    path = sys.path[:]
    sys.path[:] = [entry for entry in path if is_standard_path(entry)]
    shadow = modules.pop(name, None)
    try:
        return __import__(name)
    finally:
        sys.path[:] = path
        if shadow is not None:
            modules[name] = shadow


def _is_standard(module: object) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or is_standard_path(file)


def is_standard_path(path: str) -> bool:
    if "-packages" in path:
        return False
    return path.startswith(_FOLDER) or path.endswith(("/lib-dynload", ".zip")) or "/lib-dynload/" in path
