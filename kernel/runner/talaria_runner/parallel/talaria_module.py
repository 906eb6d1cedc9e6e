"""The module talaria. It is made when it is imported first; until then it costs nothing."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from _frozen_importlib import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from typing import NoReturn, Protocol

    from talaria_runner.parallel.maps import Maps

    class Checkpoints(Protocol):
        """See checkpoints/asking.py."""

        def checkpoint(self, name: str | None, level: str | None) -> str: ...
        def rollback(self, to: str, what: str, keep_user_edits: bool) -> NoReturn: ...

NAME = "talaria"
shared: list[Callable[[], Maps]] = []  # the kernel's one


class Module:
    """Finds the module where nothing else does, so that a file of that name goes before it."""

    def __init__(
        self, make: Callable[[], Maps], make_checkpoints: Callable[[], tuple[Checkpoints, type[Exception]]]
    ) -> None:
        """make returns the kernel's maps, always the same, and make_checkpoints its checkpoints and their exception."""
        self._make = make
        self._make_checkpoints = make_checkpoints

    def install(self) -> None:
        sys.meta_path.append(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin="built-in") if name == NAME else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from talaria_runner.parallel.item import MapError

        maps = self._make()
        checkpoints, error = self._make_checkpoints()

        def __getattr__(name: str) -> object:
            if name == "item_dir":
                try:
                    return _Folder(maps.folder())
                except RuntimeError as e:
                    raise AttributeError(str(e)) from None
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")

        module.__doc__ = "What a cell can ask of its session."
        vars(module).update(
            map=_map(maps), MapError=MapError, checkpoint=_checkpoint(checkpoints), rollback=_rollback(checkpoints),
            CheckpointError=error, __getattr__=__getattr__,
            __all__=["CheckpointError", "MapError", "checkpoint", "map", "rollback"],
        )  # fmt: skip


def _map(maps: Maps) -> Callable[..., object]:
    def map(
        fn: Callable[[object], object], items: Iterable[object], *, concurrency: int | None = None, timeout_s: float | None = None,
        on_error: str = "stop", as_completed: bool = False,
    ) -> list[object] | Iterator[tuple[int, object]]:  # fmt: skip
        """Calls fn with each item, each in a copy of this interpreter, and returns the results in the order of the items.

        A copy has all variables as they are now; its changes to them are discarded when its item ends. Results are
        pickled. Files that belong to an item go into talaria.item_dir.

        concurrency is how many copies run at a time, by default as many as the session has CPUs. timeout_s ends an item that
        takes longer. The first item that fails ends the others and raises MapError; with on_error="continue", the list has the
        MapError of each item that fails. With as_completed, it returns an iterator of (index, result) as the items end."""
        return maps.map(fn, items, concurrency, timeout_s, on_error, as_completed)

    map.__module__ = NAME
    map.__qualname__ = "map"
    return map


def _checkpoint(checkpoints: Checkpoints) -> Callable[..., str]:
    def checkpoint(name: str | None = None, *, level: str | None = None) -> str:
        """Requests a checkpoint of the session, made when this cell has ended and before the next one runs, and returns its id.

        The checkpoint has what the cell has done by its end, not by this call. A checkpoint with a name stays until it is
        deleted. level is "live", "saved" or "files", by default the first of these that is possible; if the level is not
        possible when the cell has ended, the checkpoint has the next one, and says why.

        Raises CheckpointError if no checkpoint can be made."""
        return checkpoints.checkpoint(name, level)

    checkpoint.__module__ = NAME
    checkpoint.__qualname__ = "checkpoint"
    return checkpoint


def _rollback(checkpoints: Checkpoints) -> Callable[..., NoReturn]:
    def rollback(to: str, *, what: str = "all", keep_user_edits: bool = False) -> NoReturn:
        """Ends this cell, and takes the session back to a checkpoint.

        to is the id of the checkpoint, or its name: the newest one with that name. No further line of the cell runs, except
        in finally blocks; the cell is ok and keeps its output, and counts as undone. what is "all", "variables" or "files".
        With keep_user_edits, files that only people or tools have changed since the checkpoint stay as they are.

        Raises CheckpointError, and the cell continues, if there is no such checkpoint or it does not have what is asked for.
        Works only in the thread that runs the cell."""
        checkpoints.rollback(to, what, keep_user_edits)

    rollback.__module__ = NAME
    rollback.__qualname__ = "rollback"
    return rollback


class _Folder(str):
    """A path that may also be called, and joined with /."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)

    def __truediv__(self, name: str) -> object:
        import pathlib

        return pathlib.Path(self, name)
