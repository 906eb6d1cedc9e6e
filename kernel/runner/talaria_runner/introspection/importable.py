"""The names of modules that could be imported, found without importing any."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from sys import modules

from talaria_runner.introspection import lookup
from talaria_runner.introspection.budget import Budget
from talaria_runner.introspection.lookup import Found
from talaria_runner.introspection.paths import entries

_FOLDERS = 50  # of sys.path that are searched
_standard = sys.stdlib_module_names


def top_level(prefix: str, budget: Budget) -> set[str]:
    """Modules and packages that begin with prefix."""
    found = {name for name in _standard if name.startswith(prefix)}
    for folder in _texts(sys.path):
        found |= _in_folder(folder or ".", prefix, budget)
    return found


def submodules(package: str, prefix: str, budget: Budget) -> set[str]:
    """Modules in a package, whether it is imported or not."""
    found = set()
    start = package + "."
    for name in list(modules):
        if type(name) is str and name.startswith(start + prefix):
            found.add(name[len(start):].partition(".")[0])
    for folder in _folders(package):
        found |= _in_folder(folder, prefix, budget)
    return found


def members(module: str) -> list[object]:
    """The names in a module that is imported."""
    loaded = modules.get(module)
    if loaded is None:
        return []
    names = list(lookup.each_name(Found(loaded)))
    return names + promised(loaded)


def promised(module: object) -> list[object]:
    """The names in a module's __all__, which may be created on access."""
    listed = lookup.get(lookup.own_names(module), "__all__")
    return listed[:5000] if type(listed) is list else []


def _folders(package: str) -> list[str]:
    loaded = modules.get(package)
    if loaded is not None:
        path = lookup.get(lookup.own_names(loaded), "__path__")
        return _texts(path) if type(path) is list else _texts(lookup.get(lookup.own_names(path), "_path"))
    inside = package.replace(".", "/")
    return [f"{folder or '.'}/{inside}" for folder in _texts(sys.path)]


def _texts(path: object) -> list[str]:
    return [folder for folder in path[:_FOLDERS] if type(folder) is str] if type(path) is list else []


def _in_folder(folder: str, prefix: str, budget: Budget) -> set[str]:
    found = set()
    for name, is_folder in entries(folder, budget):
        module, _, ending = name.partition(".")
        if not module.startswith(prefix) or not module.isidentifier() or module == "__pycache__":
            continue
        if is_folder and not ending or ending in ("py", "so") or ending.endswith(".so"):
            if module != "__init__":
                found.add(module)
    return found
