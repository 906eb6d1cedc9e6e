"""Patches in the V4A format: files to add, update, move and delete, with lines of context instead of line numbers."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.tools import files, places
from talaria_runner.tools.failures import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_ADD, _UPDATE, _DELETE, _MOVE = "*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move File: "
_MOVE_TO, _END_OF_FILE = "*** Move to: ", "*** End of File"
# Lines are compared as they are first, then without white space at the end, then on both sides.
_COMPARED: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)


def apply(check: Callable[[], None], patch: str) -> dict[str, object]:
    """Applies a patch: {"diff", "files"}. Nothing is written unless all of it fits the files."""
    before: dict[str, str | None] = {}  # contents by path; None where there is no file
    after: dict[str, str | None] = {}

    def content(path: str) -> str:
        if path not in before:
            before[path] = after[path] = files.read_text(path)
        text = after[path]
        if text is None:
            raise ToolError(f"{path} was deleted or moved earlier in the patch", "not_found")
        return text

    def create(path: str, text: str) -> None:
        if path not in before:
            before[path] = files.read_text(path) if files.exists(path) else None
            after[path] = before[path]
        if after[path] is not None:
            raise ToolError(f"{path} exists already; update it instead", "exists")
        after[path] = text

    for head, body in _sections(patch):
        check()
        if head.startswith(_ADD):
            create(_path(head.removeprefix(_ADD)), "".join(_added(body)))
        elif head.startswith(_DELETE):
            path = _path(head.removeprefix(_DELETE))
            content(path)
            after[path] = None
        elif head.startswith(_MOVE):
            path, _, to = head.removeprefix(_MOVE).partition("->")
            path, to = _path(path), _path(to)
            create(to, content(path))
            after[path] = None
        else:
            path, to = _path(head.removeprefix(_UPDATE)), ""
            if body and body[0].startswith(_MOVE_TO):
                to = _path(body.pop(0).removeprefix(_MOVE_TO))
            text = _updated(path, content(path), body)
            if to:
                create(to, text)
                after[path] = None
            else:
                after[path] = text
    changed = [path for path in before if before[path] != after[path]]
    for path in changed:
        places.demand_writable(path)
    for path in sorted(changed, key=lambda path: after[path] is None):  # what is deleted comes last
        text = after[path]
        if text is None:
            files.delete(path)
        else:
            files.write_file(path, text)
    return {"diff": "".join(files.difference(p, before[p] or "", after[p] or "") for p in changed), "files": changed}


def _path(text: str) -> str:
    """The path that the patch names, as tools report it: two names of one file are one path."""
    path = text.strip()
    if not path:
        raise _malformed("the name of a file is missing")
    return places.name(places.place(path))


def _sections(patch: str) -> list[tuple[str, list[str]]]:
    """The head of each file with the lines below it."""
    lines = patch.strip("\n").split("\n")
    if lines[0].strip() == "*** Begin Patch":
        lines.pop(0)
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.strip() == "*** End Patch":
            break
        if line.startswith((_ADD, _UPDATE, _DELETE, _MOVE)):
            sections.append((line, []))
        elif sections:
            sections[-1][1].append(line)
        elif line.strip():
            raise _malformed(f"{line[:80]!r} comes before the first file")
    if not sections:
        raise _malformed("it names no file; it must have *** Add File, *** Update File, *** Delete File or *** Move File")
    return sections


def _added(body: list[str]) -> list[str]:
    for line in body:
        if line and line[0] != "+":
            raise _malformed(f"each line of a file to add must begin with +: {line[:80]!r}")
    return [line[1:] + "\n" for line in body if line]


def _updated(path: str, text: str, body: list[str]) -> str:
    """A file after all its hunks, which stand in the order of the file."""
    lines, at = text.split("\n"), 0
    for number, (anchor, hunk, at_end) in enumerate(_hunks(body), 1):
        what = f"hunk {number} of {path}"
        if anchor:
            at = _find(what, lines, [anchor], at) + 1
        old = [line[1:] for line in hunk if line[:1] != "+"]
        if not old:  # it adds lines only: below the anchor, or at the end
            place = at if anchor else len(lines) - (lines[-1] == "")
            new = [line[1:] for line in hunk]
            lines[place:place] = new
            at = place + len(new)
            continue
        start = max(at, len(lines) - len(old) - 1) if at_end else at
        place = _find(what, lines, old, start)
        new, source = [], place
        for line in hunk:
            if line[:1] == "+":
                new.append(line[1:])
                continue
            if line[:1] != "-":
                new.append(lines[source])  # context stays as the file has it
            source += 1
        lines[place:source] = new
        at = place + len(new)
    return "\n".join(lines)


def _hunks(body: list[str]) -> list[tuple[str, list[str], bool]]:
    """The line after @@, the lines, and whether they are the last of the file."""
    hunks: list[tuple[str, list[str], bool]] = []
    anchor, lines = "", []

    def end(at_end: bool = False) -> None:
        while lines and not lines[-1]:
            lines.pop()  # blank lines between two parts of the patch
        if lines:
            hunks.append((anchor, lines, at_end))

    for line in body:
        if line.startswith("@@"):
            end()
            anchor, lines = line[2:].strip().removesuffix("@@").strip(), []
        elif line.rstrip() == _END_OF_FILE:
            end(at_end=True)
            anchor, lines = "", []
        elif line and line[0] not in " +-":
            raise _malformed(f"each line must begin with a space, + or -: {line[:80]!r}")
        else:
            lines.append(line)
    end()
    return hunks


def _find(what: str, lines: list[str], wanted: list[str], start: int) -> int:
    for compared in _COMPARED:
        sought, have = [compared(line) for line in wanted], [compared(line) for line in lines]
        for place in range(start, len(have) - len(sought) + 1):
            if have[place] == sought[0] and have[place:place + len(sought)] == sought:
                return place
    raise ToolError(f"{what} does not fit: its lines are not in the file, from line {start + 1} on: {wanted[0][:200]!r}", "no_match")


def _malformed(why: str) -> ToolError:
    return ToolError(f"the patch is malformed: {why}", "invalid_arguments")
