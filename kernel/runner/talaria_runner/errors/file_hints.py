"""Hints about files: which similar ones exist, and where files can be written."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from errno import EACCES, ENOENT, EPERM, EROFS
from posix import scandir, stat

from talaria_runner.introspection.closest import closest
from talaria_runner.own.workspace import workspace

_NAMES = 8  # names that are listed
_ENTRIES = 2000  # entries that are examined
_LONGEST = 120  # characters of a name


def find(error: OSError) -> str | None:
    code = vars(OSError)["errno"].__get__(error)
    path = _path(vars(OSError)["filename"].__get__(error))
    if path is None:
        return None
    if code == ENOENT:
        return _missing(path, error)
    if code in (EROFS, EACCES, EPERM) and path.startswith("/") and not _is_inside(path, workspace()):
        return f"files can be written in the workspace ({workspace()})"
    return None


def _path(name: object) -> str | None:
    if type(name) is bytes:
        name = name.decode("utf-8", "replace")
    return name if type(name) is str and 0 < len(name) <= 4096 else None


def _missing(path: str, error: OSError) -> str | None:
    entry = vars(BaseException)["__traceback__"].__get__(error)
    while entry is not None:
        if entry.tb_frame.f_code.co_name == "_execute_child":
            if "/" not in path:
                return f"no program {path!r} was found on PATH"
        entry = entry.tb_next
    folder, _, name = path.rpartition("/")
    missing = ""
    if folder and not _is_folder(folder):
        missing = f"there is no folder {folder!r}; "
        while folder and not _is_folder(folder):
            folder, _, name = folder.rpartition("/")
    if not folder:
        folder = "/" if path.startswith("/") else "."
    if folder.startswith("/") and not _is_inside(folder, workspace()):
        missing = missing or f"there is no {path!r}; "
        folder, name = workspace(), path.rpartition("/")[2]
    listed = _listed(folder, name)
    where = "the workspace" if folder in (".", workspace()) else repr(folder)
    return f"{missing}{where} {listed}"


def _listed(folder: str, name: str) -> str:
    """What is in that folder, names like name first."""
    names = []
    try:
        with scandir(folder) as entries:
            for entry in entries:
                if len(names) >= _ENTRIES:
                    break
                if not entry.name.startswith("."):
                    names.append(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else ""))
    except OSError:
        return "cannot be listed"
    if not names:
        return "is empty"
    names.sort()
    near = closest(name, names, _NAMES, far=1 / 2)
    kind = name.rpartition(".")[2]
    alike = [other for other in names if "." in name and other.endswith("." + kind)]
    shown = list(dict.fromkeys([*near, *alike, *names]))[:_NAMES]
    more = len(names) - len(shown)
    text = ", ".join(repr(other[:_LONGEST]) for other in shown)
    return f"has {text}" + (f" and {more} more" if more else "")


def _is_folder(path: str) -> bool:
    try:
        return stat(path).st_mode & 0o170000 == 0o040000
    except (OSError, ValueError):
        return False


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
