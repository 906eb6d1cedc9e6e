"""What the engine offers to a shell, and a shell to magics."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, Protocol

    from talaria_runner.introspection.inspection import Inspector
    from talaria_runner.rendering.display import Display
    from talaria_runner.rendering.figures import Figures
    from talaria_runner.run.namespaces import Namespace
    from talaria_runner.streams.commands import Commands

    class Cells(Protocol):
        """The engine, as the shell uses it."""

        count: int  # the number of the running cell
        futures: int  # the flags of the from __future__ imports so far

        def run_inside(
            self, text: str, file: str = "", line: int = 1, names: dict[str, object] | None = None
        ) -> object:
            """Runs text inside the running cell, and returns the value of its last expression, unless a
            semicolon hides it. The text starts at that line of a file, or is a source of its own. names are
            the variables of the enclosing function, if any."""

        def run_in(self, namespace: Namespace, text: str, file: str, line: int) -> object:
            """Like run_inside, with the variables of the namespace as the global ones."""

        def new_main(self) -> ModuleType:
            """A module for the variables of a namespace."""

        def compiled(self, text: str, file: str, line: int) -> object:
            """The tree of text, with its magics rewritten."""

        def show(self, value: object) -> None:
            """Shows value as the result of the cell, and keeps it."""

        def sources(self) -> dict[int, str]:
            """The cells so far, by number."""

        def forget(self, results: bool, sources: bool) -> None:
            """Drops the contents of Out or In."""

    class Shell(Protocol):
        """get_ipython(), as magics use it. IPython's own shell has these names as well."""

        automagic: bool
        cells: Cells
        commands: Commands
        config: Any
        dir_stack: list[str]
        display: Display
        display_formatter: Any
        events: Any
        extension_manager: Any
        figures: Figures
        inspector: Inspector
        own_magics: dict[str, dict[str, Callable]]
        user_module: ModuleType
        user_ns: dict[str, object]
        user_ns_hidden: dict[str, object]

        def use(self, main: ModuleType) -> None:
            """Makes the variables of a module those of cells."""

        def find_magic(self, magic_name: str, magic_kind: str = "line") -> Callable | None: ...

        def getoutput(self, command: str, split: bool = True, depth: int = 0) -> Any: ...

        def magic_names(self, kind: str) -> list[str]: ...

        def page(self, text: str) -> None: ...

        def register_magic_function(
            self, func: Callable, magic_kind: str = "line", magic_name: str | None = None
        ) -> None: ...

        def set_next_input(self, text: str, replace: bool = False) -> None: ...

        def system(self, command: str) -> None: ...


class Tools:
    """What a shell works with."""

    __slots__ = ("main", "cells", "commands", "display", "figures", "inspector")

    def __init__(
        self,
        main: ModuleType,
        cells: Cells,
        commands: Commands,
        display: Display,
        figures: Figures,
        inspector: Inspector,
    ) -> None:
        self.main = main
        self.cells = cells
        self.commands = commands
        self.display = display
        self.figures = figures
        self.inspector = inspector
