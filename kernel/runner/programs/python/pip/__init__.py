"""pip, as the processes of a session find it. All of it is the pip of the environment, but for what python -m pip runs."""

from __future__ import annotations

import os
import sys


def _find() -> object:
    """Where the other pip is, or None."""
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return PathFinder.find_spec("pip", [path for path in sys.path if os.path.abspath(path or ".") != here])


_spec = _find()
if _spec is not None and _spec.submodule_search_locations and _spec.has_location:
    __path__.extend(_spec.submodule_search_locations)
    exec(_spec.loader.get_code("pip"))
