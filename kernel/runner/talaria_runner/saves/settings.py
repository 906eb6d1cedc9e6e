"""Settings of the interpreter that belong to a session like its variables: random numbers, the folder, the environment, loggers."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
import sys
from posix import chdir, getcwd
from sys import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_RANDOM = "random.getstate()"
_NUMPY = "numpy.random.get_state()"
_FOLDER = "os.getcwd()"
_ENVIRONMENT = "os.environ"
_PATH = "sys.path"
_MATPLOTLIB = "matplotlib.rcParams"

_environment: dict[bytes, bytes] = {}
_path: list[str] = []
_folder = ""


def remember() -> None:
    """Keeps the settings that the interpreter began with: only changes of them are saved. Called before the first cell."""
    global _folder
    _environment.update(os.environ._data)  # as bytes: to decode them here would cost each kernel memory of its own
    _path[:] = sys.path
    _folder = _present_folder()


def changed() -> dict[str, object]:
    """Those that user code changed, by what they are called in reports."""
    found: dict[str, object] = {}
    for name, read in _READ.items():
        try:
            value = read()
        except Exception:
            continue  # the user put something else in its place
        if value is not None:
            found[name] = value
    if "logging" in modules:
        from talaria_runner.saves import loggers

        try:
            found.update(loggers.changed())
        except Exception:
            pass  # likewise
    return found


def restore(name: str, value: object) -> None:
    """Restores one of these. Raises what the library or the system raises."""
    if name in _WRITE:  # loading a logger has configured it
        _WRITE[name](value)


def _read_random() -> object:
    return modules["random"].getstate() if "random" in modules else None


def _write_random(state: object) -> None:
    __import__("random").setstate(state)


def _read_numpy() -> object:
    return modules["numpy.random"].get_state() if "numpy.random" in modules else None


def _write_numpy(state: object) -> None:
    __import__("numpy").random.set_state(state)


def _present_folder() -> str:
    try:
        return getcwd()
    except OSError:
        return ""


def _read_folder() -> object:
    folder = _present_folder()
    return folder if folder and folder != _folder else None


def _read_environment() -> object:
    first = {os.fsdecode(name): os.fsdecode(text) for name, text in _environment.items()}
    now = dict(os.environ)
    new = {name: text for name, text in now.items() if first.get(name) != text}
    gone = [name for name in first if name not in now]
    return (new, gone) if first and (new or gone) else None


def _write_environment(change: tuple[dict[str, str], list[str]]) -> None:
    os.environ.update(change[0])
    for name in change[1]:
        os.environ.pop(name, None)


def _read_path() -> object:
    if not _path:
        return None
    return [(i, entry) for i, entry in enumerate(sys.path) if type(entry) is str and entry not in _path] or None


def _write_path(entries: list[tuple[int, str]]) -> None:
    for i, entry in entries:
        if entry not in sys.path:
            sys.path.insert(i, entry)


def _read_matplotlib() -> object:
    matplotlib = modules.get("matplotlib")
    if matplotlib is None:
        return None
    now, first = matplotlib.rcParams, matplotlib.rcParamsDefault
    return {name: dict.get(now, name) for name in dict.keys(now) if _is_changed(name, now, first)} or None


def _is_changed(name: str, now: dict[str, object], first: dict[str, object]) -> bool:
    return "backend" not in name and dict.get(now, name) != dict.get(first, name)


def _write_matplotlib(change: dict[str, object]) -> None:
    __import__("matplotlib").rcParams.update(change)


_READ: dict[str, Callable[[], object]] = {
    _RANDOM: _read_random,
    _NUMPY: _read_numpy,
    _FOLDER: _read_folder,
    _ENVIRONMENT: _read_environment,
    _PATH: _read_path,
    _MATPLOTLIB: _read_matplotlib,
}
_WRITE: dict[str, Callable[[object], None]] = {
    _RANDOM: _write_random,
    _NUMPY: _write_numpy,
    _FOLDER: chdir,
    _ENVIRONMENT: _write_environment,
    _PATH: _write_path,
    _MATPLOTLIB: _write_matplotlib,
}
