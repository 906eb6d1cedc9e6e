"""The environment variables and the home directory of a sandbox, made from nothing."""

import os

from . import places

_DEFAULT_THREADS = 4
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def environment(python: str, tz: str, threads: int, session: dict[str, str]) -> dict[str, str]:
    """What every process inside gets; the session's variables win. threads is 0 where CPUs are not limited."""
    binaries = os.path.dirname(python)
    path = [places.packages + "/bin", binaries, "/usr/local/bin", "/usr/bin", "/bin"]
    count = str(threads or min(_DEFAULT_THREADS, len(os.sched_getaffinity(0))))
    return {
        "PATH": ":".join(dict.fromkeys(path)),
        "HOME": places.home,
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TZ": tz or "UTC",
        "TMPDIR": places.temporary,
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": _matplotlib(),
        "XDG_CACHE_HOME": places.home + "/.cache",
        # Not PYTHONPYCACHEPREFIX: with it, Python passes over the compiled files of the environment.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": places.packages,
        "TALARIA_WORKSPACE": places.workspace,
        "MALLOC_ARENA_MAX": "2",
        **dict.fromkeys(_THREAD_VARIABLES, count),
        **session,
    }


def make_home() -> None:
    """Makes the folders of the home directory, with links to the caches that were prepared for all sessions."""
    matplotlib = _matplotlib()
    os.makedirs(matplotlib, exist_ok=True)
    os.makedirs(places.home + "/.cache", exist_ok=True)
    if os.path.isdir(places.cache):
        for entry in os.scandir(places.cache):
            os.symlink(entry.path, os.path.join(matplotlib, entry.name))


def _matplotlib() -> str:
    return places.home + "/.config/matplotlib"
