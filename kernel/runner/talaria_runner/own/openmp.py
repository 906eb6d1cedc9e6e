"""The threads of OpenMP, which a forked process would wait for without end."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os

from talaria_runner.own import mappings

_PAUSE = 2  # omp_pause_hard: end the threads, and keep no state of them
_NOLOAD = 0x4 | 0x2  # of dlopen: RTLD_NOLOAD, RTLD_NOW
_NAMES = (b"/libgomp", b"/libomp", b"/libiomp")  # the beginnings of the libraries' names


def pause(mapped: bytes | None = None) -> None:
    """Ends the threads of OpenMP, which a copy would wait for without end. They start again by themselves. mapped is what
    mappings.listed() has just returned, if it has been called."""
    for path in _libraries(mappings.listed() if mapped is None else mapped):
        try:
            from _ctypes import call_function, dlopen, dlsym

            call_function(dlsym(dlopen(path, _NOLOAD), "omp_pause_resource_all"), (_PAUSE,))
        except (ImportError, OSError):
            pass  # an old one


def _libraries(mapped: bytes) -> list[str]:
    if not any(name in mapped for name in _NAMES):
        return []
    paths = {line.split(None, 5)[5] for line in mapped.split(b"\n") if line[line.rfind(b"/") :].startswith(_NAMES)}
    return sorted(map(os.fsdecode, paths))
