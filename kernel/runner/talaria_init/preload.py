"""What the fork server imports ahead, and what makes a process forked from it as good as a fresh one.

A kernel's own memory is what it has written to since it was forked, including reference counts, in whole
pages. So whatever can be done once is done before the fork, and the rest with as little code as possible.
"""

import ctypes
import gc
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import _random

from . import holes, linux, places
from .interpreter import Serve, make_ordinary
from .limits import Limits

# Variables that the imported libraries have read already.
_READ_AT_IMPORT = re.compile(
    r"(BLIS|GOTO|KMP|MATPLOTLIB|MKL|MPL|NPY|NUMEXPR|NUMPY|OMP|OPENBLAS|PANDAS|TALARIA_PACKAGES|VECLIB)"
)
_THREADED = re.compile(r"/lib[^/]*(blas|gomp|iomp|mkl_rt|libomp)[^/]*\.so[^/]*$")
_THREAD_SETTERS = (
    "openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "scipy_openblas_set_num_threads64_",
    "omp_set_num_threads",
    "MKL_Set_Num_Threads",
)
# A kernel that may not use this many times the memory of the imported libraries is better off without them.
_LEAST_ROOM = 3
# Modules whose fork handlers are not needed here: they renew locks, which nobody holds, or empty what is
# already empty, or their work is done below.
_PASSED_OVER = ("logging", "matplotlib.font_manager", "random", "threading")

serve: Serve | None = None  # the runner, in a fork server and processes forked from it
_names: frozenset[str] = frozenset()  # of the imported modules, without the part after the first dot
_data = 0  # bytes of the imported modules that the memory limit counts
_renewals: list[Callable[[], object]] = []
_thread_setters: list[Callable[[int], None]] = []


def prepare(modules: list[str], tell: Callable[..., None], rehearse: Callable[[], None]) -> None:
    """Imports the modules and gets this process ready to be forked. It calls tell for each module, with the
    reason if one is missing, and rehearse when everything is imported."""
    global serve
    gc.disable()
    # They are run by hand, since nothing that is forked before the runner needs them, and registered for
    # later forks.
    register, handlers = os.register_at_fork, []
    os.register_at_fork = lambda **handler: handlers.append((sys._getframe(1).f_globals.get("__name__"), handler))
    serve = make_ordinary(lambda: _import_all(modules, tell))
    _import_runner()
    os.register_at_fork = register
    for module, handler in handlers:
        register(**handler)
        if "after_in_child" in handler and module not in _PASSED_OVER:
            _renewals.append(handler["after_in_child"])
    _find_renewals()
    rehearse()
    gc.collect()
    linux.trim_heap()
    holes.fill()
    gc.freeze()


def conflicts(session: Iterable[str], limits: Limits) -> bool:
    """Whether a kernel with these variables, packages and files would differ from a fresh interpreter."""
    if not _names:
        return False
    if limits.data and limits.data < _LEAST_ROOM * _data:
        return True
    return any(map(_READ_AT_IMPORT.match, session)) or any(map(_shadows, (places.workspace, places.layer())))


def renew() -> None:
    """Gives this process random numbers and other state of its own that modules do not share across a fork."""
    for renewal in _renewals:
        renewal()


def allow_threads(count: int) -> None:
    """Makes libraries that were imported with one thread use this many. It may start them."""
    if count > 1:
        for set_threads in _thread_setters:
            set_threads(count)


def _import_all(modules: list[str], tell: Callable[..., None]) -> None:
    global _names, _data
    before = {name.partition(".")[0] for name in sys.modules}
    for name in modules:
        tell(op="importing", name=name)
        try:
            __import__(name)
            if name.partition(".")[0] == "matplotlib":
                _draw()
        except (Exception, SystemExit) as e:
            tell(op="skipped", name=name, error=f"{type(e).__name__}: {e}")
        if linux.lines_missing("/proc/self/status", (b"Threads:\t1",)):
            tell(op="skipped", name=name, error="importing it starts threads, which a fork does not have")
            os._exit(1)
    tell(op="importing", name="")  # no module is to blame for a failure from here on
    _names = frozenset(name.partition(".")[0] for name in sys.modules) - before
    _data = int(linux.read("/proc/self/statm").split()[5]) * os.sysconf("SC_PAGESIZE")
    _find_thread_setters()
    # Cached by the last look-up, and to be found afresh by a session.
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"]).update(tempdir=None, _name_sequence=None)
    if "uuid" in sys.modules:
        vars(sys.modules["uuid"]).update(_node=None, _last_timestamp=None)


