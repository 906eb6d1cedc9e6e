"""Importing a module of the standard library late, although the workspace may hold a file of the same name."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from _thread import get_ident
from sys import modules

from _frozen_importlib import BuiltinImporter, module_from_spec
from _frozen_importlib_external import PathFinder, spec_from_file_location

_FOLDER = getattr(sys, "_stdlib_dir", None) or ""
_ALIAS = "talaria_standard_"  # begins the name of a module whose own name is taken by a module of the user


def load(name: str) -> object:
    """Returns the module of that name of the standard library, importing it on first use.

    Any thread may call it. What other threads import meanwhile, and sys.path and sys.modules as they see them, is not
    affected."""
    if name not in modules or _is_standard(modules[name]):
        module = _FINDER.load(name)  # waits if another thread is importing it
        if _is_standard(module):
            return module
    spec = BuiltinImporter.find_spec(name)
    if spec is None:
        return _FINDER.load(_ALIAS + name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Finder:
    """Finds modules in the folders of the standard library alone, for the threads that are in load."""

    def __init__(self) -> None:
        self._loading: set[int] = set()

    def load(self, name: str) -> object:
        if not any(finder is self for finder in sys.meta_path):
            # It is never removed: a thread that walks through the list would miss the finder after it.
            places = [i for i, finder in enumerate(sys.meta_path) if finder is PathFinder]
            sys.meta_path.insert(places[0] if places else 0, self)
        thread = get_ident()
        nested = thread in self._loading
        self._loading.add(thread)
        try:
            return __import__(name)
        finally:
            if not nested:
                self._loading.discard(thread)

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if path is not None or get_ident() not in self._loading:
            return None
        real = name.removeprefix(_ALIAS)
        spec = PathFinder.find_spec(real, [entry for entry in sys.path if is_standard_path(entry)])
        if spec is None or real == name:
            return spec
        return spec_from_file_location(name, spec.origin, submodule_search_locations=spec.submodule_search_locations)


_FINDER = _Finder()


def _is_standard(module: object) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or is_standard_path(file)


def is_standard_path(path: str) -> bool:
    if "-packages" in path:
        return False
    return path.startswith(_FOLDER) or path.endswith(("/lib-dynload", ".zip")) or "/lib-dynload/" in path
