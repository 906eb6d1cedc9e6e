"""The places that the file tools may use: the workspace and the session's mounts. This keeps tools from mistakes; the
sandbox is what really confines a cell, which can open files itself."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from posix import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_RDONLY, close, mkdir
from posix import open as open_at

from talaria_runner.own.workspace import workspace
from talaria_runner.tools.failures import ToolError

_mounts: tuple[str, ...] = ()


def allow(mounts: list[str]) -> None:
    """Sets the mounts of the session, by their absolute paths inside the sandbox. The host sends them with each call."""
    global _mounts
    _mounts = tuple(mounts)


def resolve(path: str) -> tuple[str, str]:
    """The root that a path is in, and the path below that root, links followed ("." for the root itself). Raises ToolError
    for a path that is in none, and for one that a link leads out of its root, even into another one: people approve what
    is written to a mount by the path of the call."""
    if "\0" in path:
        raise ToolError("a path cannot hold a null character", "invalid_arguments")
    whole = os.path.normpath(os.path.join(workspace(), path))
    for given in (workspace(), *_mounts):
        root = os.path.realpath(given)
        if _beneath(whole, given) or _beneath(whole, root):
            target = os.path.realpath(os.path.join(workspace(), path))
            if _beneath(target, root):
                return root, os.path.relpath(target, root)
            raise ToolError(f"a link in {path} leads outside of {given}", "outside")
    there = ", ".join(("the workspace", *_mounts))
    raise ToolError(f"{path} is outside of the directories that tools may use: {there}", "outside")


def _beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def place(path: str) -> str:
    """The absolute path that a path leads to, links followed. Raises ToolError."""
    return os.path.normpath(os.path.join(*resolve(path)))


def name(place: str) -> str:
    """The path that tools report for an absolute one: relative to the workspace if it is in there."""
    home = os.path.realpath(workspace())
    return os.path.relpath(place, home) if _beneath(place, home) else place


def open_folder(path: str, make: bool = False) -> tuple[int, str]:
    """A descriptor of the folder that a file is in, and the file's name there; make creates folders that are missing. The
    path is resolved first, so that a link on the way was put there in the meantime, and is refused."""
    root, below = resolve(path)
    *folders, last = below.split("/")
    here = open_at(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    for folder in folders:
        try:
            if make:
                try:
                    mkdir(folder, dir_fd=here)
                except FileExistsError:
                    pass
            there = open_at(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, dir_fd=here)
        finally:
            close(here)
        here = there
    return here, last


def demand_writable(path: str) -> None:
    """Raises ToolError if the folder of a file, or the nearest one above it that exists, cannot be written to."""
    folder = os.path.dirname(place(path))
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise ToolError(f"{path}: {name(folder)} is not a folder", "not_a_folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            raise ToolError(f"{path} is in a directory that is mounted read-only", "read_only")
        raise ToolError(f"{path}: no permission to write to {name(folder)}", "failed")
