"""The built-in tools that work on files. They see the workspace alone; the sandbox is what really confines them."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from posix import O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY, close, fstat, mkdir
from posix import open as open_at
from posix import rename, unlink, urandom

from talaria_runner.own import stdlib
from talaria_runner.own.workspace import workspace
from talaria_runner.tools.failures import ToolError
from talaria_runner.wire.descriptors import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_BYTES = 16 << 20  # of one file
_REGULAR, _FORMAT = 0o100000, 0o170000


def read_file(path: str, offset: int = 1, limit: int = 500) -> dict[str, object]:
    """Lines of a text file, the first one being 1: {"content", "total_lines"}."""
    lines = _read(path).splitlines(keepends=True)
    first = max(1, offset) - 1
    return {"content": "".join(lines[first:first + max(0, limit)]), "total_lines": len(lines)}


def write_file(path: str, content: str) -> dict[str, object]:
    """Writes a text file as a whole, with the folders that it needs: {"path", "bytes"}."""
    data = content.encode("utf-8", "surrogateescape")
    _write(path, data)
    return {"path": path, "bytes": len(data)}


def replace(path: str, old_string: str, new_string: str, replace_all: bool = False) -> dict[str, object]:
    """Replaces a text that stands in a file once, or everywhere: {"diff", "files"}."""
    before = _read(path)
    count = before.count(old_string) if old_string else 0
    if not count:
        raise ToolError(f"old_string is not in {path}", "no_match")
    if count > 1 and not replace_all:
        raise ToolError(f"old_string stands {count} times in {path}: make it longer, or set replace_all", "ambiguous")
    after = before.replace(old_string, new_string)
    _write(path, after.encode("utf-8", "surrogateescape"))
    difference = stdlib.load("difflib").unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return {"diff": "".join(difference), "files": [path]}


def search_files(
    check: Callable[[], None], pattern: str, target: str = "content", path: str = ".", file_glob: str | None = None,
    limit: int = 50, offset: int = 0, output_mode: str = "content", context: int = 0,
) -> dict[str, object]:  # fmt: skip
    """Lines that match a regular expression, or files whose name matches a pattern: {"matches" or "files", "total"}."""
    fnmatch, re = stdlib.load("fnmatch").fnmatch, stdlib.load("re")
    base = _resolve(path)
    if target == "files":
        glob = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
        found = [name for name in _files(base, check) if fnmatch(os.path.basename(name), glob)]
        return {"files": found[offset:offset + limit], "total": len(found)}
    try:
        expression = re.compile(pattern)
    except re.error as e:
        raise ToolError(f"the pattern is not a regular expression: {e}", "invalid_arguments") from None
    matches: list[dict[str, object]] = []
    for name in _files(base, check):
        if file_glob and not fnmatch(os.path.basename(name), file_glob):
            continue
        try:
            lines = _read(name).splitlines()
        except (ToolError, OSError):
            continue
        for number, line in enumerate(lines):
            if expression.search(line):
                match: dict[str, object] = {"path": name, "line": number + 1, "content": line}
                if context:
                    match["before"] = lines[max(0, number - context):number]
                    match["after"] = lines[number + 1:number + 1 + context]
                matches.append(match)
    if output_mode in ("files_only", "files"):
        names = list(dict.fromkeys(m["path"] for m in matches))
        return {"files": names[offset:offset + limit], "total": len(names)}
    return {"matches": matches[offset:offset + limit], "total": len(matches)}


def _files(base: str, check: Callable[[], None]) -> Iterator[str]:
    """The files at or below a place, by their paths in the workspace. Links are not followed."""
    root = os.path.realpath(workspace())
    if os.path.isfile(base):
        yield os.path.relpath(base, root)
    for folder, folders, names in os.walk(base):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            check()
            yield os.path.relpath(os.path.join(folder, name), root)


def _resolve(path: str) -> str:
    """The place that a path leads to, which must lie in the workspace."""
    root = os.path.realpath(workspace())
    if "\0" in path:
        raise ToolError("a path cannot hold a null character", "invalid_arguments")
    place = os.path.realpath(os.path.join(root, path))
    if place != root and not place.startswith(root + "/"):
        raise ToolError(f"{path} is outside of the workspace", "outside")
    return place


def _folder(path: str, make: bool) -> tuple[int, str]:
    """A descriptor of the folder that the file is in, and the file's name there. The path was resolved, so a link that is
    on the way now was put there since, and is refused."""
    root = os.path.realpath(workspace())
    *folders, name = os.path.relpath(_resolve(path), root).split("/")
    here = open_at(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    for folder in folders:
        try:
            if make:
                try:
                    mkdir(folder, dir_fd=here)
                except FileExistsError:
                    pass
            below = open_at(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, dir_fd=here)
        finally:
            close(here)
        here = below
    return here, name


def _read(path: str) -> str:
    folder, name = _folder(path, make=False)
    try:
        fd = open_at(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, dir_fd=folder)
    finally:
        close(folder)
    with os.fdopen(fd, "rb") as file:
        status = fstat(fd)
        if status.st_mode & _FORMAT != _REGULAR:
            raise ToolError(f"{path} is not a file", "not_a_file")
        if status.st_size > _MOST_BYTES:
            raise ToolError(f"{path} has {status.st_size:,} bytes, the limit is 16 MiB: read it with open()", "too_large")
        data = file.read(_MOST_BYTES)
    if b"\0" in data[:8192]:
        raise ToolError(f"{path} is not a text file", "binary")
    return data.decode("utf-8", "surrogateescape")


def _write(path: str, data: bytes) -> None:
    """Puts a file in place as a whole: whoever reads it sees the old or the new one."""
    folder, name = _folder(path, make=True)
    new = f".{urandom(8).hex()}.tmp"
    try:
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777
        except FileNotFoundError:
            mode = 0o666
        fd = open_at(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode, dir_fd=folder)
        try:
            write_all(fd, data)
            close(fd)
            rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            unlink(new, dir_fd=folder)
            raise
    finally:
        close(folder)
