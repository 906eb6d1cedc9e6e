"""The packages of the session: a folder on sys.path, before the environment's and after the standard library.

It is replaced as a whole when packages are installed. Modules imported before that stay as they are.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
import sys
from stat import S_ISREG
from sys import modules

from talaria_runner.own.stdlib import load

_PLACE = "/current/lib/python{0.major}.{0.minor}/site-packages"
_LONGEST = 8 << 20  # bytes that are read of a list of files
_SITE = ("site-packages", "dist-packages")

_site: object = None  # the module: importing it in another thread would have to change sys.path for all
folder = ""  # of the session's packages, or "" if there is none; it may be missing
_of_kernel: frozenset[str] = frozenset()  # modules that this kernel itself needs
_done: dict[str, bytes] = {}  # content of the .pth files already processed, by name


def keep(names: set[str]) -> None:
    """These modules were imported for the kernel itself, from its environment."""
    global _of_kernel
    _of_kernel = frozenset(name.partition(".")[0] for name in names) - sys.stdlib_module_names


def begin(packages: str) -> None:
    """Puts the folder on the path, and processes its .pth files. They run code of the session."""
    global folder, _site
    if not packages:
        return
    _site = load("site")
    folder = packages + _PLACE.format(sys.version_info)
    if folder not in sys.path:
        place = next((i for i, path in enumerate(sys.path) if path.endswith(_SITE)), len(sys.path))
        sys.path.insert(place, folder)
    sys.path_importer_cache.pop(folder, None)
    try:
        _follow_paths()
    except KeyboardInterrupt:
        pass  # nobody has interrupted anything yet


def renew() -> None:
    """Makes the next import look at the folder again."""
    for finder in list(sys.meta_path):
        try:
            finder.invalidate_caches()
        except Exception:
            pass  # it has none, or it is the user's own
    _follow_paths()


def loaded() -> set[str]:
    """The names of the top-level modules loaded so far."""
    return {name for name in list(modules) if type(name) is str and "." not in name}


def conflicts(packages: list[dict[str, str]], before: set[str]) -> list[str]:
    """What to say about packages that have changed while these modules were already loaded."""
    lines = []
    for package in packages:
        try:
            line = _conflict(package["name"], package["version"], before)
        except Exception:
            continue  # a module or a list of files in an unexpected form
        if line:
            lines.append(line)
    return lines


def _conflict(name: str, version: str, before: set[str]) -> str:
    for top in _tops(name, version):
        module = modules.get(top) if top in before else None
        names = vars(module) if type(module) is type(sys) else {}
        if type(names.get("__file__")) is not str:
            continue  # not loaded, or a folder shared by several packages
        if not version:
            return f"{name} is uninstalled, but stays loaded until the session is reset"
        old = names.get("__version__")
        old = old if type(old) is str and len(old) < 100 else ""
        if old == version:
            continue
        what = f"{name} {old}" if old else f"another version of {name}"
        if top in _of_kernel:
            return f"{what} is part of this kernel, which continues to use it; {version} is for other processes"
        return f"{what} is still loaded; reset the session to use {version}"
    return ""


def _tops(name: str, version: str) -> list[str]:
    """The names of a package's top-level modules."""
    plain = _normal(name)
    if not version:
        return [name, name.replace("-", "_")]
    for entry in os.listdir(folder):
        if not entry.endswith(".dist-info") or _normal(entry.partition("-")[0]) != plain:
            continue
        tops = {}
        for line in _content(f"{folder}/{entry}/RECORD").decode("utf-8", "replace").splitlines():
            first, slash, _ = line.partition(",")[0].partition("/")
            top = first if slash else first.partition(".")[0]
            if top.isidentifier() and top != "__pycache__":
                tops[top] = None
        return list(tops)
    return [name, name.replace("-", "_")]


def _content(path: str) -> bytes:
    """The beginning of a regular file; anything else is an error."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not S_ISREG(os.fstat(fd).st_mode):
            raise OSError("no file")
        return os.read(fd, _LONGEST)
    finally:
        os.close(fd)


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _follow_paths() -> None:
    """Does what site does for .pth files, once for each, and puts the paths that they add right after the folder."""
    try:
        found = sorted(name for name in os.listdir(folder) if name.endswith(".pth") and not name.startswith("."))
    except OSError:
        return
    before = sys.path[:]
    for name in found:
        try:
            content = _content(f"{folder}/{name}")
            if _done.get(name) != content:
                _done[name] = content
                _site.addpackage(folder, name, None)
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass  # a file that cannot be processed
    added = [path for path in sys.path if path not in before]
    if added and folder in sys.path and sys.path[:len(before)] == before:
        del sys.path[len(before):]
        place = sys.path.index(folder) + 1
        sys.path[place:place] = added