def _import_runner() -> None:
    """Imports the modules that a runner imports when it first needs them: for a table, a chart, a magic, a tool.
    Each kernel would spend time and memory of its own on them."""
    package = sys.modules.get("talaria_runner")
    if package is None:
        return  # this process makes interpreters without a runner
    top = os.path.dirname(package.__file__ or "")
    for folder, _, files in os.walk(top):
        for file in sorted(files):
            name, extension = os.path.splitext(file)
            needs_ipython = name.startswith("ipython_") and "IPython" not in sys.modules
            if extension == ".py" and name != "__init__" and not needs_ipython:
                inner = os.path.relpath(os.path.join(folder, name), top).replace(os.sep, ".")
                __import__(f"{package.__name__}.{inner}")


def _draw() -> None:
    """Draws a figure, so that everything needed for it is loaded, without pyplot, whose state stays as it was."""
    import io

    import matplotlib.font_manager
    import matplotlib.pyplot  # noqa: F401
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    axes.plot([1, 2], [1, 2], label="a")
    axes.set_title("a")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
    # Open fonts cannot be used across a fork.
    getattr(matplotlib.font_manager, "_get_font", matplotlib.font_manager.get_font).cache_clear()


def _find_renewals() -> None:
    modules = sys.modules
    if "random" in modules:
        generator = modules["random"]._inst
        _renewals.append(lambda: _random.Random.seed(generator))
    if "numpy.random" in modules:
        _renewals.append(_numpy_renewal(modules["numpy.random"]))
    if "multiprocessing.process" in modules:
        process = modules["multiprocessing.process"].current_process()
        _renewals.append(lambda: setattr(process, "authkey", os.urandom(32)))
    if "threading" in modules:
        _renewals.append(modules["threading"].main_thread()._set_native_id)
    if "logging" in modules:
        logging = modules["logging"]
        _renewals.append(lambda: setattr(logging, "_startTime", time.time()))


def _numpy_renewal(module: Any) -> Callable[[], object]:
    """Seeds numpy's global generator. Its own way to do so takes a megabyte; so the state, an array of random
    words at the beginning of a structure, is filled directly if it is verified to have that layout."""
    state = module.get_state()
    if state[0] != "MT19937" or not hasattr(module.mtrand, "_rand"):
        return module.seed
    words = state[1].tobytes()
    inside = (ctypes.c_char * len(words)).from_address(module.mtrand._rand._bit_generator.ctypes.state_address)
    if inside.raw != words:
        return module.seed
    return lambda: setattr(inside, "raw", os.urandom(len(words)))


def _find_thread_setters() -> None:
    with open("/proc/self/maps") as f:
        libraries = {line.split(None, 5)[-1].rstrip("\n") for line in f if "/" in line}
    found = {}
    for path in sorted(filter(_THREADED.search, libraries)):
        library = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_NOLOAD)
        for name in _THREAD_SETTERS:
            if hasattr(library, name):
                setter = getattr(library, name)
                setter.restype = None
                # The same setter is found in each library that depends on the one that contains it.
                found[ctypes.cast(setter, ctypes.c_void_p).value] = setter
    _thread_setters[:] = found.values()


def _shadows(directory: str) -> bool:
    """Whether the directory, which comes first on the path, has another module with the name of an imported one."""
    try:
        entries = os.listdir(directory)
    except OSError:
        return False  # there is nothing, or nothing that could be imported
    for entry in entries:
        name, dot, rest = entry.partition(".")
        if name not in _names:
            continue
        if rest.endswith(("py", "pyc", "so")) or not dot and os.path.exists(f"{directory}/{entry}/__init__.py"):
            return True
    return "matplotlib" in _names and os.path.exists(directory + "/matplotlibrc")
