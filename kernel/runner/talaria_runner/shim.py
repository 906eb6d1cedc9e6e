"""IPython.display for kernels without IPython: the modules that notebooks import from, made when they are imported."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

import sys

_NAMES = frozenset(
    (
        "IPython",
        "IPython.display",
        "IPython.core",
        "IPython.core.display",
        "IPython.core.display_functions",
        "IPython.core.getipython",
    )
)


def install() -> None:
    """Offers the modules behind all other finders, so that a real IPython wins."""
    sys.meta_path.append(_Finder())


class _Finder:
    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name not in _NAMES:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, _Loader(), is_package=name in ("IPython", "IPython.core"))


class _Loader:
    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: object) -> None:
        from talaria_runner import objects

        names = vars(module)
        if module.__name__ in ("IPython", "IPython.core.getipython"):
            names["get_ipython"] = _get_ipython
        if module.__name__ == "IPython":
            names["version_info"] = (8, 0, 0, "")
            names["__version__"] = "8.0.0"
        elif "display" in module.__name__:
            names.update((name, getattr(objects, name)) for name in objects.__all__)
            names["__all__"] = list(objects.__all__)


def adopt(module: object) -> None:
    """Has a real IPython's display functions show here. Without a shell of its own it would print instead."""
    from talaria_runner import objects

    # Where it was imported before, these have taken the functions over already.
    holders = [module, *filter(None, map(sys.modules.get, ("IPython.display", "IPython.core.display")))]
    for name in ("display", "update_display", "clear_output", "publish_display_data"):
        original = getattr(module, name, None)
        for holder in holders:
            if getattr(holder, name, None) is original:
                setattr(holder, name, getattr(objects, name))


def _get_ipython() -> None:
    """There is no IPython shell."""


_get_ipython.__name__ = _get_ipython.__qualname__ = "get_ipython"
