"""The threads of OpenMP, which a forked process would wait for without end."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from posix import open

_PAUSE = 2  # omp_pause_hard: end the threads, and keep no state of them
_NOLOAD = 0x4 | 0x2  # of dlopen: RTLD_NOLOAD, RTLD_NOW


def pause() -> None:
    """Ends the threads of OpenMP, which a copy would wait for without end. They start again by themselves."""
    for path in _libraries():
        try:
            from _ctypes import call_function, dlopen, dlsym

            call_function(dlsym(dlopen(path, _NOLOAD), "omp_pause_resource_all"), (_PAUSE,))
        except (ImportError, OSError):
            pass  # an old one


def _libraries() -> list[str]:
    paths = set()
    try:
        with os.fdopen(open("/proc/self/maps", 0)) as f:
            for line in f:
                name = line.rpartition("/")[2]
                if name.startswith(("libgomp", "libomp", "libiomp")):
                    paths.add(line.split(None, 5)[5].rstrip("\n"))
    except OSError:
        pass
    return sorted(paths)
