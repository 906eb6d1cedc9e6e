"""The module talaria. It is made when it is imported first; until then it costs nothing."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from _frozen_importlib import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from talaria_runner.parallel.maps import Maps

NAME = "talaria"
shared: list[Callable[[], Maps]] = []  # the kernel's one


class Module:
    """Finds the module where nothing else does, so that a file of that name goes before it."""

    def __init__(self, make: Callable[[], Maps]) -> None:
        """make returns the kernel's maps, always the same."""
        self._make = make

    def install(self) -> None:
        sys.meta_path.append(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin="built-in") if name == NAME else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from talaria_runner.parallel.item import MapError

        maps = self._make()

        def __getattr__(name: str) -> object:
            if name == "item_dir":
                try:
                    return _Folder(maps.folder())
                except RuntimeError as e:
                    raise AttributeError(str(e)) from None
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")

        module.__doc__ = "What a cell can ask of its session."
        vars(module).update(map=_map(maps), MapError=MapError, __getattr__=__getattr__, __all__=["MapError", "map"])


def _map(maps: Maps) -> Callable[..., object]:
    def map(
        fn: Callable[[object], object], items: Iterable[object], *, concurrency: int | None = None, timeout_s: float | None = None,
        on_error: str = "stop", as_completed: bool = False,
    ) -> list[object] | Iterator[tuple[int, object]]:  # fmt: skip
        """Calls fn with each of the items, each in a copy of this interpreter, and returns the results in the order of the items.

        A copy has all variables as they are now; what it changes in them is gone when its item has ended. Results are
        pickled. Files that belong to an item go into talaria.item_dir.

        concurrency is how many copies run at a time, by default as many as the session has CPUs. timeout_s ends an item that
        takes longer. The first item that fails ends the others and raises MapError; with on_error="continue" each that fails
        has its MapError in the list. With as_completed, an iterator gives (index, result) as the items end."""
        return maps.map(fn, items, concurrency, timeout_s, on_error, as_completed)

    map.__module__ = NAME
    map.__qualname__ = "map"
    return map


class _Folder(str):
    """A path that may also be called, and joined with /."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)

    def __truediv__(self, name: str) -> object:
        import pathlib

        return pathlib.Path(self, name)
