"""The environment variables and the home directory of a sandbox, made from scratch."""

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
    """What every process inside gets; the session's variables win. threads is 0 if CPUs are not limited."""
    binaries = os.path.dirname(python)
    path = [places.programs() + "/bin", places.packages + "/current/bin", binaries, "/usr/local/bin", "/usr/bin", "/bin"]
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
        # Not PYTHONPYCACHEPREFIX: with it, Python ignores the compiled files of the environment.
        "PYTHONDONTWRITEBYTECODE": "1",
        "TALARIA_WORKSPACE": places.workspace,
        "TALARIA_PACKAGES": places.packages,
        "TALARIA_INSTALLS": places.installs(),
        "TALARIA_PYTHON": python,
        "MALLOC_ARENA_MAX": "2",
        **dict.fromkeys(_THREAD_VARIABLES, count),
        "PYTHONUSERBASE": places.packages + "/current",
        **session,
        "PYTHONPATH": _module_path(python, session.get("PYTHONPATH", "")),
    }


def _module_path(python: str, session: str) -> str:
    """Where interpreters other than the kernel's look for modules before all other places: our pip, and the
    session's own PYTHONPATH. The session's packages come after the standard library as the user's packages,
    or before it if the interpreter has no such place."""
    path = [places.programs() + "/python", *filter(None, [session])]
    if not _has_user_packages(python):
        path.append(places.layer())
    return ":".join(path)


def _has_user_packages(python: str) -> bool:
    """Virtual environments have none, unless they use the system's packages too."""
    for directory in (os.path.dirname(python), os.path.dirname(os.path.dirname(python))):
        try:
            with open(directory + "/pyvenv.cfg", encoding="utf-8", errors="replace") as f:
                parts = [line.partition("=") for line in f.read().lower().replace(" ", "").splitlines()]
                settings = {name: value for name, _, value in parts}
        except OSError:
            continue
        return settings.get("include-system-site-packages") == "true"
    return True


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
