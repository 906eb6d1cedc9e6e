"""IPython.display, and the modules of comms, for kernels without IPython and ipykernel: what notebooks and libraries
import from, created when it is imported."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys

_DISPLAY = "rendering.media", None
_COMM = "ipython.comms", None
_CAPTURE = "ipython.magics.capturing", ("CapturedIO", "RichOutput", "capture_output")
# The content of each module: which module of ours it comes from, and which names; None means all public ones.
_MODULES: dict[str, tuple[str, tuple[str, ...] | None] | None] = {
    "IPython": ("ipython.shim", ("get_ipython",)),
    "IPython.core": None,
    "IPython.core.display": _DISPLAY,
    "IPython.core.display_functions": _DISPLAY,
    "IPython.core.error": ("ipython.magics.usage", ("UsageError",)),
    "IPython.core.getipython": ("ipython.shim", ("get_ipython",)),
    "IPython.core.interactiveshell": ("ipython.shell", ("InteractiveShell",)),
    "IPython.core.magic": ("ipython.magics.classes", None),
    "IPython.core.pylabtools": None,
    "IPython.display": _DISPLAY,
    "IPython.lib": None,
    "IPython.lib.display": _DISPLAY,
    "IPython.utils": None,
    "IPython.utils.capture": _CAPTURE,
    "IPython.utils.io": _CAPTURE,
    "IPython.utils.text": ("ipython.text", ("LSString", "SList")),
    "comm": _COMM,
    "comm.base_comm": None,
    "ipykernel": None,
    "ipykernel.comm": _COMM,
}
_PACKAGES = ("IPython", "IPython.core", "IPython.lib", "IPython.utils", "comm", "ipykernel")


def install() -> None:
    """Offers the modules after all other finders, so that a real IPython wins."""
    sys.meta_path.append(_Finder())


class _Finder:
    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name not in _MODULES:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, _Loader(), is_package=name in _PACKAGES)


class _Loader:
    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: object) -> None:
        names = vars(module)
        if module.__name__ == "IPython":
            names["version_info"] = (8, 0, 0, "")
            names["__version__"] = "8.0.0"
        if module.__name__ == "ipykernel":
            names["version_info"] = (6, 29, 0)
            names["__version__"] = "6.29.0"
        if module.__name__ == "IPython.core.pylabtools":
            names["backend2gui"] = {}  # matplotlib looks for the windows of its backend here
        source = _MODULES[module.__name__]
        if module.__name__ == "comm.base_comm":
            comms = __import__("talaria_runner.ipython.comms", fromlist=["Comm"])
            names.update(BaseComm=comms.Comm, CommManager=comms.CommManager, __all__=["BaseComm", "CommManager"])
        elif source is not None:
            full = f"talaria_runner.{source[0]}"
            __import__(full)
            public = source[1] or sys.modules[full].__all__
            names.update((name, getattr(sys.modules[full], name)) for name in public)
            names["__all__"] = list(public)


def adopt_class(module: object) -> None:
    """Replaces a real IPython's class by this kernel's, so that settings on it take effect. module is the package."""
    from talaria_runner.ipython.shell import InteractiveShell

    for holder in (module, sys.modules.get("IPython.core.interactiveshell")):
        if holder is not None:
            holder.InteractiveShell = InteractiveShell


def adopt_shell(module: object) -> None:
    """Makes a real IPython's get_ipython return this kernel's shell."""
    holders = [module, *filter(None, map(sys.modules.get, ("IPython", "IPython.core.interactiveshell")))]
    original = module.get_ipython
    for holder in holders:
        if getattr(holder, "get_ipython", None) is original:
            holder.get_ipython = get_ipython


def adopt(module: object) -> None:
    """Makes a real IPython's display functions show here. Without a shell of its own it would print instead."""
    from talaria_runner.rendering import media

    # If it was imported before, these have already taken the functions over.
    holders = [module, *filter(None, map(sys.modules.get, ("IPython.display", "IPython.core.display")))]
    for name in ("display", "update_display", "clear_output", "publish_display_data"):
        original = getattr(module, name, None)
        for holder in holders:
            if getattr(holder, name, None) is original:
                setattr(holder, name, getattr(media, name))


def get_ipython() -> object:
    """The shell of this kernel."""
    return shells[0] if shells else None


shells: list[object] = []  # the kernel's own
get_ipython.__module__ = "IPython.core.getipython"
