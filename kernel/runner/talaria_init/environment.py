"""The environment variables and the home directory of a sandbox, made from nothing."""

import os

from . import root

_DEFAULT_THREADS = 4
_MATPLOTLIB = root.HOME + "/.config/matplotlib"
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
    path = [root.PACKAGES + "/bin", binaries, "/usr/local/bin", "/usr/bin", "/bin"]
    count = str(threads or min(_DEFAULT_THREADS, len(os.sched_getaffinity(0))))
    return {
        "PATH": ":".join(dict.fromkeys(path)),
        "HOME": root.HOME,
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TZ": tz or "UTC",
        "TMPDIR": "/tmp",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": _MATPLOTLIB,
        "XDG_CACHE_HOME": root.HOME + "/.cache",
        # Not PYTHONPYCACHEPREFIX: with it, Python passes over the compiled files of the environment.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": root.PACKAGES,
        "TALARIA_WORKSPACE": root.WORKSPACE,
        "MALLOC_ARENA_MAX": "2",
        **dict.fromkeys(_THREAD_VARIABLES, count),
        **session,
    }


def make_home() -> None:
    """Makes the folders of the home directory, with links to the caches that were prepared for all sessions."""
    os.makedirs(_MATPLOTLIB, exist_ok=True)
    os.makedirs(root.HOME + "/.cache", exist_ok=True)
    if os.path.isdir(root.CACHE):
        for entry in os.scandir(root.CACHE):
            os.symlink(entry.path, os.path.join(_MATPLOTLIB, entry.name))
