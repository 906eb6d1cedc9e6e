"""Hooks that run when user code imports a module, so that what is not imported costs nothing."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from sys import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Hooks:
    """A finder that is asked first. It lets the others find the module, and adds what should happen after the
    import."""

    def __init__(self) -> None:
        self._hooks: dict[str, Callable[[object], None]] = {}

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def after(self, name: str, hook: Callable[[object], None]) -> None:
        """Calls hook with the module once it is imported, or now if it already is."""
        self._hooks[name] = hook
        if name in modules:
            hook(modules[name])

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        hook = self._hooks.get(name)
        if hook is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _add(spec.loader, hook)
                return spec
        return None


def _add(loader: object, hook: Callable[[object], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: object) -> None:
        execute(module)
        try:
            hook(module)
        except Exception:
            pass  # an unknown version of it; the import itself is fine

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass


def made_by(value: object, module: str, name: str) -> bool:
    """Whether value is of that class of a module, as far as the module is imported and is what it should be."""
    try:
        return issubclass(type(value), getattr(modules[module], name))
    except Exception:
        return False
