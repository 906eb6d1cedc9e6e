"""The built-in tools that read and change single files."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from posix import O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY, close, fstat
from posix import open as open_at
from posix import rename, unlink, urandom

from talaria_runner.own import stdlib
from talaria_runner.tools import places
from talaria_runner.tools.failures import ToolError
from talaria_runner.wire.descriptors import write_all

_MOST_BYTES = 16 << 20  # of one file
_REGULAR, _FORMAT = 0o100000, 0o170000


def read_file(path: str, offset: int = 1, limit: int = 500) -> dict[str, object]:
    """Lines of a text file, the first one being 1: {"content", "total_lines"}."""
    all_lines = lines(read_text(path))
    first = max(1, offset) - 1
    return {"content": "".join(all_lines[first:first + max(0, limit)]), "total_lines": len(all_lines)}


def lines(text: str) -> list[str]:
    """The lines of a text with their ends. Only a line feed ends one, as in editors and grep."""
    *whole, last = text.split("\n")
    return [line + "\n" for line in whole] + ([last] if last else [])


def write_file(path: str, content: str) -> dict[str, object]:
    """Writes a text file as a whole, with the folders that it needs: {"path", "bytes"}."""
    data = content.encode("utf-8", "surrogateescape")
    _write(path, data)
    return {"path": path, "bytes": len(data)}


def replace(path: str, old_string: str, new_string: str, replace_all: bool = False) -> dict[str, object]:
    """Replaces a text that stands in a file once, or everywhere: {"diff", "files"}."""
    before = read_text(path)
    count = before.count(old_string) if old_string else 0
    if not count:
        raise ToolError(f"old_string is not in {path}", "no_match")
    if count > 1 and not replace_all:
        raise ToolError(f"old_string occurs {count} times in {path}: make it longer, or set replace_all", "ambiguous")
    after = before.replace(old_string, new_string)
    _write(path, after.encode("utf-8", "surrogateescape"))
    return {"diff": difference(path, before, after), "files": [path]}


def difference(path: str, before: str, after: str) -> str:
    """A unified diff of one file."""
    return "".join(stdlib.load("difflib").unified_diff(lines(before), lines(after), f"a/{path}", f"b/{path}"))


def exists(path: str) -> bool:
    """Whether something has that path. Raises ToolError for a path outside of the workspace and the mounts."""
    return os.path.lexists(places.place(path))


def delete(path: str) -> None:
    """Removes a file."""
    folder, name = places.open_folder(path)
    try:
        unlink(name, dir_fd=folder)
    finally:
        close(folder)


def read_text(path: str) -> str:
    """The whole of a text file. Raises ToolError for a file that is not text, is too large, or lies outside of
    the workspace and the mounts."""
    folder, name = places.open_folder(path)
    try:
        fd = open_at(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, dir_fd=folder)
    finally:
        close(folder)
    with os.fdopen(fd, "rb") as file:
        status = fstat(fd)
        if status.st_mode & _FORMAT != _REGULAR:
            raise ToolError(f"{path} is not a file", "not_a_file")
        if status.st_size > _MOST_BYTES:
            raise ToolError(f"{path} has {status.st_size:,} bytes; the limit is 16 MiB: read it with open()", "too_large")
        data = file.read(_MOST_BYTES)
    if b"\0" in data[:8192]:
        raise ToolError(f"{path} is not a text file", "binary")
    return data.decode("utf-8", "surrogateescape")


def _write(path: str, data: bytes) -> None:
    """Puts a file in place as a whole: a reader sees the old or the new one."""
    places.demand_writable(path)
    folder, name = places.open_folder(path, make=True)
    new = f".{urandom(8).hex()}.tmp"
    try:
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777
        except FileNotFoundError:
            mode = 0o666
        fd = open_at(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode, dir_fd=folder)
        try:
            try:
                write_all(fd, data)
            finally:
                close(fd)
            rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            unlink(new, dir_fd=folder)
            raise
    finally:
        close(folder)
