"""Loads saved variables into the namespace of another interpreter."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import builtins
import sys
from math import inf
from os import O_CLOEXEC, O_RDONLY
from posix import close, open
from sys import modules

from talaria_runner.introspection.classes import MISSING, derives, in_class
from talaria_runner.own.stdlib import load as load_module
from talaria_runner.saves import archive, reasons, rebuild, settings
from talaria_runner.saves.archive import Reader, Unusable
from talaria_runner.saves.report import Restored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from talaria_runner.saves.report import Lost

_pickle = load_module("_pickle")
_END = "__del__"


def load(
    path: str, namespace: dict[str, object], *, digest: str | None = None, dir_fd: int | None = None
) -> Restored:
    """Loads the variables into namespace, which becomes that of their functions, and restores settings of the interpreter.

    Runs code of the variables, and so only inside a sandbox, in the main thread. Raises Unusable, and loads nothing, if
    the file is damaged, of another version, or not the one with that digest; OSError if it cannot be opened. A variable
    that cannot be loaded is named in the result, and so is each that shares objects with it and comes after it."""
    fd = open(path, O_RDONLY | O_CLOEXEC, dir_fd=dir_fd)
    try:
        reader = Reader(fd, digest)
        index = _Index(reader.index)
        restored: list[str] = []
        lost = index.lost
        for group in index.groups:
            unpickling = Unpickling(fd, group, namespace)
            failed = ""
            for name, kind in group.names:
                if failed:
                    lost.append((name, kind, f"it shares objects with {failed!r}, which could not be loaded"))
                    continue
                try:
                    value = unpickling.load()
                    if group.is_setting:
                        settings.restore(name, value)
                except BaseException as e:
                    lost.append((name, kind, reasons.of(e)))
                    failed = name
                    continue
                if not group.is_setting:
                    namespace[name] = value
                    restored.append(name)
        found = set(restored)
        ordered = [name for name in index.order if name in found]
        for name in ordered:
            if name in namespace:
                namespace[name] = namespace.pop(name)
        return Restored(ordered, lost, reader.digest)
    finally:
        close(fd)


class Parts:
    """Where a group is in the file."""

    __slots__ = ("names", "stream", "regions", "buffers", "is_setting")

    def __init__(
        self,
        names: list[tuple[str, str]],
        stream: tuple[int, int],
        regions: list[tuple[int, int]],
        buffers: list[tuple[int, int]],
        is_setting: bool,
    ) -> None:
        self.names = names  # with the type of each
        self.stream = stream  # where it begins, and how long it is, in bytes
        self.regions = regions
        self.buffers = buffers
        self.is_setting = is_setting

    def entry(self) -> dict[str, object]:
        """Itself in the index."""
        return {
            "names": self.names, "stream": self.stream, "regions": self.regions, "buffers": self.buffers,
            "setting": self.is_setting,
        }  # fmt: skip


class _Index:
    """Raises Unusable if the index is not what save writes."""

    def __init__(self, index: object) -> None:
        try:
            self.order = [_text(name) for name in index["order"]]
            self.lost: list[Lost] = [(_text(name), _text(kind), _text(why)) for name, kind, why in index["lost"]]
            self.groups = [
                Parts(
                    [(_text(name), _text(kind)) for name, kind in group["names"]],
                    _place(group["stream"]),
                    [_place(place) for place in group["regions"]],
                    [_place(place) for place in group["buffers"]],
                    group["setting"] is True,
                )
                for group in index["groups"]
            ]
        except (KeyError, TypeError, ValueError):
            raise Unusable("the index of the saved variables is not one that this version writes") from None


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError
    return value


def _place(value: object) -> tuple[int, int]:
    start, size = value
    if type(start) is not int or type(size) is not int or start < 0 or size < 0:
        raise TypeError
    return start, size


class Unpickling(_pickle.Unpickler):
    """Loads the variables of a group, one with each call of load. Of the memory of arrays, it reads that many bytes at most; arrays
    for which this is not enough are left empty, and partial is set. If it checks what was saved, in a process that ends then, loggers
    stay as they are, and no __del__ runs: what that would end or remove belongs to the objects that the copies are made of."""

    def __init__(self, fd: int, parts: Parts, namespace: dict[str, object], most: float = inf, checks: bool = False) -> None:
        self.partial = False
        self.failed = False  # load has, and cannot be called again: see restarted
        self._checks = checks
        self._fd = fd
        self._parts = parts
        self._namespace = namespace
        self._left = most
        self._cells: dict[int, object] = {}
        self._open(0, 0)

    def _open(self, start: int, buffer: int) -> None:
        place, size = self._parts.stream
        buffers = _buffers(self._fd, self._parts.buffers[buffer:])  # without a reference to this object, which holds all that it has loaded
        super().__init__(archive.opened(self._fd, place + start, size - start), buffers=buffers)

    def restarted(self, start: int, buffer: int) -> Unpickling:
        """Itself, with all that was loaded, for the variable that begins at start in the stream, after so many buffers."""
        again = Unpickling(self._fd, self._parts, self._namespace, self._left, self._checks)
        again._open(start, buffer)
        again.memo = self.memo
        again.partial, again._cells = self.partial, self._cells
        return again

    def persistent_load(self, token: object) -> object:
        kind, *about = token
        if kind == "globals":
            return self._namespace
        if kind == "builtins":
            return vars(builtins)
        if kind == "main":
            return modules["__main__"]
        if kind == "stream":
            return getattr(sys, about[0])
        if kind == "module":
            return rebuild.module(*about)
        if kind == "held":
            return vars(rebuild.module(about[0]))[about[1]]
        if kind == "region":
            place = self._parts.regions[about[0]]
            fits = place[1] <= self._left
            if fits:
                self._left -= place[1]
            else:
                self.partial = True
            return _Region(self._fd, place, fits)
        if kind == "cell":
            number = about[0]
            if number not in self._cells:
                self._cells[number] = rebuild.empty_cell()
            return self._cells[number]
        raise _pickle.UnpicklingError(f"there is no reference of kind {kind!r}")

    def find_class(self, module: str, name: str) -> object:
        if module == "__main__":
            raise _pickle.UnpicklingError(f"it refers to {name!r} of the cells by name")
        found = super().find_class(module, name)
        return _checked(found) if self._checks else found


def _buffers(fd: int, places: list[tuple[int, int]]) -> Iterator[bytearray]:
    for start, size in places:
        data = bytearray(size)
        archive.read_into(fd, memoryview(data), start)
        yield data


def is_consequence(error: BaseException) -> bool:
    """Whether it says that an object is missing which another variable, whose loading failed, would have made."""
    return type(error) is _pickle.UnpicklingError and str(error).startswith("Memo value not found")


def _checked(found: object) -> object:
    """What is called in the place of found when it is only checked what was saved."""
    if found is rebuild.configure_logger:
        return _keep
    if found is rebuild.fill_class:
        return _fill_class
    if derives(type(found), type) and in_class(found, _END) is not MISSING:
        try:
            type.__setattr__(found, _END, _stay)
        except TypeError:
            pass  # it is written in C
    return found


def _keep(made: object, state: object) -> None:
    pass


def _stay(self: object) -> None:
    pass


def _fill_class(made: type, state: tuple[dict[str, object], dict[str, dict[str, object]], tuple[type, ...]]) -> None:
    own, *others = state
    rebuild.fill_class(made, ({**own, _END: _stay} if _END in own else own, *others))


class _Region:
    """The saved memory of an array."""

    def __init__(self, fd: int, place: tuple[int, int], fits: bool) -> None:
        self._fd = fd
        self._place = place
        self._fits = fits

    def read_into(self, array: object) -> None:
        start, size = self._place
        if size != array.nbytes:
            raise _pickle.UnpicklingError("the memory of an array differs in size from the array")
        if self._fits:
            archive.read_into(self._fd, memoryview(rebuild.octets(array)), start)
